//! Names below a mount: programs see the links, numbers, owners and sizes of the origin.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::{DirEntryExt, MetadataExt, symlink};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::mounted::{Mounted, bytes_of, has_fuse, origin, settle, write};
use crate::support::*;

pub fn trials() -> Vec<Trial> {
    vec![
        plain("mount_names::find_sees_the_same_tree", find_sees_the_same),
        plain("mount_names::rsync_finds_no_difference", rsync_finds_none),
        plain(
            "mount_names::links_are_read_and_not_followed",
            links_are_read,
        ),
        plain(
            "mount_names::a_link_that_is_swapped_leads_to_one_of_both",
            swapped_link,
        ),
        plain(
            "mount_names::numbers_stay_when_the_kernel_forgets",
            numbers_stay,
        ),
        plain("mount_names::names_of_one_file_have_one_number", hard_links),
        plain(
            "mount_names::a_deleted_file_disappears_when_a_read_notices",
            deleted_file,
        ),
        plain("mount_names::free_room_is_that_of_the_origin", free_room),
        plain("mount_names::git_and_a_python_venv_work", git_and_venv),
    ]
}

/// Says whether a program is installed; else prints that a test is skipped.
fn has_program(name: &str) -> bool {
    let is_there = Command::new(name).arg("--version").output().is_ok();
    if !is_there {
        println!("skipped: {name} below a mount: {name} is not installed");
    }
    is_there
}

/// A tree with one of each kind, among them what no file has of its own accord.
fn tree(scratch: &Scratch) -> std::path::PathBuf {
    let origin = origin(scratch, 3, 100_000);
    let at = |name: &str| origin.join(name);
    fs::create_dir_all(at("deep/er/still")).expect("made");
    write(&at("deep/er/still/file"), b"deep");
    symlink("f/0", at("relative")).expect("made");
    symlink(at("f/1"), at("absolute")).expect("made");
    symlink("nowhere", at("dangling")).expect("made");
    symlink("deep", at("directory")).expect("made");
    symlink(".", at("round")).expect("made");
    symlink("..", at("f/up")).expect("made");
    fs::hard_link(at("f/0"), at("another name")).expect("made");
    let sparse = fs::File::create(at("sparse")).expect("made");
    sparse.set_len(8 << 20).expect("sized");
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(at("f/2"), Some(1234), Some(4321)).expect("root may");
    }
    let made = Command::new("mkfifo").arg(at("pipe")).status();
    assert!(made.expect("it is installed").success());
    settle(&origin);
    origin
}

/// `find -printf` of a tree, sorted.
fn found(directory: &Path, format: &str) -> Vec<String> {
    let found = Command::new("find")
        .arg(directory)
        .args(["-mindepth", "1", "-printf", format])
        .output()
        .expect("find is installed");
    assert!(found.status.success(), "{found:?}");
    let text = String::from_utf8(found.stdout).expect("plain names");
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

fn find_sees_the_same() {
    if !has_fuse("the names below a mount") {
        return;
    }
    let scratch = Scratch::new();
    let origin = tree(&scratch);
    let mounted = Mounted::new(&scratch, &origin, &[]);
    // Path, target, links, blocks, user, group, inode; of what is not a directory also its size.
    let numbers = "%P|%l|%n|%b|%U|%G|%i|%T@|%C@\n";
    assert_eq!(
        found(&mounted.directory, numbers),
        found(&origin, numbers),
        "all that stat(2) says but the permission to write"
    );
    let of_files = |directory: &Path| -> Vec<String> {
        let all = found(directory, "%y|%P|%s\n").into_iter();
        all.filter(|line| !line.starts_with("d|") && !line.contains("pipe"))
            .collect()
    };
    assert_eq!(of_files(&mounted.directory), of_files(&origin));
    for directory in ["", "f", "deep"] {
        let list = fs::read_dir(mounted.path(directory)).expect("listed");
        for entry in list {
            let entry = entry.expect("an entry");
            let found = entry.metadata().expect("it is there");
            assert_eq!(
                entry.ino(),
                found.ino(),
                "readdir(3) and stat(2) of {entry:?}"
            );
        }
    }
}

fn rsync_finds_none() {
    if !has_fuse("rsync of a mount") || !has_program("rsync") {
        return;
    }
    let scratch = Scratch::new();
    let origin = tree(&scratch);
    let mounted = Mounted::new(&scratch, &origin, &[]);
    let compared = Command::new("rsync")
        .args([
            "-n",
            "--recursive",
            "--links",
            "--times",
            "--owner",
            "--group",
            "--hard-links",
            "--checksum",
            "--delete",
            "--itemize-changes",
            "--omit-dir-times",
        ])
        .arg(format!("{}/", mounted.directory.display()))
        .arg(format!("{}/", origin.display()))
        .output()
        .expect("it starts");
    let text = String::from_utf8_lossy(&compared.stdout);
    assert!(compared.status.success(), "{compared:?}");
    let changes: Vec<&str> = text.lines().filter(|line| !line.contains("pipe")).collect();
    assert_eq!(changes, Vec::<&str>::new(), "each byte and each link");
}

fn links_are_read() {
    if !has_fuse("links below a mount") {
        return;
    }
    let scratch = Scratch::new();
    let origin = tree(&scratch);
    let mounted = Mounted::new(&scratch, &origin, &[]);
    for name in ["relative", "absolute", "dangling", "directory", "round"] {
        assert_eq!(
            fs::read_link(mounted.path(name)).expect("a link"),
            fs::read_link(origin.join(name)).expect("a link"),
            "{name}"
        );
    }
    assert_eq!(
        fs::read(mounted.path("relative")).expect("it leads to a file"),
        bytes_of(0, 100_000)
    );
    assert_eq!(
        fs::read(mounted.path("absolute")).expect("to the origin's own file"),
        bytes_of(1, 100_000)
    );
    assert_eq!(
        fs::read(mounted.path("directory/er/still/file")).expect("to a directory"),
        b"deep"
    );
    let missing = fs::read(mounted.path("dangling")).expect_err("it leads nowhere");
    assert_eq!(missing.kind(), std::io::ErrorKind::NotFound);
    let asked = mounted.of_operation("readlink", "calls");
    fs::read_link(mounted.path("relative")).expect("a link");
    assert_eq!(
        mounted.of_operation("readlink", "calls"),
        asked,
        "the kernel keeps where a link leads"
    );
}

/// A new version is published by renaming a link: readers see the old tree or the new one, and no error.
fn swapped_link() {
    if !has_fuse("a link that is swapped") {
        return;
    }
    let scratch = Scratch::new();
    let origin = origin(&scratch, 1, 100);
    for version in ["v1", "v2"] {
        fs::create_dir(origin.join(version)).expect("made");
        write(&origin.join(version).join("name"), version.as_bytes());
    }
    symlink("v1", origin.join("current")).expect("made");
    settle(&origin);
    let mounted = Mounted::new(&scratch, &origin, &["--revalidate", "0"]);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for turn in 0..50 {
                let version = if turn % 2 == 0 { "v2" } else { "v1" };
                let new = origin.join("new");
                symlink(version, &new).expect("made");
                fs::rename(&new, origin.join("current")).expect("swapped");
            }
            is_over.store(true, Ordering::Relaxed);
        });
        while !is_over.load(Ordering::Relaxed) {
            let target = fs::read_link(mounted.path("current")).expect("it is always there");
            assert!(["v1", "v2"].map(Path::new).contains(&target.as_path()));
            let bytes = fs::read(mounted.path("current/name")).expect("it always leads to a file");
            assert!([b"v1", b"v2"].contains(&bytes.as_slice().try_into().expect("two bytes")));
        }
    });
    assert_eq!(
        fs::read(mounted.path("current/name")).expect("read"),
        b"v1",
        "the last"
    );
}

fn numbers_stay() {
    if !has_fuse("inode numbers of a mount") {
        return;
    }
    let scratch = Scratch::new();
    let origin = tree(&scratch);
    let numbers = |mounted: &Mounted| -> HashMap<String, String> {
        let lines = found(&mounted.directory, "%P|%i\n").into_iter();
        lines
            .filter_map(|line| {
                let (path, number) = line.split_once('|')?;
                Some((path.to_owned(), number.to_owned()))
            })
            .collect()
    };
    let first = Mounted::new(&scratch, &origin, &[]);
    let before = numbers(&first);
    first.end().expect(0, "a signal is the usual end");
    let again = Mounted::new(&scratch, &origin, &[]);
    assert_eq!(numbers(&again), before, "of another mount");
}

fn hard_links() {
    if !has_fuse("names of one file") {
        return;
    }
    let scratch = Scratch::new();
    let origin = tree(&scratch);
    let mounted = Mounted::new(&scratch, &origin, &["--revalidate", "0"]);
    let [one, other] = ["f/0", "another name"];
    let number = |name: &str| fs::metadata(mounted.path(name)).map(|found| found.ino());
    assert_eq!(number(one).expect("there"), number(other).expect("there"));
    fs::remove_file(origin.join(one)).expect("ours");
    assert!(number(one).is_err(), "it is gone");
    assert_eq!(
        fs::read(mounted.path(other)).expect("the other name stays"),
        bytes_of(0, 100_000)
    );
}

fn deleted_file() {
    if !has_fuse("a deleted file") {
        return;
    }
    let scratch = Scratch::new();
    let origin = origin(&scratch, 2, 100_000);
    let mounted = Mounted::new(&scratch, &origin, &["--revalidate", "1h"]);
    let path = mounted.path("f/0");
    assert_eq!(fs::metadata(&path).expect("there").len(), 100_000);
    fs::remove_file(origin.join("f/0")).expect("ours");
    fs::read(&path).expect_err("its bytes are nowhere");
    until("its name is gone", || {
        fs::metadata(&path).is_err().then_some(())
    });
}

fn free_room() {
    if !has_fuse("df of a mount") {
        return;
    }
    let scratch = Scratch::new();
    let origin = origin(&scratch, 1, 100);
    let mounted = Mounted::new(&scratch, &origin, &[]);
    let [here, there] = [mounted.directory.as_path(), origin.as_path()]
        .map(|path| rustix::fs::statvfs(path).expect("known"));
    assert_eq!(
        here.f_blocks * here.f_frsize,
        there.f_blocks * there.f_frsize,
        "size in bytes"
    );
    assert_eq!(here.f_files, there.f_files);
    assert_eq!(here.f_namemax, there.f_namemax);
}

/// Runs it, and returns what it printed.
fn output(command: &mut Command) -> String {
    let output = command.output().expect("it starts");
    assert!(output.status.success(), "{command:?}: {output:?}");
    String::from_utf8(output.stdout).expect("text")
}

fn git_and_venv() {
    if !has_fuse("git and Python below a mount") || !has_program("git") {
        return;
    }
    let scratch = Scratch::new();
    let origin = origin(&scratch, 2, 1000);
    let git = |directory: &Path, arguments: &[&str]| {
        let mut command = Command::new("git");
        command.args([
            "-c",
            "safe.directory=*",
            "-c",
            "user.name=a",
            "-c",
            "user.email=a@b",
        ]);
        output(command.arg("-C").arg(directory).args(arguments))
    };
    git(&origin, &["init", "-q"]);
    symlink("f", origin.join("link")).expect("made");
    git(&origin, &["add", "f", "link"]);
    git(&origin, &["commit", "-q", "-m", "all"]);
    let has_venv = Command::new("python3")
        .args(["-m", "venv", "--without-pip"])
        .arg(origin.join("venv"))
        .output()
        .is_ok_and(|made| made.status.success());
    write(&origin.join(".gitignore"), b"venv\n.gitignore\n");
    settle(&origin);
    let mounted = Mounted::new(&scratch, &origin, &[]);
    let at = mounted.directory.as_path();
    assert_eq!(git(at, &["status", "--porcelain"]), "", "nothing differs");
    git(at, &["fsck", "--strict"]);
    if !has_venv {
        return println!("skipped: a Python venv below a mount: python3 has no module venv");
    }
    let mut python = Command::new(mounted.path("venv/bin/python"));
    let prefix = output(python.args(["-c", "import sys; print(sys.prefix)"]));
    assert_eq!(Path::new(prefix.trim()), mounted.path("venv"));
}
