//! A directory on FUSE.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::command::{Started, until};
use super::disk::Scratch;

/// A directory seen through bindfs, unmounted when dropped.
pub struct Bindfs {
    directory: PathBuf,
    _server: Started,
}

impl Bindfs {
    /// Mounts it with these options; `None` with a note without bindfs.
    pub fn mount(scratch: &Scratch, source: &Path, options: &[&str]) -> Option<Bindfs> {
        if Command::new("bindfs").arg("-V").output().is_err() {
            println!("skipped: files of FUSE: bindfs is not installed");
            return None;
        }
        let name = format!("fuse{}", options.concat().replace([' ', ','], "-"));
        let directory = scratch.path(name);
        fs::create_dir(&directory).expect("a mount point can be made");
        let mut command = Command::new("bindfs");
        command.args(["-f", "--no-allow-other"]).args(options);
        command.arg(source).arg(&directory).stdin(Stdio::null());
        let server = Started::of(&mut command);
        let is_mounted = || {
            let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
            let place = directory.to_str().expect("an ordinary name");
            mounts.contains(&format!(" {place} fuse")).then_some(())
        };
        until("bindfs has mounted it", is_mounted);
        Some(Bindfs {
            directory,
            _server: server,
        })
    }

    /// Its root directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }
}

impl Drop for Bindfs {
    fn drop(&mut self) {
        let _ = Command::new("umount")
            .arg("-l")
            .arg(&self.directory)
            .status();
    }
}
