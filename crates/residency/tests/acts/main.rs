//! Warm, evict, lock and snapshot on each file system, and where it is read-only.

#[path = "../support/disks.rs"]
mod disks;
#[path = "../../../probe/tests/kit/problem.rs"]
mod problem;
#[path = "../support/mod.rs"]
mod support;

use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, ExitCode};

use cachewise_residency::snapshot::{Reader, RestoreOptions, SnapshotEntry, Writer, restore};
use cachewise_residency::{
    EvictOptions, LockOptions, WarmOptions, evict, holders, lock, open, warm,
};
use cachewise_sys::{ErrorKind, Mapping, page_size};
use cachewise_units::{PageRange, Pages};
use disks::FileSystem;
use libtest_mimic::Failed;
use support::*;

fn main() -> ExitCode {
    let what = "acting on ext4, xfs and btrfs of loop devices";
    disks::run(what, Vec::new(), &FileSystem::CACHED, ("acts", acts))
}

fn acts(_: FileSystem, directory: &Path) -> Result<(), Failed> {
    nothing_beyond_a_range(directory);
    dirty_pages_go(directory);
    mapped_pages_are_explained(directory);
    locked_pages_stay(directory);
    ranges_come_back(directory);
    when_it_is_read_only(directory)
}

fn pages(start: u64, end: u64) -> PageRange {
    PageRange { start, end }
}

fn nothing_beyond_a_range(directory: &Path) {
    let path = file(directory, "ranges", 9000);
    let wanted = [pages(5, 6), pages(700, 4300), pages(8001, 8002)];
    undisturbed(|| {
        support::evict(&path);
        let ranges = wanted.map(|range| range.bytes(page_size()));
        let file = open(&path).expect("it is there");
        let warmed = warm(&file, &ranges, &WarmOptions::default()).expect("it can be read");
        let found = told(&path).1.ranges;
        match found == wanted && warmed.inserted == Ok(warmed.pages) {
            true => Ok(()),
            false => Err(format!("{found:?} after {warmed:?}")),
        }
    });
}

fn dirty_pages_go(directory: &Path) {
    let path = file(directory, "dirty", 1000);
    let writable = File::options().write(true).open(&path).expect("it is ours");
    undisturbed(|| {
        let content = vec![7; bytes(600) as usize];
        writable.write_all_at(&content, bytes(100)).expect("room");
        let range = pages(200, 300).bytes(page_size());
        let sync = EvictOptions {
            sync: true,
            holders: true,
        };
        let evicted = evict(&writable, range, &sync).expect("the disk takes it");
        let stayed = evicted.stayed.as_ref().expect("it is ours");
        if (stayed.dirty, stayed.writeback, stayed.other) != Default::default() {
            return Err(format!("only the edges may stay: {evicted:?}"));
        }
        let evicted = evict(&writable, WHOLE, &sync).expect("the disk takes it");
        match evicted.after.map(|after| after.cached) {
            Ok(Pages::ZERO) => Ok(()),
            _ => Err(format!("nothing is left: {evicted:?}")),
        }
    });
}

fn mapped_pages_are_explained(directory: &Path) {
    let path = file(directory, "mapped", 1000);
    let file = open(&path).expect("it is there");
    let mapping = Mapping::of_pages(file.as_fd(), pages(100, 103)).expect("it can be mapped");
    undisturbed(|| {
        warm(&file, &[WHOLE], &WarmOptions::default()).expect("it can be read");
        mapping.populate(pages(100, 103)).expect("it is there");
        let options = EvictOptions {
            holders: true,
            ..EvictOptions::default()
        };
        let evicted = evict(&file, WHOLE, &options).expect("it is ours");
        let stayed = evicted.stayed.as_ref().expect("it is ours");
        let found = holders(&file).expect("there is /proc");
        let ours = found.holders.len() == 1 && found.holders[0].pid == std::process::id();
        // By the name that the mapping has, which on btrfs is not that of the file.
        match stayed.mapped >= Pages(3) && stayed.other == Pages::ZERO && ours {
            true => Ok(()),
            false => Err(format!("{evicted:?}, {found:?}")),
        }
    });
}

fn locked_pages_stay(directory: &Path) {
    let path = file(directory, "locked", 1000);
    support::evict(&path);
    let file = open(&path).expect("it is there");
    let held = lock(&file, WHOLE, &LockOptions::default()).expect("root may lock");
    let evicted = evict(&file, WHOLE, &EvictOptions::default()).expect("it is ours");
    assert_eq!(held.locked().expect("/proc"), Pages(1000), "all of it");
    assert_eq!(
        evicted.after.map(|after| after.cached),
        Ok(Pages(1000)),
        "stays"
    );
}

fn ranges_come_back(directory: &Path) {
    let kept = directory.join("kept");
    let patterns = [
        random(11, 2000).take(200).collect(),
        (500..1700).collect(),
        (0..2000).collect(),
    ];
    let files = ["0", "1", "2"].map(|name| file(directory, name, 2000));
    undisturbed(|| {
        let mut writer = Writer::create(&kept).expect("it can be written");
        for (path, pattern) in files.iter().zip(&patterns) {
            support::evict(path);
            load(path, pattern);
            let entry = SnapshotEntry::from_path(path).expect("it is ours");
            writer.add(&entry).expect("there is room");
        }
        let complete = writer.finish().expect("there is room");
        complete.commit().expect("it gets its name");
        files.iter().for_each(|path| support::evict(path));
        let reader = Reader::open(&kept).expect("it is sound");
        let restored = restore(reader, &RestoreOptions::default());
        let found = files.each_ref().map(|path| told(path).1.ranges);
        match found == patterns.each_ref().map(ranges) {
            true => Ok(()),
            false => Err(format!("{found:?} after {restored:?}")),
        }
    });
}

fn when_it_is_read_only(directory: &Path) -> Result<(), Failed> {
    let remounted = Command::new("mount")
        .args(["-o", "remount,ro"])
        .arg(directory)
        .env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin")
        .output()?;
    if !remounted.status.success() {
        return Err(String::from_utf8_lossy(&remounted.stderr)
            .into_owned()
            .into());
    }
    let path = directory.join("ranges");
    let file = open(&path).expect("it can still be read");
    undisturbed(|| {
        warm(&file, &[WHOLE], &WarmOptions::default()).expect("and brought in");
        let sync = EvictOptions {
            sync: true,
            holders: true,
        };
        let evicted = evict(&file, WHOLE, &sync).expect("and put out");
        match evicted.went() {
            Some(Pages(9000)) => Ok(()),
            _ => Err(format!("{evicted:?}")),
        }
    });
    lock(&file, WHOLE, &LockOptions::default()).expect("and locked");
    let error = Writer::create(&directory.join("new")).expect_err("but not written");
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    assert!(
        error.to_string().contains("Read-only"),
        "for this reason: {error}"
    );
    Ok(())
}
