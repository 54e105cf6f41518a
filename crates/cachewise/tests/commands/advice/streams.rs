//! Evictions: a stream that evicts files in use, and reclaim ahead of need.

use super::fault::{Amount, Fault, Subject};
use super::kit::*;
use crate::advice_tried::tried;
use crate::support::*;

/// An index that is read twice, and a backup of another file that streams past it between the reads.
const BACKUP: &str = "
echo $$ >$2/cgroup.procs
cat $1 >/dev/null
sh -c 'echo $$ >$0/cgroup.procs; tar -cf - -C / $1 | cat >/dev/null' $3 ${4#/}
cat $1 >/dev/null";

/// The backup evicts the index in the same group, and does not in a group of its own.
pub fn stream_beside_an_index() {
    let test = "advice::stream_beside_an_index";
    let made = group_of(48 * MIB, test).zip(group_of(24 * MIB, test));
    let Some(((group, _), (own, _))) = made.filter(|_| has(&["tar"], test)) else {
        return;
    };
    let scratch = Scratch::new();
    let index = scratch.file("index", 20 * MIB);
    let stream = scratch.file("stream", 120 * MIB);
    let run = |group_of_tar: &Group| {
        evict(&index);
        evict(&stream);
        report_of_shell(
            BACKUP,
            &[&index, group.path(), group_of_tar.path(), &stream],
        )
    };
    let evicted_by_tar = |report: &Report, is_cause: fn(&str) -> bool| -> u64 {
        let evictions = report.json["evictions"].as_array().expect("a list");
        let of_index = evictions.iter().filter(|eviction| {
            eviction["path"].as_str() == index.to_str()
                && eviction["culprit"]["command"] == "tar"
                && is_cause(eviction["cause"].as_str().expect("a cause"))
        });
        of_index
            .map(|eviction| number(eviction, "evicted_pages"))
            .sum()
    };
    let beside = || {
        let beside = run(&group);
        let all = beside.json["findings"].as_array().expect("a list");
        let warnings = all.iter().filter(|one| one["severity"] == "warn");
        let warnings: Vec<&str> = warnings.filter_map(|one| one["id"].as_str()).collect();
        assert_eq!(
            warnings,
            ["evicted_by_other"],
            "the limit is no cause of its own: {all:?}"
        );
        let cause = &all[0];
        assert!(
            number(cause, "cost_bytes") < 2 * 20 * MIB + MIB,
            "it cost what was read of the index: {cause}"
        );
        assert!(
            number(&cause["figures"], "evicted_pages") == evicted_by_tar(&beside, |_| true),
            "as many as the table says: {cause}, {}",
            beside.json["evictions"]
        );
        beside
    };
    let apart = || {
        let apart = run(&own);
        // A machine that is short of memory has any process evict any page.
        assert_eq!(
            evicted_by_tar(&apart, |cause| cause != "direct_reclaim"),
            0,
            "it evicts its own pages: {}",
            apart.json["evictions"]
        );
        apart
    };
    let fault = Fault {
        scenario: "tar streams past an index of 20 MiB, both in a group of 48 MiB",
        rules: &["evicted_by_other"],
        subject: Subject::Process("tar"),
        figure: ("evicted_pages", pages_of(&index) / 2),
        fix: &[
            "cachewise shield -p ",
            "cachewise shield -- COMMAND",
            "control group of its own",
        ],
        amount: Amount::OfFile(&index, "refault_pages"),
        factor: 10,
        warm: &[],
    };
    let finding = fault.check(beside, apart);
    let cause = finding["cause"].as_str().unwrap_or_default();
    assert!(
        cause.contains("reads data once") && cause.contains("index"),
        "the stream and its victim: {cause}"
    );
}

/// The same programs, with `$4` before the backup, whose output is read at no more than 500 MiB/s.
const SLOW_BACKUP: &str = "
echo $$ >$2/cgroup.procs
cat $1 >/dev/null
$4 tar -cf - -C / ${3#/} | python3 -c '
import sys, time
while sys.stdin.buffer.read(1 << 20): time.sleep(0.002)'
cat $1 >/dev/null";

/// The fix that the finding proposes: the backup again, under `shield`; and the line of `try`.
pub fn stream_under_the_shield() {
    let test = "advice::stream_under_the_shield";
    let made = group_of(192 * MIB, test);
    let Some((group, _)) = made.filter(|_| has(&["tar"], test)) else {
        return;
    };
    let scratch = Scratch::new();
    let index = scratch.file("index", 80 * MIB);
    let stream = scratch.file("stream", 320 * MIB);
    let run = |before: &str| {
        evict(&index);
        evict(&stream);
        let arguments = [index.as_path(), group.path(), &stream, before.as_ref()];
        report_of_shell(SLOW_BACKUP, &arguments)
    };
    let fault = Fault {
        scenario: "tar streams past an index of 80 MiB in a group of 192 MiB, and does so under the shield",
        rules: &["evicted_by_other"],
        subject: Subject::Process("tar"),
        figure: ("evicted_pages", pages_of(&index) / 4),
        fix: &["cachewise shield -p ", "cachewise shield -- COMMAND"],
        amount: Amount::OfFile(&index, "refault_pages"),
        factor: 20,
        warm: &[],
    };
    let shield = format!("{} shield --", env!("CARGO_BIN_EXE_cachewise"));
    let finding = fault.check(|| run(""), || run(&shield));
    let answer = tried(&scratch, &finding, None);
    let (without, with) = means(&answer, "shield=tar", "refault_pages");
    assert!(
        with * 10.0 <= without,
        "the line of the finding proves it: {answer}"
    );
    assert!(
        answer["notes"].to_string().contains("shield=tar: dropped "),
        "the shield dropped the stream: {answer}"
    );
}

/// Reads a file three times; its pages are reclaimed between the reads, if the second argument names a control file.
const RECLAIMED: &str = "
for round in 1 2 3; do
    cat \"$1\" >/dev/null
    # Fails where not all can be reclaimed.
    if [ -n \"$2\" ]; then echo $3 >\"$2\" || true; fi
done 2>/dev/null";

/// A manager that reclaims memory ahead of need, although none is short.
pub fn proactive_reclaim() {
    let test = "advice::proactive_reclaim";
    let Some((group, limit)) = group_of(512 * MIB, test) else {
        return;
    };
    let is_v1 = limit.ends_with("memory.limit_in_bytes");
    let no_limit = if is_v1 { "-1" } else { "max" };
    std::fs::write(&limit, no_limit).expect("the limit can be removed");
    let (control, amount) = match is_v1 {
        true => ("memory.force_empty", "0"),
        false => ("memory.reclaim", "256M"),
    };
    let control = group.path().join(control);
    let scratch = Scratch::new();
    let file = scratch.file("file", 24 * MIB);
    let run = |control: &std::path::Path| {
        evict(&file);
        report_of_shell_in(&group, RECLAIMED, &[&file, control, amount.as_ref()])
    };
    let fault = Fault {
        scenario: "cat of 24 MiB three times, memory reclaimed between the reads",
        rules: &["working_set"],
        subject: Subject::Whole,
        figure: ("refault_pages", pages_of(&file)),
        fix: &["memory is not short", "memory.reclaim"],
        amount: Amount::Fetched(&file),
        factor: 2,
        warm: &[],
    };
    fault.check(|| run(&control), || run("".as_ref()));
}
