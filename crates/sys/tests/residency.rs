//! The calls against real files: one on the disk, one on a tmpfs.

#![expect(clippy::unwrap_used, reason = "where a call fails, the test does")]

use std::fs::File;
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::Path;

use cachewise_sys::{
    ErrorKind, cachestat, fadvise_dont_need, fadvise_random, open_quietly, page_size, resident,
    sync_data,
};
use cachewise_units::{ByteRange, Pages};
use tempfile::NamedTempFile;

const PAGES: u64 = 256;

/// Beside the build, because /tmp is in memory on many machines.
const DISK: &str = env!("CARGO_TARGET_TMPDIR");

fn bytes(pages: u64) -> u64 {
    Pages(pages).bytes(page_size()).0
}

/// Writes a file of `PAGES` pages, or `None` where the kernel has no `cachestat`.
fn written_in(directory: &str) -> Option<NamedTempFile> {
    let file = NamedTempFile::new_in(directory).unwrap();
    file.as_file()
        .write_all_at(&vec![0xA5; bytes(PAGES) as usize], 0)
        .unwrap();
    match resident(file.path()) {
        Err(error) if error.kind() == ErrorKind::Unsupported => {
            eprintln!("skipped: {error}");
            None
        }
        found => {
            assert_eq!(
                found.unwrap().cached,
                Pages(PAGES),
                "what was written is resident"
            );
            Some(file)
        }
    }
}

fn evict(file: &File) {
    sync_data(file.as_fd()).unwrap();
    fadvise_dont_need(file.as_fd()).unwrap();
}

#[test]
fn a_file_on_disk_is_written_evicted_and_read() {
    let Some(file) = written_in(DISK) else {
        return;
    };
    let dirty = resident(file.path()).unwrap();
    assert!(
        dirty.dirty.0 + dirty.writeback.0 <= PAGES,
        "no page is dirty twice: {dirty:?}"
    );

    evict(file.as_file());
    let evicted = resident(file.path()).unwrap();
    assert_eq!(evicted.cached, Pages(0), "synced and dropped: {evicted:?}");
    assert_eq!(evicted.dirty, Pages(0), "so nothing is left to write");

    let mut content = Vec::new();
    open_quietly(file.path())
        .unwrap()
        .read_to_end(&mut content)
        .unwrap();
    assert_eq!(content.len() as u64, bytes(PAGES), "all of it is read");
    let read = resident(file.path()).unwrap();
    assert_eq!(
        read.cached,
        Pages(PAGES),
        "and stays, to the page: {read:?}"
    );
}

#[test]
fn ranges_count_the_pages_they_touch() {
    let Some(file) = written_in(DISK) else {
        return;
    };
    let count = |start, len| {
        cachestat(file.as_file().as_fd(), Some(ByteRange { start, len }))
            .unwrap()
            .cached
    };
    assert_eq!(count(0, 1), Pages(1), "a byte is in a page");
    assert_eq!(count(bytes(1) - 1, 2), Pages(2), "two bytes can be in two");
    assert_eq!(
        count(bytes(PAGES), 1),
        Pages(0),
        "beyond the end there is nothing"
    );
    assert_eq!(
        count(bytes(10), u64::MAX),
        Pages(PAGES - 10),
        "an end too far is cut off"
    );
    let rest = ByteRange::starting_at(bytes(200));
    assert_eq!(
        cachestat(file.as_file().as_fd(), Some(rest))
            .unwrap()
            .cached,
        Pages(PAGES - 200),
        "from an offset to the end"
    );
}

#[test]
fn without_read_ahead_one_page_brings_in_little() {
    let Some(file) = written_in(DISK) else {
        return;
    };
    evict(file.as_file());
    let reader = open_quietly(file.path()).unwrap();
    fadvise_random(reader.as_fd()).unwrap();
    reader.read_exact_at(&mut [0], bytes(100)).unwrap();
    let around = ByteRange {
        start: bytes(100),
        len: 1,
    };
    let found = cachestat(reader.as_fd(), Some(around)).unwrap();
    assert_eq!(found.cached, Pages(1), "the page asked for is there");
    let all = resident(file.path()).unwrap();
    assert!(
        all.cached < Pages(PAGES / 2),
        "read-ahead was off, yet it brought {all:?}"
    );
}

#[test]
fn a_tmpfs_keeps_its_pages_whatever_the_advice() {
    if !Path::new("/dev/shm").is_dir() {
        eprintln!("skipped: no /dev/shm");
        return;
    }
    let Some(file) = written_in("/dev/shm") else {
        return;
    };
    evict(file.as_file());
    let found = resident(file.path()).unwrap();
    assert_eq!(
        found.cached,
        Pages(PAGES),
        "its pages are the only copy: {found:?}"
    );
}

#[test]
fn a_hole_costs_and_holds_nothing() {
    let Some(file) = written_in(DISK) else {
        return;
    };
    file.as_file().set_len(1 << 40).unwrap();
    let found = resident(file.path()).unwrap();
    assert_eq!(
        found.cached,
        Pages(PAGES),
        "a hole of a tebibyte has no page"
    );
}
