//! Advice that can be tried: each test runs a real program, then the line of `cachewise try` that its finding prints, and
//! checks that the counted figure improves.

use std::ffi::OsStr;
use std::process::Command;

use serde_json::Value;

use crate::support::*;

/// The tests.
pub fn trials() -> Vec<Trial> {
    vec![
        needs_root("cold_start::warm", cold_start),
        needs_root("direct_io::no_direct", direct_io),
        needs_root("group::memory", group_at_its_limit),
        needs_root("redacted::no_command", redacted_command_is_not_printed),
    ]
}

const MIB: u64 = 1 << 20;

/// Runs the line that verifies a finding, as it is printed; in a group if one is given.
pub fn tried(scratch: &Scratch, finding: &Value, group: Option<&Group>) -> Value {
    let verify = finding["verify"].as_str().unwrap_or_default();
    let line = verify.split_once(" with: cachewise try ");
    let (_, line) = line.unwrap_or_else(|| panic!("it can be tried: {finding}"));
    let (program, state) = (env!("CARGO_BIN_EXE_cachewise"), scratch.path("state"));
    let options = "-o json --rounds 2 --state";
    let enter = match group {
        Some(group) => format!("echo $$ >{}/cgroup.procs && ", group.path().display()),
        None => String::new(),
    };
    let line = format!("{enter}{program} try {options} {} {line}", state.display());
    let mut shell = Command::new("bash");
    let ended = Ended::of(shell.args(["-c", &line])).expect(0, "the line can be run");
    serde_json::from_slice(&ended.out).expect("JSON")
}

/// The finding of these rules, which is one.
fn finding<'a>(report: &'a Report, rules: &[&str]) -> &'a Value {
    let found = rules.iter().flat_map(|rule| report.findings(rule)).next();
    found.unwrap_or_else(|| panic!("{rules:?}: {}", report.json["findings"]))
}

fn cold_start() {
    let scratch = Scratch::new();
    let file = scratch.file("file", 48 * MIB);
    evict(&file);
    let report = report_of(&[], [OsStr::new("cat"), file.as_os_str()]);
    let answer = tried(&scratch, finding(&report, &["cold_start"]), None);
    let (without, with) = means(&answer, "warm", "device_read_bytes");
    assert!(with * 8.0 < without, "{with} bytes instead of {without}");
}

fn direct_io() {
    let scratch = Scratch::new();
    let file = scratch.file("file", 16 * MIB);
    let script =
        "for i in 1 2 3; do dd if=\"$0\" of=/dev/null bs=1M iflag=direct status=none; done";
    let words = [
        OsStr::new("sh"),
        OsStr::new("-c"),
        OsStr::new(script),
        file.as_os_str(),
    ];
    let report = report_of(&[], words);
    let answer = tried(&scratch, finding(&report, &["direct_io"]), None);
    let (without, with) = means(&answer, "no-direct", "device_read_bytes");
    assert!(with * 2.0 < without, "{with} bytes instead of {without}");
}

/// The report of a command under `run` in this group, whose limit holds for `run` too.
fn report_within(group: &Group, scratch: &Scratch, words: &[&OsStr]) -> Report {
    let json = scratch.path("report.json");
    let mut enter = Command::new("sh");
    enter.args(["-c", "echo $$ >\"$0\"/cgroup.procs && exec \"$@\""]);
    enter.arg(group.path()).arg(env!("CARGO_BIN_EXE_cachewise"));
    enter.args(["run", "-o"]).arg(&json).arg("--").args(words);
    let ended = Ended::of(&mut enter);
    Report::read(&json, ended)
}

fn group_at_its_limit() {
    let made = Group::new().and_then(|group| group.limit_memory(96 * MIB).map(|_| group));
    let Some(group) = made else {
        println!("skipped: advice_tried::group: no control groups with a memory limit");
        return;
    };
    let scratch = Scratch::new();
    let file = scratch.file("file", 128 * MIB);
    evict(&file);
    let script = "for i in 1 2 3; do cat \"$0\"; done >/dev/null";
    let words = ["sh", "-c", script].map(OsStr::new);
    let words: Vec<&OsStr> = words.into_iter().chain([file.as_os_str()]).collect();
    let report = report_within(&group, &scratch, &words);
    let rules = [
        "group_limit",
        "working_set",
        "thrashing",
        "reread_from_disk",
    ];
    let found = finding(&report, &rules);
    assert!(
        found["verify"]
            .as_str()
            .is_some_and(|line| line.contains("memory=192M")),
        "twice the limit: {found}"
    );
    let answer = tried(&scratch, found, Some(&group));
    let (without, with) = means(&answer, "memory=192M", "device_read_bytes");
    assert!(with * 2.0 < without, "{with} bytes instead of {without}");
    assert_eq!(answer["notes"], serde_json::json!([]), "the limit holds");
    // A command that enters a group itself leaves that of the fix.
    let enter = format!("echo $$ >{}/cgroup.procs; {script}", group.path().display());
    let mut command = cachewise(["try", "-o", "json", "--rounds", "2", "--state"]);
    command
        .arg(scratch.path("state"))
        .args(["memory=192M", "--", "sh", "-c", &enter]);
    let ended = Ended::of(command.arg(&file)).expect(0, "it can be tried");
    assert!(
        ended.out().contains("moved itself to the control group"),
        "which the answer says: {}",
        ended.out()
    );
}

fn redacted_command_is_not_printed() {
    let scratch = Scratch::new();
    let file = scratch.file("secret", 24 * MIB);
    evict(&file);
    let report = report_of(&["--redact-args"], [OsStr::new("cat"), file.as_os_str()]);
    let verify = finding(&report, &["cold_start"])["verify"].to_string();
    assert!(
        verify.contains("cachewise try warm -- COMMAND") && !verify.contains("secret"),
        "{verify}"
    );
}
