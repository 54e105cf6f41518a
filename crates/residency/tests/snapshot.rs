//! What was resident is kept, brought back, and compared.

#![expect(clippy::unwrap_used, reason = "where a call fails, the test does")]

#[path = "support/nobody.rs"]
mod nobody;
mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{File, Permissions};
use std::io::Cursor;
use std::num::NonZeroUsize;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

use cachewise_residency::Watch;
use cachewise_residency::snapshot::{
    Entry, Fate, FileDiff, FileOutcome, Reader, RestoreOptions, Restored, Skip, Skipped,
    SnapshotError, SnapshotFault, Writer, diff, diff_now, restore,
};
use cachewise_units::{Bytes, PageRange, Pages};
use nobody::{Place, answer, looked_at};
use support::{bytes, evict, file, load, random, ranges, told, undisturbed};
use tempfile::TempDir;

/// Beside the build, because /tmp is in memory on many machines.
fn directory() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn save(path: &Path, files: &[PathBuf]) {
    let mut writer = Writer::create(path).unwrap();
    for file in files {
        writer.add(&Entry::of(file).unwrap()).unwrap();
    }
    writer.finish().unwrap().commit().unwrap();
}

fn back(path: &Path, options: &RestoreOptions<'_>) -> Restored {
    restore(Reader::open(path).unwrap(), options)
}

fn parallel() -> RestoreOptions<'static> {
    RestoreOptions {
        threads: NonZeroUsize::new(3).unwrap(),
        ..RestoreOptions::default()
    }
}

fn pages(start: u64, end: u64) -> PageRange {
    PageRange { start, end }
}

#[test]
fn the_same_ranges_are_resident_again() {
    let directory = directory();
    let kept = directory.path().join("kept");
    let patterns: [BTreeSet<u64>; 5] = [
        random(7, 3000).take(300).collect(),
        (0..3000).collect(),
        [0, 2999].into(),
        (1000..2000).collect(),
        BTreeSet::new(),
    ];
    // A newline, bytes that are no text, what is an escape, and an apparent end.
    let names = ["a\nb", "b\u{e4}", "c%41", "\"end\":", "e"].map(|name| name.as_bytes().to_vec());
    let mut files: Vec<PathBuf> = names
        .into_iter()
        .map(|mut name| {
            name.push(0xFF);
            directory.path().join(OsStr::from_bytes(&name))
        })
        .collect();
    for path in &mut files {
        let made = file(directory.path(), "new", 3000);
        std::fs::rename(made, path).unwrap();
    }
    let expected: Pages = patterns.iter().map(|pages| Pages(pages.len() as u64)).sum();
    for options in [RestoreOptions::default(), parallel()] {
        undisturbed(|| {
            for (path, pattern) in files.iter().zip(&patterns) {
                evict(path);
                load(path, pattern);
            }
            save(&kept, &files);
            files.iter().for_each(|path| evict(path));
            let restored = back(&kept, &options);
            let told: Vec<_> = files.iter().map(|path| told(path).1.ranges).collect();
            let wanted: Vec<_> = patterns.iter().map(ranges).collect();
            assert!(
                restored.damage.is_none(),
                "the snapshot is sound: {restored:?}"
            );
            assert_eq!(
                (restored.files, restored.skipped),
                (5, Skipped::default()),
                "of all files"
            );
            match told == wanted && restored.brought_in == expected {
                true => Ok(()),
                false => Err(format!("{told:?}\nnot {wanted:?}: {restored:?}")),
            }
        });
    }
    let before = back(&kept, &parallel());
    assert!(
        before.read <= Bytes(bytes(100)),
        "what is there is not read again: {before:?}"
    );
}

#[test]
fn files_that_went_or_changed_are_counted_and_left_alone() {
    let directory = directory();
    let kept = directory.path().join("kept");
    let [same, gone, replaced, grown, directory_now] =
        ["same", "gone", "replaced", "grown", "directory"]
            .map(|name| file(directory.path(), name, 40));
    let files = [&same, &gone, &replaced, &grown, &directory_now].map(Clone::clone);
    let _ = files.each_ref().map(|path| load(path, &(0..40).collect()));
    save(&kept, &files);
    std::fs::remove_file(&gone).unwrap();
    std::fs::remove_file(&directory_now).unwrap();
    std::fs::create_dir(&directory_now).unwrap();
    // A file of the same size takes the name.
    std::fs::rename(file(directory.path(), "other", 40), &replaced).unwrap();
    let shrink = File::options().write(true).open(&grown).unwrap();
    shrink.set_len(bytes(10)).unwrap();
    shrink.sync_all().unwrap();
    let left = [&same, &replaced, &grown];
    undisturbed(|| {
        left.iter().for_each(|path| evict(path));
        let reasons = Mutex::new(BTreeMap::new());
        let each = |entry: &Entry, outcome: FileOutcome<'_>| {
            let reason = match outcome {
                FileOutcome::Warmed(_) => "warmed".to_owned(),
                FileOutcome::Skipped(skip) => skip.to_string(),
            };
            reasons.lock().unwrap().insert(entry.path.clone(), reason);
        };
        let options = RestoreOptions {
            each: Some(&each),
            ..parallel()
        };
        let restored = back(&kept, &options);
        assert_eq!(
            restored.skipped,
            Skipped {
                vanished: 1,
                changed: 2,
                denied: 0,
                failed: 1
            },
            "each for its reason"
        );
        assert_eq!(restored.skipped.total(), 4, "all of them");
        let reasons = reasons.into_inner().unwrap();
        for (path, part) in [
            (&same, "warmed"),
            (&gone, "gone"),
            (&replaced, "changed"),
            (&grown, "changed"),
            (&directory_now, "a directory"),
        ] {
            assert!(reasons[path].contains(part), "{part}: {}", reasons[path]);
        }
        let cached = left.map(|path| told(path).0.cached);
        match cached {
            [Pages(40), Pages(0), Pages(0)] => Ok(()),
            _ => Err(format!("only the one that is the same: {cached:?}")),
        }
    });
    undisturbed(|| {
        left.iter().for_each(|path| evict(path));
        let options = RestoreOptions {
            anyway: true,
            ..parallel()
        };
        let restored = back(&kept, &options);
        assert_eq!(restored.skipped.changed, 0, "changed files too");
        assert_eq!(
            (restored.pages, restored.beyond),
            (Pages(120), Pages(30)),
            "what was cut off is still wanted"
        );
        let cached = left.map(|path| told(path).0.cached);
        match cached {
            [Pages(40), Pages(40), Pages(10)] => Ok(()),
            _ => Err(format!("as far as they go: {cached:?}")),
        }
    });
}

#[test]
fn cancelled_before_it_begins_it_does_nothing() {
    let directory = directory();
    let kept = directory.path().join("kept");
    let path = file(directory.path(), "file", 10);
    save(&kept, &[path]);
    let cancel = AtomicBool::new(true);
    let options = RestoreOptions {
        watch: Watch {
            cancel: Some(&cancel),
            progress: None,
        },
        ..parallel()
    };
    let restored = back(&kept, &options);
    assert!(restored.cancelled && restored.files == 0, "{restored:?}");
}

/// A sound snapshot of two files, as text.
fn text() -> String {
    let mut writer = Writer::new(Vec::new()).unwrap();
    for (name, ranges) in [("/a", vec![pages(0, 2), pages(5, 9)]), ("/b", Vec::new())] {
        let entry = Entry {
            path: name.into(),
            device: (8, 1),
            inode: 7,
            size: Bytes(100_000),
            modified: (-1, 5),
            ranges,
        };
        writer.add(&entry).unwrap();
    }
    String::from_utf8(writer.finish().unwrap()).unwrap()
}

fn read(text: &str) -> Result<Vec<Entry>, SnapshotError> {
    Reader::new(Cursor::new(text))?.collect()
}

#[test]
fn what_is_written_is_read() {
    let entries = read(&text()).unwrap();
    assert_eq!(entries.len(), 2, "both files");
    assert_eq!(
        entries[0].ranges,
        [pages(0, 2), pages(5, 9)],
        "their ranges"
    );
    assert_eq!(entries[0].cached(), Pages(6), "of which there are six");
    assert_eq!(
        (entries[0].modified, entries[0].device),
        ((-1, 5), (8, 1)),
        "and what they are known by"
    );
}

#[test]
fn the_format_is_as_it_is_documented() {
    let page = bytes(1);
    let text = text();
    let lines: Vec<&str> = text.lines().collect();
    let (head, time) = lines[0].rsplit_once(':').unwrap();
    assert_eq!(
        head,
        format!(
            "{{\"format\":\"cachewise-snapshot\",\"version\":1,\"page_size_bytes\":{page},\"created_seconds\""
        ),
        "the head"
    );
    assert!(time.trim_end_matches('}').parse::<u64>().is_ok(), "{time}");
    assert_eq!(
        lines[1],
        "{\"path\":\"/a\",\"device\":[8,1],\"inode\":7,\"size_bytes\":100000,\"modified\":[-1,5],\"ranges\":[[0,2],[5,9]]}",
        "a file"
    );
    assert_eq!(
        lines[3], "{\"end\":true,\"files\":2,\"pages\":6}",
        "the end"
    );
    let spaced = text.replace(':', " : ").replace('{', " { \"new\" : 1, ");
    // Members that a later program adds come anywhere but before what tells the end.
    let spaced = spaced.replace("{ \"new\" : 1, \"end\"", "{ \"end\"");
    assert_eq!(read(&spaced).unwrap().len(), 2, "read as JSON, not as text");
}

#[test]
fn damage_is_told_by_its_line() {
    let text = text();
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let [head, first, second, end] = lines[..] else {
        panic!("four lines");
    };
    let with = |line: &str| format!("{head}{first}{line}");
    for (damaged, line, part) in [
        (String::new(), None, "empty"),
        ("\n".to_owned(), Some(1), "no snapshot"),
        ("#!/bin/sh\n".to_owned(), Some(1), "no snapshot"),
        ("[1]\n".to_owned(), Some(1), "no snapshot"),
        ("{\"files\":[]}\n".to_owned(), Some(1), "no snapshot"),
        (
            text.replace("\"version\":1", "\"version\":2"),
            Some(1),
            "version 2",
        ),
        (
            text.replace("\"version\":1", "\"version\":\"x\""),
            Some(1),
            "version",
        ),
        (
            text.replace("\"page_size_bytes\":", "\"page_size_bytes\":1"),
            Some(1),
            "size of a page",
        ),
        (head[..head.len() - 9].to_owned(), Some(1), "cut off"),
        (head.to_owned(), Some(2), "cut off"),
        (format!("{head}{first}"), Some(3), "cut off"),
        (with(&second[..20]), Some(3), "cut off"),
        (with(end.trim_end()), Some(3), "cut off"),
        (with("\n"), Some(3), "EOF"),
        (with("{\"path\":3}\n"), Some(3), "invalid type"),
        (with("\u{0}\u{1}\n"), Some(3), "expected"),
        (with(&first.replace("[5,9]", "[5,5]")), Some(3), "[5,5]"),
        (with(&first.replace("[5,9]", "[1,9]")), Some(3), "[1,9]"),
        (with(&first.replace("[5,9]", "[9,5]")), Some(3), "[9,5]"),
        (
            with(&first.replace("[5,9]", "[5,-9]")),
            Some(3),
            "invalid value",
        ),
        (
            with(&first.replace("[5,9]", "[5,9007199254740993]")),
            Some(3),
            "too large",
        ),
        (with(&first.replace("/a", "a")), Some(3), "not absolute"),
        (with(&first.replace("/a", "/%a")), Some(3), "two digits"),
        (with(&first.replace("\"inode\":7,", "")), Some(3), "inode"),
        (
            format!("{head}{first}{end}"),
            Some(3),
            "2 files and 6 pages",
        ),
        (format!("{text}{first}"), Some(5), "behind the end"),
    ] {
        let error = read(&damaged).unwrap_err();
        let said = error.to_string();
        assert!(said.contains(part), "{part:?} should be in {said:?}");
        assert_eq!(error.line, line, "the line of {said:?}");
    }
}

#[test]
fn a_file_is_looked_at_to_its_end_before_anything_is_done() {
    let directory = directory();
    let path = directory.path().join("kept");
    std::fs::write(&path, text()).unwrap();
    let reader = Reader::open(&path).unwrap();
    let announced = reader.announced().unwrap();
    assert_eq!(
        (announced.files, announced.pages),
        (2, Pages(6)),
        "what it has"
    );
    let text = text();
    for cut in [text.len() - 1, text.len() - 5, text.len() - 40, 150] {
        std::fs::write(&path, &text[..cut]).unwrap();
        let error = Reader::open(&path).unwrap_err();
        assert!(
            matches!(error.fault, SnapshotFault::Truncated) && error.line.is_some(),
            "cut at {cut}: {error}"
        );
        assert!(error.to_string().contains("kept"), "and which: {error}");
    }
    std::fs::write(&path, "").unwrap();
    let error = Reader::open(&path).unwrap_err();
    assert!(matches!(error.fault, SnapshotFault::Empty), "{error}");
    let error = Reader::open(&directory.path().join("none")).unwrap_err();
    assert_eq!(error.kind(), cachewise_sys::ErrorKind::NotFound, "{error}");
    assert!(Reader::open(directory.path()).is_err(), "a directory");
    let fifo = directory.path().join("fifo");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &fifo,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .unwrap();
    let error = Reader::open(&fifo).unwrap_err();
    assert!(
        error.to_string().contains("a FIFO, not a snapshot"),
        "nobody is waited for: {error}"
    );
}

#[test]
fn what_is_before_the_damage_is_restored() {
    let directory = directory();
    let kept = directory.path().join("kept");
    let path = file(directory.path(), "file", 10);
    undisturbed(|| {
        load(&path, &(0..10).collect());
        save(&kept, &[path.clone(), path.clone()]);
        let text = std::fs::read_to_string(&kept).unwrap();
        let mut lines: Vec<&str> = text.lines().collect();
        lines[2] = "{\"path\":";
        std::fs::write(&kept, lines.join("\n") + "\n").unwrap();
        evict(&path);
        let restored = back(&kept, &RestoreOptions::default());
        let damage = restored.damage.as_ref().expect("it is damaged");
        assert_eq!(damage.line, Some(3), "there: {damage}");
        match (restored.files, restored.after) {
            (1, Pages(10)) => Ok(()),
            _ => Err(format!("one file: {restored:?}")),
        }
    });
}

#[test]
fn a_snapshot_takes_its_place_as_a_whole_or_not_at_all() {
    let directory = directory();
    let path = directory.path().join("kept");
    save(&path, &[]);
    let there = std::fs::read_to_string(&path).unwrap();
    let entries = || std::fs::read_dir(directory.path()).unwrap().count();
    {
        let mut writer = Writer::create(&path).unwrap();
        writer.add(&Entry::of(&path).unwrap()).unwrap();
        drop(writer.finish().unwrap());
    }
    assert_eq!(
        std::fs::read_to_string(&path).unwrap(),
        there,
        "what was there is still there"
    );
    assert_eq!(entries(), 1, "and nothing beside it");
    save(&path, &[]);
    assert_eq!(Reader::open(&path).unwrap().count(), 0, "then the new one");
    assert_eq!(entries(), 1, "and nothing beside it");
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o600, "it lists paths that are nobody's else");
    std::fs::set_permissions(&path, Permissions::from_mode(0o664)).unwrap();
    save(&path, &[]);
    assert_eq!(
        mode(&path),
        0o664,
        "but what the old one was, the new one is"
    );
    let link = directory.path().join("link");
    std::os::unix::fs::symlink("kept", &link).unwrap();
    std::fs::remove_file(&path).unwrap();
    for there in ["nothing", "a snapshot"] {
        save(&link, &[]);
        assert!(
            link.is_symlink() && !path.is_symlink(),
            "it leads to {there}"
        );
        assert_eq!(Reader::open(&path).unwrap().count(), 0, "which is written");
    }
    std::fs::remove_file(&link).unwrap();

    let error = Writer::create(&directory.path().join("none/kept")).unwrap_err();
    assert!(error.to_string().contains("none/kept"), "where: {error}");
    let writer = Writer::create(directory.path().join("sub").as_path()).unwrap();
    std::fs::create_dir(directory.path().join("sub")).unwrap();
    let error = writer.finish().unwrap().commit().unwrap_err();
    assert!(error.to_string().contains("sub"), "a directory: {error}");
}

#[test]
fn what_is_no_snapshot_is_not_replaced() {
    let directory = directory();
    let path = directory.path().join("file");
    for text in ["a line\n", "no end", "{}\n", "\0\0\0"] {
        std::fs::write(&path, text).unwrap();
        let error = Writer::create(&path).unwrap_err();
        assert!(
            matches!(error.fault, SnapshotFault::InTheWay),
            "somebody may need {text:?}: {error}"
        );
        let after = std::fs::read_to_string(&path).unwrap();
        assert_eq!(after, text, "it is as it was");
    }
    assert!(Writer::create(directory.path()).is_err(), "a directory");
    let newer = r#"{"format":"cachewise-snapshot","version":9}
"#;
    let cut = r#"{"format":"cachewise-snapshot","version":1,"page_size_bytes":4096,"created_seconds":1}
"#;
    for text in ["", newer, cut] {
        std::fs::write(&path, text).unwrap();
        Writer::create(&path).unwrap_or_else(|error| panic!("{text:?} may go: {error}"));
    }
}

#[test]
fn a_relative_path_is_kept_from_the_root() {
    let mut writer = Writer::new(Vec::new()).unwrap();
    writer.add(&entry("some/file", 0, &[])).unwrap();
    let text = String::from_utf8(writer.finish().unwrap()).unwrap();
    let entries = read(&text).unwrap();
    assert_eq!(
        entries[0].path,
        std::env::current_dir().unwrap().join("some/file"),
        "wherever it is restored from"
    );
}

fn entry(name: &str, modified: i64, ranges: &[PageRange]) -> Entry {
    Entry {
        path: name.into(),
        device: (8, 1),
        // Another one for each name.
        inode: name.bytes().fold(7, |sum, byte| 31 * sum + u64::from(byte)),
        size: Bytes(bytes(100)),
        modified: (modified, 0),
        ranges: ranges.to_vec(),
    }
}

fn written(path: &Path, entries: &[Entry]) {
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
    let of = |name: &str, inode: u64, modified: i64| Entry {
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
fn what_nobody_may_know_or_open_is_said() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: files of others: needs root");
        return;
    }
    let place = Place::new();
    let [shown, hidden] = ["shown", "hidden"].map(|name| file(place.path(), name, 10));
    std::fs::set_permissions(&shown, Permissions::from_mode(0o644)).unwrap();
    std::fs::set_permissions(&hidden, Permissions::from_mode(0o600)).unwrap();
    let kept = place.path().join("kept");
    undisturbed(|| {
        for path in [&shown, &hidden] {
            load(path, &(0..10).collect());
        }
        save(&kept, &[shown.clone(), hidden.clone()]);
        std::fs::set_permissions(&kept, Permissions::from_mode(0o644)).unwrap();
        evict(&shown);
        let Some(answer) = place.ask("restore_as_nobody", "", &kept) else {
            return Ok(());
        };
        assert_eq!(
            answer,
            "1 warmed, 1 unknown, 1 denied, 10 pages; 2 and 0 known now, 20 pages then; no_permission",
            "what is not known is not counted, and what the snapshot says is"
        );
        match told(&shown).0.cached {
            Pages(10) => Ok(()),
            other => Err(format!("it was warmed all the same: {other}")),
        }
    });
}

#[test]
#[ignore = "only run by the test above, as nobody"]
fn restore_as_nobody() {
    let Some(kept) = looked_at() else { return };
    let restored = back(&kept, &RestoreOptions::default());
    let totals = diff_now(Reader::open(&kept).unwrap(), |_| {}).unwrap();
    let shown = Entry::of(&kept.with_file_name("shown")).unwrap_err();
    answer(format_args!(
        "{} warmed, {} unknown, {} denied, {} pages; {} and {} known now, {} pages then; {}",
        restored.files,
        restored.unknown,
        restored.skipped.denied,
        restored.pages,
        totals.unknown,
        totals.files,
        totals.before,
        shown.unknown().unwrap().id(),
    ));
}

#[test]
fn skipping_says_why() {
    let skip = Skip::Changed {
        was: (Bytes(1024), (7, 5)),
        is: (Bytes(2048), (8, 0)),
    };
    assert_eq!(
        skip.to_string(),
        "it has changed: 1.0 KiB of second 7.000000005 then, 2.0 KiB of second 8.000000000 now",
        "then and now"
    );
}
