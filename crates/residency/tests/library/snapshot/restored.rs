//! Restored pages.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

use cachewise_residency::snapshot::{FileOutcome, RestoreOptions, Skip, Skipped, SnapshotEntry};
use cachewise_residency::{Inode, Watch};
use cachewise_units::{Bytes, Pages};

use super::*;
use crate::support::{evict, file, load, random, ranges, told, undisturbed};

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
            match told == wanted && restored.inserted == expected {
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
        let each = |entry: &SnapshotEntry, outcome: FileOutcome<'_>| {
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

#[test]
fn entries_before_damage_are_restored() {
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

#[test]
fn files_are_read_in_the_order_of_their_places_and_no_more_than_asked_for() {
    let directory = directory();
    let files = ["a", "b", "c"].map(|name| file(directory.path(), name, 10));
    let kept = directory.path().join("kept");
    let mut writer = Writer::create(&kept).unwrap();
    for (path, place) in files.iter().zip([Some(300), Some(100), Some(200)]) {
        let mut entry = SnapshotEntry::from_path(path).unwrap();
        entry.place = place;
        entry.ranges = vec![pages(0, 10)];
        writer.add(&entry).unwrap();
    }
    writer.finish().unwrap().commit().unwrap();
    let order = |most: Option<Bytes>| {
        let seen = Mutex::new(Vec::new());
        let each = |entry: &SnapshotEntry, _: FileOutcome<'_>| {
            let name = entry.path.file_name().unwrap().to_str().unwrap();
            seen.lock()
                .unwrap()
                .push(format!("{name} {}", entry.cached()));
        };
        let options = RestoreOptions {
            each: Some(&each),
            most,
            ..RestoreOptions::default()
        };
        let restored = back(&kept, &options);
        assert!(restored.damage.is_none());
        seen.into_inner().unwrap()
    };
    assert_eq!(order(None), ["b 10", "c 10", "a 10"]);
    // The first ones of the snapshot, whatever their places are.
    let most = Bytes(15 * cachewise_sys::page_size().get());
    assert_eq!(order(Some(most)), ["b 5", "a 10"]);
}

#[test]
fn files_that_are_gone_or_changed_take_no_part_of_a_limit() {
    let directory = directory();
    let [gone, changed, same] =
        ["gone", "changed", "same"].map(|name| file(directory.path(), name, 10));
    let kept = directory.path().join("kept");
    let files = [&gone, &changed, &same].map(Clone::clone);
    let _ = files.each_ref().map(|path| load(path, &(0..10).collect()));
    save(&kept, &files);
    std::fs::remove_file(&gone).unwrap();
    let time = rustix::fs::Timespec {
        tv_sec: 1,
        tv_nsec: 0,
    };
    let times = rustix::fs::Timestamps {
        last_access: time,
        last_modification: time,
    };
    rustix::fs::utimensat(
        rustix::fs::CWD,
        &changed,
        &times,
        rustix::fs::AtFlags::empty(),
    )
    .unwrap();
    let restore = |most, anyway| {
        let options = RestoreOptions {
            most: Some(Bytes(most * cachewise_sys::page_size().get())),
            anyway,
            ..RestoreOptions::default()
        };
        let restored = back(&kept, &options);
        (restored.files, restored.pages, restored.skipped.total())
    };
    assert_eq!(restore(4, false), (1, Pages(4), 2), "those of `same`");
    assert_eq!(restore(14, true), (2, Pages(14), 1), "of both that exist");
}

#[test]
fn pages_in_any_order_become_an_entry_with_a_place() {
    let directory = directory();
    let path = file(directory.path(), "a", 10);
    let opened = File::open(&path).unwrap();
    opened.sync_all().unwrap();
    let asked = [pages(8, 50), pages(2, 4), pages(3, 5)];
    let inode = Inode::of_fd(opened.as_fd()).unwrap();
    let entry = SnapshotEntry::of_pages(&path, &inode, Some(opened.as_fd()), &asked);
    assert_eq!(entry.ranges, [pages(2, 5), pages(8, 10)], "up to its end");
    assert_eq!(
        entry.place,
        cachewise_sys::place_on_device(opened.as_fd(), 2 * cachewise_sys::page_size().get())
            .ok()
            .flatten(),
        "that of the first page"
    );
}
