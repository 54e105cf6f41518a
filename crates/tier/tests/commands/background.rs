//! Mounts that go on when the command has ended, as /etc/fstab wants them.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use rustix::process::Signal;
use serde_json::Value;

use crate::mounted::{Mounted, bytes_of, has_fuse, is_mounted, origin};
use crate::support::*;

pub fn trials() -> Vec<Trial> {
    vec![
        plain("background::goes_on_until_it_is_unmounted", goes_on),
        plain("background::helper_of_mount_takes_options_of_fstab", helper),
        plain(
            "background::failure_is_reported_and_leaves_nothing",
            failure,
        ),
        plain(
            "background::a_mount_that_was_unmounted_leaves_the_next_one_alone",
            next_mount,
        ),
    ]
}

/// Reads a file below the mount, unmounts it, and waits until its process has ended.
fn use_and_end(directory: &Path) {
    assert!(is_mounted(directory), "the command ends when it is mounted");
    let read = fs::read(directory.join("f/0")).expect("it can be read");
    assert_eq!(read, bytes_of(0, 10_000));
    let report = fs::read(directory.join(".cachewise/stat.json")).expect("a mount has it");
    let report: Value = serde_json::from_slice(&report).expect("it is JSON");
    let pid = report["pid"].as_u64().expect("a process");
    let unmounted = Command::new("fusermount3")
        .arg("-u")
        .arg(directory)
        .status();
    assert!(unmounted.expect("it is installed").success());
    until("its process has ended", || {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let state = stat.rsplit(") ").next().unwrap_or_default();
        (stat.is_empty() || state.starts_with('Z')).then_some(())
    });
}

fn goes_on() {
    if !has_fuse("a mount in the background") {
        return;
    }
    let scratch = Scratch::new();
    let origin = origin(&scratch, 1, 10_000);
    let directory = scratch.directory().join("mnt");
    fs::create_dir(&directory).expect("made");
    let mut command = cachewise(["mount", "--background"]);
    Ended::of(command.arg(&origin).arg(&directory))
        .expect(0, "it is mounted")
        .says("is mounted on", "and says so");
    use_and_end(&directory);
}

fn next_mount() {
    if !has_fuse("a mount after another") {
        return;
    }
    let scratch = Scratch::new();
    let origin = origin(&scratch, 1, 10_000);
    let mut first = Mounted::new(&scratch, &origin, &[]);
    let started = first.started.take().expect("it runs");
    let directory = first.directory.clone();
    // It learns that it was unmounted when the next one is there.
    started.signal(Signal::STOP);
    let unmounted = Command::new("umount").arg("-l").arg(&directory).status();
    assert!(unmounted.is_ok_and(|status| status.success()));
    let second = Mounted::on(&directory, &origin, &[]);
    started.signal(Signal::CONT);
    started.wait().expect(0, "the first one has ended");
    assert!(is_mounted(&directory), "the second one is still there");
    let read = fs::read(second.path("f/0")).expect("it can be read");
    assert_eq!(read, bytes_of(0, 10_000));
    second.end().expect(0, "it is unmounted");
}

fn helper() {
    if !has_fuse("mount.cachewise") {
        return;
    }
    let scratch = Scratch::new();
    let origin = origin(&scratch, 1, 10_000);
    let directory = scratch.directory().join("mnt");
    fs::create_dir(&directory).expect("made");
    let name = scratch.directory().join("mount.cachewise");
    symlink(env!("CARGO_BIN_EXE_cachewise-tier"), &name).expect("made");
    let mounts = |options: &str| {
        let mut command = Command::new(&name);
        command.arg(&origin).arg(&directory).args(["-o", options]);
        Ended::of(&mut command)
    };
    mounts("rw,_netdev,memmory=8M")
        .expect(2, "no such setting")
        .says(
            "option memmory=8M: no such setting; there are memory,",
            "which there are",
        );
    for (options, why) in [
        (
            "memory=abc",
            "cachewise: option memory: \"abc\" is not a size",
        ),
        ("rw,threads=0", "cachewise: option threads: 0 is not from 1"),
    ] {
        mounts(options)
            .expect(2, options)
            .says(why, "as it was written");
    }
    mounts("rw,_netdev,x-systemd.automount,memory=8M").expect(0, "it is mounted");
    use_and_end(&directory);
}

fn failure() {
    let scratch = Scratch::new();
    let directory = scratch.directory().join("mnt");
    fs::create_dir(&directory).expect("made");
    let none = scratch.directory().join("none");
    let mut command = cachewise(["mount", "--background"]);
    Ended::of(command.arg(&none).arg(&directory))
        .expect(2, "there is no origin")
        .says("not found", "the reason");
    assert!(!is_mounted(&directory));
}
