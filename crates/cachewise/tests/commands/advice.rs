//! Advice: each test runs a real program in a real memory group, checks the cause that is named, applies the fix, and
//! checks that the named figure improves.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::advice_tried::tried;
use crate::support::*;

/// The tests.
pub fn trials() -> Vec<Trial> {
    vec![
        needs_root(
            "random_reads::limit_of_the_readers_group",
            random_reads_in_a_small_group,
        ),
        needs_root("scans::limit_of_the_readers_group", scans_in_a_small_group),
        needs_root("mapping::random_touches", random_touches_of_a_mapping),
        needs_root("mapping::read_in_order", mapping_read_in_order),
        needs_root("verdict::small_and_warm", verdict_of_small_and_warm_reads),
    ]
}

const MIB: u64 = 1 << 20;

/// A group that a test limits, and the file that sets its limit; `None` with a note where there is none.
fn group_of(limit: u64, test: &str) -> Option<(Group, String)> {
    let made = Group::new().and_then(|group| {
        let file = group.limit_memory(limit)?;
        Some((group, file.to_str()?.to_owned()))
    });
    if made.is_none() || !has_python() {
        println!("skipped: {test}: needs control groups with a memory limit, and python3");
        return None;
    }
    made
}

fn has_python() -> bool {
    let found = Command::new("python3").arg("--version").output();
    found.is_ok_and(|output| output.status.success())
}

/// The report of a Python program in this group; the file is its first argument.
fn report_in(group: &Group, script: &str, file: &Path) -> Report {
    let enter = "echo $$ >\"$1\"/cgroup.procs && exec python3 -c \"$2\" \"$3\"";
    let (group, file) = (group.path().as_os_str(), file.as_os_str());
    let words = ["sh", "-c", enter, "sh"].map(AsRef::as_ref);
    report_of(&[], words.into_iter().chain([group, script.as_ref(), file]))
}

fn step(finding: &Value) -> &str {
    finding["next_step"].as_str().unwrap_or_default()
}

/// Reads a file in order, three times.
const SCANS: &str = "
import sys
for _ in range(3):
    with open(sys.argv[1], 'rb', buffering=0) as file:
        while file.read(65536):
            pass
";

/// The group has no room for the file, so that each pass reads it again: its limit is the cause, not readahead.
fn scans_in_a_small_group() {
    let Some((group, limit_path)) = group_of(24 * MIB, "advice::scans") else {
        return;
    };
    let scratch = Scratch::new();
    let file = scratch.file("file", 96 * MIB);
    evict(&file);
    let small = report_in(&group, SCANS, &file);
    let found = small.json["findings"].as_array().expect("a list");
    let of_group: Vec<&Value> = found
        .iter()
        .filter(|finding| finding["subject_kind"] == "group")
        .collect();
    assert_eq!(of_group.len(), 1, "the group: {found:?}");
    assert!(
        step(of_group[0]).contains(&limit_path),
        "the file that sets its limit: {}",
        of_group[0]
    );
    assert!(
        found
            .iter()
            .all(|finding| finding["id"] != "readahead_wasted"),
        "an effect is no second cause: {found:?}"
    );
    // The fix.
    group.limit_memory(256 * MIB);
    undisturbed(|| {
        evict(&file);
        let large = report_in(&group, SCANS, &file);
        let fetched = |report: &Report| {
            let file = report.file(&file);
            number(file, "read_missed_pages") + number(file, "readahead_pages")
        };
        (fetched(&large) * 2 < fetched(&small)).then_some(())
    });
}

/// Reads single pages at random places of a file, the same in each of two rounds.
const RANDOM_READS: &str = "
import os, random, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
pages = os.fstat(fd).st_size // 4096
places = random.Random(7).sample(range(pages), pages // 2)
for _ in range(2):
    for place in places:
        os.pread(fd, 4096, place * 4096)
";

/// The machine has room for the file, the group of its reader has not.
fn random_reads_in_a_small_group() {
    let Some((group, limit_path)) = group_of(32 * MIB, "advice::random_reads") else {
        return;
    };
    let scratch = Scratch::new();
    let file = scratch.file("file", 96 * MIB);
    evict(&file);
    let small = report_in(&group, RANDOM_READS, &file);
    let found = small.findings("random_small_reads");
    assert_eq!(found.len(), 1, "they miss: {}", small.json["findings"]);
    let advice = step(found[0]);
    assert!(
        !advice.contains("fits into memory") && !advice.contains("cat "),
        "the group has no room for the file: {advice}"
    );
    assert!(
        advice.contains(&limit_path) && advice.contains("now 32.0 MiB"),
        "the file that sets the limit of the reader's group: {advice}"
    );
    assert!(
        number(&found[0]["figures"], "room_bytes") < 32 * MIB,
        "the room is that of the group: {}",
        found[0]
    );
    // The fix.
    group.limit_memory(256 * MIB);
    undisturbed(|| {
        evict(&file);
        let large = report_in(&group, RANDOM_READS, &file);
        let missed = |report: &Report| number(report.file(&file), "read_missed_pages");
        (missed(&large) * 4 < missed(&small) * 3).then_some(())
    });
}

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
fn random_touches_of_a_mapping() {
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
fn mapping_read_in_order() {
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

/// Below the thresholds of the findings the report has an answer, too.
fn verdict_of_small_and_warm_reads() {
    let scratch = Scratch::new();
    let file = scratch.file("file", 8 * MIB);
    let name = file.to_str().expect("an ordinary name");
    let verdict = || {
        let report = report_of(&[], ["cat", name]);
        assert_eq!(report.json["findings"], serde_json::json!([]), "no finding");
        report.json["verdict"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    evict(&file);
    let cold = verdict();
    assert!(
        cold.starts_with("cold, but 8."),
        "8 MiB were fetched: {cold}"
    );
    undisturbed(|| {
        let warm = verdict();
        warm.starts_with("the page cache is not your problem: 0 of ")
            .then_some(())
    });
}
