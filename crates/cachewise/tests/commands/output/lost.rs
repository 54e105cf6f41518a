//! Output that cannot be written, or has no reader.

use std::fs;
use std::process::{Command, Stdio};

use crate::support::*;

pub fn full_report() {
    for format in ["json", "jsonl", "csv", "openmetrics", "table"] {
        let target = format!("{format}=/dev/full");
        Ended::of(&mut cachewise(["run", "-o", &target, "--", "true"]))
            .expect(2, "the command succeeded, we did not")
            .says("/dev/full", "the message names the target")
            .says("No space left", "and says what is wrong");
        Ended::of(&mut cachewise([
            "run", "-o", &target, "--", "sh", "-c", "exit 3",
        ]))
        .expect(3, "the command's own failure is told first")
        .says("/dev/full", "the message names the target");
    }
}

pub fn full_standard_error() {
    for (own, code) in [("exit 0", 2), ("exit 3", 3)] {
        let mut command = Command::new("sh");
        command.args(["-c", "exec \"$@\" 2>/dev/full", "sh"]);
        command
            .arg(env!("CARGO_BIN_EXE_cachewise"))
            .args(["run", "--", "sh", "-c", own]);
        let ended = Ended::of(&mut command);
        ended.expect(
            code,
            "there is no place left to say more than by the status",
        );
    }
}

pub fn full_rows() {
    for format in ["json", "jsonl", "csv", "openmetrics", "table"] {
        let target = format!("{format}=/dev/full");
        Ended::of(&mut cachewise(["stat", "0.01", "3", "-o", &target]))
            .expect(2, "rows are lost")
            .says("/dev/full", "the message names the target");
    }
    let mut command = Command::new("sh");
    command.args([
        "-c",
        "exec \"$@\" >/dev/full",
        "sh",
        env!("CARGO_BIN_EXE_cachewise"),
    ]);
    Ended::of(command.args(["stat", "0.01", "3"]))
        .expect(2, "rows are lost")
        .says("standard output", "the message names the target");
    let mut command = Command::new("sh");
    command.args([
        "-c",
        "exec \"$@\" >/dev/full",
        "sh",
        env!("CARGO_BIN_EXE_cachewise"),
    ]);
    Ended::of(command.arg("columns")).expect(2, "the list is lost");
}

pub fn the_report_has_no_reader() {
    for (own, code) in [("exit 0", 0), ("exit 3", 3)] {
        let (reader, writer) = std::io::pipe().expect("a pipe can be had");
        drop(reader);
        let mut command = cachewise(["run", "--", "sh", "-c", own]);
        let status = command
            .stderr(Stdio::from(writer))
            .status()
            .expect("it can be started");
        assert_eq!(
            status.code(),
            Some(code),
            "who does not want the report gets the status"
        );
    }
}

pub fn interrupted_twice() {
    // Writing blocks, and the second interrupt does not wait for it.
    let scratch = Scratch::new();
    let full = FullPipe::new(&scratch);
    let target = |format| format!("{format}={}", full.path.display());
    let own = std::process::id().to_string();
    for (why, arguments) in [
        (
            "the report of a command",
            &["run", "-o", &target("json"), "--", "true"][..],
        ),
        (
            "the report of a process",
            &["run", "-o", &target("table"), "-p", &own],
        ),
        ("a row", &["stat", "-o", &target("jsonl"), "0.01"]),
        (
            "the totals",
            &["stat", "-o", &target("openmetrics"), "0.01"],
        ),
    ] {
        let started = Started::of(cachewise(arguments).stdin(Stdio::null()));
        let ended = started.interrupt_until_ended();
        ended.expect(130, &format!("{why} cannot be written, and need not be"));
    }
}

/// SIGXFSZ would end it without a word.
pub fn a_file_at_its_size_limit_is_an_error() {
    let scratch = Scratch::new();
    for number in 0..2000 {
        fs::write(scratch.path(format!("{number:0>100}")), "x").expect("a file can be made");
    }
    let target = Scratch::new();
    let report = target.path("report.json");
    let ended = Ended::of(
        Command::new("sh")
            .args(["-c", r#"ulimit -f 8; exec "$0" files -o "$1" "$2""#])
            .arg(env!("CARGO_BIN_EXE_cachewise"))
            .arg(&report)
            .arg(scratch.directory()),
    )
    .expect(2, "it could not be written")
    .says("File too large", "the cause")
    .says(&report.display().to_string(), "the file");
    assert!(!report.exists(), "and is not there: {}", ended.err());
}
