//! [`DirectoryLock`]: one process at a time in a directory of blocks.

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

use cachewise_sys::PrivateDirectory;
use rustix::fs::FlockOperation;

use super::directory_error::directory_error;
use crate::Error;

/// The file that is locked. Blocks lie beside it, in a directory of their own.
pub(super) const NAME: &str = "cachewise.lock";

/// A lock on a directory. The kernel releases it when the process ends in any way.
#[derive(Debug)]
pub(super) struct DirectoryLock {
    _file: File,
}

impl DirectoryLock {
    /// Takes the directory at `path`.
    pub(super) fn take(path: &Path, directory: &PrivateDirectory) -> Result<Self, Error> {
        let failed = |error| directory_error(path.join(NAME), "lock", error);
        let mut file = directory.file(NAME).map_err(failed)?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let mut text = String::new();
                // Its id helps, and is not needed.
                let _ = file.read_to_string(&mut text);
                return Err(Error::Locked {
                    path: path.to_owned(),
                    pid: text.trim().parse().ok(),
                });
            }
            Err(error) => return Err(failed(error.into())),
        }
        // Leaves the pid for the error message of later processes. The lock holds even if this
        // write fails.
        let _ = file
            .set_len(0)
            .and_then(|()| writeln!(file, "{}", std::process::id()));
        Ok(Self { _file: file })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(path: &Path) -> Result<DirectoryLock, Error> {
        let directory = PrivateDirectory::open(path, |name| name == NAME).unwrap();
        DirectoryLock::take(path, &directory)
    }

    #[test]
    fn one_process_holds_a_directory_and_links_are_refused() {
        let scratch = tempfile::tempdir().unwrap();
        let held = take(scratch.path()).unwrap();
        let Err(Error::Locked { pid, .. }) = take(scratch.path()) else {
            panic!("two hold it");
        };
        assert_eq!(pid, Some(std::process::id()));
        drop(held);
        take(scratch.path()).expect("the first has released it");

        let name = scratch.path().join(NAME);
        let precious = scratch.path().join("precious");
        std::fs::write(&precious, "precious").unwrap();
        std::fs::remove_file(&name).unwrap();
        std::os::unix::fs::symlink(&precious, &name).unwrap();
        take(scratch.path()).expect_err("a symbolic link is not followed");
        std::fs::remove_file(&name).unwrap();
        std::fs::hard_link(&precious, &name).unwrap();
        take(scratch.path()).expect_err("a hard link is not emptied");
        assert_eq!(std::fs::read(&precious).unwrap(), b"precious");
    }
}
