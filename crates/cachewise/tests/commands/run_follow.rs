//! `run -p`: following a process that is there already, whatever becomes of it.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use rustix::process::Signal;

use crate::support::*;

/// The tests.
pub fn trials() -> Vec<Trial> {
    vec![
        plain("usage::durations", durations),
        plain("usage::process_ids", process_ids),
        plain("usage::process_or_command", process_or_command),
        plain("usage::duration_needs_a_process", duration_needs_a_process),
        plain("gone::no_such_process", no_such_process),
        plain("gone::ended_but_not_reaped", ended_but_not_reaped),
        plain("gone::a_thread_is_no_process", a_thread_is_no_process),
        needs_root("follow::for_a_time", for_a_time),
        needs_root("follow::to_its_end", to_its_end),
        needs_root("follow::ends_before_the_time", ends_before_the_time),
        needs_root("follow::killed_meanwhile", killed_meanwhile),
        needs_root("follow::another_user", another_user),
        needs_root(
            "follow::a_single_process_that_reads",
            a_single_process_that_reads,
        ),
        needs_root("follow::interrupted", || stopped_by(Signal::INT)),
        needs_root("follow::terminated", || stopped_by(Signal::TERM)),
    ]
}

fn own() -> String {
    std::process::id().to_string()
}

fn durations() {
    for value in ["0", "-1", "abc", "1x", "", "nan", "inf"] {
        let option = format!("--duration={value}");
        Ended::of(&mut cachewise(["run", "-p", &own(), &option]))
            .expect(2, "that is no duration")
            .says(&format!("'{value}'"), "the message names the value")
            .says("--duration", "and the option");
    }
    // As people type it.
    for value in ["0", "-1", "abc"] {
        Ended::of(&mut cachewise(["run", "-p", &own(), "-d", value]))
            .expect(2, "that is no duration")
            .says(&format!("'{value}'"), "the message names the value");
    }
}

fn process_ids() {
    for value in ["0", "-1", "abc", "4294967296", "1.5"] {
        Ended::of(&mut cachewise(["run", &format!("--pid={value}")]))
            .expect(2, "that is no process id")
            .says(&format!("'{value}'"), "the message names the value")
            .says("--pid", "and the option")
            .says("whole number", "and what it takes");
    }
}

fn process_or_command() {
    for arguments in [&["--", "true"][..], &["true"]] {
        Ended::of(cachewise(["run", "-p", &own()]).args(arguments))
            .expect(2, "either a process or a command")
            .says("--pid", "the message says what contradicts");
    }
}

fn duration_needs_a_process() {
    Ended::of(&mut cachewise(["run", "-d", "1", "--", "true"]))
        .expect(2, "a command ends by itself: -d is about following")
        .says("--pid", "the message says what is missing");
    Ended::of(&mut cachewise(["run", "-d", "1"])).expect(2, "there is nothing to follow");
}

fn no_such_process() {
    let most: u32 = fs::read_to_string("/proc/sys/kernel/pid_max")
        .expect("the kernel says it")
        .trim()
        .parse()
        .expect("a number");
    // Process ids stay below it; the second is beyond what the kernel's type holds.
    for pid in [most.to_string(), "4294967295".into()] {
        Ended::of(&mut cachewise(["run", "-p", &pid]))
            .expect(2, "nobody has this id")
            .says(&pid, "the message names it")
            .says("does not exist", "and says what is wrong");
    }
}

fn ended_but_not_reaped() {
    let zombie = Started::of(&mut Command::new("true"));
    let pid = zombie.pid();
    until("it has ended", || {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("it was not reaped");
        stat.contains(") Z ").then_some(())
    });
    let ended = Ended::of(&mut cachewise(["run", "-p", &pid.to_string()]));
    // It has an id, so there is something to report on; that it is over may as well be said.
    assert!(
        [0, 2].contains(&ended.code()),
        "neither a hang nor a crash: {ended:?}"
    );
    let ended = ended.says(
        &pid.to_string(),
        "it is named in the report or in the message",
    );
    assert!(
        !ended.err().contains("still running"),
        "it does not run: {}",
        ended.err()
    );
}

fn a_thread_is_no_process() {
    // This test runs in a thread that is not the process's first.
    let status = fs::read_to_string("/proc/thread-self/status").expect("the kernel says it");
    let thread = status
        .lines()
        .find_map(|line| line.strip_prefix("Pid:"))
        .expect("it does");
    if thread.trim() == own() {
        return;
    }
    Ended::of(&mut cachewise(["run", "-p", thread.trim(), "-d", "0.1"]))
        .expect(2, "a thread cannot be followed alone")
        .says(thread.trim(), "the message names it");
}

/// A follower of a process, once it counts.
struct Follower {
    run: Started,
    report: tempfile::NamedTempFile,
}

impl Follower {
    fn of(pid: u32, more: &[&str]) -> Follower {
        let report = tempfile::NamedTempFile::new().expect("a temporary file can be made");
        let target = format!("json={}", report.path().display());
        let mut command = cachewise(["run", "-p", &pid.to_string(), "-o", &target]);
        let mut run = Started::of(command.args(more).stdin(Stdio::null()));
        // The thread that waits for the end is started when the probe counts.
        run.until_thread("wait");
        Follower { run, report }
    }

    fn report(self) -> Report {
        let ended = self
            .run
            .wait()
            .expect(0, "a process was followed, and that is all it was");
        Report::read(self.report.path(), ended)
    }
}

fn file(scratch: &Scratch) -> PathBuf {
    let file = scratch.file("file", 4 << 20);
    evict(&file);
    file
}

fn for_a_time() {
    let scratch = Scratch::new();
    let file = file(&scratch);
    let mut reader = Reader::of(&file);
    let pid = reader.pid();
    let follower = Follower::of(pid, &["-d", "1"]);
    reader.read();
    let report = follower.report();
    assert_eq!(report.json["followed_pid"], pid, "it says whom it followed");
    assert_eq!(
        report.json["exit"]["reason"], "still running",
        "and that it goes on"
    );
    assert!(reader.runs(), "which it does");
    let row = report.file(&file);
    assert_eq!(
        number(row, "read_requested_pages"),
        pages_of(&file),
        "what it read meanwhile"
    );
    assert_eq!(number(row, "read_cached_pages"), 0, "cold");
    report.adds_up();
    reader.end();
}

fn to_its_end() {
    let scratch = Scratch::new();
    let file = file(&scratch);
    let mut reader = Reader::of(&file);
    reader.read();
    let follower = Follower::of(reader.pid(), &[]);
    reader.read();
    reader.read();
    reader.end();
    let report = follower.report();
    let row = report.file(&file);
    assert_eq!(
        number(row, "read_requested_pages"),
        2 * pages_of(&file),
        "two reads; the one before it was followed is not counted"
    );
    assert_ne!(
        report.json["exit"]["reason"], "still running",
        "it has ended"
    );
    report.adds_up();
}

fn ends_before_the_time() {
    let scratch = Scratch::new();
    let reader = Reader::of(&file(&scratch));
    let follower = Follower::of(reader.pid(), &["-d", "1h"]);
    reader.end();
    let report = follower.report();
    assert_ne!(
        report.json["exit"]["reason"], "still running",
        "nobody waits for the hour"
    );
}

fn killed_meanwhile() {
    let scratch = Scratch::new();
    let file = file(&scratch);
    let mut reader = Reader::of(&file);
    let follower = Follower::of(reader.pid(), &[]);
    reader.read();
    drop(reader);
    let report = follower.report();
    assert_eq!(
        number(report.file(&file), "read_requested_pages"),
        pages_of(&file),
        "what was counted up to then is reported"
    );
    report.adds_up();
}

fn another_user() {
    let scratch = Scratch::new();
    let file = file(&scratch);
    let mut reader = Reader::of_nobody(&file);
    let follower = Follower::of(reader.pid(), &[]);
    reader.read();
    reader.end();
    let report = follower.report();
    assert_eq!(
        number(report.file(&file), "read_requested_pages"),
        pages_of(&file),
        "root follows anybody's process"
    );
    report.adds_up();
}

fn a_single_process_that_reads() {
    // With threads, and without children: the pages are its own.
    let scratch = Scratch::new();
    let file = scratch.file("file", 16 << 20);
    evict(&file);
    let mut command = Command::new("sh");
    command.args(["-c", "echo ready; read -r _; exec \"$@\"", "sh"]);
    let threads = program("threads", &file);
    command
        .arg(threads.get_program())
        .args(threads.get_args())
        .stdin(Stdio::piped());
    let mut reader = Started::of(&mut command);
    assert_eq!(
        reader.line().as_deref(),
        Some(&b"ready\n"[..]),
        "it is there"
    );
    let follower = Follower::of(reader.pid(), &[]);
    drop(reader.child.stdin.take());
    let pid = reader.pid();
    reader.wait().expect(0, "it reads the file and ends");
    let report = follower.report();
    assert_eq!(
        number(report.file(&file), "read_requested_pages"),
        pages_of(&file),
        "each page once"
    );
    let row = report
        .processes()
        .iter()
        .find(|process| process["pid"] == pid);
    let row = row.unwrap_or_else(|| panic!("{pid} is in {:?}", report.processes()));
    assert!(
        number(row, "read_requested_pages") >= pages_of(&file),
        "they are on its row: {row}"
    );
    report.adds_up();
}

fn stopped_by(signal: Signal) {
    let scratch = Scratch::new();
    let file = file(&scratch);
    let mut reader = Reader::of(&file);
    let follower = Follower::of(reader.pid(), &[]);
    reader.read();
    follower.run.signal(signal);
    let report = follower.report();
    assert_eq!(
        number(report.file(&file), "read_requested_pages"),
        pages_of(&file),
        "what was counted up to then is reported"
    );
    assert_eq!(
        report.json["exit"]["reason"], "still running",
        "the process is left alone"
    );
    assert!(reader.runs(), "and runs");
    reader.read();
    report.adds_up();
    reader.end();
}
