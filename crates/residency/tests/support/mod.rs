//! Files of known residency.

// Every test file is a crate of its own and uses some of this.
#![allow(dead_code)]

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cachewise_residency::{Counts, ResidentMap, map, open, query};
use cachewise_sys::{fadvise_dont_need, fadvise_random, page_size, sync_data};
use cachewise_units::{ByteRange, PageRange, Pages};

/// The whole file.
pub const WHOLE: ByteRange = ByteRange::starting_at(0);

/// A number of pages in bytes.
pub fn bytes(pages: u64) -> u64 {
    Pages(pages).bytes(page_size()).0
}

/// Makes a file of a number of pages, less one byte, in a directory, and has it on the disk.
pub fn file(directory: &Path, name: &str, pages: u64) -> PathBuf {
    let path = directory.join(name);
    let mut file = File::create(&path).expect("a file can be made there");
    file.write_all(&vec![0xA5; bytes(pages) as usize - 1])
        .expect("there is room");
    file.sync_all().expect("the disk takes it");
    path
}

/// Puts all of a file out of the page cache.
pub fn evict(path: &Path) {
    let file = open(path).expect("it can be opened");
    sync_data(file.as_fd()).expect("the disk takes it");
    fadvise_dont_need(file.as_fd()).expect("the kernel takes the advice");
}

/// Inserts these pages and no others.
pub fn load(path: &Path, pages: &BTreeSet<u64>) {
    let file = open(path).expect("it can be opened");
    fadvise_random(file.as_fd()).expect("the kernel takes the advice");
    for page in pages {
        file.read_exact_at(&mut [0], bytes(*page))
            .expect("it can be read");
    }
}

/// Counts and resident ranges of a whole file.
pub fn told(path: &Path) -> (Counts, ResidentMap) {
    let file = open(path).expect("it can be opened");
    let counts = query(&file, WHOLE).expect("we own it");
    (counts, map(&file, WHOLE).expect("we own it"))
}

/// Ranges of pages, of which none touches the next.
pub fn ranges(pages: &BTreeSet<u64>) -> Vec<PageRange> {
    let mut ranges: Vec<PageRange> = Vec::new();
    for &page in pages {
        match ranges.last_mut() {
            Some(last) if last.end == page => last.end += 1,
            _ => ranges.push(PageRange {
                start: page,
                end: page + 1,
            }),
        }
    }
    ranges
}

/// Repeats a measurement that reclaim by another program (a proactive reclaimer) disturbed: `measure` returns what went
/// wrong.
pub fn undisturbed(mut measure: impl FnMut() -> Result<(), String>) {
    const ATTEMPTS: u32 = 8;
    let mut last = String::new();
    for attempt in 0..ATTEMPTS {
        // A reclaimer works by strokes, which last.
        std::thread::sleep(Duration::from_millis(100) * attempt);
        match measure() {
            Ok(()) => return,
            Err(wrong) => last = wrong,
        }
    }
    panic!("{ATTEMPTS} times in turn: {last}");
}

/// Loads pages of a file that is not cached, and has exactly those reported.
pub fn reports_exactly(path: &Path, total: u64, pages: &BTreeSet<u64>) {
    undisturbed(|| {
        evict(path);
        load(path, pages);
        let (counts, map) = told(path);
        let k = Pages(pages.len() as u64);
        if (counts.cached, counts.total) != (k, Pages(total)) {
            return Err(format!("{k} of {total} pages, not {counts:?}"));
        }
        let expected = ranges(pages);
        if map.ranges != expected {
            return Err(format!("{expected:?}, not {:?}", map.ranges));
        }
        Ok(())
    });
}

/// Tells others to stop, also where a test fails: a scope would wait for them for ever.
pub struct StopOnDrop<'a>(pub &'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Numbers below a bound, the same ones each time.
pub fn random(seed: u64, bound: u64) -> impl Iterator<Item = u64> {
    let mut state = seed | 1;
    std::iter::repeat_with(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % bound
    })
}
