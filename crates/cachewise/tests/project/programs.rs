//! `cachewise cpu`, `tier` and `mount`: programs of their own, which `cachewise` becomes.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::siblings::{programs, sibling};

fn output(command: &mut Command) -> (Option<i32>, String) {
    let Output { status, stderr, .. } = command.output().expect("the program can be run");
    (status.code(), String::from_utf8_lossy(&stderr).into_owned())
}

#[test]
fn arguments_and_exit_status_are_the_siblings() {
    let [cachewise, ..] = programs();
    for (command, usage) in [
        ("cpu", "Usage: cachewise-cpu"),
        ("tier", "Usage: cachewise-tier"),
        ("mount", "Usage: cachewise-tier mount"),
    ] {
        let (code, said) = output(Command::new(&cachewise).args([command, "--no-such-option"]));
        assert_eq!(code, Some(2), "{command}: {said}");
        assert!(said.contains(usage), "{command}: {said}");
    }
    for (words, first) in [
        (&["help", "cpu"][..], "Usage: cachewise-cpu <COMMAND>"),
        (&["help", "cpu", "run"], "Usage: cachewise cpu run"),
        (&["help", "tier", "get"], "Usage: cachewise-tier get"),
        (&["help", "mount"], "Usage: cachewise-tier mount"),
    ] {
        let help = Command::new(&cachewise).args(words).output();
        let help = String::from_utf8_lossy(&help.expect("it can be run").stdout).into_owned();
        assert!(help.contains(first), "{words:?}: {help}");
    }
    // Names need not be UTF-8, and are shown escaped.
    let origin = tempfile::tempdir().expect("a temporary directory can be made");
    let name = OsStr::from_bytes(b"no\xff");
    let mut get = Command::new(&cachewise);
    get.args(["tier", "get"]).arg(origin.path()).arg(name);
    let (code, said) = output(&mut get);
    assert_eq!(code, Some(2), "there is no such file: {said}");
    assert!(said.contains("no\\xff"), "with its name: {said}");
}

#[test]
fn a_missing_sibling_is_named_with_its_package() {
    let directory = tempfile::tempdir().expect("a temporary directory can be made");
    let alone = directory.path().join("cachewise");
    // By a process of its own: a file that this one has open for writing cannot be run.
    let copied = Command::new("cp")
        .arg(sibling("cachewise"))
        .arg(&alone)
        .status();
    assert!(copied.is_ok_and(|status| status.success()), "it is copied");
    for (command, package) in [
        ("cpu", "cachewise-cpu"),
        ("tier", "cachewise-tier"),
        ("mount", "cachewise-tier"),
    ] {
        let (code, said) = output(Command::new(&alone).arg(command).env("PATH", ""));
        assert_eq!(code, Some(2), "{command}: {said}");
        assert!(
            said.contains(&format!("the package {package} has it")),
            "{command}: {said}"
        );
    }
}

#[test]
fn signals_reach_the_sibling() {
    let cpu = sibling("cachewise-cpu");
    let mut child = Command::new(sibling("cachewise"))
        .args(["cpu", "table"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program can be run");
    let pid = child.id();
    let exe = format!("/proc/{pid}/exe");
    let limit = Instant::now() + Duration::from_secs(60);
    // The same process: nothing is between the caller and the program.
    while fs::read_link(&exe)
        .is_ok_and(|program| program != fs::canonicalize(&cpu).expect("it is there"))
    {
        assert!(
            Instant::now() < limit,
            "it becomes {}",
            Path::new(&exe).display()
        );
        std::thread::sleep(Duration::from_millis(2));
    }
    let process = Pid::from_raw(i32::try_from(pid).expect("a pid")).expect("not 0");
    kill_process(process, Signal::KILL).expect("it is there");
    let status = child.wait().expect("it is ours");
    assert_eq!(status.signal(), Some(9), "it was that process: {status}");
}
