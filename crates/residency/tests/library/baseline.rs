//! Pages that were inserted since a baseline are dropped, and no others.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::path::Path;

use crate::support::{WHOLE, bytes, evict, file, load, told, undisturbed};
use cachewise_residency::{Baseline, PageRange, open};
use cachewise_sys::Mapping;
use cachewise_units::{ByteRange, Pages};
use tempfile::TempDir;

/// Beside the build, because /tmp is in memory on many machines.
fn directory() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn resident(path: &Path) -> BTreeSet<u64> {
    let ranges = told(path).1.ranges;
    ranges
        .iter()
        .flat_map(|range| range.start..range.end)
        .collect()
}

#[test]
fn pages_resident_before_stay_and_all_others_are_dropped() {
    let directory = directory();
    let path = file(directory.path(), "file", 4000);
    let before: BTreeSet<u64> = (0..4000).filter(|page| page % 700 < 3).collect();
    undisturbed(|| {
        evict(&path);
        load(&path, &before);
        let opened = open(&path).unwrap();
        let baseline = Baseline::of(&opened).unwrap();
        File::open(&path)
            .and_then(|mut file| file.read_to_end(&mut Vec::new()))
            .unwrap();
        let dropped = baseline.drop_inserted(&opened, WHOLE).unwrap().unwrap();
        let after = resident(&path);
        match (before.is_subset(&after), dropped.dropped) {
            (true, Pages(pages)) if pages == 4000 - before.len() as u64 && after == before => {
                Ok(())
            }
            found => Err(format!("{found:?}, {} are resident", after.len())),
        }
    });
}

#[test]
fn ranges_in_sequence_leave_no_folio_between_them() {
    let directory = directory();
    let path = file(directory.path(), "file", 8192);
    undisturbed(|| {
        evict(&path);
        let opened = open(&path).unwrap();
        let baseline = Baseline::of(&opened).unwrap();
        File::open(&path)
            .and_then(|mut file| file.read_to_end(&mut Vec::new()))
            .unwrap();
        // Ranges that begin and end inside of folios.
        for number in 0..=8192 / 333 {
            let range = ByteRange {
                start: bytes(333 * number),
                len: bytes(333),
            };
            baseline.drop_inserted(&opened, range).unwrap().unwrap();
        }
        match resident(&path).len() {
            0 => Ok(()),
            left => Err(format!("{left} pages are left")),
        }
    });
}

#[test]
fn mapped_pages_and_written_files_stay() {
    let directory = directory();
    let path = file(directory.path(), "file", 64);
    let opened = open(&path).unwrap();
    undisturbed(|| {
        evict(&path);
        let baseline = Baseline::of(&opened).unwrap();
        load(&path, &(0..64).collect());
        let pages = PageRange { start: 8, end: 16 };
        let mapping = Mapping::of_pages(opened.as_fd(), pages).unwrap();
        mapping.populate(pages).unwrap();
        let dropped = baseline.drop_inserted(&opened, WHOLE).unwrap().unwrap();
        drop(mapping);
        match dropped.dropped {
            Pages(56) if dropped.inserted == Pages(64) => Ok(()),
            _ => Err(format!("{dropped:?}")),
        }
    });
    evict(&path);
    let baseline = Baseline::of(&opened).unwrap();
    let mut writer = File::options().append(true).open(&path).unwrap();
    writer.write_all(b"x").unwrap();
    writer.sync_all().unwrap();
    load(&path, &(0..4).collect());
    let dropped = baseline.drop_inserted(&opened, WHOLE).unwrap();
    assert_eq!(dropped, None, "the file was written since");
}
