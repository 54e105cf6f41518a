//! Extended attributes of published versions: those that a mount of the directory shows, and nothing that widens access.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

use rustix::fs::{XattrFlags, lgetxattr, llistxattr, lsetxattr};

use crate::mounted::{bytes_of, has_fuse, write};
use crate::published::Place;
use crate::support::*;

pub fn trials() -> Vec<Trial> {
    vec![
        plain(
            "published_attributes::a_mount_has_the_attributes_that_were_published",
            same_attributes,
        ),
        needs_root(
            "published_attributes::capabilities_are_data_and_lists_and_names_of_root_are_not_there",
            as_data,
        ),
        plain(
            "published_attributes::a_changed_attribute_is_published_and_the_rest_is_not_read",
            changed_attribute,
        ),
        plain(
            "published_attributes::a_version_without_any_has_the_older_form",
            older_form,
        ),
    ]
}

/// An access control list that lets user 5001 read.
const LIST: [u8; 44] = [
    2, 0, 0, 0, //
    1, 0, 6, 0, 255, 255, 255, 255, //
    2, 0, 4, 0, 137, 19, 0, 0, //
    4, 0, 4, 0, 255, 255, 255, 255, //
    16, 0, 4, 0, 255, 255, 255, 255, //
    32, 0, 0, 0, 255, 255, 255, 255, //
];

fn set(path: &Path, name: &str, value: &[u8]) {
    lsetxattr(path, name, value, XattrFlags::empty()).expect("it can be set");
}

/// Says whether the file system below the place has attributes; else prints that a test is skipped.
fn has_attributes(place: &Place) -> bool {
    let value = b"1".as_slice();
    let set = lsetxattr(place.at("origin"), "user.tree", value, XattrFlags::empty());
    if let Err(error) = &set {
        println!("skipped: attributes of versions: this file system has none ({error})");
    }
    set.is_ok()
}

/// The attributes of a file or a directory, by names.
fn attributes(path: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut names = vec![0; 64 << 10];
    let length = llistxattr(path, names.as_mut_slice()).expect("listed");
    names.truncate(length);
    let names = names
        .split(|byte| *byte == 0)
        .filter(|name| !name.is_empty());
    let value = |name: &[u8]| {
        let mut value = vec![0; 64 << 10];
        let shown = String::from_utf8_lossy(name).into_owned();
        let length = lgetxattr(path, name, value.as_mut_slice());
        let length = length
            .unwrap_or_else(|error| panic!("{path:?} lists {shown}, and has it not: {error}"));
        value.truncate(length);
        (shown, value)
    };
    names.map(value).collect()
}

/// Runs a program, if it is installed, and returns what it printed.
fn run(program: &str, arguments: &[&str], directory: &Path) -> Option<String> {
    let mut command = Command::new(program);
    let Ok(output) = command.args(arguments).current_dir(directory).output() else {
        println!("skipped: attributes of versions by {program}: it is not installed");
        return None;
    };
    assert!(output.status.success(), "{program}: {output:?}");
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn same_attributes() {
    if !has_fuse("attributes of versions") {
        return;
    }
    let place = Place::new();
    if !has_attributes(&place) {
        return;
    }
    let at = |name: &str| place.at("origin").join(name);
    for number in 0..300 {
        let path = at(&format!("deep/{number}"));
        write(&path, b"");
        set(&path, "user.of all of them", &[number as u8 / 150; 200]);
    }
    write(&at("deep/er/file"), b"file");
    set(&at("deep/er/file"), "user.bytes", b"\0\xff\n");
    set(&at("deep/er/file"), "user.empty", b"");
    set(&at("deep/er/file"), "user.long", &bytes_of(1, 3_000));
    set(&at("deep/er"), "user.of a directory", b"yes");
    write(&at("none"), b"none");
    write(&at("one name"), b"twice");
    set(&at("one name"), "user.of both", b"names");
    fs::hard_link(at("one name"), at("another")).expect("made");
    let published = place.publish("data@v1");
    assert_eq!(published["with_attributes"], 305, "{published}");
    let written = published["written_bytes"].as_u64().expect("a number");
    assert!(written < 50_000, "equal sets are stored once: {written}");
    let version = fs::read(place.at("store/names/data/versions/v1")).expect("there");
    assert!(
        version.starts_with(b"cachewise version 2\n"),
        "programs that do not know attributes refuse it"
    );

    let mounted = place.mount("data@v1");
    let names = ["", "none", "deep", "deep/0", "deep/299", "deep/er"];
    for name in names
        .into_iter()
        .chain(["deep/er/file", "one name", "another"])
    {
        let there = attributes(&at(name));
        assert_eq!(attributes(&mounted.path(name)), there, "{name}");
        for (attribute, value) in there {
            let mut small = vec![0; value.len().saturating_sub(1)];
            let read = lgetxattr(mounted.path(name), attribute.as_str(), small.as_mut_slice());
            let is_long = !small.is_empty();
            assert_eq!(read.is_err(), is_long, "{name}: {attribute}: ERANGE");
        }
    }
    let none = lgetxattr(mounted.path("none"), "user.none", &mut [0_u8; 9]);
    assert_eq!(none, Err(rustix::io::Errno::NODATA));
    assert_eq!(
        fs::metadata(mounted.path("one name")).expect("there").ino(),
        fs::metadata(mounted.path("another")).expect("there").ino(),
    );
    for (program, arguments) in [
        (
            "getfattr",
            ["-R", "-d", "-m", "-", "-e", "hex", "."].as_slice(),
        ),
        ("python3", &["-c", PYTHON]),
    ] {
        // getfattr lists in the order of the file system.
        let sorted = |directory: &Path| {
            let said = run(program, arguments, directory)?;
            let mut objects: Vec<_> = said.trim_end().split("\n\n").map(str::to_owned).collect();
            objects.sort();
            Some(objects)
        };
        let there = sorted(&place.at("origin"));
        let is_known = |objects: &Vec<String>| objects.concat().contains("user.of a directory");
        assert!(there.as_ref().is_none_or(is_known), "the control");
        assert_eq!(sorted(&mounted.directory), there, "{program}");
    }
    for (program, arguments) in [
        ("cp", ["-a", "mnt/.", "by cp"].as_slice()),
        ("rsync", &["-aX", "mnt/", "by rsync"]),
    ] {
        if run(program, arguments, place.scratch.directory()).is_some() {
            let copy = place.at(&format!("by {program}"));
            for name in names.into_iter().chain(["deep/er/file", "one name"]) {
                let there = attributes(&at(name));
                assert_eq!(attributes(&copy.join(name)), there, "{program}: {name}");
            }
        }
    }
}

/// Prints the attributes of all objects below the current directory.
const PYTHON: &str = "
import os
for at, directories, files in sorted(os.walk('.')):
    for path in [at] + [os.path.join(at, file) for file in sorted(files)]:
        print(path, [(name, os.getxattr(path, name)) for name in sorted(os.listxattr(path))])
";

fn as_data() {
    if !has_fuse("attributes as data") {
        return;
    }
    let place = Place::new();
    if !has_attributes(&place) {
        return;
    }
    let at = |name: &str| place.at("origin").join(name);
    write(&at("program"), b"#!/bin/sh\n");
    fs::set_permissions(at("program"), fs::Permissions::from_mode(0o755)).expect("ours");
    write(&at("listed"), b"listed");
    fs::set_permissions(at("listed"), fs::Permissions::from_mode(0o644)).expect("ours");
    set(&at("listed"), "system.posix_acl_access", &LIST);
    set(&at("listed"), "trusted.secret", b"root's");
    set(&at("listed"), "user.shown", b"shown");
    if run(
        "setcap",
        &["cap_net_raw+ep", "program"],
        &place.at("origin"),
    )
    .is_none()
    {
        return;
    }
    place.publish("data@v1");
    let mut command = place.mounting("data@v1");
    command.arg("--allow-other");
    let mounted = crate::mounted::Mounted::by(command, &{
        let directory = place.at("mnt");
        fs::create_dir_all(&directory).expect("made");
        directory
    });
    let capability = attributes(&mounted.path("program"));
    assert_eq!(capability, attributes(&at("program")), "as at the origin");
    assert!(capability.contains_key("security.capability"));
    let said = |directory: &Path| run("getcap", &["program"], directory);
    assert_eq!(said(&mounted.directory), said(&place.at("origin")));
    let flags = rustix::fs::statvfs(&mounted.directory)
        .expect("mounted")
        .f_flag;
    assert!(
        flags.contains(rustix::fs::StatVfsMountFlags::NOSUID),
        "the kernel grants none of it"
    );
    let shown = attributes(&mounted.path("listed"));
    assert_eq!(shown.keys().collect::<Vec<_>>(), ["user.shown"]);
    let list = lgetxattr(
        mounted.path("listed"),
        "system.posix_acl_access",
        &mut [0_u8; 99],
    );
    assert_eq!(list, Err(rustix::io::Errno::OPNOTSUPP));
    let mode = fs::metadata(mounted.path("listed")).expect("there").mode();
    assert_eq!(mode & 0o777, 0o400, "less than the list gives, never more");
}

fn changed_attribute() {
    if !has_fuse("a changed attribute") {
        return;
    }
    let place = Place::new();
    let at = |name: &str| place.at("origin").join(name);
    for number in 0..20 {
        write(&at(&format!("deep/{number}")), &bytes_of(number, 2_000));
    }
    place.settle();
    place.publish("data@v1");
    let mounted = place.mount("data@latest");
    assert_eq!(attributes(&mounted.path("deep/3")), BTreeMap::new());
    if !has_attributes(&place) {
        return;
    }
    let modified = fs::metadata(at("deep/3")).expect("there").modified().ok();
    set(&at("deep/3"), "user.late", b"later");
    assert_eq!(
        fs::metadata(at("deep/3")).expect("there").modified().ok(),
        modified
    );
    place.settle();
    let second = place.publish("data@v2");
    assert_eq!(second["read_files"], 1, "its time of change differs");
    assert_eq!(second["with_attributes"], 2, "with the origin itself");
    until("the mount is at the second version", || {
        (!attributes(&mounted.path("deep/3")).is_empty()).then_some(())
    });
    assert_eq!(
        attributes(&mounted.path("deep/3")),
        attributes(&at("deep/3"))
    );
    assert_eq!(attributes(&mounted.path("deep/4")), BTreeMap::new());
    let third = place.publish("data@v3");
    assert_eq!(third["read_files"], 0, "nothing changed");
    assert_eq!(third["with_attributes"], 2, "they are known");
    assert_eq!(third["written_bytes"], 0);
    rustix::fs::lremovexattr(at("deep/3"), "user.late").expect("removed");
    place.publish("data@v4");
    let mut command = cachewise(["diff", "-o", "csv", "--columns", "change,path"]);
    command
        .args(["data@v3", "data@v4"])
        .arg("--store")
        .arg(place.at("store"));
    let ended = Ended::of(&mut command).expect(1, "they differ");
    assert_eq!(
        ended.out().lines().skip(1).collect::<Vec<_>>(),
        ["attributes,deep/3,,"]
    );
    until("the mount is at the fourth version", || {
        // One call: the value would be looked for in the version after.
        let length = llistxattr(mounted.path("deep/3"), &mut [0; 99]).expect("listed");
        (length == 0).then_some(())
    });
}

fn older_form() {
    let place = Place::new();
    write(&place.at("origin/deep/file"), b"file");
    let published = place.publish("data@v1");
    assert_eq!(published["with_attributes"], 0);
    let version = fs::read(place.at("store/names/data/versions/v1")).expect("there");
    assert!(version.starts_with(b"cachewise version 1\n"));
    let packs = crate::published::packs(&place);
    let has_form = |form: &[u8]| {
        let packs = packs.iter().map(|pack| fs::read(pack).expect("there"));
        packs
            .into_iter()
            .any(|pack| pack.windows(4).any(|bytes| bytes == form))
    };
    assert!(has_form(b"cwm1") && !has_form(b"cwm2"));
}
