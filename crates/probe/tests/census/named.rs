//! Names of listed files.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;

use cachewise_kstat::Kernel;
use cachewise_probe::census::Name;
use rustix::fs::{CWD, Mode, OFlags};

use crate::stand::{as_root, command, fill, find, mounts, utf8, write_pages};

#[test]
fn names_are_bytes() {
    as_root("odd names", |stand| {
        let memory = stand.tmpfs("memory");
        let odd = OsStr::from_bytes(b"a\nb \xff\\");
        fs::create_dir(memory.path().join(odd)).expect("any bytes are a name");
        let path = memory.path().join(odd).join(odd);
        let file = write_pages(&path, 1);
        let report = stand.take();
        let found = find(&report, &file).expect("it is listed");
        let kernel = Kernel::new();
        assert_eq!(
            found.path(&kernel, &mounts(&kernel)),
            Some(fs::canonicalize(path).expect("it is there")),
            "byte by byte"
        );
    });
}

#[test]
fn of_several_links_one_that_is_left_is_named() {
    as_root("hard links", |stand| {
        let memory = stand.tmpfs("memory");
        let [first, second, third] =
            ["first", "second", "third"].map(|name| memory.path().join(name));
        let file = write_pages(&first, 1);
        // Held open by each of its names, so that the kernel keeps all of these in memory.
        let held: Vec<File> = [&second, &third]
            .into_iter()
            .map(|link| {
                fs::hard_link(&first, link).expect("a link can be made");
                File::open(link).expect("and opened")
            })
            .collect();
        for gone in [&third, &first] {
            fs::remove_file(gone).expect("and taken away");
        }
        let report = stand.take();
        let found = find(&report, &file).expect("it is listed");
        assert_eq!(
            found.name,
            Name::Path("/second".into()),
            "not one of those that are gone: {found:?}"
        );
        assert!(
            !found.deleted && found.links == 1,
            "it is not deleted: {found:?}"
        );
        drop(held);
    });
}

#[test]
fn of_a_very_long_path_the_end_is_known() {
    as_root("long paths", |stand| {
        let memory = stand.tmpfs("memory");
        let name = "d".repeat(250);
        let mut directory = rustix::fs::open(memory.path(), OFlags::DIRECTORY, Mode::empty())
            .expect("the root can be opened");
        for _ in 0..40 {
            rustix::fs::mkdirat(&directory, &name, Mode::RWXU).expect("one more directory");
            directory = rustix::fs::openat(&directory, &name, OFlags::DIRECTORY, Mode::empty())
                .expect("and into it");
        }
        let file = rustix::fs::openat(
            &directory,
            "file",
            OFlags::CREATE | OFlags::RDWR,
            Mode::RUSR,
        );
        let mut file = File::from(file.expect("a file at the end of it"));
        fill(&mut file, 1);
        let report = stand.take();
        let found = find(&report, &file).expect("it is listed");
        let Name::Path(path) = &found.name else {
            panic!("it has a path: {found:?}");
        };
        assert!(path.is_relative(), "of which the beginning is not known");
        assert!(path.ends_with("file"), "but the end");
        let parts = path
            .iter()
            .filter(|part| *part == OsStr::new(&name))
            .count();
        assert_eq!(parts + 1, path.iter().count(), "in whole names");
        assert!(parts >= 15, "of 4 KiB at least: {parts}");
    });
}

#[test]
fn a_bind_mount_shows_a_path_that_no_other_mount_has() {
    as_root("bind mounts", |stand| {
        let memory = stand.tmpfs("memory");
        let inner = memory.path().join("inner");
        fs::create_dir(&inner).expect("make a directory");
        let file = write_pages(&inner.join("file"), 1);
        let bound = stand.path("bound");
        fs::create_dir(&bound).expect("make a mount point");
        command("mount", &["--bind", utf8(&inner), utf8(&bound)]);
        // Only a part of the file system is to be seen now.
        command("umount", &["-l", utf8(memory.path())]);
        let report = stand.take();
        let found = find(&report, &file).expect("it is listed");
        assert_eq!(
            found.name,
            Name::Path("/inner/file".into()),
            "the name is from the file system's root"
        );
        let kernel = Kernel::new();
        let seen = found
            .path(&kernel, &mounts(&kernel))
            .expect("it can be reached");
        let stat =
            rustix::fs::statat(CWD, &seen, rustix::fs::AtFlags::empty()).expect("by that path");
        assert_eq!(
            stat.st_ino,
            found.id.inode,
            "{} is the file",
            seen.display()
        );
        drop(file);
        command("umount", &[utf8(&bound)]);
    });
}
