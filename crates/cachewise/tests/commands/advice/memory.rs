//! Working sets that do not fit into the memory group of their reader.

use super::cold::{repository, texts};
use super::fault::{Amount, Fault, GROUP, Subject};
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

/// A program that reads its files again and again in a group without room for them, and in one with room.
pub fn too_small<'a>(
    group: &'a Group,
    limit: &'a [&'a str],
    scenario: &'a str,
    amount: Amount<'a>,
) -> Fault<'a> {
    Fault {
        scenario,
        rules: GROUP,
        subject: Subject::Group(group),
        figure: ("refault_pages", 1024),
        fix: limit,
        amount,
        factor: 2,
        warm: &[],
    }
}

/// Runs it with more memory.
pub fn with_room(group: &Group, run: impl Fn() -> Report) -> Report {
    group.limit_memory(512 * MIB);
    run()
}

/// The group has no room for the file, so that each pass reads it again: its limit is the cause, not readahead.
pub fn scans_in_a_small_group() {
    let Some((group, limit)) = group_of(24 * MIB, "advice::scans") else {
        return;
    };
    let scratch = Scratch::new();
    let file = scratch.file("file", 48 * MIB);
    let run = || {
        evict(&file);
        let report = report_in(&group, SCANS, &file);
        let wasted = report.findings("readahead_wasted");
        assert!(
            wasted.iter().all(|found| found["id"] != "readahead_wasted"),
            "an effect is no second cause: {wasted:?}"
        );
        report
    };
    let scenario = "python reads 48 MiB three times in a group of 24 MiB";
    too_small(&group, &[&limit], scenario, Amount::Fetched(&file))
        .check(run, || with_room(&group, run));
}

/// Programs that read a file three times in a group without room for it.
fn again_in_a_small_group(program: &str, scenario: &str, script: &str) {
    let test = format!("advice::{program}_in_a_small_group");
    let Some((group, limit)) = group_of(16 * MIB, &test).filter(|_| has(&[program], &test)) else {
        return;
    };
    let scratch = Scratch::new();
    let file = scratch.file("file", 40 * MIB);
    let run = || {
        evict(&file);
        let report = report_of_shell_in(&group, script, &[&file]);
        assert!(report.ended.status.success(), "{}", report.ended.err());
        report
    };
    too_small(&group, &[&limit], scenario, Amount::Fetched(&file))
        .check(run, || with_room(&group, run));
}

pub fn sha256sum_again() {
    again_in_a_small_group(
        "sha256sum",
        "sha256sum of the same 40 MiB three times in a group of 16 MiB",
        "sha256sum \"$1\" \"$1\" \"$1\"",
    );
}

pub fn grep_again() {
    again_in_a_small_group(
        "grep",
        "grep for three words in 40 MiB in a group of 16 MiB",
        "for word in needle haystack straw; do grep -c -a -F \"$word\" \"$1\"; done; true",
    );
}

pub fn gzip_again() {
    again_in_a_small_group(
        "gzip",
        "cat, wc and gzip of the same 40 MiB in a group of 16 MiB",
        "cat \"$1\" >/dev/null; wc -c <\"$1\"; wc -l \"$1\"; gzip -1 <\"$1\" >/dev/null",
    );
}

/// Two trees that are compared twice.
pub fn rsync_checksums_in_a_small_group() {
    let test = "advice::rsync_checksums";
    let Some((group, limit)) = group_of(16 * MIB, test).filter(|_| has(&["rsync"], test)) else {
        return;
    };
    let scratch = Scratch::new();
    for name in ["from", "to"] {
        std::fs::create_dir(scratch.path(name)).expect("a directory");
    }
    let files = ["from/data", "to/data"].map(|name| scratch.file(name, 20 * MIB));
    let script = "for round in 1 2 3; do rsync -rcn \"$1/from/\" \"$1/to/\" || exit; done";
    let run = || {
        files.iter().for_each(|file| evict(file));
        report_of_shell_in(&group, script, &[scratch.directory()])
    };
    let scenario = "rsync compares two trees of 20 MiB three times in a group of 16 MiB";
    let amount = Amount::FetchedBelow(scratch.directory());
    too_small(&group, &[&limit], scenario, amount).check(run, || with_room(&group, run));
}

/// A tree that is searched three times.
pub fn git_grep_in_a_small_group() {
    let test = "advice::git_grep_in_a_small_group";
    let Some((group, limit)) = group_of(16 * MIB, test).filter(|_| has(&["git"], test)) else {
        return;
    };
    let scratch = Scratch::new();
    let tree = repository(&scratch, 32);
    let script = "for word in needle haystack straw; do git -C \"$1\" grep -c $word; done; true";
    let run = || {
        texts(&tree).iter().for_each(|file| evict(file));
        report_of_shell_in(&group, script, &[&tree])
    };
    let scenario = "git grep for three words in 32 MiB in a group of 16 MiB";
    let amount = Amount::FetchedBelow(&tree);
    too_small(&group, &[&limit], scenario, amount).check(run, || with_room(&group, run));
}

/// Reads single pages at random places of a file, the same in each of five rounds.
const RANDOM_READS: &str = "
import os, random, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
pages = os.fstat(fd).st_size // 4096
places = random.Random(7).sample(range(pages), pages // 2)
for _ in range(5):
    for place in places:
        os.pread(fd, 4096, place * 4096)
";

/// The machine has room for the file, the group of its reader has not.
pub fn random_reads_in_a_small_group() {
    let Some((group, limit)) = group_of(12 * MIB, "advice::random_reads") else {
        return;
    };
    let scratch = Scratch::new();
    let file = scratch.file("file", 24 * MIB);
    let run = || {
        evict(&file);
        report_in(&group, RANDOM_READS, &file)
    };
    let fault = Fault {
        scenario: "python reads pages at random, five times, of 24 MiB in a group of 12 MiB",
        rules: &["random_small_reads"],
        subject: Subject::File(&file),
        figure: ("read_missed_pages", 5_000),
        fix: &[&limit, "now 12.0 MiB"],
        amount: Amount::OfFile(&file, "read_missed_pages"),
        factor: 2,
        warm: &[],
    };
    let finding = fault.check(run, || with_room(&group, run));
    let advice = step(&finding);
    assert!(
        !advice.contains("fits into memory") && !advice.contains("cat "),
        "the group has no room for the file: {advice}"
    );
    assert!(
        number(&finding["figures"], "room_bytes") < 12 * MIB,
        "the room is that of the group: {finding}"
    );
}
