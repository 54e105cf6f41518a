//! [`Inode`]: who a file is.

use std::os::fd::BorrowedFd;
use std::path::Path;

use cachewise_sys::{FileKind, device_size};
use cachewise_units::Bytes;
use rustix::fs::{AtFlags, CWD, FileType, Statx, StatxAttributes, StatxFlags, StatxTimestamp};
use rustix::path::Arg;

use crate::{Error, Unknown};

/// Identity of a file, and its properties that matter to the page cache.
///
/// Hard links of a file have one inode and share its pages. Two files that share their blocks (reflinks)
/// have two, and are cached twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Inode {
    /// Major and minor number of the device that the file system is on; of a block device, of itself.
    pub device: (u32, u32),
    /// The inode number.
    pub number: u64,
    /// How many names it has.
    pub links: u32,
    /// Its size.
    pub size: Bytes,
    /// When its content last changed: seconds since 1970, and nanoseconds.
    pub modified: (i64, u32),
    pub(crate) is_dax: bool,
}

const WANTED: StatxFlags = StatxFlags::TYPE
    .union(StatxFlags::NLINK)
    .union(StatxFlags::INO)
    .union(StatxFlags::SIZE)
    .union(StatxFlags::MTIME);

impl Inode {
    /// Looks at an open file.
    ///
    /// # Errors
    /// [`Unknown::NotAFile`] for anything but a regular file and a block device.
    ///
    /// # Cost
    /// One system call; a second for a block device.
    pub fn of_fd(fd: BorrowedFd<'_>) -> Result<Self, Error> {
        // Attributes that a network file system received at the open are recent enough.
        let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
        let found = rustix::fs::statx(fd, c"", flags, WANTED)
            .map_err(|errno| Error::from_errno("stat", errno))?;
        let file_type = FileType::from_raw_mode(found.stx_mode.into());
        if let Some(kind) = FileKind::without_pages(file_type) {
            return Err(Unknown::NotAFile(kind).into());
        }
        let mut inode = Self::from_statx(&found);
        if file_type == FileType::BlockDevice {
            inode.size = device_size(fd)?;
        }
        Ok(inode)
    }

    /// Reads the inode that a path leads to, without opening the file. Symbolic links are followed.
    ///
    /// # Errors
    /// [`Unknown::NotAFile`] for anything but a regular file and a block device (whose size is 0 here, because only an
    /// open device reports it); otherwise the error of `statx(2)`.
    ///
    /// # Cost
    /// One system call.
    pub fn at(path: &Path) -> Result<Self, Error> {
        Self::in_directory(CWD, path, AtFlags::empty()).map_err(|error| error.with_path(path))
    }

    /// The same of a path in an open directory.
    pub(crate) fn in_directory<P: Arg>(
        directory: BorrowedFd<'_>,
        path: P,
        flags: AtFlags,
    ) -> Result<Self, Error> {
        let flags = flags | AtFlags::STATX_DONT_SYNC;
        let found = rustix::fs::statx(directory, path, flags, WANTED)
            .map_err(|errno| Error::from_errno("stat", errno))?;
        let file_type = FileType::from_raw_mode(found.stx_mode.into());
        match FileKind::without_pages(file_type) {
            Some(kind) => Err(Unknown::NotAFile(kind).into()),
            None => Ok(Self::from_statx(&found)),
        }
    }

    /// Converts the requested attributes of a file; of a block device without its size.
    pub(crate) fn from_statx(found: &Statx) -> Self {
        let StatxTimestamp {
            tv_sec, tv_nsec, ..
        } = found.stx_mtime;
        Self {
            device: match FileType::from_raw_mode(found.stx_mode.into()) {
                FileType::BlockDevice => (found.stx_rdev_major, found.stx_rdev_minor),
                _ => (found.stx_dev_major, found.stx_dev_minor),
            },
            number: found.stx_ino,
            links: found.stx_nlink,
            size: Bytes(found.stx_size),
            modified: (tv_sec, tv_nsec),
            is_dax: found.stx_attributes.contains(StatxAttributes::DAX),
        }
    }
}
