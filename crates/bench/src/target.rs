//! [`Target`]: the file as it is opened for an engine.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use cachewise_residency::query;
use cachewise_units::{ByteRange, Bytes};
use rustix::fs::OFlags;

use crate::{Advice, Engine, Error, Workload};

/// An open file and what is known of it.
#[derive(Debug)]
pub(crate) struct Target {
    pub file: File,
    pub size: Bytes,
    /// Whether the kernel tells this user what of it is in the page cache, by cachestat(2).
    pub is_told: bool,
}

impl Target {
    /// Opens the file of a workload as its engine needs it.
    pub fn open(workload: &Workload) -> Result<Target, Error> {
        let path = &workload.file;
        // A FIFO would wait for whoever writes to it, and a directory cannot be read: what it is comes first.
        let found = std::fs::metadata(path).map_err(|source| Error::file("open", path, source))?;
        let kind = found.file_type();
        if !kind.is_file() && !kind.is_block_device() {
            let source = rustix::io::Errno::INVAL;
            let advice =
                "; neither a file nor a block device, of which alone there are pages in the cache";
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
                    "{} is empty: there is nothing to read; write it first, or have one made by --size",
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

    /// Looks whether a block device is free to be written: not mounted, no swap, no part of another device.
    /// Files are free.
    ///
    /// # Errors
    /// It is in use, or cannot be opened.
    pub fn is_free(path: &Path) -> Result<(), Error> {
        let found = std::fs::metadata(path).map_err(|source| Error::file("open", path, source))?;
        if !found.file_type().is_block_device() {
            return Ok(());
        }
        // On a block device, without O_CREAT: EBUSY where it, or a partition of it, is held (open(2)).
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

    /// Looks whether a workload can have its file.
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
                // The one that `sys` has no name for, as nobody else asks for it.
                let _ = rustix::fs::fadvise(&self.file, 0, None, rustix::fs::Advice::Sequential);
                Ok(())
            }
        }
    }
}
