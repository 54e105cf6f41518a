//! [`DirectoryLock`]: one process at a time in a directory of blocks.

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{FlockOperation, Mode, OFlags};

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
        // A link would have what it leads to emptied.
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file = rustix::fs::open(directory.join(NAME), flags, Mode::from_raw_mode(0o644))
            .map(File::from)
            .map_err(|error| failed("lock")(error.into()))?;
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
        // Who has it is told those who come later, if there is room: the lock is held without that.
        let _ = file
            .set_len(0)
            .and_then(|()| writeln!(file, "{}", std::process::id()));
        Ok(Self { _file: file })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_one_s_at_a_time_and_empties_nothing_that_a_link_leads_to() {
        let scratch = tempfile::tempdir().unwrap();
        let held = DirectoryLock::take(scratch.path()).unwrap();
        let Err(Error::Locked { pid, .. }) = DirectoryLock::take(scratch.path()) else {
            panic!("two have it");
        };
        assert_eq!(pid, Some(std::process::id()));
        drop(held);
        DirectoryLock::take(scratch.path()).expect("it was let go of");

        let name = scratch.path().join(NAME);
        let precious = scratch.path().join("precious");
        std::fs::write(&precious, "precious").unwrap();
        std::fs::remove_file(&name).unwrap();
        std::os::unix::fs::symlink(&precious, &name).unwrap();
        DirectoryLock::take(scratch.path()).expect_err("a link is not followed");
        assert_eq!(std::fs::read(&precious).unwrap(), b"precious");
    }
}
