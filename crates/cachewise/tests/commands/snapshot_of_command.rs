//! Snapshots of what a command touches: those pages and no others, in the order of the first touch, and what they are
//! good for.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::support::*;

/// The tests.
pub fn trials() -> Vec<Trial> {
    vec![
        needs_root(
            "touched_pages_alone_are_saved",
            touched_pages_alone_are_saved,
        ),
        needs_root(
            "resident_pages_that_are_mapped_are_touched",
            resident_pages_that_are_mapped_are_touched,
        ),
        needs_root(
            "a_restored_command_misses_nothing",
            a_restored_command_misses_nothing,
        ),
        needs_root("run_tells_what_was_used", run_tells_what_was_used),
        needs_root("prune_drops_the_rest", prune_drops_the_rest),
        needs_root(
            "failed_commands_leave_the_old_snapshot",
            failed_commands_leave_the_old_snapshot,
        ),
        plain("wrong_use_is_refused", wrong_use_is_refused),
    ]
}

/// The entries of a snapshot, by a reader of JSON.
fn entries(snapshot: &Path) -> Vec<Value> {
    let text = fs::read_to_string(snapshot).expect("it was written");
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("a line of JSON"))
        .collect();
    assert_eq!(
        lines.last().map(|end| &end["end"]),
        Some(&Value::Bool(true))
    );
    lines[1..lines.len() - 1].to_vec()
}

fn position(entries: &[Value], path: &Path) -> usize {
    let path = path.to_str().expect("a name of ours");
    let found = entries.iter().position(|entry| entry["path"] == path);
    found.unwrap_or_else(|| panic!("{path} is in {entries:?}"))
}

fn save(snapshot: &Path, command: &[&str]) -> Ended {
    let mut save = cachewise(["snapshot", "save"]);
    save.arg(snapshot).args(["--of", "--"]).args(command);
    Ended::of(&mut save)
}

/// A command that reads `count` pages of a file from page `first` on.
fn reading(file: &Path, first: u64, count: u64) -> String {
    let page = page_size();
    format!(
        "dd if='{}' of=/dev/null bs={page} skip={first} count={count} status=none",
        file.display()
    )
}

fn touched_pages_alone_are_saved() {
    let scratch = Scratch::new();
    let (first, second) = (scratch.file("a", 1 << 20), scratch.file("b", 1 << 20));
    let snapshot = scratch.path("start.snap");
    let script = [
        reading(&second, 100, 3),
        reading(&first, 7, 1),
        reading(&second, 10, 2),
    ]
    .join("; ");
    evict(&first);
    evict(&second);
    save(&snapshot, &["sh", "-c", &script]).expect(0, "the command succeeds");
    let entries = entries(&snapshot);
    let [first, second] = [&first, &second].map(|path| position(&entries, path));
    // Pages that were read ahead are not touched.
    assert_eq!(
        entries[second]["ranges"],
        serde_json::json!([[10, 12], [100, 103]])
    );
    assert_eq!(entries[first]["ranges"], serde_json::json!([[7, 8]]));
    assert!(second < first, "in the order of the first touch");
    let dd = entries.iter().any(|entry| {
        entry["path"]
            .as_str()
            .is_some_and(|path| path.ends_with("/dd"))
    });
    assert!(dd, "the program is part of it: {entries:?}");
}

fn resident_pages_that_are_mapped_are_touched() {
    if !Path::new("/sys/kernel/tracing/events/filemap/mm_filemap_map_pages").exists() {
        println!("skipped: mapped pages: this kernel does not say which it maps around a fault");
        return;
    }
    let scratch = Scratch::new();
    let file = scratch.file("mapped", 64 * page_size());
    let snapshot = scratch.path("start.snap");
    warm(&file);
    let script = format!(
        "import mmap; f = open('{}', 'rb'); m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ); m[40 * mmap.PAGESIZE]",
        file.display()
    );
    save(&snapshot, &["python3", "-c", &script]).expect(0, "the command succeeds");
    let entries = entries(&snapshot);
    let ranges = &entries[position(&entries, &file)]["ranges"];
    let range = |at: usize| ranges[0][at].as_u64().expect("a page");
    assert!(
        range(0) <= 40 && 40 < range(1) && range(1) - range(0) <= 32,
        "the page that was touched, and those that were mapped with it: {ranges}"
    );
}

fn a_restored_command_misses_nothing() {
    let scratch = Scratch::new();
    let file = scratch.file("file", 4 << 20);
    let snapshot = scratch.path("start.snap");
    let script = (0..20)
        .map(|turn| reading(&file, turn * 37 % 1000, 2))
        .collect::<Vec<_>>()
        .join("; ");
    save(&snapshot, &["sh", "-c", &script]).expect(0, "the command succeeds");
    let missed = |prepare: &dyn Fn()| {
        undisturbed(|| {
            prepare();
            let report = report_of(&[], ["sh", "-c", &script]);
            Some(number(report.file(&file), "read_missed_pages"))
        })
    };
    let without = missed(&|| evict(&file));
    assert!(without > 5, "cold, it misses: {without}");
    let with = missed(&|| {
        evict(&file);
        let mut restore = cachewise(["snapshot", "restore"]);
        Ended::of(restore.arg(&snapshot)).expect(0, "all of it can be read");
    });
    assert_eq!(with, 0, "all that it needs is there");
}

fn run_tells_what_was_used() {
    let scratch = Scratch::new();
    let (file, other) = (
        scratch.file("file", 1 << 20),
        scratch.file("other", 1 << 20),
    );
    let snapshot = scratch.path("start.snap");
    let both = [reading(&file, 0, 8), reading(&other, 0, 8)].join("; ");
    save(&snapshot, &["sh", "-c", &both]).expect(0, "the command succeeds");
    let all: u64 = entries(&snapshot)
        .iter()
        .flat_map(|entry| entry["ranges"].as_array().expect("ranges").clone())
        .map(|range| range[1].as_u64().expect("a page") - range[0].as_u64().expect("a page"))
        .sum();
    let run = |script: &str| {
        let mut run = cachewise(["run", "--with-snapshot"]);
        run.arg(&snapshot).args(["--", "sh", "-c", script]);
        let mut ended = Ended::of(&mut run).expect(0, "the command succeeds");
        ended.err.retain(|byte| *byte != b',');
        ended
    };
    run(&both).says(&format!("used {all} of its {all} pages"), "all of them");
    run(&reading(&file, 0, 8)).says(
        &format!("used {} of its {all} pages", all - 8),
        "all but those of the other file",
    );
}

fn prune_drops_the_rest() {
    let scratch = Scratch::new();
    let (file, other) = (
        scratch.file("file", 1 << 20),
        scratch.file("other", 1 << 20),
    );
    let snapshot = scratch.path("start.snap");
    let both = [reading(&file, 0, 8), reading(&other, 0, 8)].join("; ");
    save(&snapshot, &["sh", "-c", &both]).expect(0, "the command succeeds");
    let before = entries(&snapshot);
    let mut prune = cachewise(["snapshot", "prune"]);
    prune
        .arg(&snapshot)
        .args(["--", "sh", "-c", &reading(&file, 4, 4)]);
    Ended::of(&mut prune).expect(0, "the command succeeds");
    let after = entries(&snapshot);
    assert_eq!(
        after[position(&after, &file)]["ranges"],
        serde_json::json!([[4, 8]]),
        "what was touched of it"
    );
    let other = other.to_str().expect("a name of ours");
    assert!(before.iter().any(|entry| entry["path"] == other));
    assert!(
        !after.iter().any(|entry| entry["path"] == other),
        "{after:?}"
    );
}

fn failed_commands_leave_the_old_snapshot() {
    let scratch = Scratch::new();
    let file = scratch.file("file", 1 << 20);
    let snapshot = scratch.path("start.snap");
    save(&snapshot, &["sh", "-c", &reading(&file, 0, 8)]).expect(0, "the command succeeds");
    let old = fs::read(&snapshot).expect("it was written");
    save(&snapshot, &["/nowhere/program"]).expect(127, "there is no such command");
    assert!(fs::read(&snapshot).expect("it stays") == old, "unchanged");
    let script = format!("{}; exit 3", reading(&file, 0, 1));
    save(&snapshot, &["sh", "-c", &script]).expect(3, "the status is that of the command");
    assert!(
        fs::read(&snapshot).expect("it was written") != old,
        "a command that fails has touched pages too"
    );
}

fn wrong_use_is_refused() {
    for arguments in [
        &["snapshot", "save", "-", "--of", "--", "true"][..],
        &["snapshot", "save", "x.snap", "--of"],
        &["snapshot", "save", "x.snap", "--of", "path", "--", "true"],
        &["snapshot", "prune", "x.snap"],
        &["run", "--with-snapshot", "/nowhere/x.snap", "--", "true"],
        &["run", "--with-snapshot", "x.snap", "--verify", "--", "true"],
    ] {
        let ended = Ended::of(&mut cachewise(arguments));
        assert_eq!(ended.code(), 2, "{arguments:?}: {}", ended.complaints());
    }
}
