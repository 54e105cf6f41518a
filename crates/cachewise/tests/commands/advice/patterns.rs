//! Requests that cost more than their data.

use super::kit::*;
use crate::support::*;

/// The same file by direct I/O three times, and then through the page cache.
pub fn direct_reads_again() {
    let scratch = Scratch::new();
    let file = scratch.file("file", 16 * MIB);
    let run = |flag: &str| {
        let script = format!(
            "for i in 1 2 3; do dd if=\"$1\" of=/dev/null bs=1M {flag} status=none || exit; done"
        );
        report_of_shell(&script, &[&file])
    };
    evict(&file);
    let direct = run("iflag=direct");
    let finding = the_one(&direct, "direct_io", &file);
    let figures = &finding["figures"];
    assert_eq!(number(figures, "direct_read_bytes"), 48 * MIB, "{finding}");
    assert_eq!(number(figures, "read_again_bytes"), 32 * MIB, "{finding}");
    assert!(step(finding).contains("without O_DIRECT"), "{finding}");
    undisturbed(|| {
        evict(&file);
        let cached = run("");
        assert_eq!(cached.findings("direct_io").len(), 0, "the fix");
        // Once, if nothing reclaims the pages between the reads.
        (fetched(&cached, &file) * page_size() == 16 * MIB).then_some(())
    });
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
    let tiny = run("0");
    let finding = the_one(&tiny, "tiny_reads", &file);
    let figures = &finding["figures"];
    assert_eq!(number(figures, "read_requests"), 60_000, "{finding}");
    assert_eq!(number(figures, "read_average_bytes"), 64, "{finding}");
    assert!(step(finding).contains("buffer of 64 KiB"), "{finding}");
    let buffered = run("65536");
    assert_eq!(buffered.findings("tiny_reads").len(), 0, "the fix");
    let requests = number(buffered.file(&file), "read_requests");
    assert!(requests < 100, "{requests} requests for the same bytes");
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
    let ahead = run("pass");
    let finding = the_one(&ahead, "readahead_wasted", &file);
    let unused = number(&finding["figures"], "unused_pages");
    assert!(
        unused * 2 > number(&finding["figures"], "readahead_pages"),
        "most of it: {finding}"
    );
    assert!(step(finding).contains("POSIX_FADV_RANDOM"), "{finding}");
    let random = run("os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)");
    assert_eq!(random.findings("readahead_wasted").len(), 0, "the fix");
    assert_eq!(
        fetched(&random, &file) * page_size(),
        96 * (48 << 10),
        "the requested pages alone: {}",
        random.file(&file)
    );
}
