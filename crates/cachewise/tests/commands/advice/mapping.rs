//! Mapped files: readahead of page faults, and page faults one by one.

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
    sum(view[places.randrange(size)] for _ in range(600))
";

/// Faults read ahead far more than is touched, in a group that is too small for it.
pub fn random_touches_of_a_mapping() {
    let Some((group, _)) = group_of(48 * MIB, "advice::random_touches") else {
        return;
    };
    let scratch = Scratch::new();
    let file = scratch.file("file", 192 * MIB);
    let run = |advice: &str| {
        evict(&file);
        report_in(&group, &RANDOM_TOUCHES.replace("ADVICE", advice), &file)
    };
    let ahead = run("pass");
    let found = ahead.findings("fault_readahead");
    assert_eq!(found.len(), 1, "it is found: {}", ahead.json["findings"]);
    assert!(
        step(found[0]).contains("MADV_RANDOM"),
        "the advice is named: {}",
        found[0]
    );
    for finding in ahead.json["findings"].as_array().expect("a list") {
        let advice = step(finding);
        assert!(
            !advice.contains("raise") && !advice.contains("add memory"),
            "untouched pages need no memory: {finding}"
        );
    }
    let tried = tried(&scratch, found[0], None);
    let (without, with) = means(&tried, "madvise=random", "fault_readahead_pages");
    assert!(
        with * 10.0 < without,
        "the line that verifies it: {with} pages instead of {without}"
    );
    let random = run("view.madvise(mmap.MADV_RANDOM)");
    let inserted = |report: &Report| {
        let row = report.file(&file);
        number(row, "fault_miss_pages") + number(row, "fault_readahead_pages")
    };
    assert!(
        inserted(&random) * 10 < inserted(&ahead),
        "the fix: {} pages instead of {}",
        inserted(&random),
        inserted(&ahead)
    );
    assert_eq!(random.findings("fault_readahead").len(), 0, "it is gone");
}

/// Reads a mapping in order: all readahead is touched.
pub fn mapping_read_in_order() {
    if !has_python() {
        println!("skipped: advice::mapping_read_in_order: needs python3");
        return;
    }
    let scratch = Scratch::new();
    let file = scratch.file("file", 192 * MIB);
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
    let verdict = report.json["verdict"].as_str().unwrap_or_default();
    assert!(
        verdict.starts_with("cold, by faults: 19"),
        "192 MiB came by faults: {verdict:?}, {}",
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
    sum(view[place] for place in places[:7000])
";

/// Each fault waits for one page; populated, none does.
pub fn faults_one_by_one() {
    if !has(&["python3"], "advice::faults_one_by_one") {
        return;
    }
    let scratch = Scratch::new();
    let file = scratch.file("file", 48 * MIB);
    let run = |advice: &str| {
        evict(&file);
        report_of_python(&FAULTS.replace("ADVICE", advice), &[file.as_os_str()])
    };
    let storm = run("mmap.MADV_RANDOM");
    let finding = the_one(&storm, "fault_storm", &file);
    let misses = number(&finding["figures"], "fault_miss_pages");
    assert!(misses >= 6_000, "a page for each fault: {finding}");
    assert!(step(finding).contains("MADV_POPULATE_READ"), "{finding}");
    // MADV_POPULATE_READ is 22 on every architecture; Python's mmap does not name it.
    let populated = run("22");
    assert_eq!(populated.findings("fault_storm").len(), 0, "the fix");
    let left = number(populated.file(&file), "fault_miss_pages");
    assert!(left * 4 < misses, "{left} misses instead of {misses}");
}
