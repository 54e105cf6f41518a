//! Requests that cost more than their data.

use super::fault::{Amount, Fault, Subject, note};
use super::kit::*;
use crate::support::*;

/// The same file by direct I/O three times, and then through the page cache.
pub fn direct_reads_again() {
    let scratch = Scratch::new();
    let file = scratch.file("file", 16 * MIB);
    let run = |flag: &str| {
        evict(&file);
        let script = format!(
            "for i in 1 2 3; do dd if=\"$1\" of=/dev/null bs=1M {flag} status=none || exit; done"
        );
        report_of_shell(&script, &[&file])
    };
    let fault = Fault {
        scenario: "dd with O_DIRECT, three times",
        rules: &["direct_io"],
        subject: Subject::File(&file),
        figure: ("direct_read_bytes", 48 * MIB),
        fix: &["without O_DIRECT"],
        amount: Amount::Total("device_read_bytes"),
        factor: 2,
        warm: &[],
    };
    let finding = fault.check(|| run("iflag=direct"), || run(""));
    let again = number(&finding["figures"], "read_again_bytes");
    assert_eq!(again, 32 * MIB, "{finding}");
}

/// Direct writes of some size, at this distance from a multiple of the size of a page.
const DIRECT: &str = "
import mmap, os, sys
file = os.open(sys.argv[1], os.O_RDWR | os.O_DIRECT)
size, distance = int(sys.argv[2]), int(sys.argv[3])
memory = memoryview(mmap.mmap(-1, 65536))[:size]
for number in range(1200):
    try:
        os.pwritev(file, [memory], number * 8192 + distance)
    except OSError:
        pass
";

pub fn unaligned_direct_writes() {
    if !has(&["python3"], "advice::unaligned_direct_writes") {
        return;
    }
    let scratch = Scratch::new();
    let file = scratch.file("file", 16 * MIB);
    let run = |size: &str, distance: &str| {
        let words = [file.as_os_str(), size.as_ref(), distance.as_ref()];
        report_of_python(DIRECT, &words)
    };
    let refused = run("4096", "100");
    let finding = the_one(&refused, "direct_io", &file);
    let figures = &finding["figures"];
    assert_eq!(
        number(figures, "direct_write_failed_requests"),
        1200,
        "each is refused: {finding}"
    );
    assert!(step(finding).contains("align the offset"), "{finding}");
    // 512 bytes are a block of the device, or are refused as well.
    let small = run("512", "512");
    the_one(&small, "direct_io", &file);
    let aligned = run("4096", "0");
    let found = aligned.findings("direct_io");
    assert_eq!(found, [] as [&serde_json::Value; 0], "the fix");
    note(&[
        "fault",
        "python writes unaligned with O_DIRECT",
        "direct_io",
        "direct_io",
        "direct_write_failed_requests",
        "1200 -> 0",
    ]);
}

/// Reads of 64 bytes, each with a system call of its own or from a buffer.
const TINY: &str = "
import sys
with open(sys.argv[1], 'rb', buffering=int(sys.argv[2])) as file:
    for _ in range(60_000):
        file.read(64)
";

pub fn tiny_reads() {
    if !has(&["python3"], "advice::tiny_reads") {
        return;
    }
    let scratch = Scratch::new();
    let file = scratch.file("file", 4 * MIB);
    let run = |buffer: &str| report_of_python(TINY, &[file.as_os_str(), buffer.as_ref()]);
    let finding = tiny(&file, "python without a buffer").check(|| run("0"), || run("65536"));
    let figures = &finding["figures"];
    assert_eq!(number(figures, "read_requests"), 60_000, "{finding}");
    assert_eq!(number(figures, "read_average_bytes"), 64, "{finding}");
}

/// A program that reads a file in tiny pieces, and the same with a buffer.
pub fn tiny<'a>(file: &'a std::path::Path, scenario: &'a str) -> Fault<'a> {
    Fault {
        scenario,
        rules: &["tiny_reads"],
        subject: Subject::File(file),
        figure: ("read_requests", 50_000),
        fix: &["buffer of 64 KiB"],
        amount: Amount::OfFile(file, "read_requests"),
        factor: 100,
        warm: &[],
    }
}

pub fn dd_in_tiny_blocks() {
    let scratch = Scratch::new();
    let file = scratch.file("file", 4 * MIB);
    let run = |size: &str| {
        let script = format!("dd if=\"$1\" of=/dev/null bs={size} status=none");
        report_of_shell(&script, &[&file])
    };
    tiny(&file, "dd in blocks of 64 B").check(|| run("64"), || run("64K"));
}

/// Reads 48 KiB of each MiB in order: the kernel reads ahead more than that.
const JUMPS: &str = "
import os, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
ADVICE
for start in range(0, os.fstat(fd).st_size, 1 << 20):
    for place in range(start, start + 3 * 16384, 16384):
        os.pread(fd, 16384, place)
";

pub fn readahead_unused() {
    if !has(&["python3"], "advice::readahead_unused") {
        return;
    }
    let scratch = Scratch::new();
    let file = scratch.file("file", 96 * MIB);
    let run = |advice: &str| {
        evict(&file);
        report_of_python(&JUMPS.replace("ADVICE", advice), &[file.as_os_str()])
    };
    let fault = Fault {
        scenario: "python reads 48 KiB of each MiB",
        rules: &["readahead_wasted"],
        subject: Subject::File(&file),
        figure: ("unused_pages", 2048),
        fix: &["POSIX_FADV_RANDOM"],
        amount: Amount::Fetched(&file),
        factor: 2,
        warm: &[],
    };
    let random = || {
        let random = run("os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)");
        assert_eq!(
            fetched(&random, &file) * page_size(),
            96 * (48 << 10),
            "the requested pages alone: {}",
            random.file(&file)
        );
        random
    };
    let finding = fault.check(|| run("pass"), random);
    let figures = &finding["figures"];
    assert!(
        number(figures, "unused_pages") * 2 > number(figures, "readahead_pages"),
        "most of it: {finding}"
    );
}

/// A program that evicts the file after each read of it, in the belief that this is thrifty.
pub fn dropped_between_reads() {
    let scratch = Scratch::new();
    let file = scratch.file("file", 24 * MIB);
    let run = |flag: &str| {
        evict(&file);
        let script = format!(
            "for i in 1 2 3; do dd if=\"$1\" of=/dev/null bs=1M {flag} status=none || exit; done"
        );
        report_of_shell(&script, &[&file])
    };
    let fault = Fault {
        scenario: "dd evicts a file after each of three reads",
        rules: &["reread_from_disk"],
        subject: Subject::File(&file),
        figure: ("read_again_pages", pages_of(&file)),
        fix: &["POSIX_FADV_DONTNEED"],
        amount: Amount::Fetched(&file),
        factor: 2,
        warm: &[],
    };
    fault.check(|| run("iflag=nocache"), || run(""));
}

/// Writes at random in a cold file: records of one size, each at a multiple of it.
const RECORDS: &str = "
import os, random, sys
path, size = sys.argv[1], int(sys.argv[2])
fd = os.open(path, os.O_WRONLY)
places = random.Random(1)
for _ in range(8_000):
    os.pwrite(fd, b'x' * size, places.randrange((64 << 20) // size) * size)
";

pub fn parts_of_pages() {
    if !has(&["python3"], "advice::parts_of_pages") {
        return;
    }
    let scratch = Scratch::new();
    let file = scratch.file("file", 64 * MIB);
    let run = |size: &str| {
        evict(&file);
        report_of_python(RECORDS, &[file.as_os_str(), size.as_ref()])
    };
    let fault = Fault {
        scenario: "python writes records of 512 B to a cold file",
        rules: &["partial_writes"],
        subject: Subject::File(&file),
        figure: ("read_before_write_bytes", 20 * MIB),
        fix: &["write whole pages"],
        amount: Amount::Total("device_read_bytes"),
        factor: 20,
        warm: &[],
    };
    let finding = fault.check(|| run("512"), || run("4096"));
    let inserted = number(&finding["figures"], "read_before_write_bytes");
    assert!(
        inserted <= 32 * MIB,
        "a page for each write at most: {finding}"
    );
}
