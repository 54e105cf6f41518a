//! Inside a PID namespace, as a container has: process ids are those of the namespace, and counts are as
//! exact as outside.

use std::path::Path;
use std::process::Command;

use crate::support::*;

/// The tests.
pub fn trials() -> Vec<Trial> {
    vec![
        needs_root("command::in_a_namespace", || runs_in(&["--mount-proc"])),
        needs_root("command::with_the_hosts_proc", || runs_in(&[])),
        needs_root("command::in_a_namespace_in_another", || {
            runs_in(&["--mount-proc", "unshare", "-pf", "--mount-proc"]);
        }),
        needs_root("command::into_a_namespace", into_a_namespace),
        needs_root("follow::in_a_namespace", follows_in_a_namespace),
        needs_root("follow::with_the_hosts_proc", refuses_the_hosts_proc),
    ]
}

/// A shell as the first process of a new namespace.
fn namespace(options: &[&str], script: &str, arguments: &[&Path]) -> Ended {
    let mut command = Command::new("unshare");
    command.arg("-pf").args(options);
    command.args(["sh", "-c", script, env!("CARGO_BIN_EXE_cachewise")]);
    Ended::of(command.args(arguments))
}

/// The ids of the processes and their parents, of a report in which cat reads the file once.
#[track_caller]
fn pids(report: &Report, file: &Path) -> Vec<(u64, u64)> {
    report.adds_up();
    assert_eq!(
        number(report.file(file), "read_requested_pages"),
        pages_of(file),
        "what is done inside is counted"
    );
    let processes = report.processes().iter();
    processes
        .map(|row| (number(row, "pid"), number(row, "ppid")))
        .collect()
}

fn runs_in(options: &[&str]) {
    let scratch = Scratch::new();
    let (file, json) = (scratch.file("file", 1 << 20), scratch.path("report"));
    // The shell below says its process id, and cat's.
    let script = "\"$0\" run -o json=\"$2\" -- sh -c 'echo $$; cat \"$1\" >/dev/null & echo $!; wait' sh \"$1\"";
    let ended = namespace(options, script, &[&file, &json]).expect(0, "it runs there");
    let said: Vec<u64> = ended
        .out()
        .lines()
        .map(|line| line.parse().expect("a process id"))
        .collect();
    let report = Report::read(&json, ended);
    let pids = pids(&report, &file);
    assert_eq!(
        pids.iter().map(|(pid, _)| *pid).collect::<Vec<_>>(),
        said,
        "processes have the ids that they know themselves by"
    );
    assert_eq!(pids[1].1, said[0], "cat's parent is the shell");
}

/// Seen from outside, those inside have the ids that they have here.
fn into_a_namespace() {
    let scratch = Scratch::new();
    let file = scratch.file("file", 1 << 20);
    let name = file.to_str().expect("an ordinary name");
    let report = report_of(&[], ["unshare", "-pf", "cat", name]);
    let pids = pids(&report, &file);
    assert_eq!(
        pids[1].1, pids[0].0,
        "unshare started cat: {pids:?}, by ids of one namespace"
    );
}

fn follows_in_a_namespace() {
    let scratch = Scratch::new();
    let (file, json) = (scratch.file("file", 1 << 20), scratch.path("report"));
    let fifo = scratch.path("go");
    // Told to read once the follower has its thread that waits for the end: then it counts.
    let script = "mkfifo \"$3\" && { sh -c 'read line <\"$2\"; cat \"$1\" >/dev/null' sh \"$1\" \"$3\" & } && \
        reader=$! && echo $reader && { \"$0\" run -p $reader -o json=\"$2\" & } && follower=$! && \
        until grep -qx wait /proc/$follower/task/*/comm; do kill -0 $follower || exit 9; done && \
        echo >\"$3\" && wait $follower";
    let ended = namespace(&["--mount-proc"], script, &[&file, &json, &fifo]);
    let ended = ended.expect(0, "it can be followed there");
    let reader: u64 = ended.out().trim().parse().expect("a process id");
    let report = Report::read(&json, ended);
    let pids = pids(&report, &file);
    assert_eq!(pids[0].0, reader, "the one that is followed: {pids:?}");
    assert_eq!(pids[1].1, reader, "and its child: {pids:?}");
}

fn refuses_the_hosts_proc() {
    // Its own process id means another process in /proc, or none: 1 is there in any case.
    namespace(&[], "exec \"$0\" run -p 1 -d 0.1", &[])
        .expect(2, "whose id is it?")
        .says("mount -t proc", "the message says what to do");
}
