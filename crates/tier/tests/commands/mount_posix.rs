//! System calls below a mount: the errors that POSIX names for a read-only file system, and the permissions of the
//! origin. The cases are those of pjdfstest that need no writable file system.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, RenameFlags, Timespec, Timestamps, XattrFlags,
};
use rustix::io::Errno;

use crate::mounted::{Mounted, has_fuse, origin, settle, write};
use crate::support::*;

pub fn trials() -> Vec<Trial> {
    vec![
        plain(
            "mount_posix::every_writing_call_fails_as_on_a_read_only_file_system",
            writing,
        ),
        plain(
            "mount_posix::names_that_lead_nowhere_fail_as_at_the_origin",
            names_that_lead_nowhere,
        ),
        needs_root(
            "mount_posix::each_mode_gives_each_user_the_access_of_the_origin",
            access_by_mode,
        ),
        plain(
            "mount_posix::cargo_builds_from_sources_on_a_mount",
            cargo_build,
        ),
    ]
}

/// An errno as a name; that of a call that succeeded is 0.
fn errno<T>(result: Result<T, Errno>) -> i32 {
    result.err().map_or(0, Errno::raw_os_error)
}

fn tree(scratch: &Scratch) -> PathBuf {
    let origin = origin(scratch, 2, 1000);
    fs::create_dir_all(origin.join("d/empty")).expect("made");
    symlink("f/0", origin.join("link")).expect("made");
    symlink("loop b", origin.join("loop a")).expect("made");
    symlink("loop a", origin.join("loop b")).expect("made");
    symlink("nowhere", origin.join("dangling")).expect("made");
    settle(&origin);
    origin
}

/// Opens, and closes at once.
fn open(path: PathBuf, flags: OFlags) -> Result<(), Errno> {
    let mode = Mode::from_raw_mode(0o644);
    rustix::fs::open(path, flags | OFlags::CLOEXEC, mode).map(drop)
}

/// The calls that would write, each with a name and what it answers: EROFS, or what is checked before.
fn writing_calls(root: &Path) -> Vec<(&'static str, i32, i32)> {
    let at = |name: &str| root.join(name);
    let mode = Mode::from_raw_mode(0o600);
    let time = Timespec {
        tv_sec: 1,
        tv_nsec: 0,
    };
    let times = Timestamps {
        last_access: time,
        last_modification: time,
    };
    let [read_only, exists, missing, is_directory] =
        [Errno::ROFS, Errno::EXIST, Errno::NOENT, Errno::ISDIR].map(Errno::raw_os_error);
    let chmod = |name: &str| rustix::fs::chmodat(CWD, at(name), mode, AtFlags::empty());
    let link =
        |from: &str, to: &str| rustix::fs::linkat(CWD, at(from), CWD, at(to), AtFlags::empty());
    let rename =
        |from: &str, to: &str, flags| rustix::fs::renameat_with(CWD, at(from), CWD, at(to), flags);
    let unlink = |name: &str, flags| rustix::fs::unlinkat(CWD, at(name), flags);
    let touch = |name: &str, flags| rustix::fs::utimensat(CWD, at(name), &times, flags);
    let mknod = |name: &str, kind| rustix::fs::mknodat(CWD, at(name), kind, mode, 0);
    let chown = |name: &str, flags| {
        let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
        rustix::fs::chownat(CWD, at(name), Some(user), Some(group), flags)
    };
    let nofollow = AtFlags::SYMLINK_NOFOLLOW;
    vec![
        (
            "open O_WRONLY",
            errno(open(at("f/0"), OFlags::WRONLY)),
            read_only,
        ),
        (
            "open O_RDWR",
            errno(open(at("f/0"), OFlags::RDWR)),
            read_only,
        ),
        (
            "open O_TRUNC",
            errno(open(at("f/0"), OFlags::RDONLY | OFlags::TRUNC)),
            read_only,
        ),
        (
            "open O_APPEND",
            errno(open(at("f/0"), OFlags::WRONLY | OFlags::APPEND)),
            read_only,
        ),
        (
            "open through a link",
            errno(open(at("link"), OFlags::RDWR)),
            read_only,
        ),
        (
            "open O_CREAT",
            errno(open(at("new"), OFlags::WRONLY | OFlags::CREATE)),
            read_only,
        ),
        (
            "open O_CREAT, read only",
            errno(open(at("new"), OFlags::RDONLY | OFlags::CREATE)),
            read_only,
        ),
        (
            "open O_EXCL",
            errno(open(
                at("f/0"),
                OFlags::CREATE | OFlags::EXCL | OFlags::RDWR,
            )),
            exists,
        ),
        (
            "open O_TMPFILE",
            errno(open(at("f"), OFlags::TMPFILE | OFlags::RDWR)),
            read_only,
        ),
        (
            "open a directory to write",
            errno(open(at("f"), OFlags::WRONLY)),
            is_directory,
        ),
        (
            "mkdir",
            errno(rustix::fs::mkdirat(CWD, at("new"), mode)),
            read_only,
        ),
        (
            "mkdir of a name that exists",
            errno(rustix::fs::mkdirat(CWD, at("f"), mode)),
            exists,
        ),
        (
            "rmdir",
            errno(unlink("d/empty", AtFlags::REMOVEDIR)),
            read_only,
        ),
        ("unlink", errno(unlink("f/0", AtFlags::empty())), read_only),
        (
            "unlink of a link",
            errno(unlink("dangling", AtFlags::empty())),
            read_only,
        ),
        (
            "unlink of a missing name",
            errno(unlink("none", AtFlags::empty())),
            read_only,
        ),
        ("link", errno(link("f/0", "new")), read_only),
        (
            "link to a name that exists",
            errno(link("f/0", "f/1")),
            exists,
        ),
        (
            "symlink",
            errno(rustix::fs::symlinkat("x", CWD, at("new"))),
            read_only,
        ),
        (
            "symlink of a name that exists",
            errno(rustix::fs::symlinkat("x", CWD, at("link"))),
            exists,
        ),
        (
            "rename",
            errno(rename("f/0", "new", RenameFlags::empty())),
            read_only,
        ),
        (
            "rename over a file",
            errno(rename("f/0", "f/1", RenameFlags::empty())),
            read_only,
        ),
        (
            "rename of a directory",
            errno(rename("d", "new", RenameFlags::empty())),
            read_only,
        ),
        (
            "exchange",
            errno(rename("f/0", "f/1", RenameFlags::EXCHANGE)),
            read_only,
        ),
        ("mkfifo", errno(mknod("new", FileType::Fifo)), read_only),
        (
            "mknod of a socket",
            errno(mknod("new", FileType::Socket)),
            read_only,
        ),
        ("chmod", errno(chmod("f/0")), read_only),
        ("chmod of a directory", errno(chmod("d")), read_only),
        ("chmod of a missing name", errno(chmod("none")), missing),
        ("chown", errno(chown("f/0", AtFlags::empty())), read_only),
        ("lchown", errno(chown("link", nofollow)), read_only),
        (
            "utimensat",
            errno(touch("f/0", AtFlags::empty())),
            read_only,
        ),
        (
            "utimensat of a link",
            errno(touch("link", nofollow)),
            read_only,
        ),
        (
            "setxattr",
            errno(rustix::fs::setxattr(
                at("f/0"),
                "user.x",
                b"y",
                XattrFlags::empty(),
            )),
            read_only,
        ),
        (
            "removexattr",
            errno(rustix::fs::removexattr(at("f/0"), "user.x")),
            read_only,
        ),
        (
            "access to write",
            errno(rustix::fs::accessat(
                CWD,
                at("f/0"),
                rustix::fs::Access::WRITE_OK,
                AtFlags::EACCESS,
            )),
            read_only,
        ),
    ]
}

fn writing() {
    if !has_fuse("calls that write below a mount") {
        return;
    }
    let scratch = Scratch::new();
    let origin = tree(&scratch);
    let before = listing(&origin);
    let mounted = Mounted::new(&scratch, &origin, &[]);
    let wrong: Vec<_> = writing_calls(&mounted.directory)
        .into_iter()
        .filter(|(_, answer, expected)| answer != expected)
        .collect();
    assert_eq!(wrong, [], "call, its errno, the expected one");
    assert_eq!(listing(&origin), before, "nothing has changed");
}

/// Names, modes, sizes and times of a tree.
fn listing(directory: &Path) -> String {
    let found = Command::new("find")
        .arg(directory)
        .args(["-printf", "%P|%M|%s|%T@|%C@|%n|%l\n"])
        .output()
        .expect("find is installed");
    String::from_utf8_lossy(&found.stdout).into_owned()
}

fn names_that_lead_nowhere() {
    if !has_fuse("names that lead nowhere below a mount") {
        return;
    }
    let scratch = Scratch::new();
    let origin = tree(&scratch);
    let mounted = Mounted::new(&scratch, &origin, &[]);
    let long = "n".repeat(255);
    let too_long = "n".repeat(256);
    let long_path = "d/../".repeat(1000) + "f/0";
    let cases = [
        ("f/0", 0),
        ("f/0/x", Errno::NOTDIR.raw_os_error()),
        ("f/0/", Errno::NOTDIR.raw_os_error()),
        ("f/0/.", Errno::NOTDIR.raw_os_error()),
        ("f/0/..", Errno::NOTDIR.raw_os_error()),
        ("link/x", Errno::NOTDIR.raw_os_error()),
        ("link", 0),
        ("none", Errno::NOENT.raw_os_error()),
        ("none/x", Errno::NOENT.raw_os_error()),
        ("dangling", Errno::NOENT.raw_os_error()),
        ("loop a", Errno::LOOP.raw_os_error()),
        ("loop b/x", Errno::LOOP.raw_os_error()),
        (&long, Errno::NOENT.raw_os_error()),
        (&too_long, Errno::NAMETOOLONG.raw_os_error()),
        (&long_path, Errno::NAMETOOLONG.raw_os_error()),
        ("d/../f/./0", 0),
        ("d/empty/../../f/0", 0),
    ];
    for (name, expected) in cases {
        for (call, flags) in [("open", OFlags::RDONLY), ("look at", OFlags::PATH)] {
            let [here, there] = [&mounted.directory, &origin]
                .map(|directory| errno(open(directory.join(name), flags)));
            assert_eq!((here, there), (expected, expected), "{call} {name:.40}");
        }
        let stat = |directory: &Path| errno(rustix::fs::stat(directory.join(name)));
        assert_eq!(stat(&mounted.directory), stat(&origin), "stat {name:.40}");
    }
    let not_following = OFlags::RDONLY | OFlags::NOFOLLOW;
    let looped = Errno::LOOP.raw_os_error();
    assert_eq!(errno(open(mounted.path("link"), not_following)), looped);
    let directory = OFlags::RDONLY | OFlags::DIRECTORY;
    let no_directory = Errno::NOTDIR.raw_os_error();
    assert_eq!(errno(open(mounted.path("f/0"), directory)), no_directory);
    assert_eq!(errno(open(mounted.path("f"), directory)), 0);
    let read = fs::File::open(mounted.path("f")).map(|file| {
        let mut bytes = [0; 10];
        errno(rustix::io::read(&file, &mut bytes))
    });
    let is_directory = Errno::ISDIR.raw_os_error();
    assert_eq!(read.expect("a directory opens"), is_directory);
    let target = errno(rustix::fs::readlink(mounted.path("f/0"), Vec::new()));
    assert_eq!(target, Errno::INVAL.raw_os_error(), "not a link");
}

/// Prints the names below a directory that a user can read, run, list and enter.
const ACCESS: &str = r#"
cd "$1" || exit 1
for name in f/* d/*; do
    if head -c 1 "$name" >/dev/null 2>&1; then echo "$name: read"; fi
    if test -f "$name" && "./$name" 2>/dev/null; then echo "$name: run"; fi
    if test -d "$name" && ls "$name" >/dev/null 2>&1; then echo "$name: listed"; fi
    if cat "$name/inner" 2>/dev/null; then echo "$name: entered"; fi
    stat -c '%n %u %g' "$name"
done
"#;

fn access_by_mode() {
    if !has_fuse("access by mode below a mount") {
        return;
    }
    let scratch = Scratch::new();
    let open_to_all = |path: &Path| {
        let mode = fs::Permissions::from_mode(0o755);
        fs::set_permissions(path, mode).expect("ours");
    };
    open_to_all(scratch.directory());
    let origin = origin(&scratch, 1, 10);
    fs::remove_file(origin.join("f/0")).expect("ours");
    fs::create_dir(origin.join("d")).expect("made");
    for mode in [
        0o000, 0o400, 0o040, 0o004, 0o477, 0o747, 0o774, 0o277, 0o727, 0o772, 0o111, 0o555, 0o4755,
        0o1777,
    ] {
        for (owner, group) in [(5001, 5001), (5002, 7001)] {
            let name = format!("{mode:o} of {owner}");
            let file = origin.join("f").join(&name);
            write(&file, b"#!/bin/sh\necho it runs\n");
            let directory = origin.join("d").join(&name);
            fs::create_dir(&directory).expect("made");
            write(&directory.join("inner"), b"inner\n");
            for path in [file, directory] {
                chown(&path, Some(owner), Some(group)).expect("root may");
                fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("ours");
            }
        }
    }
    for name in ["", "f", "d"] {
        open_to_all(&origin.join(name));
    }
    settle(&origin);
    let mounted = Mounted::new(&scratch, &origin, &["--allow-other"]);
    let seen = |user: &str, groups: &str, directory: &Path| {
        let output = Command::new("setpriv")
            .args(["--reuid", user, "--regid", user, "--groups", groups])
            .args(["sh", "-c", ACCESS, "sh"])
            .arg(directory)
            .output()
            .expect("setpriv is installed");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    for (user, groups) in [
        ("5001", "5001"),
        ("5002", "5002"),
        ("5003", "7001"),
        ("5004", "5004"),
    ] {
        let there = seen(user, groups, &origin);
        assert!(
            there.contains(": read") && there.contains(": entered"),
            "{there}"
        );
        let here = seen(user, groups, &mounted.directory);
        assert_eq!(here, there, "{user} of {groups}");
    }
}

/// A crate with a dependency whose source lies in a directory, as `cargo vendor` makes it.
fn cargo_build() {
    const WHAT: &str = "a build of cargo from a mount";
    if !has_fuse(WHAT) {
        return;
    }
    let cargo = std::env::var_os("CARGO").unwrap_or("cargo".into());
    if Command::new(&cargo).arg("--version").output().is_err() {
        return println!("skipped: {WHAT}: cargo is not installed");
    }
    let scratch = Scratch::new();
    let origin = origin(&scratch, 1, 10);
    let file = |name: &str, text: &str| {
        let path = origin.join(name);
        fs::create_dir_all(path.parent().expect("it has one")).expect("made");
        write(&path, text.as_bytes());
    };
    file(
        "vendor/part/Cargo.toml",
        "[package]\nname = \"part\"\nversion = \"1.0.0\"\nedition = \"2021\"\n",
    );
    file(
        "vendor/part/src/lib.rs",
        "mod deep;\npub use deep::er::answer;\n",
    );
    file("vendor/part/src/deep/mod.rs", "pub mod er;\n");
    file(
        "vendor/part/src/deep/er.rs",
        "pub fn answer() -> &'static str { include_str!(\"text\") }\n",
    );
    file("vendor/part/src/deep/text", "it is built\n");
    file(
        "vendor/part/.cargo-checksum.json",
        "{\"files\":{},\"package\":null}",
    );
    file(
        "whole/Cargo.toml",
        "[package]\nname = \"whole\"\nversion = \"1.0.0\"\nedition = \"2021\"\n\n[dependencies]\npart = \"1\"\n\n[workspace]\n",
    );
    file(
        "whole/Cargo.lock",
        "version = 4\n\n[[package]]\nname = \"part\"\nversion = \"1.0.0\"\n\
         source = \"registry+https://github.com/rust-lang/crates.io-index\"\n\n\
         [[package]]\nname = \"whole\"\nversion = \"1.0.0\"\ndependencies = [\"part\"]\n",
    );
    file(
        "whole/src/main.rs",
        "fn main() { print!(\"{}\", part::answer()); }\n",
    );
    settle(&origin);
    let mounted = Mounted::new(&scratch, &origin, &[]);
    let home = scratch.directory().join("home");
    fs::create_dir(&home).expect("made");
    let config = format!(
        "[source.crates-io]\nreplace-with = \"vendored\"\n[source.vendored]\ndirectory = \"{}\"\n",
        mounted.path("vendor").display()
    );
    write(&home.join("config.toml"), config.as_bytes());
    let built = Command::new(cargo)
        .args(["run", "--quiet", "--locked", "--offline", "--manifest-path"])
        .arg(mounted.path("whole/Cargo.toml"))
        .arg("--target-dir")
        .arg(scratch.directory().join("built"))
        .current_dir(&home)
        .env("CARGO_HOME", &home)
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_TARGET_DIR")
        .output()
        .expect("it starts");
    assert!(built.status.success(), "{built:?}");
    assert_eq!(String::from_utf8_lossy(&built.stdout), "it is built\n");
}
