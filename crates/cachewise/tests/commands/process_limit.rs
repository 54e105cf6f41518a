//! Limits on processes, which count threads: a command runs all the same, and no limit ends in a panic.

use std::fs;
use std::process::{Command, ExitCode};

use rustix::process::Signal;

use crate::support::*;

/// The errno that seccomp returns for clone3(2): for this program when it is run again, which then becomes the binary.
const REFUSE_CLONE3: &str = "CACHEWISE_REFUSE_CLONE3";

/// Becomes the binary without clone3(2), if this program was started for it.
pub fn be_without_clone3() -> Option<ExitCode> {
    let errno = std::env::var(REFUSE_CLONE3).ok()?;
    Some(without_clone3(&errno))
}

/// The tests.
pub fn trials() -> Vec<Trial> {
    vec![
        needs_root("run::starts_the_command", run_starts_the_command),
        needs_root("run::passes_signals_on", run_passes_signals_on),
        needs_root("others::end_with_an_error", others_end_with_an_error),
        needs_root("run::under_a_limit_of_the_user", under_a_limit_of_the_user),
        plain("run::without_clone3", starts_without_clone3),
    ]
}

/// A control group for at most this number of processes and threads.
fn group(most: u32) -> Option<Group> {
    let group = Group::of_processes();
    match &group {
        Some(group) => group.limit_processes(most),
        None => println!("skipped: limits on processes: no hierarchy with the pids controller"),
    }
    group
}

/// The binary in that group, by a shell that becomes it.
fn limited(group: &Group, arguments: &[&str]) -> Command {
    let binary = cachewise(arguments);
    let mut command = Command::new("sh");
    command
        .args(["-c", r#"echo $$ >"$0" && exec "$@""#])
        .arg(group.path().join("cgroup.procs"))
        .arg(binary.get_program())
        .args(binary.get_args());
    command
}

fn run_starts_the_command() {
    for most in 2..=4 {
        let Some(group) = group(most) else { return };
        let scratch = Scratch::new();
        let made = scratch.directory().join("made");
        let touch = ["run", "--", "touch", &made.to_string_lossy()];
        let ended = Ended::of(&mut limited(&group, &touch)).expect(0, "it runs");
        assert!(made.exists(), "{most} processes: {}", ended.err());
        assert!(
            ended.err().contains("exit 0"),
            "its report: {}",
            ended.err()
        );
        let exit = ["run", "--", "sh", "-c", "exit 7"];
        Ended::of(&mut limited(&group, &exit)).expect(7, "the status of the command");
    }
    let Some(alone) = group(1) else { return };
    Ended::of(&mut limited(&alone, &["run", "--", "true"]))
        .expect(2, "no second process")
        .says("limit on processes", "the cause");
}

fn run_passes_signals_on() {
    let Some(group) = group(2) else { return };
    let started = Started::of(&mut limited(&group, &["run", "--", "sleep", "1000"]));
    let children = format!("/proc/{0}/task/{0}/children", started.pid());
    until("the command runs", || {
        let children = fs::read_to_string(&children).ok()?;
        let comm = fs::read_to_string(format!("/proc/{}/comm", children.trim())).ok()?;
        (comm.trim() == "sleep").then_some(())
    });
    started.signal(Signal::TERM);
    started.wait().expect(143, "the signal ends the command");
}

fn others_end_with_an_error() {
    // Built here if it is not there: not under the limit.
    sibling("cachewise-tier");
    let scratch = Scratch::new();
    let directory = scratch.directory().to_string_lossy().into_owned();
    let file = scratch.directory().join("file");
    fs::write(&file, vec![7; 2 << 20]).expect("the disk has room");
    let file = file.to_string_lossy().into_owned();
    let at = |name: &str| format!("{directory}/{name}");
    let (recording, snapshot) = (at("a.rec"), at("a.snap"));
    // Outside of the origin.
    let beside = Scratch::new();
    let disk = beside.directory().join("disk");
    let disk = disk.to_str().expect("plain");
    let commands: [&[&str]; 13] = [
        &["stat", "0.1", "1"],
        &["top", "-b", "-d", "0.2", "-n", "1"],
        &["record", "-q", "-d", "0.3", &recording],
        &["record", "-q", &recording, "--", "true"],
        &["files", &directory],
        &["warm", &file],
        &["snapshot", "save", &snapshot, &file],
        &["doctor", "-s", "0"],
        &[
            "tier", "get", "--memory", "16M", "--disk", disk, &directory, "file",
        ],
        &["bench", "-f", &file, "--bytes", "1M"],
        &["order", &file],
        &["evict", "-N", &file],
        &["lock", "-N", &file],
    ];
    let mut done = 0;
    for most in [2, 3, 4, 8] {
        let Some(group) = group(most) else { return };
        for arguments in commands {
            // A recording of the limit before.
            let _ = fs::remove_file(&recording);
            let ended = Ended::of(&mut limited(&group, arguments));
            let err = ended.err();
            let line = format!("{most} processes: {arguments:?}: {err}");
            assert!(!err.contains("panicked"), "{line}");
            match ended.code() {
                0 => done += 1,
                2 => assert!(err.contains("limit on processes"), "the cause: {line}"),
                _ => panic!("neither done nor refused: {line}"),
            }
        }
    }
    assert!(done > 20, "with fewer threads most of it works: {done}");
    // With more threads it would go on.
    let Some(group) = group(2) else { return };
    let serve = ["serve", "--socket", &at("socket")];
    Ended::of(&mut limited(&group, &serve))
        .expect(2, "it needs threads")
        .says("limit on processes", "the cause");
}

/// A limit of the user (RLIMIT_NPROC) instead of one of the group. Root has none, and other users have few processes here.
fn under_a_limit_of_the_user() {
    let scratch = Scratch::new();
    let copy = copy_for_everyone(scratch.directory());
    for most in ["2", "3"] {
        let mut command = Command::new("prlimit");
        command
            .arg(format!("--nproc={most}"))
            .args([
                "setpriv",
                "--reuid",
                "61234",
                "--regid",
                "61234",
                "--clear-groups",
            ])
            .arg(&copy)
            .args(["run", "--", "sh", "-c", "exit 7"]);
        let ended = Ended::of(&mut command);
        let err = ended.err();
        assert!(!err.contains("panicked"), "{err}");
        ended.expect(7, "the status of the command");
    }
}

fn starts_without_clone3() {
    const EPERM: i32 = 1;
    const ENOSYS: i32 = 38;
    for errno in [EPERM, ENOSYS] {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command
            .env(REFUSE_CLONE3, errno.to_string())
            .args(["run", "--", "sh", "-c", "exit 7"]);
        let ended = Ended::of(&mut command);
        let err = ended.err();
        assert!(!err.contains("panicked"), "{err}");
        ended.expect(7, "the status of the command");
    }
}

fn without_clone3(errno: &str) -> ExitCode {
    use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, apply_filter};
    use std::os::unix::process::CommandExt;
    /// The number is the same on every architecture.
    const CLONE3: i64 = 435;
    let filter = SeccompFilter::new(
        [(CLONE3, vec![])].into(),
        SeccompAction::Allow,
        SeccompAction::Errno(errno.parse().expect("a number")),
        std::env::consts::ARCH.try_into().expect("a known machine"),
    );
    let program: BpfProgram = filter.and_then(TryInto::try_into).expect("a filter");
    apply_filter(&program).expect("a process may limit itself");
    let error = cachewise(std::env::args_os().skip(1))
        .env_remove(REFUSE_CLONE3)
        .exec();
    panic!("{error}");
}
