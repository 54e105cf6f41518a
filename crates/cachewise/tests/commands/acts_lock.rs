//! `lock`: what is locked stays, for as long as it runs and no longer; `--follow` keeps to what runs.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::Signal;

use crate::support::*;

/// The tests.
pub fn trials() -> Vec<Trial> {
    vec![
        plain("usage::what_goes_together", what_goes_together),
        plain("files::stay_until_it_ends", stay_until_it_ends),
        plain("files::what_is_resident", what_is_resident),
        plain("files::nothing_to_lock", nothing_to_lock),
        plain("files::dry_run", dry_run),
        plain(
            "room::more_than_the_machine_has_is_refused",
            more_than_the_machine_has_is_refused,
        ),
        needs_root(
            "room::more_than_the_group_has_is_refused",
            more_than_the_group_has_is_refused,
        ),
        needs_root(
            "room::an_unreadable_block_ends_it_with_an_error",
            an_unreadable_block_ends_it_with_an_error,
        ),
        plain("follow::a_program_and_its_end", a_program_and_its_end),
        plain("follow::sizes_and_patterns", sizes_and_patterns),
        plain("follow::dump", dump),
        plain("follow::what_is_no_dump", what_is_no_dump),
        needs_root("nobody::is_told_the_limit", nobody_is_told_the_limit),
        needs_root("nobody::is_told_of_the_dump", nobody_is_told_of_the_dump),
        needs_root("nobody::follows_its_own", nobody_follows_its_own),
    ]
}

/// Few enough for any limit.
const PAGES: u64 = 8;

fn lock(arguments: &[&str], paths: &[&Path]) -> Command {
    let mut command = cachewise(["lock"]);
    command.args(arguments).args(paths).stdin(Stdio::null());
    command
}

/// Reads lines until one has this in it.
fn until_line(started: &mut Started, part: &str) -> String {
    let mut seen = String::new();
    while let Some(line) = started.line() {
        let line = String::from_utf8_lossy(&line).into_owned();
        if line.contains(part) {
            return line;
        }
        seen += &line;
    }
    panic!("it ended without a line with {part:?}: {seen}");
}

fn evicted(path: &Path) -> String {
    let ended = Ended::of(cachewise(["evict", "--sync"]).arg(path));
    ended.expect(0, "what stays is no failure").out()
}

fn what_goes_together() {
    Ended::of(&mut lock(&[], &[]))
        .expect(2, "there is nothing to lock")
        .says("lock [OPTIONS] --follow", "both ways are shown");
    for arguments in [
        &["--follow", "/bin"][..],
        &["--follow", "--resident"],
        &["--follow", "--range=0:1"],
        &["--follow", "--json"],
        &["--period=1", "/bin"],
        &["--dump=x", "/bin"],
        &["--follow", "--period=0"],
        &["--follow", "--max-file=much"],
        &["--follow", "--include=["],
    ] {
        let ended = Ended::of(&mut lock(arguments, &[])).expect(2, "that does not go together");
        assert!(!ended.err().is_empty(), "and it says so: {arguments:?}");
    }
}

fn stay_until_it_ends() {
    let scratch = Scratch::new();
    let file = scratch.file("file", PAGES * page_size());
    // It takes no care of ours, for the kernel lets go what a process had.
    for (signal, code) in [(Signal::TERM, 0), (Signal::INT, 0), (Signal::KILL, -9)] {
        evict(&file);
        let mut locking = Started::of(&mut lock(&[], &[&file]));
        until_line(&mut locking, &format!("{PAGES} pages are locked"));
        let by = format!("{PAGES} locked by cachewise ({})", locking.pid());
        let out = evicted(&file);
        assert!(
            out.contains(&by) && out.contains(&format!("0 pages evicted, {PAGES} stayed")),
            "all of it was brought in, and stays: {out}"
        );
        locking.signal(signal);
        locking.wait().expect(code, "it ends when it is told to");
        let out = evicted(&file);
        assert!(
            out.contains(" 0 stayed"),
            "nothing is left of the lock: {out}"
        );
    }
}

fn what_is_resident() {
    let scratch = Scratch::new();
    let file = scratch.file("file", PAGES * page_size());
    undisturbed(|| {
        evict(&file);
        let range = format!("--range=0:{}", 3 * page_size());
        Ended::of(cachewise(["warm", &range]).arg(&file)).expect(0, "it can be warmed");
        let mut locking = Started::of(&mut lock(&["--resident"], &[&file]));
        let line = until_line(&mut locking, "locked");
        let out = evicted(&file);
        (resident(&file) == 3).then(|| {
            assert!(line.contains("3 pages locked"), "so many: {line}");
            assert!(
                out.contains("3 locked by"),
                "those stay, and nothing was brought in: {out}"
            );
        })
    });
}

fn nothing_to_lock() {
    let scratch = Scratch::new();
    let file = scratch.file("file", PAGES * page_size());
    undisturbed(|| {
        evict(&file);
        let ended = Ended::of(&mut lock(&["--resident"], &[&file]));
        (resident(&file) == 0).then(|| {
            ended
                .expect(2, "to wait would keep nothing")
                .says("--resident", "and it says what to do");
        })
    });
    for path in [scratch.file("empty", 0), scratch.path("gone")] {
        Ended::of(&mut lock(&[], &[&path])).expect(2, "there is nothing to lock");
    }
    let good = scratch.file("good", page_size());
    let mut locking = Started::of(&mut lock(&[], &[&scratch.path("gone"), &good]));
    until_line(&mut locking, "1 page is locked");
    locking.signal(Signal::INT);
    locking
        .wait()
        .expect(2, "one of two could not be done")
        .says("gone", "and is named");
}

fn dry_run() {
    let scratch = Scratch::new();
    let file = scratch.file("file", PAGES * page_size());
    evict(&file);
    let ended = Ended::of(&mut lock(&["-N"], &[&file])).expect(0, "it can be asked");
    assert!(
        ended.out().contains(&format!(
            "{PAGES} pages would be locked; nothing was locked"
        )),
        "{}",
        ended.out()
    );
    assert_eq!(resident(&file), 0, "and nothing was read for it");
}

/// A file without content, of which every page would take memory.
fn sparse(scratch: &Scratch, bytes: u64) -> PathBuf {
    let path = scratch.path("sparse");
    let file = fs::File::create(&path).expect("a file can be made there");
    file.set_len(bytes).expect("it may be that large");
    path
}

fn more_than_the_machine_has_is_refused() {
    let scratch = Scratch::new();
    let path = sparse(&scratch, 4 << 40);
    for arguments in [&[][..], &["--dry-run"]] {
        Ended::of(&mut lock(arguments, &[&path]))
            .expect(2, "no machine has as much, or may lock it")
            .says("cannot lock 4.0 TiB", "what was asked for")
            .says("the machine has", "why it cannot be done")
            .says("--force", "and what to do");
    }
    assert_eq!(resident(&path), 0, "nothing was brought in");
}

fn more_than_the_group_has_is_refused() {
    const LIMIT: u64 = 64 << 20;
    let group = Group::new().filter(|group| group.limit_memory(LIMIT).is_some());
    let Some(group) = group else {
        println!("skipped: a lock in a small group: control groups cannot be made here");
        return;
    };
    let inner = group.inner();
    let scratch = Scratch::new();
    let path = sparse(&scratch, 2 * LIMIT);
    let in_group = |arguments: &[&str]| {
        let mut command = Command::new("sh");
        command
            .args(["-c", r#"echo $$ >"$0"/cgroup.procs && exec "$@""#])
            .arg(inner.path())
            .args([env!("CARGO_BIN_EXE_cachewise"), "lock"])
            .args(arguments)
            .arg(&path)
            .stdin(Stdio::null());
        Ended::of(&mut command)
    };
    for arguments in [&[][..], &["--dry-run"]] {
        in_group(arguments)
            .expect(2, "it would be killed for it")
            .says("cannot lock 128.0 MiB", "what was asked for")
            .says(
                &group.path().display().to_string(),
                "whose limit it is: that of the group above",
            )
            .says("--force", "and what to do");
        assert_eq!(resident(&path), 0, "nothing was brought in");
    }
    in_group(&["--dry-run", "--force"]).expect(0, "that is for the caller to know");
}

/// A file system on a loop device, unmounted when dropped.
struct OnLoop {
    directory: PathBuf,
    _device: LoopDevice,
}

impl OnLoop {
    fn mount(scratch: &Scratch, device: LoopDevice) -> OnLoop {
        let directory = scratch.path("mounted");
        fs::create_dir_all(&directory).expect("it is ours");
        let status = Command::new("mount")
            .arg(&device.path)
            .arg(&directory)
            .status();
        assert!(
            status.is_ok_and(|status| status.success()),
            "root may mount"
        );
        OnLoop {
            directory,
            _device: device,
        }
    }
}

impl Drop for OnLoop {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.directory).status();
    }
}

fn an_unreadable_block_ends_it_with_an_error() {
    const IMAGE: u64 = 24 << 20;
    let scratch = Scratch::new();
    let image = scratch.path("image");
    let file = fs::File::create(&image).expect("a file can be made there");
    file.set_len(IMAGE).expect("it is sparse");
    let path = std::env::var("PATH").unwrap_or_default();
    let made = Command::new("mkfs.ext4")
        .env("PATH", format!("{path}:/usr/sbin:/sbin"))
        .args(["-q", "-b", "4096", "-m", "0"])
        .arg(&image)
        .status();
    if !made.is_ok_and(|status| status.success()) {
        println!("skipped: a lock on a broken disk: mkfs.ext4 is not installed");
        return;
    }
    let mounted = OnLoop::mount(&scratch, LoopDevice::over(&image));
    let victim = mounted.directory.join("file");
    fs::write(&victim, vec![7; IMAGE as usize / 2]).expect("there is room");
    evict(&victim);
    // The directory and the inode stay in memory; what the file has lies behind the end of the device's file now.
    file.set_len(3 << 20).expect("it can be cut");
    for arguments in [&[][..], &["--range=8M:1M"]] {
        let mut locking = Started::of(&mut lock(arguments, &[&victim]));
        locking.close_output();
        locking
            .wait()
            .expect(2, "it cannot be read, and that is all")
            .says("Input/output error", "the cause")
            .says(&victim.display().to_string(), "the file")
            .says("dmesg", "and where to look");
    }
    drop(mounted);
}

/// A program of our own that runs until it is dropped, and that no other process maps.
struct Sleeper {
    path: PathBuf,
    running: Started,
}

impl Sleeper {
    fn new(scratch: &Scratch) -> Sleeper {
        let path = scratch.path("sleeper");
        copy_program(Path::new("/bin/sleep"), &path);
        let running = Started::of(Command::new(&path).arg("1000"));
        until("it runs its own file", || {
            let exe = fs::read_link(format!("/proc/{}/exe", running.pid())).ok()?;
            (exe == path).then_some(())
        });
        Sleeper { path, running }
    }
}

/// Follows what is in a directory.
fn follow(scratch: &Scratch, arguments: &[&str]) -> Started {
    let pattern = format!("{}/*", scratch.directory().display());
    let mut command = lock(&["--follow", "--period=50ms", "--include", &pattern], &[]);
    Started::of(command.args(arguments))
}

fn a_program_and_its_end() {
    let scratch = Scratch::new();
    let sleeper = Sleeper::new(&scratch);
    let mut following = follow(&scratch, &[]);
    until_line(&mut following, "of 1 file are locked");
    let out = evicted(&sleeper.path);
    assert!(
        out.contains(&format!("cachewise ({})", following.pid())) && out.contains(" locked"),
        "what runs is kept: {out}"
    );
    let Sleeper { path, running } = sleeper;
    drop(running);
    until_line(&mut following, "0 pages of 0 files");
    let out = evicted(&path);
    assert!(out.contains(" 0 stayed"), "what has ended is let go: {out}");
    let _again = Started::of(Command::new(&path).arg("1000"));
    until_line(&mut following, "of 1 file are locked");
    following.signal(Signal::TERM);
    following.wait().expect(0, "that is how it ends");
}

fn sizes_and_patterns() {
    let scratch = Scratch::new();
    let _sleeper = Sleeper::new(&scratch);
    for (arguments, says) in [
        (&["--max-file=1k"][..], "1 file omitted by --max-file"),
        (&["--max-total=1k"], "1 file omitted by --max-total"),
        (&["--exclude=sleep*"], "0 pages of 0 files"),
    ] {
        let mut following = follow(&scratch, arguments);
        let line = until_line(&mut following, "locked");
        assert!(
            line.contains(says) && line.contains("0 pages of 0 files"),
            "{arguments:?}: {line}"
        );
    }
    let ended = follow(&scratch, &["--dry-run"])
        .wait()
        .expect(0, "it ends by itself");
    assert!(
        ended.out().contains("sleeper") && ended.out().contains("nothing was locked"),
        "it says what it would do: {}",
        ended.out()
    );
}

fn dump() {
    let scratch = Scratch::new();
    let place = Scratch::new();
    let path = place.path("dump");
    let argument = format!("--dump={}", path.display());
    let sleeper = Sleeper::new(&scratch);
    let mut following = follow(&scratch, &[&argument]);
    until_line(&mut following, "of 1 file are locked");
    let mut expected = sleeper.path.as_os_str().as_bytes().to_vec();
    expected.push(0);
    until("the dump names what is locked", || {
        (fs::read(&path).ok()? == expected).then_some(())
    });
    let mode = path.metadata().expect("it is there").permissions().mode() & 0o777;
    assert_eq!(mode, 0o600, "paths are not for everybody");
    following.signal(Signal::TERM);
    following.wait().expect(0, "that is how it ends");

    let Sleeper {
        path: file,
        running,
    } = sleeper;
    drop(running);
    evict(&file);
    let mut following = follow(&scratch, &[&argument]);
    let line = until_line(&mut following, "of 1 file are locked");
    assert!(
        line.starts_with(&format!("{} pages", pages_of(&file))),
        "all of it is brought in, though it does not run yet: {line}"
    );
    until_line(&mut following, "0 pages of 0 files");
    until("the dump is kept up", || {
        fs::read(&path).ok()?.is_empty().then_some(())
    });
    drop(following);
    let names = fs::read_dir(place.directory()).expect("it is ours").count();
    assert_eq!(names, 1, "there is nothing beside it");
}

fn what_is_no_dump() {
    let scratch = Scratch::new();
    let other = scratch.path("other");
    fs::write(&other, "root:x:0:0\n").expect("it is ours");
    let pipe = FullPipe::new(&scratch);
    for path in [&other, &pipe.path, &scratch.path("none/dump")] {
        let argument = format!("--dump={}", path.display());
        follow(&scratch, &[&argument])
            .wait()
            .expect(2, "it would be lost, or cannot be made")
            .says(&path.display().to_string(), "the message names it");
    }
    let content = fs::read(&other).expect("it is there");
    assert_eq!(content, b"root:x:0:0\n", "it is as it was");
}

/// The binary as another user, with a limit in KiB.
fn nobody(scratch: &Scratch, limit: &str) -> Command {
    let binary = copy_for_everyone(scratch.directory());
    let mut command = as_nobody();
    command
        .args([
            "sh",
            "-c",
            r#"ulimit -l "$1"; shift; exec "$@""#,
            "sh",
            limit,
        ])
        .arg(binary)
        .arg("lock")
        .stdin(Stdio::null());
    command
}

fn nobody_is_told_the_limit() {
    let scratch = Scratch::new();
    let file = scratch.file("file", 1 << 20);
    let small = scratch.file("small", page_size());
    for arguments in [&["-N"][..], &[]] {
        Ended::of(nobody(&scratch, "64").args(arguments).arg(&file))
            .expect(2, "that is more than is allowed")
            .says("RLIMIT_MEMLOCK is 64.0 KiB", "the message names the limit")
            .says("ulimit -l 1024", "and what it should be")
            .says("LimitMEMLOCK=1048576", "for services, too");
    }
    let other = scratch.file("other", 1 << 19);
    let ended = Ended::of(nobody(&scratch, "64").args([&file, &other]).arg("--json"))
        .expect(2, "none of them may be")
        .says("2 files could not be locked", "of how many it is true")
        .says("ulimit -l 1536", "and what all of them need together");
    assert_eq!(
        ended.err().matches("ulimit").count(),
        1,
        "it is said once: {}",
        ended.err()
    );
    let document: serde_json::Value = serde_json::from_slice(&ended.out).expect("it is JSON");
    assert_eq!(
        number(&document["total"], "file_size_bytes"),
        (1 << 20) + (1 << 19),
        "their sizes, though nothing is locked: {document}"
    );
    let mut locking = Started::of(nobody(&scratch, "64").arg(&file).arg(&small));
    until_line(&mut locking, "1 page is locked");
    locking.signal(Signal::INT);
    locking
        .wait()
        .expect(2, "the rest of the work was done")
        .says(&file.display().to_string(), "the message names the file");
}

/// Files of the dump that no process maps are reported too.
fn nobody_is_told_of_the_dump() {
    let scratch = Scratch::new();
    let file = scratch.file("file", 1 << 20);
    let dump = Scratch::new();
    let path = dump.path("dump");
    let mut names = file.as_os_str().as_bytes().to_vec();
    names.push(0);
    fs::write(&path, names).expect("it is ours");
    fs::set_permissions(dump.directory(), fs::Permissions::from_mode(0o777)).expect("it is ours");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).expect("it is ours");
    let mut command = nobody(&scratch, "64");
    command.args(["--follow", "--period=50ms", "--include"]);
    command.arg(&file).arg("--dump").arg(&path);
    let mut following = Started::of(&mut command);
    until_line(&mut following, "0 pages of 0 files");
    following.signal(Signal::TERM);
    following
        .wait()
        .expect(0, "that is how it ends")
        .says("1 file could not be locked", "what was refused is said")
        .says("RLIMIT_MEMLOCK", "and why");
}

fn nobody_follows_its_own() {
    let scratch = Scratch::new();
    let ended = Ended::of(nobody(&scratch, "64").args(["--follow", "--dry-run"]));
    assert!(
        [0, 2].contains(&ended.code()),
        "it depends on what that user may know of the shell's files: {}",
        ended.err()
    );
    assert!(
        ended.err().contains("ask as its owner or as root")
            || ended.err().contains("could not be locked"),
        "it says what is left out: {}",
        ended.err()
    );
}
