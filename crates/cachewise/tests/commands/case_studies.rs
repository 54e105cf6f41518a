//! Both case studies that the project started from, on the real binary.
//!
//! One: `dd` reads a file twice. The tool of the article says 50 % and 100 % hits; what people mean
//! is 0 % and 100 %, and hits and misses that add up to the pages of the file. Two: a program reads
//! 32 MiB of a disk again and again and is slow. The tool says 100 % hits, because it does not see
//! direct I/O at all; ours names the disk, O_DIRECT, and what came around the cache to the byte.

use std::path::Path;

use crate::support::*;

const MIB: u64 = 1 << 20;
/// Size of the file of case one; the 512 MiB of the article show the same.
const FILE_BYTES: u64 = 64 * MIB;
/// Bytes that the program of case two reads at a time.
const BLOCK_BYTES: u64 = 32 * MIB;
const ROUNDS: u64 = 3;

/// The tests.
pub fn trials() -> Vec<Trial> {
    vec![
        needs_root("dd::cold_then_warm", cold_then_warm),
        needs_root("dd::cold_in_small_reads", cold_in_small_reads),
        needs_root("dd::cold_in_its_own_block_size", cold_in_its_own_block_size),
        needs_root(
            "dd::a_person_sees_that_it_adds_up",
            a_person_sees_that_it_adds_up,
        ),
        needs_root("direct::block_device", || {
            direct_of(&Disk::new().device.path)
        }),
        needs_root("direct::block_device_requests", || {
            requests_of(&Disk::new().device.path);
        }),
        needs_root("direct::file", direct_file),
        needs_root("direct::file_requests", file_requests),
        needs_root("direct::a_person_is_told", a_person_is_told),
        needs_root("cached::block_device", || {
            cached_of(&Disk::new().device.path)
        }),
        needs_root("cached::file", cached_file),
    ]
}

fn dd(file: &Path, more: &[&str]) -> Vec<std::ffi::OsString> {
    let mut input = std::ffi::OsString::from("if=");
    input.push(file);
    let mut words = vec!["dd".into(), input, "of=/dev/null".into()];
    words.extend(more.iter().map(Into::into));
    words
}

fn cold_then_warm() {
    let scratch = Scratch::new();
    let file = scratch.file("file", FILE_BYTES);
    let pages = pages_of(&file);
    undisturbed(|| {
        evict(&file);
        let cold = report_of(&[], dd(&file, &["bs=1M"]));
        if resident(&file) != pages {
            return None;
        }
        let pinned = pin(&file, pages);
        let warm = report_of(&[], dd(&file, &["bs=1M"]));
        drop(pinned);
        a_cold_read(&cold, &file);
        // The program itself and its libraries are not pinned: what came from the disk by the kernel's own count
        // while none of the file did (below) was theirs.
        let is_disturbed = warm.json["totals"]["device_read_bytes"] != 0;

        let row = warm.file(&file);
        assert_eq!(
            number(row, "read_hit_pages"),
            pages,
            "the second time every page is a hit"
        );
        assert_eq!(number(row, "read_missed_pages"), 0, "and none is missed");
        assert_eq!(
            number(row, "read_cached_pages"),
            pages,
            "all without any I/O of this run"
        );
        assert_eq!(row["reuse_ratio"], 1.0, "which is a hit rate of 100 %");
        assert_eq!(
            number(row, "resident_before_pages"),
            pages,
            "all of it was there before"
        );
        assert_eq!(number(row, "resident_after_pages"), pages, "and still is");
        if is_disturbed {
            return None;
        }
        assert_eq!(
            warm.findings("cold_start").len(),
            0,
            "there is nothing cold to be found"
        );
        warm.adds_up();
        warm.ended.expect(0, "dd succeeds");
        cold.ended.expect(0, "dd succeeds");
        Some(())
    });
}

fn cold_in_small_reads() {
    let scratch = Scratch::new();
    let file = scratch.file("file", FILE_BYTES);
    undisturbed(|| {
        evict(&file);
        let report = report_of(&[], dd(&file, &["bs=4k"]));
        if resident(&file) != pages_of(&file) {
            return None;
        }
        a_cold_read(&report, &file);
        // dd reads once more to see the end of the file.
        let reads = number(report.file(&file), "read_requests");
        let blocks = FILE_BYTES / 4096;
        assert!(
            (blocks..=blocks + 1).contains(&reads),
            "a request each 4 KiB: {reads}"
        );
        report.ended.expect(0, "dd succeeds");
        Some(())
    });
}

/// Without `bs` dd reads 512 bytes at a time: eight requests a page, of which seven find what the first
/// of them had fetched.
fn cold_in_its_own_block_size() {
    let scratch = Scratch::new();
    let file = scratch.file("file", FILE_BYTES);
    undisturbed(|| {
        evict(&file);
        let report = report_of(&[], dd(&file, &[]));
        if resident(&file) != pages_of(&file) {
            return None;
        }
        let row = report.file(&file);
        let asked = number(row, "read_requested_pages");
        let sum = number(row, "read_hit_pages") + number(row, "read_missed_pages");
        assert_eq!(sum, asked, "hits and misses are what was asked for");
        assert_eq!(asked, FILE_BYTES / 512, "a page each request");
        assert_eq!(number(row, "read_bytes"), FILE_BYTES, "and all bytes");
        assert_eq!(
            number(row, "inserted_pages"),
            pages_of(&file),
            "each page was fetched once"
        );
        assert_eq!(
            number(row, "resident_before_pages"),
            0,
            "none of it was there before"
        );
        let found = report.findings("cold_start");
        assert_eq!(
            found.len(),
            1,
            "all of it came from the disk, so it was a cold start: {row}"
        );
        report.adds_up();
        Some(())
    });
}

/// Asserts the report of a cold sequential read of a whole file, for any size of reads.
fn a_cold_read(report: &Report, file: &Path) {
    let pages = pages_of(file);
    let row = report.file(file);
    let (hits, misses) = (
        number(row, "read_hit_pages"),
        number(row, "read_missed_pages"),
    );
    assert_eq!(
        hits + misses,
        pages,
        "hits ({hits}) and misses ({misses}) are the file's pages"
    );
    assert_eq!(
        number(row, "read_requested_pages"),
        pages,
        "which is what was asked for"
    );
    assert_eq!(number(row, "read_bytes"), FILE_BYTES, "in bytes too");
    assert!(misses > 0, "somebody had to fetch the first page");
    assert_eq!(
        number(row, "read_cached_pages"),
        0,
        "nothing was there before"
    );
    assert_eq!(
        row["reuse_ratio"], 0.0,
        "so the hit rate is 0, not the article's 50 %"
    );
    let read_ahead = number(row, "readahead_hit_pages");
    assert_eq!(
        read_ahead, hits,
        "each hit is of a page that read-ahead had just fetched"
    );
    assert_eq!(
        number(row, "resident_before_pages"),
        0,
        "none of it was there before"
    );
    assert_eq!(
        number(row, "resident_after_pages"),
        pages,
        "all of it is there now"
    );
    let device = number(&report.json["totals"], "device_read_bytes");
    assert!(
        device >= FILE_BYTES,
        "every byte came from the disk: {device}"
    );
    assert_eq!(
        report.findings("direct_io").len(),
        0,
        "nothing went around the cache"
    );
    report.adds_up();
}

fn a_person_sees_that_it_adds_up() {
    let scratch = Scratch::new();
    let file = scratch.file("file", 8 * MIB);
    evict(&file);
    let ended = Ended::of(cachewise(["run", "--"]).args(dd(&file, &["bs=1M", "status=none"])));
    let err = ended.err();
    assert!(
        ended.out.is_empty(),
        "standard output is the program's alone: {}",
        ended.out()
    );
    assert!(
        err.contains(&*file.to_string_lossy()),
        "the table names the file: {err}"
    );
    assert!(
        err.contains("reads  ") && err.contains(" from cache "),
        "the picture of reads is there: {err}"
    );
    assert!(!err.contains("DOES NOT ADD UP"), "which they do: {err}");
    assert!(
        err.contains("exact to the page"),
        "it says what the numbers are worth: {err}"
    );
    ended.expect(0, "dd succeeds");
}

/// A disk of the size that the program reads.
struct Disk {
    device: LoopDevice,
    _scratch: Scratch,
}

impl Disk {
    fn new() -> Disk {
        let scratch = Scratch::new();
        let image = scratch.file("image", BLOCK_BYTES);
        Disk {
            device: LoopDevice::over(&image),
            _scratch: scratch,
        }
    }
}

/// The article's program: it opens the disk, reads 32 MiB, closes it, and starts over.
fn rounds(path: &Path, rounds: u64, flags: &str) -> Vec<std::ffi::OsString> {
    let script = format!(
        "for round in $(seq {rounds}); do dd if=\"$1\" of=/dev/null bs=32M count=1 {flags} status=none || exit 9; done"
    );
    [
        "sh".into(),
        "-c".into(),
        script.into(),
        "app".into(),
        path.into(),
    ]
    .into()
}

fn direct_of(path: &Path) {
    let report = report_of(&[], rounds(path, ROUNDS, "iflag=direct"));
    let row = report.file(path);
    let bytes = ROUNDS * BLOCK_BYTES;
    assert_eq!(
        number(row, "direct_read_bytes"),
        bytes,
        "what went around the cache, to the byte"
    );
    assert_eq!(
        number(row, "read_requested_pages"),
        0,
        "nothing was asked of the cache"
    );
    assert_eq!(number(row, "inserted_pages"), 0, "and nothing was put in");
    assert_eq!(row["direct"], true, "the file is marked");
    assert_eq!(
        number(&report.json["totals"], "direct_read_bytes"),
        bytes,
        "nothing else does direct I/O"
    );
    assert!(
        row["reuse_ratio"].is_null(),
        "no hit rate is made up for it: {row}"
    );

    let findings = report.findings("direct_io");
    assert_eq!(
        findings.len(),
        1,
        "one file, one finding: {}",
        report.json["findings"]
    );
    let finding = findings[0];
    assert_eq!(
        finding["subject"],
        path.to_str().expect("an ordinary name"),
        "it names the file"
    );
    let title = finding["title"].as_str().expect("a finding has a title");
    assert!(title.contains("O_DIRECT"), "and O_DIRECT: {title}");
    assert_eq!(
        number(&finding["figures"], "direct_read_bytes"),
        bytes,
        "with how much it was"
    );
    let next = finding["next_step"]
        .as_str()
        .expect("a finding has a next step");
    assert!(
        next.contains("without O_DIRECT"),
        "and says what to change: {next}"
    );
    report.adds_up();
    report.ended.expect(0, "the program succeeds");
}

fn requests_of(path: &Path) {
    let report = report_of(&[], rounds(path, ROUNDS, "iflag=direct"));
    // As the program makes them: that the kernel cuts each into pieces for the device is its affair.
    let requests = number(&report.json["totals"], "direct_read_requests");
    assert_eq!(
        requests, ROUNDS,
        "one read each round, so one request each round"
    );
}

fn file_requests() {
    let scratch = Scratch::new();
    requests_of(&scratch.file("file", BLOCK_BYTES));
}

fn direct_file() {
    let scratch = Scratch::new();
    let file = scratch.file("file", BLOCK_BYTES);
    direct_of(&file);
    // Half in the cache beforehand changes nothing: it is still read around it.
    warm(&file);
    direct_of(&file);
}

fn a_person_is_told() {
    let disk = Disk::new();
    let path = &disk.device.path;
    let ended = Ended::of(cachewise(["run", "--"]).args(rounds(path, ROUNDS, "iflag=direct")));
    let err = ended.err();
    let path = path.to_string_lossy();
    let named = err
        .lines()
        .any(|line| line.contains("O_DIRECT") && line.contains(&*path));
    assert!(named, "a line of the report has O_DIRECT and {path}: {err}");
    assert!(
        err.contains("96.0 MiB"),
        "three rounds of 32 MiB are a figure in it: {err}"
    );
    ended.expect(0, "the program succeeds");
}

fn cached_of(path: &Path) {
    let pages = BLOCK_BYTES / page_size();
    evict(path);
    let first = report_of(&[], rounds(path, 1, ""));
    // A reclaimer would make misses of what is to be hits, so it gets nothing: no other way is left to
    // tell its misses from ours.
    let pinned = pin(path, pages);
    let second = report_of(&[], rounds(path, ROUNDS, ""));
    drop(pinned);
    let row = first.file(path);
    assert_eq!(
        number(row, "read_requested_pages"),
        pages,
        "the first round asks for every page"
    );
    assert_eq!(
        number(row, "read_cached_pages"),
        0,
        "and has to fetch them all"
    );
    let row = second.file(path);
    assert_eq!(
        number(row, "read_requested_pages"),
        ROUNDS * pages,
        "so does each that follows"
    );
    assert_eq!(
        number(row, "read_cached_pages"),
        ROUNDS * pages,
        "and gets them all from memory: {row}"
    );
    assert_eq!(number(row, "read_missed_pages"), 0, "none is missed");
    assert_eq!(
        row["reuse_ratio"], 1.0,
        "a hit rate of 100 %, this time for real"
    );
    for report in [&first, &second] {
        assert_eq!(
            report.findings("direct_io").len(),
            0,
            "no word of O_DIRECT any more"
        );
        assert_eq!(
            number(report.file(path), "direct_bytes"),
            0,
            "as there is none"
        );
        assert_eq!(report.file(path)["direct"], false, "and no mark");
        report.adds_up();
    }
}

fn cached_file() {
    let scratch = Scratch::new();
    cached_of(&scratch.file("file", BLOCK_BYTES));
}
