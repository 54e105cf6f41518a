//! Files by their names: as deep and as long as file systems allow, where a record has no room for them; and below
//! directories that are renamed.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

use libtest_mimic::Trial;
use rustix::fs::{CWD, Mode, OFlags, RenameFlags, mkdirat, openat, renameat_with};
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

use cachewise_probe::FileInfo;

use crate::image::FileSystem;
use crate::oracle::generation;
use crate::problem::{Context, Problem, Result};
use crate::stand::{Room, trial};

/// Limits of a record: directories above a file, and bytes of their names.
const MOST_LEVELS: usize = 256;
const MOST_BYTES: usize = 4096;

/// Trials on the file systems with a cache.
pub fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for kind in FileSystem::CACHED {
        trials.push(trial(kind, "deep_names", deep_names));
        trials.push(trial(kind, "long_names", long_names));
        trials.push(trial(kind, "renamed_directories", renamed_directories));
    }
    trials
}

/// Makes a file below directories of these names, writes to it, and gives what the probe says of it.
fn seen(room: &mut Room, names: &[String]) -> Result<FileInfo> {
    let file = write_below(room, names, "file")?;
    info(room, &file)
}

/// Makes a file of this name below directories of these names, and writes to it.
fn write_below(room: &Room, names: &[String], name: &str) -> Result<OwnedFd> {
    // Level by level: a path as long as this is one that no call takes.
    let mut directory: OwnedFd = File::open(room.path("")).context("open the room")?.into();
    for name in names {
        match mkdirat(&directory, name, Mode::RWXU) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => {}
            Err(error) => return Err(Problem::new(format!("mkdir: {error}"))),
        }
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        directory = openat(&directory, name, flags, Mode::empty()).context("open a directory")?;
    }
    let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC;
    let file = openat(&directory, name, flags, Mode::RUSR).context("create the file")?;
    rustix::io::write(&file, b"x").context("write to the file")?;
    Ok(file)
}

/// Gives what the probe says of a file.
fn info(room: &mut Room, file: &OwnedFd) -> Result<FileInfo> {
    let stat = rustix::fs::fstat(file.as_fd()).context("stat the file")?;
    // A file that is gone may have had the same inode number.
    let generation = generation(file)?;
    let snapshot = room.stand.snapshot()?;
    let found = snapshot.files.iter().find(|(id, _)| {
        let device = (id.major, id.minor);
        let same = (
            rustix::fs::major(stat.st_dev),
            rustix::fs::minor(stat.st_dev),
        ) == device;
        same && id.inode == stat.st_ino && id.generation == generation
    });
    match found {
        Some((_, info)) => Ok(info.clone()),
        None => Err(Problem::new("the probe has not seen the file")),
    }
}

/// The file's path from the root of its file system: the trial's directory is right below that.
fn path_in_file_system(room: &Room, names: &[String]) -> PathBuf {
    let mut path = PathBuf::from("/");
    path.extend(room.path("").file_name());
    path.extend(names);
    path.join("file")
}

fn check(room: &mut Room, names: &[String], fits: bool) -> Result<()> {
    let whole = path_in_file_system(room, names);
    let info = seen(room, names)?;
    let named = info.path_in_file_system.unwrap_or_default();
    if fits {
        assert_eq!(named, whole, "there is room for all of it");
        assert!(info.path.is_some(), "and it is seen at its mount");
        return Ok(());
    }
    let end = named.strip_prefix("…").map_err(|_| {
        Problem::new(format!(
            "what is cut off is not seen to be: {}",
            named.display()
        ))
    })?;
    assert!(whole.ends_with(end), "the rest is right, name by name");
    let left_out = whole.components().count() - 1 - end.components().count();
    assert!(left_out > 0, "something is left out, as it says");
    assert_eq!(info.path, None, "nobody can say where it is mounted");
    Ok(())
}

/// As many levels as fit, one more, and many more.
fn deep_names(room: &mut Room) -> Result<()> {
    // The trial's directory is one of them.
    for (levels, fits) in [
        (MOST_LEVELS - 1, true),
        (MOST_LEVELS, false),
        (MOST_LEVELS + 50, false),
    ] {
        check(room, &vec!["d".to_owned(); levels], fits)?;
    }
    Ok(())
}

/// As many bytes as fit, one level more, and many more.
fn long_names(room: &mut Room) -> Result<()> {
    let long = "n".repeat(255);
    let fitting = (MOST_BYTES - 20) / (long.len() + 1);
    for (levels, fits) in [(fitting, true), (fitting + 2, false), (fitting * 2, false)] {
        check(room, &vec![long.clone(); levels], fits)?;
    }
    Ok(())
}

/// Files that are used one after the other in a directory have its names at that time, however it or one above is renamed
/// in between.
fn renamed_directories(room: &mut Room) -> Result<()> {
    let everywhere = sched_getaffinity(None).context("ask for the CPUs")?;
    // The next call is on the same CPU, which remembers the directory.
    let mut here = CpuSet::new();
    here.set(sched_getcpu());
    sched_setaffinity(None, &here).context("stay on a CPU")?;
    let result = use_and_rename(room);
    sched_setaffinity(None, &everywhere).context("leave the CPU")?;
    result
}

fn use_and_rename(room: &mut Room) -> Result<()> {
    let names = |names: &[&str]| -> Vec<String> { names.iter().map(|n| (*n).to_owned()).collect() };
    let mut written = Vec::new();
    let mut write = |room: &Room, below: &[&str], name: &str| -> Result<()> {
        let file = write_below(room, &names(below), name)?;
        let mut path = PathBuf::from("/");
        path.extend(room.path("").file_name());
        path.extend(below);
        written.push((file, path.join(name)));
        Ok(())
    };
    let rename = |room: &Room, from: &str, to: &str, flags: RenameFlags| {
        renameat_with(CWD, room.path(from), CWD, room.path(to), flags).context("rename a directory")
    };
    write(room, &["top", "middle", "low"], "first")?;
    write(room, &["top", "middle", "low"], "second")?;
    rename(
        room,
        "top/middle/low",
        "top/middle/new",
        RenameFlags::empty(),
    )?;
    write(room, &["top", "middle", "new"], "renamed")?;
    rename(room, "top/middle", "top/muddle", RenameFlags::empty())?;
    write(room, &["top", "muddle", "new"], "above_renamed")?;
    rename(room, "top/muddle", "moved", RenameFlags::empty())?;
    write(room, &["moved", "new"], "above_moved")?;
    write(room, &["other", "new"], "elsewhere")?;
    write(room, &["moved", "new"], "back")?;
    rename(room, "moved", "other", RenameFlags::EXCHANGE)?;
    write(room, &["other", "new"], "exchanged")?;
    write(room, &["moved"], "in_a_directory_above")?;
    for (file, path) in &written {
        let named = info(room, file)?.path_in_file_system.unwrap_or_default();
        assert_eq!(&named, path, "the name at the first use");
    }
    Ok(())
}
