//! No probe is left behind: not after a run, not after kill -9 in the middle, not where loading
//! failed half-way.
//!
//! Other copies of cachewise may run on this machine, so what is looked for are not names but the
//! ids of what a process of ours was seen to hold.

use std::process::{Command, Stdio};

use libbpf_rs::query::ProgInfoIter;
use rustix::process::Signal;

use crate::support::*;

/// The tests.
pub fn trials() -> Vec<Trial> {
    vec![
        needs_root("ended::run", after_a_run),
        needs_root("ended::stat_interrupted", || {
            after(&["stat", "0.05"], Signal::INT)
        }),
        needs_root("ended::stat_terminated", || {
            after(&["stat", "0.05"], Signal::TERM)
        }),
        needs_root("killed::stat", || after(&["stat", "0.05"], Signal::KILL)),
        needs_root("killed::stat_of_a_process", || {
            after(&["stat", "-p", "1", "0.05"], Signal::KILL);
        }),
        needs_root("killed::run", || killed_run(&[])),
        needs_root("killed::run_with_stacks", killed_run_with_stacks),
        needs_root("killed::follow", killed_follow),
        needs_root("half_way::run", half_way),
        needs_root("held::by_no_program", held_by_no_program),
    ]
}

/// The ids that a counting copy holds. The kernel knows more names than ours: one of them among the programs shows that
/// the test looks at the right objects.
fn probe_of(started: &Started) -> Held {
    let held = held_by(started.pid());
    assert!(
        !held.programs.is_empty(),
        "the process holds its programs, or links to them"
    );
    assert!(!held.maps.is_empty(), "and maps");
    let names: Vec<String> = ProgInfoIter::default()
        .filter(|program| held.programs.contains(&program.id))
        .map(|program| program.name.to_string_lossy().into_owned())
        .collect();
    assert!(
        names.iter().any(|name| name.starts_with("on_")),
        "the kernel lists them by the names that they have in the source: {names:?}"
    );
    held
}

fn after(arguments: &[&str], signal: Signal) {
    let mut started = Started::of(cachewise(arguments).stdin(Stdio::null()));
    for _ in 0..2 {
        assert!(started.line().is_some(), "there is a row, so it counts");
    }
    let held = probe_of(&started);
    assert_eq!(held.left(), held, "while it runs the kernel has it all");
    started.signal(signal);
    started.wait();
    held.until_gone();
}

/// A command that runs under a probe until its input ends.
fn waiting() -> Started {
    let mut command = cachewise(["run", "-o", "csv=/dev/null", "--", "sh", "-c"]);
    command
        .arg("echo $$; read -r _; exit 0")
        .stdin(Stdio::piped());
    Started::of(&mut command)
}

/// The first line of the output: its process id.
fn first_line(started: &mut Started) -> u32 {
    let line = started.line().expect("the program is there");
    String::from_utf8_lossy(&line)
        .trim()
        .parse()
        .expect("a process id")
}

fn after_a_run() {
    let mut started = waiting();
    first_line(&mut started);
    let held = probe_of(&started);
    drop(started.child.stdin.take());
    started
        .wait()
        .expect(0, "the program ends when its input does");
    held.until_gone();
}

/// A process that is not our child, killed when dropped.
struct Orphan(u32);

impl Drop for Orphan {
    fn drop(&mut self) {
        signal(self.0, Signal::KILL);
    }
}

fn killed_run_with_stacks() {
    let scratch = Scratch::new();
    let graph = scratch.path("flame.svg");
    let options = ["--stacks", "--flamegraph", graph.to_str().expect("plain")];
    killed_run(&options);
    let left = std::fs::read_dir(scratch.directory()).expect("it is there");
    assert_eq!(left.count(), 0, "no file, and no temporary one");
}

fn killed_run(options: &[&str]) {
    // A program that does not notice: it would hold what it inherited for as long as it lives.
    let mut command = cachewise(["run", "-o", "csv=/dev/null"]);
    command
        .args(options)
        .args(["--", "sh", "-c"])
        .arg("echo $$; exec >&- 2>&-; exec sleep 1000")
        .stdin(Stdio::null());
    let mut started = Started::of(&mut command);
    let orphan = Orphan(first_line(&mut started));
    let held = probe_of(&started);
    started.signal(Signal::KILL);
    let ended = started.wait();
    assert_eq!(ended.code(), -9, "nobody can do anything about kill -9");
    held.until_gone();
    let alive = std::path::Path::new(&format!("/proc/{}", orphan.0)).exists();
    assert!(alive, "the program lives, and holds nothing of ours");
}

fn killed_follow() {
    let target = Started::of(Command::new("sleep").arg("1000").stdin(Stdio::null()));
    let mut command = cachewise([
        "run",
        "-o",
        "csv=/dev/null",
        "-p",
        &target.pid().to_string(),
    ]);
    let mut started = Started::of(command.stdin(Stdio::null()));
    started.until_thread("wait");
    let held = probe_of(&started);
    started.signal(Signal::KILL);
    started.wait();
    held.until_gone();
}

fn half_way() {
    // Objects that were loaded before the failure are removed with the process, which is examined while it runs.
    for limit in [16, 20, 24, 28, 32, 36] {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("ulimit -n {limit}; exec \"$@\""), "sh"]);
        command
            .arg(env!("CARGO_BIN_EXE_cachewise"))
            .args(["run", "-o", "csv=/dev/null", "--"]);
        command
            .args(["sh", "-c", "echo $$; read -r _"])
            .stdin(Stdio::piped());
        let mut started = Started::of(&mut command);
        if started.line().is_none() {
            started.wait().expect(2, "it said that it could not");
            continue;
        }
        let held = held_by(started.pid());
        assert!(
            held.programs.is_empty(),
            "{limit} descriptors: a probe that failed half-way costs nobody anything: {held:?}"
        );
        drop(started.child.stdin.take());
        started.wait();
        held.until_gone();
    }
}

fn held_by_no_program() {
    let mut started = waiting();
    let program = first_line(&mut started);
    let held = held_by(program);
    assert!(
        held.is_empty(),
        "the program that is run holds nothing of ours: {held:?}"
    );
    drop(started.child.stdin.take());
    started.wait().expect(0, "it ends when its input does");
}
