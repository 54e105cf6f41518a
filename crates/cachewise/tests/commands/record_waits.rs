//! `record`: reads that a sample ends in the middle of.

use std::fs;

use serde_json::Value;

use crate::record::rows_with;
use crate::shield_inputs::has;
use crate::support::*;

/// The tests.
pub fn trials() -> Vec<Trial> {
    vec![needs_root(
        "a_read_that_goes_on_in_later_samples_adds_up_in_each_and_in_all",
        goes_on,
    )]
}

const PAGES: u64 = 96;
const CACHED: u64 = 16;

/// Reads the first pages, then all of the file, whose rest is cold, and all of it again. Between the reads pages are mapped
/// and locked, so that no other program's reclaim takes them. It waits first: a sample has the files with the most pages, and
/// the start of a program uses many.
const READS: &str = "
import ctypes, mmap, os, sys, time
file = os.open(sys.argv[1], os.O_RDONLY)
pages, cached = int(sys.argv[2]), int(sys.argv[3])
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
libc.mlock.argtypes = libc.mmap.argtypes[:2]
libc.madvise.argtypes = libc.mmap.argtypes[:3]
def rest(pages):
    length = pages * mmap.PAGESIZE
    held = libc.mmap(None, length, mmap.PROT_READ, mmap.MAP_SHARED, file, 0)
    libc.madvise(held, length, mmap.MADV_RANDOM)
    assert libc.mlock(held, length) == 0
    time.sleep(0.3)
time.sleep(0.3)
os.posix_fadvise(file, 0, 0, os.POSIX_FADV_RANDOM)
for page in range(cached): os.pread(file, mmap.PAGESIZE, page * mmap.PAGESIZE)
rest(cached)
assert len(os.pread(file, pages * mmap.PAGESIZE, 0)) == pages * mmap.PAGESIZE
rest(pages)
os.pread(file, pages * mmap.PAGESIZE, 0)
time.sleep(0.3)
";

/// The kernel reads the rest in parts, each when the one before has come: all of the request is a hit at first, as its
/// beginning is.
fn goes_on() {
    if !has("python3", "a read that goes on in later samples") {
        return;
    }
    let scratch = Scratch::new();
    let Some(disk) = Mounted::ext4(&scratch, 64 << 20, &[]) else {
        return;
    };
    let file = disk.path("file");
    fs::write(&file, vec![7; (PAGES * page_size()) as usize]).expect("there is room");
    let recording = scratch.path("recording");
    evict(&file);
    let Some(_slow) = disk.slow_reads_down(64 * page_size()) else {
        return println!("skipped: record: a read that goes on: no throttle");
    };
    let mut record = cachewise(["record", "-i", "100ms", "--only"]);
    record
        .arg(&recording)
        .args(["--", "python3", "-c", READS])
        .arg(&file)
        .args([PAGES.to_string(), CACHED.to_string()]);
    Ended::of(&mut record).expect(0, "the program ends well");

    let columns = ["--columns", "path,requested,hits,missed"];
    let samples = rows_with(&recording, "files", &columns);
    let mut sum = [0; 3];
    let of_file = |row: &&Value| {
        let path = row["path"].as_str();
        path.is_some_and(|path| path.ends_with("/mounted/file"))
    };
    for row in samples.iter().filter(of_file) {
        let names = [
            "read_requested_pages",
            "read_hit_pages",
            "read_missed_pages",
        ];
        let pages = names.map(|name| number(row, name));
        assert_eq!(pages[0], pages[1] + pages[2], "a sample adds up: {row}");
        sum = std::array::from_fn(|of| sum[of] + pages[of]);
    }
    let requested = CACHED + 2 * PAGES;
    assert_eq!(sum, [requested, requested - PAGES, PAGES], "{samples:#?}");
}
