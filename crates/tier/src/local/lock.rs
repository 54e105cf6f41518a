//! [`DirectoryLock`]: one process at a time in a directory of blocks.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::FlockOperation;

use crate::Error;

/// The file that is locked. Blocks lie beside it, in a directory of their own.
const NAME: &str = "cachewise.lock";

/// Holds a directory. The kernel lets go of it when the process ends, however it ends.
#[derive(Debug)]
pub(super) struct DirectoryLock {
    _file: File,
}

impl DirectoryLock {
    /// Takes the directory, and makes it where it is not there.
    pub(super) fn take(directory: &Path) -> Result<Self, Error> {
        let failed = |operation| {
            move |error| Error::Directory {
                path: directory.to_owned(),
                operation,
                source: Arc::new(error),
            }
        };
        std::fs::create_dir_all(directory).map_err(failed("make"))?;
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(directory.join(NAME))
            .map_err(failed("lock"))?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let mut text = String::new();
                // Who it is helps, and is not needed.
                let _ = file.read_to_string(&mut text);
                return Err(Error::Locked {
                    path: directory.to_owned(),
                    pid: text.trim().parse().ok(),
                });
            }
            Err(error) => return Err(failed("lock")(error.into())),
        }
        file.set_len(0)
            .and_then(|()| writeln!(file, "{}", std::process::id()))
            .map_err(failed("lock"))?;
        Ok(Self { _file: file })
    }
}
