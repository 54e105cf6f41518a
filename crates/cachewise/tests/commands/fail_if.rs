//! `--fail-if` of `run` and `report`: exit statuses that follow from the totals.

use std::path::Path;

use crate::support::*;

/// The tests.
pub fn trials() -> Vec<Trial> {
    vec![
        needs_root("run::status_follows_the_totals", status_follows_the_totals),
        needs_root(
            "run::failure_of_the_command_wins",
            failure_of_the_command_wins,
        ),
        needs_root("run::unknown_field_is_status_2", unknown_field_is_status_2),
        needs_root("report::status_follows_the_totals", status_of_a_recording),
        plain("usage::mistyped_field_is_named", mistyped_field_is_named),
    ]
}

const PAGES: u64 = 1024;

/// A file whose pages are not resident.
fn cold_file(scratch: &Scratch) -> std::path::PathBuf {
    let file = scratch.file("data", PAGES * page_size());
    evict(&file);
    file
}

/// A cold read of the file under `run` with these conditions.
fn read_with(file: &Path, conditions: &[&str]) -> Ended {
    evict(file);
    let mut run = cachewise(["run", "-o", "csv=/dev/null"]);
    for condition in conditions {
        run.args(["--fail-if", condition]);
    }
    Ended::of(run.args(["--", "cat"]).arg(file))
}

fn status_follows_the_totals() {
    let scratch = Scratch::new();
    let file = cold_file(&scratch);
    let size = PAGES * page_size();
    let least = format!("fetched_bytes >= {size}");
    let quiet = read_with(&file, &["fetched_bytes > 1G", "missed_bytes > 1G"]);
    let quiet = quiet.expect(0, "no condition is true");
    assert_eq!(quiet.complaints(), "", "and none is printed");
    read_with(&file, &["fetched_bytes > 1G", &least])
        .expect(1, "the second condition is true")
        .says(
            &format!("cachewise: --fail-if '{least}' is true: fetched_bytes is "),
            "the condition and its value",
        );
    read_with(&file, &["reuse_ratio < 100%", "walls > 1"])
        .expect(2, "a mistyped field is an error of usage");
}

fn failure_of_the_command_wins() {
    for (script, code) in [("exit 5", 5), ("kill -TERM $$", 128 + 15), ("exit 0", 1)] {
        let run = [
            "run",
            "-o",
            "csv=/dev/null",
            "--fail-if",
            "cpu_seconds >= 0",
        ];
        Ended::of(cachewise(run).args(["--", "sh", "-c", script]))
            .expect(code, "its own failure, else that of the condition")
            .says("is true: cpu_seconds is ", "in both cases");
    }
}

fn unknown_field_is_status_2() {
    let scratch = Scratch::new();
    let run = |conditions: &[&str]| {
        let mut command = cachewise_as_nobody(&scratch);
        command.args(["run", "-o", "csv=/dev/null"]);
        for condition in conditions {
            command.args(["--fail-if", condition]);
        }
        Ended::of(command.args(["--", "true"]))
    };
    run(&["missed_bytes > 1G"])
        .expect(2, "without a probe it is not known")
        .says("is unknown: missed_bytes is - (", "with the reason");
    run(&["missed_bytes > 1G", "cpu_seconds >= 0"]).expect(1, "a condition that is true decides");
}

fn status_of_a_recording() {
    let scratch = Scratch::new();
    let file = cold_file(&scratch);
    let recording = scratch.directory().join("a.rec");
    let mut record = cachewise(["record"]);
    record.arg(&recording).args(["--", "cat"]).arg(&file);
    Ended::of(&mut record).expect(0, "it is recorded");
    let report = |condition: &str| {
        let mut report = cachewise(["report", "-o", "json", "--fail-if", condition]);
        Ended::of(report.arg(&recording))
    };
    let cold = report(&format!("fetched_bytes >= {}", PAGES * page_size()));
    let cold = cold.expect(1, "all of it was fetched");
    cold.says("is true: fetched_bytes is", "the condition");
    report("fetched_bytes > 1T").expect(0, "not that much");
}

fn mistyped_field_is_named() {
    for (condition, text) in [
        ("fetched_byte > 1G", "did you mean `fetched_bytes`"),
        ("pid == 1", "`pid` is of one file, process or control group"),
        ("fetched_bytes", "no comparison"),
        ("fetched_bytes > 1MB", "\"MB\" is not a unit"),
    ] {
        Ended::of(&mut cachewise([
            "run",
            "--fail-if",
            condition,
            "--",
            "true",
        ]))
        .expect(2, "an error of usage")
        .says(text, "which says why");
    }
}
