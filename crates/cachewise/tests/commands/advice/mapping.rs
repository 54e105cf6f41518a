//! Mapped files: readahead of page faults, and page faults one by one.

use std::path::Path;

use serde_json::Value;

use super::fault::{Amount, Fault, Subject};
use super::kit::*;
use crate::advice_tried::tried;
use crate::support::*;

/// Touches single bytes at random places of a mapping.
const RANDOM_TOUCHES: &str = "
import mmap, os, random, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
size = os.fstat(fd).st_size
with mmap.mmap(fd, size, prot=mmap.PROT_READ) as view:
    ADVICE
    places = random.Random(7)
    sum(view[places.randrange(size)] for _ in range(250))
";

/// A program whose faults read far more than they touch, and the same with advice.
pub fn faults_read_ahead<'a>(file: &'a Path, scenario: &'a str) -> Fault<'a> {
    Fault {
        scenario,
        rules: &["fault_readahead"],
        subject: Subject::File(file),
        figure: ("unused_pages", 2048),
        fix: &["MADV_RANDOM"],
        amount: Amount::Fetched(file),
        factor: 4,
        warm: &[],
    }
}

/// A file system whose device reads 512 KiB ahead, as many arrays and disks do, whatever that of the scratch directory does.
pub fn disk(scratch: &Scratch, bytes: u64) -> Option<Mounted> {
    let mounted = Mounted::ext4(scratch, bytes, &["-O", "^has_journal"])?;
    mounted.read_ahead(512 << 10);
    Some(mounted)
}

/// Faults read ahead far more than is touched, in a group that is too small for it. `check` gets the finding.
fn touched_at_random(test: &str, ahead: u64, check: impl FnOnce(&Scratch, &Value)) {
    let Some((group, _)) = group_of(24 * MIB, test) else {
        return;
    };
    let scratch = Scratch::new();
    let Some(mounted) = disk(&scratch, 96 * MIB) else {
        return;
    };
    mounted.read_ahead(ahead);
    let file = scratch.file(mounted.path("file"), 64 * MIB);
    let run = |advice: &str| {
        evict(&file);
        let report = report_in(&group, &RANDOM_TOUCHES.replace("ADVICE", advice), &file);
        for finding in report.json["findings"].as_array().expect("a list") {
            let advice = step(finding);
            assert!(
                !advice.contains("raise") && !advice.contains("add memory"),
                "untouched pages need no memory: {finding}"
            );
        }
        report
    };
    let fault = Fault {
        factor: 10,
        ..faults_read_ahead(&file, "python touches a mapping at random, group of 24 MiB")
    };
    let finding = fault.check(|| run("pass"), || run("view.madvise(mmap.MADV_RANDOM)"));
    check(&scratch, &finding);
}

pub fn random_touches() {
    touched_at_random("advice::random_touches", 512 << 10, |_, _| {});
}

/// With the line that verifies it.
pub fn random_touches_tried() {
    touched_at_random(
        "advice::random_touches_tried",
        2 * MIB,
        |scratch, finding| {
            let tried = tried(scratch, finding, None);
            let (without, with) = means(&tried, "madvise=random", "fault_readahead_pages");
            assert!(with * 10.0 < without, "{with} pages instead of {without}");
        },
    );
}

/// Reads a mapping in order: all readahead is touched.
pub fn mapping_read_in_order() {
    if !has(&["python3"], "advice::mapping_read_in_order") {
        return;
    }
    let scratch = Scratch::new();
    let file = scratch.file("file", 48 * MIB);
    evict(&file);
    let script = "import mmap, os, sys\n\
        fd = os.open(sys.argv[1], os.O_RDONLY)\n\
        size = os.fstat(fd).st_size\n\
        with mmap.mmap(fd, size, prot=mmap.PROT_READ) as view:\n\
        \x20   sum(view[place] for place in range(0, size, mmap.PAGESIZE))\n";
    let words = ["python3", "-c", script].map(AsRef::as_ref);
    let report = report_of(&[], words.into_iter().chain([file.as_os_str()]));
    assert_eq!(
        report.findings("fault_readahead").len(),
        0,
        "each page is touched: {}",
        report.file(&file)
    );
    let verdict = verdict(&report);
    assert!(
        verdict.starts_with("cold, by faults: 4"),
        "48 MiB came by faults: {verdict:?}, {}",
        report.json["findings"]
    );
}

/// Touches pages of a mapping at random places, without readahead of faults unless it is populated.
const FAULTS: &str = "
import mmap, os, random, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
size = os.fstat(fd).st_size
with mmap.mmap(fd, size, prot=mmap.PROT_READ) as view:
    view.madvise(ADVICE)
    places = list(range(0, size, mmap.PAGESIZE))
    random.Random(7).shuffle(places)
    sum(view[place] for place in places[:6000])
";

/// A program that waits for each page of a mapping, and the same with it populated.
pub fn storm<'a>(file: &'a Path, scenario: &'a str) -> Fault<'a> {
    Fault {
        scenario,
        rules: &["fault_storm"],
        subject: Subject::File(file),
        figure: ("fault_miss_pages", 5_000),
        fix: &["MADV_POPULATE_READ", "MADV_SEQUENTIAL", "read()"],
        amount: Amount::OfFile(file, "fault_miss_pages"),
        factor: 4,
        warm: &[],
    }
}

/// Each fault waits for one page; populated, none does.
pub fn faults_one_by_one() {
    if !has(&["python3"], "advice::faults_one_by_one") {
        return;
    }
    let scratch = Scratch::new();
    let file = scratch.file("file", 32 * MIB);
    let run = |advice: &str| {
        evict(&file);
        report_of_python(&FAULTS.replace("ADVICE", advice), &[file.as_os_str()])
    };
    // MADV_POPULATE_READ is 22 on every architecture; Python's mmap does not name it.
    storm(&file, "python faults a mapping page by page")
        .check(|| run("mmap.MADV_RANDOM"), || run("22"));
}
