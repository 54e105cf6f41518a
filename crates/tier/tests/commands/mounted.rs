//! A mount that runs, and is taken away whatever becomes of the test.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use rustix::process::Signal;
use serde_json::Value;

use crate::support::*;

/// Says so if nothing can be mounted here.
pub fn has_fuse(what: &str) -> bool {
    let device = fs::File::options().read(true).write(true).open("/dev/fuse");
    let is_root = rustix::process::geteuid().is_root();
    let reason = match device {
        Err(error) => format!("/dev/fuse: {error}"),
        Ok(_) if !is_root && Command::new("fusermount3").arg("-V").output().is_err() => {
            "neither root nor fusermount3 (package fuse3)".to_owned()
        }
        Ok(_) => return true,
    };
    println!("skipped: {what}: {reason}");
    false
}

/// The bytes of a file of an origin: each has others.
pub fn bytes_of(number: usize, size: usize) -> Vec<u8> {
    part_of(number, 0, size)
}

/// The bytes of a part of it. Each word is computed of its place (SplitMix64), so that readers need not hold a file.
pub fn part_of(number: usize, place: usize, size: usize) -> Vec<u8> {
    let first = place / 8;
    let mut bytes = vec![0; ((place + size).div_ceil(8) - first) * 8];
    for (at, word) in bytes.chunks_exact_mut(8).enumerate() {
        let mut bits =
            ((number as u64) << 32 | (first + at) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word.copy_from_slice(&(bits ^ (bits >> 31)).to_le_bytes());
    }
    bytes.drain(..place % 8);
    bytes.truncate(size);
    bytes
}

/// An origin with files `f/0`, `f/1` and so on, old enough for their blocks to be kept.
pub fn origin(scratch: &Scratch, files: usize, size: usize) -> PathBuf {
    let origin = scratch.directory().join("origin");
    fs::create_dir_all(origin.join("f")).expect("made");
    for number in 0..files {
        write(&origin.join(format!("f/{number}")), &bytes_of(number, size));
    }
    settle(&origin);
    origin
}

pub fn write(path: &Path, bytes: &[u8]) {
    fs::write(path, bytes).expect("a file can be written");
}

/// Waits until a new write gets another timestamp than the last.
pub fn settle(origin: &Path) {
    let newest = fs::read_dir(origin.join("f")).expect("made").flatten();
    let newest = newest.filter_map(|entry| entry.metadata().ok()?.modified().ok());
    let newest = newest.max().expect("there are files");
    until("the files are a moment old", || {
        let age = SystemTime::now().duration_since(newest).ok()?;
        (age > Duration::from_millis(150)).then_some(())
    });
}

/// A mount.
pub struct Mounted {
    pub started: Option<Started>,
    pub directory: PathBuf,
}

impl Mounted {
    /// Mounts it on a new directory of the scratch directory, and waits until it is.
    pub fn new(scratch: &Scratch, origin: &Path, arguments: &[&str]) -> Mounted {
        let directory = scratch.directory().join("mnt");
        fs::create_dir_all(&directory).expect("made");
        Mounted::on(&directory, origin, arguments)
    }

    pub fn on(directory: &Path, origin: &Path, arguments: &[&str]) -> Mounted {
        let mut command = cachewise(["mount"]);
        command.args(arguments).arg(origin);
        Mounted::by(command, directory)
    }

    /// Mounts it by a command that lacks the directory alone.
    pub fn by(mut command: Command, directory: &Path) -> Mounted {
        command.arg(directory);
        let mut mounted = Mounted {
            started: Some(Started::of(&mut command)),
            directory: directory.to_owned(),
        };
        until("it is mounted", || {
            let child = &mut mounted.started.as_mut().expect("just started").child;
            if let Ok(Some(status)) = child.try_wait() {
                panic!("the mount ended with {status}");
            }
            // A dead one may be there until it is taken away.
            let is_alive = is_mounted(directory) && rustix::fs::statfs(directory).is_ok();
            is_alive.then_some(())
        });
        mounted
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Returns its counters: requests, and bytes by source.
    pub fn report(&self) -> Value {
        let report = fs::read(self.path(".cachewise/stat.json")).expect("a mount has it");
        serde_json::from_slice(&report).expect("it is JSON")
    }

    /// A number of an operation, a tier, or all nodes.
    pub fn calls_of_tier(&self, tier: &str) -> u64 {
        let report = self.report();
        let tiers = report["cache"]["tiers"].as_array().expect("tiers").clone();
        let row = tiers.iter().find(|row| row["name"] == tier);
        row.map_or(0, |row| row["calls_total"].as_u64().expect("a number"))
    }

    pub fn of_operation(&self, operation: &str, number: &str) -> u64 {
        let report = self.report();
        let rows = report["operations"].as_array().expect("operations").clone();
        let row = rows.iter().find(|row| row["operation"] == operation);
        row.expect("it is one")[number].as_u64().expect("a number")
    }

    /// Has it end by itself.
    pub fn end(mut self) -> Ended {
        let started = self.started.take().expect("it runs");
        started.signal(Signal::TERM);
        started.wait()
    }

    /// Kills it: the mount is left without a process.
    pub fn kill(&mut self) {
        if let Some(started) = self.started.take() {
            started.signal(Signal::KILL);
            started.wait();
        }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // Kills it, without a panic of its own where a test has failed.
        drop(self.started.take());
        if is_mounted(&self.directory) {
            let unmounted = Command::new("umount")
                .arg("-l")
                .arg(&self.directory)
                .output();
            if !unmounted.is_ok_and(|output| output.status.success()) {
                let _ = Command::new("fusermount3")
                    .args(["-u", "-z"])
                    .arg(&self.directory)
                    .output();
            }
        }
    }
}

/// The names in a directory.
pub fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).expect("it is listed");
    let names = entries.map(|entry| entry.expect("an entry").file_name());
    let mut names: Vec<String> = names
        .map(|name| name.into_string().expect("ours"))
        .collect();
    names.sort();
    names
}

/// A number of a tier, in what a command has written as JSON.
pub fn number_of(document: &Value, tier: &str, number: &str) -> u64 {
    let mut rows = document["rows"].as_array().expect("rows").iter();
    let row = rows.find(|row| row["of"] == "tier" && row["name"] == tier);
    let number = &row.unwrap_or_else(|| panic!("no {tier}: {document}"))[number];
    number.as_u64().expect("a number")
}

/// Whether something is mounted there, alive or not.
pub fn is_mounted(directory: &Path) -> bool {
    let parent = directory.parent().expect("it has one");
    let device = |path: &Path| fs::symlink_metadata(path).map(|found| found.dev());
    match (device(directory), device(parent)) {
        (Ok(own), Ok(parent)) => own != parent,
        (Err(error), _) => error.kind() == std::io::ErrorKind::NotConnected,
        _ => false,
    }
}
