//! Two snapshots, or one and now.

use std::path::Path;

use cachewise_residency::snapshot::{
    Fate, FileDiff, Reader, SnapshotEntry, Writer, diff, diff_now,
};
use cachewise_units::Pages;

use super::*;
use crate::support::{evict, file, load, undisturbed};

fn written(path: &Path, entries: &[SnapshotEntry]) {
    let mut writer = Writer::create(path).unwrap();
    entries.iter().for_each(|entry| writer.add(entry).unwrap());
    writer.finish().unwrap().commit().unwrap();
}

#[test]
fn two_snapshots_are_compared_whatever_their_order() {
    let directory = directory();
    let (first, second) = (directory.path().join("1"), directory.path().join("2"));
    written(
        &first,
        &[
            entry("/same", 0, &[pages(0, 10)]),
            entry("/moved", 0, &[pages(0, 10), pages(20, 30)]),
            entry("/gone", 0, &[pages(3, 4)]),
            entry("/changed", 0, &[pages(0, 1)]),
        ],
    );
    written(
        &second,
        &[
            entry("/added", 0, &[pages(1, 8)]),
            entry("/changed", 9, &[pages(0, 1)]),
            entry("/moved", 0, &[pages(5, 22)]),
            entry("/same", 0, &[pages(0, 10)]),
        ],
    );
    let mut found = Vec::new();
    let open = |path: &Path| Reader::open(path).unwrap();
    let totals = diff(open(&first), open(&second), |diff: FileDiff| {
        let fate = match diff.fate {
            Fate::Same => "same",
            Fate::Changed => "changed",
            Fate::Added => "added",
            Fate::Gone => "gone",
            _ => "?",
        };
        let path = diff.path.to_str().unwrap().to_owned();
        found.push((path, diff.gained.0, diff.lost.0, fate));
    })
    .unwrap();
    let found: Vec<_> = found
        .iter()
        .map(|(path, gained, lost, fate)| (path.as_str(), *gained, *lost, *fate))
        .collect();
    assert_eq!(
        found,
        [
            ("/same", 0, 0, "same"),
            ("/moved", 10, 13, "same"),
            ("/gone", 0, 1, "gone"),
            ("/changed", 0, 0, "changed"),
            ("/added", 7, 0, "added"),
        ],
        "those of the first, then those of the second alone"
    );
    assert_eq!(
        (totals.files, totals.different),
        (5, 3),
        "three of five differ"
    );
    assert_eq!(
        (totals.before + totals.gained, totals.after + totals.lost),
        (Pages(32 + 17), Pages(35 + 14)),
        "and it adds up"
    );
}

#[test]
fn a_file_is_the_same_by_any_of_its_names() {
    let directory = directory();
    let (first, second) = (directory.path().join("1"), directory.path().join("2"));
    let of = |name: &str, inode: u64, modified: i64| SnapshotEntry {
        inode,
        ..entry(name, modified, &[pages(0, 10)])
    };
    written(
        &first,
        &[of("/a", 1, 0), of("/both", 2, 0), of("/old", 3, 0)],
    );
    written(
        &second,
        &[
            of("/hard_a", 1, 0),
            of("/both", 2, 0),
            of("/both_too", 2, 0),
            of("/new", 3, 9),
        ],
    );
    let fates = |one: &Path, two: &Path| {
        let mut found = Vec::new();
        let (one, two) = (Reader::open(one).unwrap(), Reader::open(two).unwrap());
        let totals = diff(one, two, |diff: FileDiff| {
            found.push(format!("{} {:?}", diff.path.display(), diff.fate));
        });
        (found, totals.unwrap().different)
    };
    assert_eq!(
        fates(&first, &second),
        (
            ["/a Same", "/both Same", "/old Gone", "/new Added"]
                .map(String::from)
                .into(),
            2
        ),
        "but an inode that was given to another file is another file"
    );
    let (found, different) = fates(&second, &first);
    assert_eq!(
        (&found[..3], different),
        (
            &["/hard_a Same", "/both Same", "/both_too Same"].map(String::from)[..],
            2
        ),
        "and the other way round"
    );
}

#[test]
fn a_snapshot_is_compared_with_now() {
    let directory = directory();
    let kept = directory.path().join("kept");
    let [one, two] = ["one", "two"].map(|name| file(directory.path(), name, 50));
    undisturbed(|| {
        if !two.exists() {
            file(directory.path(), "two", 50);
        }
        evict(&one);
        load(&one, &(0..20).collect());
        save(&kept, &[one.clone(), two.clone()]);
        std::fs::remove_file(&two).unwrap();
        evict(&one);
        load(&one, &(15..30).collect());
        let mut found = Vec::new();
        let totals = diff_now(Reader::open(&kept).unwrap(), |diff| found.push(diff)).unwrap();
        assert!(matches!(found[1].fate, Fate::Gone), "{:?}", found[1]);
        assert_eq!(found[1].lost, found[1].before, "with all of its pages");
        assert_eq!(totals.files, 2, "both");
        let one = &found[0];
        match (one.before, one.after, one.gained, one.lost) {
            (Pages(20), Pages(15), Pages(10), Pages(15)) => Ok(()),
            _ => Err(format!("{one:?}")),
        }
    });
}

#[test]
fn a_renamed_file_is_the_same_file() {
    let directory = directory();
    let [old, new, rotated] = ["log", "log.1", "log.2"].map(|name| directory.path().join(name));
    file(directory.path(), "log", 8);
    let before = SnapshotEntry::from_path(&old).unwrap();
    let snapshot = directory.path().join("snapshot");
    written(&snapshot, std::slice::from_ref(&before));
    let compared = || {
        let mut fates = Vec::new();
        let reader = Reader::open(&snapshot).unwrap();
        let totals = diff_now(reader, |diff| fates.push((diff.path, diff.fate))).unwrap();
        assert_eq!((totals.files, totals.unknown), (1, 0), "one file");
        fates
    };
    std::fs::rename(&old, &new).unwrap();
    let is_renamed = |to: &Path| match &compared()[..] {
        [(path, Fate::Renamed(now))] => (path.as_path(), now.as_path()) == (&old, to),
        _ => false,
    };
    assert!(is_renamed(&new), "it is found by its inode");
    file(directory.path(), "log", 3);
    std::fs::rename(&new, &rotated).unwrap();
    assert!(is_renamed(&rotated), "though another one has its name");
    file(directory.path(), "log.2", 8);
    assert!(
        matches!(&compared()[..], [(_, Fate::Changed)]),
        "one that was written anew is not what it was"
    );
}
