//! Parts of the scenarios: programs, memory groups, reports, and fields of findings.

use std::ffi::OsStr;
use std::path::Path;

use serde_json::Value;

use crate::support::*;

pub const MIB: u64 = 1 << 20;

/// A group that a test limits, and the file that sets its limit; `None` with a note where there is none.
pub fn group_of(limit: u64, test: &str) -> Option<(Group, String)> {
    let made = Group::new().and_then(|group| {
        let file = group.limit_memory(limit)?;
        Some((group, file.to_str()?.to_owned()))
    });
    if made.is_none() {
        println!("skipped: {test}: needs control groups with a memory limit");
    }
    made.filter(|_| has(&["python3"], test))
}

/// Whether a program is installed, where the shells of programs look too.
fn runs(program: &str) -> bool {
    let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
    std::env::split_paths(&path).any(|place| place.join(program).exists())
}

/// Whether these programs are installed; says so if not.
pub fn has(programs: &[&str], test: &str) -> bool {
    let missing = programs.iter().find(|program| !runs(program));
    if let Some(program) = missing {
        println!("skipped: {test}: {program} is not installed");
    }
    missing.is_none()
}

/// The report of a command in this group.
pub fn report_within<S: AsRef<OsStr>>(group: &Group, words: &[S]) -> Report {
    let enter = "echo $$ >\"$0\"/cgroup.procs && exec \"$@\"";
    let before = ["sh", "-c", enter].map(OsStr::new);
    let before = before.into_iter().chain([group.path().as_os_str()]);
    report_of(&[], before.chain(words.iter().map(AsRef::as_ref)))
}

/// The report of a Python program in this group; the file is its first argument.
pub fn report_in(group: &Group, script: &str, file: &Path) -> Report {
    let words = ["python3", "-c", script].map(OsStr::new);
    let words: Vec<&OsStr> = words.into_iter().chain([file.as_os_str()]).collect();
    report_within(group, &words)
}

/// The report of a shell script with these arguments, from `$1`.
pub fn report_of_shell(script: &str, arguments: &[&Path]) -> Report {
    let words = ["sh", "-c", script, "sh"].map(OsStr::new);
    let arguments = arguments.iter().map(|path| path.as_os_str());
    report_of(&[], words.into_iter().chain(arguments))
}

/// The report of a shell script in this group with these arguments, from `$1`.
pub fn report_of_shell_in(group: &Group, script: &str, arguments: &[&Path]) -> Report {
    let words = ["sh", "-c", script, "sh"].map(OsStr::new);
    let arguments = arguments.iter().map(|path| path.as_os_str());
    let words: Vec<&OsStr> = words.into_iter().chain(arguments).collect();
    report_within(group, &words)
}

/// The report of a Python program with these arguments.
pub fn report_of_python(script: &str, arguments: &[&OsStr]) -> Report {
    let words = ["python3", "-c", script].map(OsStr::new);
    report_of(&[], words.into_iter().chain(arguments.iter().copied()))
}

pub fn step(finding: &Value) -> &str {
    finding["next_step"].as_str().unwrap_or_default()
}

pub fn verdict(report: &Report) -> &str {
    report.json["verdict"].as_str().unwrap_or_default()
}

/// The one finding of this rule, about this subject.
#[track_caller]
pub fn the_one<'a>(report: &'a Report, rule: &str, subject: &Path) -> &'a Value {
    let found = report.findings(rule);
    assert_eq!(found.len(), 1, "{rule}: {}", report.json["findings"]);
    assert_eq!(found[0]["id"], rule, "it is the cause: {}", found[0]);
    assert_eq!(
        found[0]["subject"].as_str(),
        subject.to_str(),
        "{}",
        found[0]
    );
    found[0]
}

/// Pages of a file that were read from the device.
pub fn fetched(report: &Report, file: &Path) -> u64 {
    fetched_of_row(report.file(file))
}

/// Pages of the file of this row that were read from the device.
pub fn fetched_of_row(row: &Value) -> u64 {
    let columns = [
        "read_missed_pages",
        "readahead_pages",
        "fault_miss_pages",
        "fault_readahead_pages",
    ];
    columns.into_iter().map(|column| number(row, column)).sum()
}

/// Whether waits of this kind are twice what a finding about them takes: a fifth of the run, and of a second.
pub fn is_long(report: &Report, part: &str) -> bool {
    let seconds = |value: &Value| value.as_f64().expect("times are measured");
    let run = seconds(&report.json["wall_seconds"]);
    seconds(&report.json["times"][part]) >= (run / 5.0).max(0.2)
}
