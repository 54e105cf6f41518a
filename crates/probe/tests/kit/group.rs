//! Memory groups: the hierarchy that limits memory, version 1 or 2, and one group in it for the programs.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::image::remove_leftovers;
use crate::problem::{Context, Result};

/// The beginning of its name; the number of this process follows, and that of the group.
const PREFIX: &str = "cachewise-test-";

/// Groups that this process has made.
static MADE: AtomicU32 = AtomicU32::new(0);

/// A group, removed when dropped.
#[derive(Debug)]
pub struct Group {
    path: PathBuf,
    limit: &'static str,
    is_v1: bool,
}

impl Group {
    /// Makes one below the root of the hierarchy; or why there is none here.
    pub fn new() -> Result<Result<Group, String>> {
        let mounts = fs::read_to_string("/proc/self/mounts").context("read /proc/self/mounts")?;
        let found = mounts.lines().find_map(|line| {
            let mut words = line.split(' ').skip(1);
            let (mount, kind, options) = (words.next()?, words.next()?, words.next()?);
            match kind {
                "cgroup" if options.split(',').any(|one| one == "memory") => {
                    Some((PathBuf::from(mount), "memory.limit_in_bytes", true))
                }
                "cgroup2" => {
                    let mount = PathBuf::from(mount);
                    let controllers = fs::read_to_string(mount.join("cgroup.controllers")).ok()?;
                    controllers
                        .split_whitespace()
                        .any(|one| one == "memory")
                        .then_some((mount, "memory.max", false))
                }
                _ => None,
            }
        });
        let Some((mount, limit, is_v1)) = found else {
            return Ok(Err("no hierarchy of control groups limits memory".into()));
        };
        remove_leftovers(&mount, PREFIX);
        let group = Group {
            path: mount.join(format!(
                "{PREFIX}{}-{}",
                std::process::id(),
                MADE.fetch_add(1, Ordering::Relaxed)
            )),
            limit,
            is_v1,
        };
        if let Err(error) = fs::create_dir(&group.path) {
            let path = group.path.display();
            return Ok(Err(format!("make the group {path}: {error}")));
        }
        if !group.path.join(limit).exists() {
            let path = group.path.display();
            return Ok(Err(format!("{path} has no {limit}")));
        }
        Ok(Ok(group))
    }

    /// Whether it is of the first version, where each controller has its hierarchy.
    pub fn is_v1(&self) -> bool {
        self.is_v1
    }

    /// Its directory.
    pub fn path(&self) -> &PathBuf {
        &self.path
    }

    /// The number by which rows name it.
    pub fn id(&self) -> Result<u32> {
        let metadata = fs::metadata(&self.path).context("stat the group")?;
        Ok(metadata.ino() as u32)
    }

    /// Limits its memory.
    pub fn limit(&self, bytes: u64) -> Result<()> {
        let mut written = Ok(());
        // Pages that the programs before have left, and that cannot be reclaimed at this moment, may not fit.
        for _ in 0..100 {
            written = fs::write(self.path.join(self.limit), bytes.to_string());
            match &written {
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                    std::thread::sleep(std::time::Duration::from_millis(20));
                }
                _ => break,
            }
        }
        written.context("limit the group's memory")
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Its tasks have been waited for; the kernel may still be busy with the last of them.
        for _ in 0..100 {
            if fs::remove_dir(&self.path).is_ok() || !self.path.exists() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        eprintln!("{} stays", self.path.display());
    }
}
