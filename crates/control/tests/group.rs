//! A real control group on the machine that runs the tests.

use std::fs;
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use cachewise_control::{Error, Group, Limits, Owner, sweep};
use cachewise_kstat::{ErrorKind, Hierarchy, Kernel};
use cachewise_units::Bytes;

const LIMIT: Bytes = Bytes(32 << 20);

/// Makes a group, if that is possible here.
fn group(what: &str) -> Option<Group> {
    match Group::create(&Kernel::new(), "test") {
        Ok(group) => Some(group),
        Err(error @ (Error::Unsupported { .. } | Error::Io { .. })) => {
            println!("skipped: {what}: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// A file of this size on a disk, with no page in the page cache.
fn cold_file(bytes: u64) -> tempfile::NamedTempFile {
    let file =
        tempfile::NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a file of our own");
    fs::write(
        file.path(),
        vec![7; usize::try_from(bytes).expect("a file of our own")],
    )
    .expect("a file of our own");
    file.as_file().sync_all().expect("a file of our own");
    cachewise_sys::fadvise_dont_need(file.as_file().as_fd()).expect("a file of our own");
    file
}

fn cat(file: &Path) -> Command {
    let mut command = Command::new("cat");
    command.arg(file).stdout(Stdio::null());
    command
}

#[test]
fn limited_program_is_charged_from_its_first_page() {
    let Some(group) = group("limits") else { return };
    let limits = Limits {
        max: Some(LIMIT),
        ..Limits::default()
    };
    group.limit(&limits).unwrap();
    let file = cold_file(2 * LIMIT.0);
    let mut command = cat(file.path());
    group.admit(&mut command).unwrap();
    assert!(command.status().unwrap().success(), "it reads all of it");
    let memory = group.memory().unwrap();
    assert_eq!(memory.limit, Some(LIMIT), "as it was set");
    assert!(
        memory.file > Some(Bytes(LIMIT.0 / 2)) && memory.used <= Some(LIMIT),
        "its pages are charged to the group, as far as they may be: {memory:?}"
    );
    assert!(memory.limit_reached > Some(0), "at its limit: {memory:?}");
    assert_eq!(
        memory.oom_kills,
        Some(0),
        "cache can be dropped: {memory:?}"
    );

    let reclaimed = group.reclaim(LIMIT).unwrap();
    assert!(
        reclaimed.bytes() > Bytes(LIMIT.0 / 2),
        "the cache of an ended program is reclaimed: {reclaimed:?}"
    );
    let path = group.path().to_owned();
    group.remove().unwrap();
    assert!(!path.exists(), "its directory is gone");
}

#[test]
fn oversized_program_is_killed_and_counted() {
    let Some(group) = group("kills") else { return };
    let limits = Limits {
        max: Some(LIMIT),
        ..Limits::default()
    };
    group.limit(&limits).unwrap();
    let no_swap = Limits {
        swap_max: Some(Bytes(0)),
        ..limits
    };
    match group.limit(&no_swap) {
        // Without swap accounting there must be no swap.
        Err(Error::Unsupported { reason, .. }) => {
            assert!(reason.contains("swapaccount"), "{reason}")
        }
        other => other.unwrap(),
    }
    // Allocates without end: a string, doubled.
    let mut command = Command::new("sh");
    command.args(["-c", "a=x; while :; do a=$a$a; done"]);
    group.admit(&mut command).unwrap();
    let status = command.status().unwrap();
    assert_eq!(status.signal(), Some(9), "killed: {status}");
    let memory = group.memory().unwrap();
    assert_eq!(memory.oom_kills, Some(1), "and counted: {memory:?}");
}

#[test]
fn remove_moves_remaining_processes_alive() {
    let Some(group) = group("moving") else { return };
    let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
    group.take_in(child.id()).unwrap();
    let kernel = Kernel::new();
    let inside = kernel.cgroup_of(child.id()).unwrap().unwrap();
    assert_eq!(inside.path, group.path(), "it is in the group");
    let path = group.path().to_owned();
    drop(group);
    assert!(!path.exists(), "the group is gone");
    assert!(child.try_wait().unwrap().is_none(), "the process is not");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn remove_returns_the_maker_to_its_groups() {
    let kernel = Kernel::new();
    let Some(root) = kernel.unified_hierarchy().unwrap() else {
        println!("skipped: return to the old group: no unified hierarchy is mounted");
        return;
    };
    let own = std::process::id();
    let before = kernel.unified_cgroup_of(own).unwrap();
    let place = root.join(format!("test-way-back-{own}"));
    let enter = |group: &Path| fs::write(group.join("cgroup.procs"), own.to_string());
    if let Err(error) = fs::create_dir(&place).and_then(|()| enter(&place)) {
        println!("skipped: return to the old group: {error}");
        let _ = fs::remove_dir(&place);
        return;
    }
    let found = group("return to the old group").map(|group| {
        group.take_in(own).unwrap();
        let inside = kernel.unified_cgroup_of(own).unwrap();
        group.remove().unwrap();
        (inside, kernel.unified_cgroup_of(own).unwrap())
    });
    enter(before.as_ref().unwrap_or(&root)).unwrap();
    fs::remove_dir(&place).unwrap();
    if let Some((inside, after)) = found {
        assert_ne!(inside.as_ref(), Some(&place), "it was elsewhere meanwhile");
        assert_eq!(after, Some(place), "and is back");
    }
}

#[test]
fn sweep_removes_only_groups_of_dead_runs() {
    let Some(alive) = group("sweeping") else {
        return;
    };
    let kernel = Kernel::new();
    let parent = alive.path().parent().unwrap();
    // By a process with our pid that started before boot.
    let owner = Owner::current().unwrap().to_string();
    let mut numbers: Vec<&str> = owner.split('-').collect();
    numbers[1] = "0";
    let left = parent.join(format!("cachewise-test-{}-0", numbers.join("-")));
    fs::create_dir(&left).unwrap();
    numbers[2] = "1";
    let elsewhere = parent.join(format!("cachewise-test-{}-0", numbers.join("-")));
    fs::create_dir(&elsewhere).unwrap();

    let swept = sweep(&kernel, &[]).unwrap();
    let is_left = elsewhere.exists();
    let ended: Owner = numbers.join("-").parse().unwrap();
    let known = sweep(&kernel, &[ended]).unwrap();
    let is_gone = !elsewhere.exists();
    let _ = fs::remove_dir(&elsewhere);
    assert!(swept.removed.contains(&left) && !left.exists(), "{swept:?}");
    assert!(is_left, "that of another namespace may be in use");
    assert!(
        is_gone,
        "unless its process is known to have ended: {known:?}"
    );
    assert!(alive.path().exists(), "ours is in use");
}

#[test]
fn limit_refuses_impossible_limits() {
    let Some(group) = group("refusals") else {
        return;
    };
    let is_v1 = matches!(group.hierarchy(), Hierarchy::V1Memory { .. });
    let swappiness = Limits {
        swappiness: Some(201),
        ..Limits::default()
    };
    let error = group.limit(&swappiness).unwrap_err();
    let kind = if is_v1 {
        ErrorKind::Invalid
    } else {
        ErrorKind::Unsupported
    };
    assert_eq!(error.kind(), kind, "{error}");
    let text = error.to_string();
    assert!(text.contains("memory.swappiness"), "what: {text}");
    let swap = Limits {
        swap_max: Some(Bytes(0)),
        ..Limits::default()
    };
    if is_v1 {
        let error = group.limit(&swap).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "together: {error}");
    }
    let error = Group::create(&Kernel::new(), "two words").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
}

/// A machine that consists only of its mounts.
fn made_up(mounts: &str) -> (tempfile::TempDir, Kernel, PathBuf) {
    let root = tempfile::tempdir().expect("a file of our own");
    let proc = root.path().join("proc/self");
    fs::create_dir_all(&proc).expect("a file of our own");
    fs::write(proc.join("mountinfo"), mounts).expect("a file of our own");
    let groups = root.path().join("sys/fs/cgroup");
    fs::create_dir_all(&groups).expect("a file of our own");
    let kernel = Kernel::with_roots(root.path().join("proc"), root.path().join("sys"));
    (root, kernel, groups)
}

#[test]
fn create_reports_why_no_group_can_be_made() {
    let (_root, kernel, _) = made_up("22 1 8:1 / / rw - ext4 /dev/sda1 rw\n");
    let error = Group::create(&kernel, "test").unwrap_err().to_string();
    assert!(error.contains("mount -t cgroup2"), "no hierarchy: {error}");

    let v2 = "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n30 22 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
    let (_root, kernel, groups) = made_up(v2);
    fs::write(groups.join("cgroup.controllers"), "cpu memory\n").unwrap();
    fs::write(groups.join("cgroup.subtree_control"), "cpu\n").unwrap();
    let error = Group::create(&kernel, "test").unwrap_err().to_string();
    assert!(error.contains("echo +memory"), "not handed on: {error}");

    // A made-up version 2: the writes match version 2.
    fs::write(groups.join("cgroup.subtree_control"), "cpu memory\n").unwrap();
    let group = Group::create(&kernel, "test").unwrap();
    let limits = Limits {
        max: Some(LIMIT),
        high: Some(Bytes(16 << 20)),
        swap_max: Some(Bytes(0)),
        swappiness: None,
    };
    let error = group.limit(&limits).unwrap_err().to_string();
    assert!(error.contains("CONFIG_MEMCG"), "not there yet: {error}");
    for name in [
        "memory.max",
        "memory.high",
        "memory.swap.max",
        "memory.reclaim",
    ] {
        fs::write(group.path().join(name), "").unwrap();
    }
    group.limit(&limits).unwrap();
    group.reclaim(Bytes(4096)).unwrap();
    for (name, value) in [
        ("memory.max", "33554432"),
        ("memory.high", "16777216"),
        ("memory.swap.max", "0"),
        ("memory.reclaim", "4096"),
    ] {
        let written = fs::read_to_string(group.path().join(name)).unwrap();
        assert_eq!(written, value, "{name}");
    }
}
