//! k of n pages are loaded, and exactly those are reported: on each file system.

#[path = "../support/disks.rs"]
mod disks;
#[path = "../../../probe/tests/kit/problem.rs"]
mod problem;
#[path = "../support/mod.rs"]
mod support;

use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use cachewise_residency::Source;
use disks::FileSystem;
use libtest_mimic::{Failed, Trial};
use support::*;

fn main() -> ExitCode {
    let here = vec![
        Trial::test("here::disk", || {
            let place = std::env::var_os("CACHEWISE_TEST_DIR").unwrap_or_else(|| "/var/tmp".into());
            let directory = tempfile::tempdir_in(place)?;
            known_residency(directory.path(), true);
            Ok(())
        }),
        Trial::test("here::memory", || {
            let directory = tempfile::tempdir_in("/dev/shm")?;
            known_residency(directory.path(), false);
            Ok(())
        }),
    ];
    let what = "residency on ext4, xfs and btrfs of loop devices";
    disks::run(what, here, &FileSystem::ALL, ("known_residency", on))
}

fn on(kind: FileSystem, directory: &Path) -> Result<(), Failed> {
    known_residency(directory, kind != FileSystem::Tmpfs);
    Ok(())
}

/// Loads pages here and there; or, where pages have no other place, writes them here and there.
fn known_residency(directory: &Path, has_disk: bool) {
    const TOTAL: u64 = 1500;
    let every_third = (0..TOTAL).filter(|page| page % 3 == 0).collect();
    let at_borders = [0, 15, 16, 255, 256, 257, 511, 512, TOTAL - 2, TOTAL - 1].into();
    let in_the_middle = (301..1101).collect();
    let scattered = random(7, TOTAL).take(400).collect();
    let patterns: [BTreeSet<u64>; 6] = [
        BTreeSet::new(),
        every_third,
        at_borders,
        in_the_middle,
        scattered,
        (0..TOTAL).collect(),
    ];
    for (number, pages) in patterns.iter().enumerate() {
        let path = match has_disk {
            true => file(directory, &format!("{number}"), TOTAL),
            false => with_holes(directory, &format!("{number}"), TOTAL, pages),
        };
        match has_disk {
            true => reports_exactly(&path, TOTAL, pages),
            false => {
                let (counts, map) = told(&path);
                assert_eq!(
                    (counts.cached.0, counts.total.0),
                    (pages.len() as u64, TOTAL),
                    "pattern {number}: what was written is there"
                );
                assert_eq!(map.ranges, ranges(pages), "pattern {number}: and where");
            }
        }
    }
    if has_disk {
        dirty_pages_are_told(directory);
    }
}

/// A file of holes, but for these pages.
fn with_holes(directory: &Path, name: &str, total: u64, pages: &BTreeSet<u64>) -> PathBuf {
    let path = directory.join(name);
    let file = File::create(&path).expect("a file can be made there");
    file.set_len(bytes(total)).expect("it may be that large");
    for page in pages {
        file.write_all_at(&[1], bytes(*page))
            .expect("there is room");
    }
    path
}

fn dirty_pages_are_told(directory: &Path) {
    let path = file(directory, "dirty", 100);
    undisturbed(|| {
        let file = File::options().write(true).open(&path).expect("it is ours");
        // One by one, or they share a folio that is dirty as a whole.
        evict(&path);
        load(&path, &(0..20).collect());
        file.write_all_at(&vec![1; bytes(3) as usize], bytes(10))
            .expect("it can be written");
        let (counts, _) = told(&path);
        assert_eq!(counts.source(), Source::Cachestat, "mincore would not know");
        let states = counts.states.expect("cachestat told");
        match (states.dirty + states.writeback).0 {
            3 => Ok(()),
            other => Err(format!("3 pages were written, not {other}")),
        }
    });
}
