//! [`Target`]: the file, opened for an engine.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use cachewise_residency::query;
use cachewise_units::{ByteRange, Bytes};
use rustix::fs::OFlags;

use crate::{Advice, Engine, Error, Workload};

/// An open file with its properties.
#[derive(Debug)]
pub(crate) struct Target {
    pub file: File,
    pub size: Bytes,
    /// Whether cachestat(2) reports the file's residency to this user.
    pub is_told: bool,
}

impl Target {
    /// Opens the file of a workload for its engine.
    pub fn open(workload: &Workload) -> Result<Target, Error> {
        let path = &workload.file;
        // Checked first: opening a FIFO would wait for its writer, and a directory cannot be read.
        let found = std::fs::metadata(path).map_err(|source| Error::file("open", path, source))?;
        let kind = found.file_type();
        if !kind.is_file() && !kind.is_block_device() {
            let source = rustix::io::Errno::INVAL;
            let advice = "; only files and block devices have pages in the cache";
            return Err(Error::advised("open", path, source, advice));
        }
        let mut options = File::options();
        options.read(true);
        match workload.engine {
            Engine::Write => {
                options.write(true);
            }
            Engine::Direct => {
                options.custom_flags(OFlags::DIRECT.bits().cast_signed());
            }
            _ => {}
        }
        let file = options.open(path).map_err(|source| match workload.engine {
            Engine::Direct if source.raw_os_error() == Some(libc::EINVAL) => Error::advised(
                "open with O_DIRECT",
                path,
                source,
                "; its file system has no direct I/O (tmpfs is one): take another engine or a file on a disk",
            ),
            _ => Error::file("open", path, source),
        })?;
        let size = match kind.is_block_device() {
            true => {
                cachewise_sys::device_size(file.as_fd()).map_err(|error| error.with_path(path))?
            }
            false => Bytes(found.len()),
        };
        if size.is_zero() {
            return Err(Error::Invalid {
                what: "file",
                why: format!(
                    "{} is empty: nothing to read; write it first, or make one with --size",
                    cachewise_units::escaped(path)
                ),
            });
        }
        if size < workload.chunk {
            return Err(Error::TooSmall {
                path: path.clone(),
                size,
                chunk: workload.chunk,
            });
        }
        let first = ByteRange { start: 0, len: 1 };
        let is_told = query(&file, first).is_ok_and(|counts| counts.states.is_some());
        let target = Target {
            file,
            size,
            is_told,
        };
        if workload.engine != Engine::Direct {
            target
                .advise(workload.advice)
                .map_err(|error| error.with_path(path))?;
        }
        Ok(target)
    }

    /// Checks that a block device may be written: not mounted, no swap, no part of another device.
    /// Files are free.
    ///
    /// # Errors
    /// It is in use, or cannot be opened.
    pub fn is_free(path: &Path) -> Result<(), Error> {
        let found = std::fs::metadata(path).map_err(|source| Error::file("open", path, source))?;
        if !found.file_type().is_block_device() {
            return Ok(());
        }
        // On a block device, without O_CREAT: EBUSY if it, or a partition of it, is in use
        // (open(2)).
        let exclusive = OFlags::EXCL.bits().cast_signed();
        let opened = File::options()
            .write(true)
            .custom_flags(exclusive)
            .open(path);
        match opened {
            Err(source) if source.raw_os_error() == Some(libc::EBUSY) => Err(Error::advised(
                "write to",
                path,
                source,
                "; it is mounted, in use as swap or part of another device, and writing would destroy \
                 what is on it: umount it, or name another",
            )),
            Err(source) => Err(Error::file("open", path, source)),
            Ok(_) => Ok(()),
        }
    }

    /// Checks that a workload can open its file.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn check(workload: &Workload) -> Result<(), Error> {
        Target::open(workload).map(drop)
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    fn advise(&self, advice: Advice) -> Result<(), cachewise_sys::Error> {
        match advice {
            Advice::Normal => Ok(()),
            Advice::Random => cachewise_sys::fadvise_random(self.file.as_fd()),
            Advice::Sequential => {
                // `sys` has no function for this advice, because it has no other user.
                let _ = rustix::fs::fadvise(&self.file, 0, None, rustix::fs::Advice::Sequential);
                Ok(())
            }
        }
    }
}
