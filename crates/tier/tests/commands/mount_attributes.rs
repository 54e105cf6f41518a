//! Extended attributes and access control lists below a mount: those of the origin, and never wider.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::mounted::{Mounted, has_fuse, origin, settle, write};
use crate::support::*;

pub fn trials() -> Vec<Trial> {
    vec![
        plain(
            "mount_attributes::user_attributes_are_those_of_the_origin",
            user_attributes,
        ),
        needs_root(
            "mount_attributes::an_access_control_list_gives_what_it_gives_at_the_origin",
            access_lists,
        ),
        needs_root(
            "mount_attributes::a_list_that_is_removed_gives_nothing_more",
            removed_list,
        ),
    ]
}

/// Says whether programs are installed; else prints that a test is skipped.
fn has_programs(names: &[&str]) -> bool {
    for name in names {
        if Command::new(name).arg("--version").output().is_err() {
            println!(
                "skipped: attributes below a mount: {name} is not installed (packages attr, acl)"
            );
            return false;
        }
    }
    true
}

/// Runs a program with a path, and returns what it printed. Both trees have the same names, relative to the directory.
fn run(program: &str, arguments: &[&str], directory: &Path, name: &str) -> Result<String, String> {
    let mut command = Command::new(program);
    command.args(arguments).arg(name).current_dir(directory);
    let output = command.output().expect("it starts");
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

fn user_attributes() {
    if !has_fuse("attributes below a mount") || !has_programs(&["getfattr", "setfattr"]) {
        return;
    }
    let scratch = Scratch::new();
    let origin = origin(&scratch, 3, 1000);
    let set = |name: &str, attribute: &str, value: &str| {
        let set = ["-n", attribute, "-v", value];
        run("setfattr", &set, &origin, name).is_ok()
    };
    if !set("f/0", "user.one", "first") {
        return println!("skipped: attributes below a mount: this file system has none");
    }
    assert!(set("f/0", "user.two", "0x00ff0a"), "bytes");
    assert!(set("f", "user.of a directory", "yes"));
    let is_root = rustix::process::geteuid().is_root();
    if is_root {
        assert!(set("f/0", "trusted.secret", "root's"));
    }
    settle(&origin);
    let mounted = Mounted::new(&scratch, &origin, &[]);
    for name in ["f/0", "f/1", "f"] {
        let all = |directory: &Path| {
            run(
                "getfattr",
                &["-d", "-m", "^user", "-e", "hex"],
                directory,
                name,
            )
        };
        assert_eq!(all(&mounted.directory), all(&origin), "{name}");
    }
    let any = run("getfattr", &["-d", "-m", "-"], &mounted.directory, "f/0").expect("listed");
    assert!(
        any.contains("user.one") && !any.contains("trusted"),
        "{any}"
    );
    run("getfattr", &["-n", "user.none"], &mounted.directory, "f/0").expect_err("there is none");
    let refused = run(
        "setfattr",
        &["-n", "user.new", "-v", "x"],
        &mounted.directory,
        "f/0",
    );
    let why = refused.expect_err("nothing is written");
    assert!(why.contains("Read-only file system"), "{why}");
    run("setfattr", &["-x", "user.one"], &mounted.directory, "f/0")
        .expect_err("not removed either");
    // An attribute that is set is a change of the file: the old state has no such attribute.
    assert!(set("f/1", "user.late", "later"));
    let late = || run("getfattr", &["-n", "user.late"], &mounted.directory, "f/1");
    until("the new attribute is there", || late().ok());
}

fn as_user(user: u32, groups: &str, directory: &Path, name: &str) -> Result<Vec<u8>, String> {
    let user = user.to_string();
    let output = Command::new("setpriv")
        .args([
            "--reuid", &user, "--regid", &user, "--groups", groups, "cat",
        ])
        .arg(directory.join(name))
        .output()
        .expect("setpriv is installed");
    match output.status.success() {
        true => Ok(output.stdout),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

/// Users and groups that are in no list.
const USERS: [(u32, &str); 4] = [
    (5001, "5001"),
    (5002, "5002"),
    (5003, "7001"),
    (5004, "7002"),
];

/// A tree with lists that give and that deny; `false` if the file system has none.
fn with_lists(origin: &Path) -> bool {
    let set = |list: &str, name: &str| run("setfacl", &["-m", list], origin, name).is_ok();
    for name in ["", "f", "f/0", "f/1", "f/2"] {
        let mode = if name.starts_with("f/") { 0o640 } else { 0o755 };
        let mode = fs::Permissions::from_mode(mode);
        fs::set_permissions(origin.join(name), mode).expect("ours");
    }
    fs::create_dir(origin.join("closed")).expect("made");
    write(&origin.join("closed/file"), b"closed");
    // One may, by name and by group; one may not, though all others may; one may not enter a directory.
    set("u:5001:r,g:7001:r", "f/0")
        && set("u:5002:-,g:7002:-,o::r", "f/1")
        && set("u:5001:rwx,m::-", "f/2")
        && set("u:5001:-", "closed")
}

fn access_lists() {
    if !has_fuse("access control lists below a mount") || !has_programs(&["setfacl", "getfacl"]) {
        return;
    }
    let scratch = Scratch::new();
    let mode = fs::Permissions::from_mode(0o755);
    fs::set_permissions(scratch.directory(), mode).expect("ours");
    let origin = origin(&scratch, 3, 1000);
    if !with_lists(&origin) {
        return println!("skipped: access control lists: this file system has none");
    }
    settle(&origin);
    let mounted = Mounted::new(&scratch, &origin, &["--allow-other"]);
    let mut answers = [0, 0];
    for (user, groups) in USERS {
        for name in ["f/0", "f/1", "f/2", "closed/file"] {
            let [here, there] = [&mounted.directory, &origin]
                .map(|directory| as_user(user, groups, directory, name).ok());
            assert_eq!(here, there, "{user} of {groups} reads {name}");
            answers[usize::from(there.is_some())] += 1;
        }
    }
    assert!(answers.iter().all(|count| *count >= 4), "{answers:?}");
    for name in ["f/0", "f/1", "f/2", "closed"] {
        let list = |directory: &Path| run("getfacl", &["-n", "-E"], directory, name);
        let (here, there) = (list(&mounted.directory), list(&origin));
        // The mask and others are shown less the permission to write.
        let names = |list: &Result<String, String>| -> Vec<String> {
            let lines = list.as_ref().expect("listed").lines();
            let named =
                lines.filter(|line| line.starts_with("user:5") || line.starts_with("group:7"));
            named.map(str::to_owned).collect()
        };
        assert_eq!(names(&here), names(&there), "{name}");
        assert!(!names(&here).is_empty(), "{name}: {here:?}");
    }
}

fn removed_list() {
    if !has_fuse("a removed access control list") || !has_programs(&["setfacl"]) {
        return;
    }
    let scratch = Scratch::new();
    let mode = fs::Permissions::from_mode(0o755);
    fs::set_permissions(scratch.directory(), mode).expect("ours");
    let origin = origin(&scratch, 3, 1000);
    if !with_lists(&origin) {
        return println!("skipped: access control lists: this file system has none");
    }
    settle(&origin);
    let mounted = Mounted::new(&scratch, &origin, &["--allow-other"]);
    // Its bits are looked at, its list is not: the owner is not checked by it.
    fs::metadata(mounted.path("f/0")).expect("there");
    run("setfacl", &["-b"], &origin, "f/0").expect("removed");
    for (user, groups) in USERS {
        as_user(user, groups, &origin, "f/0").expect_err("the origin refuses now");
        as_user(user, groups, &mounted.directory, "f/0").expect_err("so does the mount");
    }
}
