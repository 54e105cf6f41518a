//! A memory limit on a control group above the program's own: it holds, so the report knows it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::support::*;

/// The tests.
pub fn trials() -> Vec<Trial> {
    vec![
        needs_root("command::moves_into_a_group", moves_into_a_group),
        needs_root("follow::the_group_of_the_process", follows_into_a_group),
        needs_root("estimates::our_own_group", without_a_probe),
        needs_root(
            "estimates::group_without_room_for_the_tables_is_named",
            no_room,
        ),
    ]
}

const LIMIT: u64 = 32 << 20;

/// Two groups, of which the outer one is limited.
struct Limited {
    inner: Group,
    outer: Group,
    file: PathBuf,
}

impl Limited {
    fn new() -> Option<Limited> {
        let made = || {
            let outer = Group::new()?;
            let file = outer.limit_memory(LIMIT)?;
            let inner = outer.inner();
            Some(Limited { inner, outer, file })
        };
        let limited = made();
        if limited.is_none() {
            println!(
                "skipped: memory limits: no control group with a memory limit can be made here"
            );
        }
        limited
    }

    fn is_in(&self, report: &Report, why: &str) {
        let around = &report.json["surroundings"];
        assert_eq!(around["cgroup_limit_bytes"], LIMIT, "{why}: {around}");
        assert_eq!(
            around["cgroup_limit_path"],
            text(&self.file),
            "set on the group above: {}",
            text(self.outer.path())
        );
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("an ordinary name")
}

/// Moves into a group, and then reads a file twice.
const READ_TWICE: &str = "echo $$ >\"$1\"/cgroup.procs && for round in 1 2; do \
     dd if=\"$2\" of=/dev/null bs=64k; done";

fn moves_into_a_group() {
    let Some(limited) = Limited::new() else {
        return;
    };
    let scratch = Scratch::new();
    let file = scratch.file("file", 2 * LIMIT);
    evict(&file);
    let group = text(limited.inner.path());
    let report = report_of(&[], ["sh", "-c", READ_TWICE, "sh", group, text(&file)]);
    limited.is_in(&report, "the limit of the group where the work was done");
    let found = report.findings("working_set");
    assert_eq!(
        found.len(),
        1,
        "twice the limit does not fit: {}",
        report.json["findings"]
    );
    assert!(
        number(&found[0]["figures"], "cgroup_limit_reached") > 0,
        "the limit was in the way: {}",
        found[0]
    );
    let step = found[0]["next_step"].as_str().unwrap_or_default();
    assert!(
        step.contains(text(&limited.file)) && step.contains("32.0 MiB"),
        "what to raise is named: {step}"
    );
}

fn follows_into_a_group() {
    let Some(limited) = Limited::new() else {
        return;
    };
    let mut idle = Command::new("sh");
    let wait = "echo $$ >\"$1\"/cgroup.procs; echo there; exec sleep 1000";
    let group = text(limited.inner.path());
    let mut idle = Started::of(idle.args(["-c", wait, "sh", group]).stdin(Stdio::null()));
    assert_eq!(
        idle.line().as_deref(),
        Some(&b"there\n"[..]),
        "it is in the group"
    );
    let file = tempfile::NamedTempFile::new().expect("a temporary file can be made");
    let target = format!("json={}", file.path().display());
    let pid = idle.pid().to_string();
    let ended = Ended::of(&mut cachewise([
        "run", "-p", &pid, "-d", "0.1", "-o", &target,
    ]));
    let report = Report::read(file.path(), ended.expect(0, "it can be followed"));
    limited.is_in(&report, "a process that does nothing has a group too");
}

fn without_a_probe() {
    let Some(limited) = Limited::new() else {
        return;
    };
    let file = tempfile::NamedTempFile::new().expect("a temporary file can be made");
    // Without rights there is no probe, and so no rows that tell the group.
    let script = "echo $$ >\"$1\"/cgroup.procs && exec setpriv --bounding-set=-all --inh-caps=-all \
                  \"$2\" run -o json -- true 2>\"$3\"";
    let arguments = [
        "-c",
        script,
        "sh",
        text(limited.inner.path()),
        env!("CARGO_BIN_EXE_cachewise"),
        text(file.path()),
    ];
    let ended = Ended::of(Command::new("sh").args(arguments));
    let report = Report::read(file.path(), ended.expect(0, "it runs without rights"));
    assert_eq!(
        report.json["backend"]["exact"], false,
        "these are estimates: {}",
        report.json["backend"]
    );
    limited.is_in(&report, "our own group is that of the command");
}

/// The tables take more than this.
const NO_ROOM: u64 = 24 << 20;

fn no_room() {
    let Some(limited) = Limited::new() else {
        return;
    };
    limited
        .inner
        .limit_memory(NO_ROOM)
        .expect("as the group above");
    let group = text(limited.inner.path());
    let within = "echo $$ >\"$1\"/cgroup.procs && exec \"$2\" run -- true";
    let program = env!("CARGO_BIN_EXE_cachewise");
    let mut command = Command::new("sh");
    Ended::of(command.args(["-c", within, "sh", group, program]))
        .expect(0, "the command runs")
        .says(group, "the group and")
        .says("24.0 MiB", "its limit are named")
        .says("start it outside of this control group", "with a way out");
    // The way out.
    let alone = "echo $$ >\"$1\"/cgroup.procs && exec true";
    let report = report_of(&[], ["sh", "-c", alone, "sh", group]);
    assert_eq!(
        report.json["backend"]["exact"], true,
        "the counts are exact"
    );
}
