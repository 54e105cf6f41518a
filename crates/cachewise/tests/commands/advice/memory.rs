//! Working sets that do not fit into the memory group of their reader.

use std::process::Command;

use serde_json::Value;

use super::kit::*;
use crate::support::*;

/// Reads a file in order, three times.
const SCANS: &str = "
import sys
for _ in range(3):
    with open(sys.argv[1], 'rb', buffering=0) as file:
        while file.read(65536):
            pass
";

/// The group has no room for the file, so that each pass reads it again: its limit is the cause, not readahead.
pub fn scans_in_a_small_group() {
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
pub fn random_reads_in_a_small_group() {
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

/// A table of 56 MB with an index in random order.
const DATABASE: &str = "
import random, sqlite3, sys
db = sqlite3.connect(sys.argv[1])
db.executescript('pragma journal_mode=off; pragma synchronous=off')
db.execute('create table t(id integer primary key, k integer, body blob)')
numbers = random.Random(7)
rows = ((i, numbers.randrange(1 << 30), numbers.randbytes(400)) for i in range(120_000))
db.executemany('insert into t values(?, ?, ?)', rows)
db.execute('create index tk on t(k)')
db.commit()
";

/// Rows in the order of the index: random places of the table.
const INDEX_SCAN: &str = "select sum(length(body)) from \
    (select body from t indexed by tk where k > 0 order by k limit 40000)";

/// A database that has no room in the group of its reader.
pub fn sqlite_index_scan() {
    if !has(&["sqlite3"], "advice::sqlite_index_scan") {
        return;
    }
    let Some((group, limit_path)) = group_of(16 * MIB, "advice::sqlite_index_scan") else {
        return;
    };
    let scratch = Scratch::new();
    let file = scratch.path("app.db");
    let mut make = Command::new("python3");
    Ended::of(make.args(["-c", DATABASE]).arg(&file)).expect(0, "a database");
    let scan = || {
        evict(&file);
        let report = report_within(
            &group,
            &["sqlite3".as_ref(), file.as_os_str(), INDEX_SCAN.as_ref()],
        );
        assert_eq!(report.ended.out().trim(), "16000000", "its answer");
        report
    };
    let small = scan();
    let rules = [
        "random_small_reads",
        "group_limit",
        "working_set",
        "thrashing",
    ];
    let found = small.json["findings"].as_array().expect("a list");
    let causes: Vec<&Value> = found
        .iter()
        .filter(|finding| rules.iter().any(|rule| finding["id"] == *rule))
        .collect();
    assert_eq!(causes.len(), 1, "one cause: {found:?}");
    assert!(
        step(causes[0]).contains(&limit_path) && step(causes[0]).contains("now 16.0 MiB"),
        "the limit to raise: {}",
        causes[0]
    );
    assert!(
        small.findings("group_limit").len() + small.findings("working_set").len() > 0,
        "the limit is evidence: {found:?}"
    );
    group.limit_memory(256 * MIB);
    undisturbed(|| {
        let large = scan();
        let at_limit = large.findings("group_limit").len() + large.findings("working_set").len();
        (at_limit == 0 && fetched(&large, &file) * 2 < fetched(&small, &file)).then_some(())
    });
}

/// An index that is read, a backup that streams past it, and the index again.
pub fn stream_beside_an_index() {
    let test = "advice::stream_beside_an_index";
    let made = group_of(64 * MIB, test).zip(group_of(32 * MIB, test));
    let Some(((group, _), (own, _))) = made else {
        return;
    };
    if !has(&["tar"], test) {
        return;
    }
    let scratch = Scratch::new();
    let index = scratch.file("index", 24 * MIB);
    let stream = scratch.file("stream", 160 * MIB);
    let run = |group_of_tar: &Group| {
        evict(&index);
        evict(&stream);
        let script = "echo $$ >\"$3\"/cgroup.procs; cat \"$1\" >/dev/null; \
            sh -c 'echo $$ >\"$1\"/cgroup.procs; tar -cf - -C / \"$2\" | cat >/dev/null' sh \"$4\" \"${2#/}\"; \
            cat \"$1\" >/dev/null";
        report_of_shell(
            script,
            &[&index, &stream, group.path(), group_of_tar.path()],
        )
    };
    let evicted_by_tar = |report: &Report| -> u64 {
        let evictions = report.json["evictions"].as_array().expect("a list");
        evictions
            .iter()
            .filter(|eviction| {
                eviction["path"].as_str() == index.to_str()
                    && eviction["culprit"]["command"] == "tar"
            })
            .map(|eviction| number(eviction, "evicted_pages"))
            .sum()
    };
    let beside = run(&group);
    let evicted = evicted_by_tar(&beside);
    assert!(
        evicted * 2 > pages_of(&index),
        "tar evicts the index: {evicted}, {}",
        beside.json["evictions"]
    );
    let found = beside.findings("evicted_by_other");
    assert_eq!(found.len(), 1, "its cause: {}", beside.json["findings"]);
    let cause = found[0]["cause"].as_str().unwrap_or_default();
    assert!(
        cause.starts_with("tar (") && cause.contains("reads data once") && cause.contains("index"),
        "the stream and its victim: {cause}"
    );
    assert_eq!(
        number(&found[0]["evidence"], "evicted_pages"),
        evicted,
        "as many as the table says"
    );
    let all = beside.json["findings"].as_array().expect("a list");
    let warnings: Vec<&Value> = all.iter().filter(|one| one["severity"] == "warn").collect();
    assert_eq!(warnings, found, "the limit is no cause of its own");
    assert!(
        number(found[0], "cost_bytes") < 2 * 24 * MIB + MIB,
        "it cost what was read of the index: {}",
        found[0]
    );
    let fetched_beside = fetched(&beside, &index);
    assert!(
        fetched_beside * 2 > pages_of(&index) * 3,
        "which is read from the device again: {fetched_beside}"
    );
    // The fix: a memory group of its own for the stream.
    undisturbed(|| {
        let apart = run(&own);
        assert_eq!(evicted_by_tar(&apart), 0, "it evicts its own pages");
        assert!(
            apart.findings("evicted_by_other").is_empty(),
            "no cause is left"
        );
        (fetched(&apart, &index) == pages_of(&index)).then_some(())
    });
}
