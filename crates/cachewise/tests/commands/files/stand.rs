//! Where it takes place.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::support::*;

/// `cachewise files`.
pub fn files<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Command {
    let mut command = cachewise(["files"]);
    command.args(arguments).stdin(Stdio::null());
    command
}

/// The same as a user who owns nothing, by a copy of the binary that such a user may run.
pub fn files_as_nobody(scratch: &Scratch) -> Command {
    let mut command = cachewise_as_nobody(scratch);
    command.arg("files").stdin(Stdio::null());
    command
}

/// The JSON that a command wrote.
pub fn document(ended: &Ended) -> Value {
    serde_json::from_slice(&ended.out)
        .unwrap_or_else(|error| panic!("{} writes JSON: {error}: {}", ended.line, ended.out()))
}

/// The rows of a document that are about this file.
pub fn rows_of<'a>(document: &'a Value, path: &Path) -> Vec<&'a Value> {
    let path = path.to_str().expect("an ordinary name");
    let rows = document["rows"].as_array().expect("a list of rows");
    rows.iter().filter(|row| row["path"] == path).collect()
}

/// The only row of a document that is about this file.
#[track_caller]
pub fn row_of<'a>(document: &'a Value, path: &Path) -> &'a Value {
    match rows_of(document, path)[..] {
        [row] => row,
        ref rows => panic!("{} has one row, not {rows:?}", path.display()),
    }
}

/// Loads these pages of a file, and no others.
pub fn load(path: &Path, pages: &BTreeSet<u64>) {
    evict(path);
    let file = File::open(path).expect("it can be opened");
    cachewise_sys::fadvise_random(file.as_fd()).expect("the kernel takes the advice");
    for page in pages {
        file.read_exact_at(&mut [0], page * page_size())
            .expect("it can be read");
    }
}

/// Makes a file of which only these pages exist: on a file system that is memory.
pub fn with_holes(path: &Path, total: u64, pages: &BTreeSet<u64>) {
    let file = File::create(path).expect("a file can be made there");
    file.set_len(total * page_size())
        .expect("it may be that large");
    for page in pages {
        file.write_all_at(&[1], page * page_size())
            .expect("there is room");
    }
}

/// A file system in a mount namespace that one process has; both go when this is dropped.
pub struct Elsewhere {
    holder: Started,
    directory: PathBuf,
}

/// mkfs.xfs refuses less than 300 MB; the image is sparse.
const IMAGE_BYTES: u64 = 320 << 20;

impl Elsewhere {
    /// Mounts one of this type, or says why that is not possible here.
    pub fn mount(scratch: &Scratch, kind: &str) -> Result<Elsewhere, String> {
        let image = scratch.path(format!("{kind}.image"));
        if kind == "tmpfs" {
            return Ok(Elsewhere::with(scratch, kind, "mount -t tmpfs none \"$0\""));
        }
        let known = fs::read_to_string("/proc/filesystems").unwrap_or_default();
        if !known.split_whitespace().any(|name| name == kind) {
            return Err(format!("this kernel has no {kind}"));
        }
        let file = File::create(&image).expect("an image can be made");
        file.set_len(IMAGE_BYTES).expect("it is sparse");
        let force = if kind == "ext4" { "-F" } else { "-f" };
        let path = std::env::var("PATH").unwrap_or_default();
        let made = Command::new(format!("mkfs.{kind}"))
            .env("PATH", format!("{path}:/usr/sbin:/sbin"))
            .args(["-q", force])
            .arg(&image)
            .output();
        match made {
            Ok(output) if output.status.success() => {}
            Ok(output) => panic!("mkfs.{kind}: {}", String::from_utf8_lossy(&output.stderr)),
            Err(error) => return Err(format!("mkfs.{kind}: {error}")),
        }
        let script = "mount -o loop \"$0.image\" \"$0\"";
        Ok(Elsewhere::with(scratch, kind, script))
    }

    /// Runs a script that mounts a file system on the directory `$0` of this name, in another mount namespace.
    pub fn with(scratch: &Scratch, name: &str, script: &str) -> Elsewhere {
        let directory = scratch.path(name);
        fs::create_dir(&directory).expect("a mount point can be made");
        let mut holder = Started::of(
            Command::new("unshare")
                .args(["--mount", "sh", "-ec"])
                .arg(format!("{script}; echo ready; exec sleep infinity"))
                .arg(&directory)
                .stdin(Stdio::null()),
        );
        if holder.line().as_deref() != Some(b"ready\n") {
            let ended = holder.wait();
            panic!("{script:?} mounts something: {}", ended.err());
        }
        Elsewhere { holder, directory }
    }

    /// The process that sees it.
    pub fn pid(&self) -> u32 {
        self.holder.pid()
    }

    /// The path by which that process sees it.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// A path by which it is reached from here.
    pub fn reached(&self) -> PathBuf {
        let directory = self.directory.strip_prefix("/").expect("it is absolute");
        PathBuf::from(format!("/proc/{}/root", self.pid())).join(directory)
    }
}
