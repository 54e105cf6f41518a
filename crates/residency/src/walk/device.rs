//! [`Device`]: what has to be known of a file system before its files are asked about.

use std::os::fd::BorrowedFd;

use cachewise_sys::opening_drops_pages;

use crate::Error;
use crate::file_system::FileSystem;
use crate::sysfs::has_dax;

/// Major and minor number.
pub(super) type DeviceId = (u32, u32);

/// A file system, known by the device number that its directories show.
#[derive(Clone, Copy, Debug)]
pub(super) struct Device {
    pub id: DeviceId,
    pub file_system: FileSystem,
    /// Whether each file has to be looked at: because its directory may tell another inode number than
    /// itself does, or because some of the files may be on DAX.
    pub needs_statx: bool,
    /// Whether files lose their pages when they are opened.
    pub drops_pages: bool,
}

impl Device {
    /// Looks at the file system of an open directory.
    pub fn of_directory(id: DeviceId, fd: BorrowedFd<'_>) -> Result<Self, Error> {
        let file_system = FileSystem::of_fd(fd)?;
        Ok(Self {
            id,
            file_system,
            needs_statx: file_system != FileSystem::Plain || has_dax(id),
            drops_pages: opening_drops_pages(fd)
                .map_err(|errno| Error::from_errno("fstatfs", errno))?,
        })
    }

    /// Of a place that could not be looked at.
    pub fn unknown() -> Self {
        Self {
            id: (0, 0),
            file_system: FileSystem::Plain,
            needs_statx: true,
            drops_pages: true,
        }
    }
}
