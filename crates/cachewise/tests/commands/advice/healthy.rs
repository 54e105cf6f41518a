//! Programs that the page cache costs nothing: no finding, and a verdict that says so.

use std::path::Path;

use super::cold::{git, grep, repository, texts};
use super::fault::{note, whole};
use super::kit::*;
use crate::support::*;

/// Below the thresholds of the findings the report has an answer, too.
pub fn verdict_of_small_and_warm_reads() {
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
        cold.starts_with("cold, but only 8."),
        "8 MiB were fetched: {cold}"
    );
    let row = ["healthy", "cat of a cold file of 8 MiB", "none", "none"];
    note(&[&row[..], &["verdict", &cold]].concat());
    undisturbed(|| {
        let warm = verdict();
        warm.starts_with("the page cache is not your problem: 0 of ")
            .then_some(())
    });
}

/// The most that a healthy run reads from devices, in bytes: the file of `small_cold_file`.
const SMALL: u64 = 64 << 10;

/// Fails if there is a finding, or if the verdict names a problem. `None` if the kernel read more of the run's files from a
/// device than is `cold` in the scenario, as they were reclaimed before it, and the run waited for that: then it was not healthy.
fn is_healthy(report: &Report, cold: u64) -> Option<()> {
    let processes = report.processes().iter();
    let read = processes.filter_map(|process| process["device_read_bytes"].as_u64());
    let read = read.sum::<u64>();
    if read > SMALL {
        return None;
    }
    let found = &report.json["findings"];
    assert_eq!(found, &serde_json::json!([]), "no finding");
    let verdict = verdict(report);
    let is_fine = verdict.starts_with("the page cache is not your problem: ")
        && !verdict.contains("warm, this would take");
    if !is_fine && (read > cold || waits_for_a_cpu(report)) {
        return None;
    }
    assert!(is_fine, "{verdict}");
    Some(())
}

/// Whether the run waited for a CPU for more than half of its time, as other programs had them. A short run waits long for
/// its few cold pages then: the device has them, and the task does not get to run.
fn waits_for_a_cpu(report: &Report) -> bool {
    let times = &report.json["times"];
    let seconds = |id: &str| times[id].as_f64().unwrap_or_default();
    seconds("run_queue_seconds") + seconds("cold_run_queue_seconds") > seconds("task_seconds") / 2.0
}

/// Fails unless the program is healthy. `run` makes resident what it needs.
pub fn stays_healthy(scenario: &str, run: impl Fn() -> Report) {
    stays_healthy_with(0, scenario, run);
}

/// The same, where the run reads this many bytes from a device.
fn stays_healthy_with(cold: u64, scenario: &str, run: impl Fn() -> Report) {
    let verdict = undisturbed(|| {
        let report = whole(run())?;
        is_healthy(&report, cold).map(|()| verdict(&report).to_owned())
    });
    note(&["healthy", scenario, "none", "none", "verdict", &verdict]);
}

fn program_stays_healthy(words: &[&str]) {
    stays_healthy(&words.join(" "), || report_of(&[], words));
}

fn text(path: &Path) -> &str {
    path.to_str().expect("an ordinary name")
}

/// Programs that read what is resident, as fast as they can.
pub fn warm_reads() {
    let scratch = Scratch::new();
    let file = scratch.file("file", 24 * MIB);
    let from = format!("if={}", text(&file));
    let programs: [&[&str]; 4] = [
        &["cat", text(&file)],
        &["sha256sum", text(&file)],
        &["grep", "-c", "-a", "needle in a haystack", text(&file)],
        &["dd", &from, "of=/dev/null", "bs=64K", "status=none"],
    ];
    for words in programs {
        let scenario = format!("{} of a resident file", words[0]);
        stays_healthy(&scenario, || {
            warm(&file);
            report_of(&[], words)
        });
    }
}

pub fn calculation_and_sleep() {
    program_stays_healthy(&["sleep", "0.3"]);
    if has(&["python3"], "advice::calculation") {
        program_stays_healthy(&["python3", "-c", "sum(range(3_000_000))"]);
    }
}

pub fn pipe_of_two_programs() {
    program_stays_healthy(&["sh", "-c", "head -c 50000000 /dev/zero | sha256sum"]);
}

pub fn warm_git_grep() {
    if !has(&["git"], "advice::warm_git_grep") {
        return;
    }
    let scratch = Scratch::new();
    let tree = repository(&scratch, 24);
    stays_healthy("git grep in a resident tree", || {
        texts(&tree).iter().for_each(|file| warm(file));
        grep(&tree)
    });
}

/// Cold, and small enough that no wait for it can be noticed.
pub fn small_cold_file() {
    let scratch = Scratch::new();
    let file = scratch.file("file", SMALL);
    stays_healthy_with(SMALL, "cat of a cold file of 64 KiB", || {
        evict(&file);
        let report = report_of(&[], ["cat", text(&file)]);
        assert_eq!(fetched(&report, &file), pages_of(&file), "it was cold");
        report
    });
}

pub fn small_write() {
    let scratch = Scratch::new();
    let to = scratch.path("file");
    let script = "dd if=/dev/zero of=\"$1\" bs=4K count=16 status=none";
    stays_healthy("dd writes 64 KiB", || report_of_shell(script, &[&to]));
}

pub fn warm_compilation() {
    if !has(&["gcc"], "advice::warm_compilation") {
        return;
    }
    let scratch = Scratch::new();
    let source = scratch.path("one.c");
    let text_of_source = "int main(void) { return 0; }\n";
    std::fs::write(&source, text_of_source).expect("a file");
    let object = scratch.path("one.o");
    stays_healthy("gcc of a small program", || {
        report_of(&[], ["gcc", "-c", "-o", text(&object), text(&source)])
    });
}

pub fn warm_import() {
    if has(&["python3"], "advice::warm_import") {
        program_stays_healthy(&["python3", "-c", "import json, asyncio, decimal"]);
    }
}

pub fn warm_git_status() {
    if !has(&["git"], "advice::warm_git_status") {
        return;
    }
    let scratch = Scratch::new();
    let tree = repository(&scratch, 8);
    git(&tree, &["status"]);
    stays_healthy("git status of a resident tree", || {
        report_of_shell(
            "git -C \"$1\" --no-optional-locks status -s >/dev/null",
            &[&tree],
        )
    });
}

/// GNU tar does not read files for this archive.
pub fn tar_to_nowhere() {
    let scratch = Scratch::new();
    let tree = repository(&scratch, 24);
    stays_healthy("tar of a tree to /dev/null", || {
        report_of_shell("tar -cf /dev/null -C / \"${1#/}\"", &[&tree])
    });
}

/// Read once, in order, and too little for a finding: the verdict says so.
pub fn small_cold_copy() {
    let scratch = Scratch::new();
    let file = scratch.file("file", 12 * MIB);
    let to = scratch.path("copy");
    evict(&file);
    let report = report_of_shell("cp --reflink=never \"$1\" \"$2\"", &[&file, &to]);
    let found = &report.json["findings"];
    assert_eq!(found, &serde_json::json!([]), "no finding");
    let verdict = verdict(&report);
    assert!(verdict.starts_with("cold, but only 12."), "{verdict}");
    note(&[
        "healthy",
        "cp of a cold file of 12 MiB",
        "none",
        "none",
        "verdict",
        verdict,
    ]);
}
