//! Objects of a directory to publish, as the kernel reports them.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags, Statx, StatxFlags};
use rustix::io::Errno;

use super::attributes::{Attributes, is_data};
use super::error::PublishError;

/// The longest value, and the longest list of names, that Linux has.
const LONGEST: usize = 64 << 10;

/// Returns where data begins at or behind this place; the place itself on a file system that does not tell.
pub(super) fn next_data(file: &File, at: u64) -> Option<u64> {
    match rustix::fs::seek(file, rustix::fs::SeekFrom::Data(at)) {
        Ok(data) => Some(data),
        // Nothing but a hole up to the end.
        Err(Errno::NXIO) => None,
        Err(_) => Some(at),
    }
}

/// Returns the names in a directory, sorted.
pub(super) fn names(directory: &File, path: &Path) -> Result<Vec<Vec<u8>>, PublishError> {
    let failed = |error: Errno| PublishError::io("list", path, error.into());
    let reader = rustix::fs::Dir::read_from(directory).map_err(failed)?;
    let mut names = Vec::new();
    for entry in reader {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            names.push(name.to_vec());
        }
    }
    names.sort_unstable();
    Ok(names)
}

pub(super) fn look(
    directory: &File,
    name: &[u8],
    path: &Path,
) -> Result<Option<Statx>, PublishError> {
    let mask = StatxFlags::BASIC_STATS;
    match rustix::fs::statx(directory, name, AtFlags::SYMLINK_NOFOLLOW, mask) {
        Ok(found) => Ok(Some(found)),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(PublishError::io("look at", path, error.into())),
    }
}

pub(super) fn statx(file: &File, path: &Path) -> Result<Statx, PublishError> {
    rustix::fs::statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS)
        .map_err(|error| PublishError::io("look at", path, error.into()))
}

/// Opens an object of a directory, without a change of its access time where that is allowed.
pub(super) fn open(directory: &File, name: &[u8], flags: OFlags) -> Result<File, Errno> {
    let flags = flags | OFlags::CLOEXEC;
    match rustix::fs::openat(directory, name, flags | OFlags::NOATIME, Mode::empty()) {
        Err(Errno::PERM) => rustix::fs::openat(directory, name, flags, Mode::empty()),
        opened => opened,
    }
    .map(File::from)
}

/// Returns whether an access control list extends the permissions of an object, or may.
pub(super) fn has_acl(directory: &File, name: &[u8]) -> bool {
    let mut path = PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd()));
    path.push(std::ffi::OsStr::from_bytes(name));
    let found = rustix::fs::lgetxattr(path, "system.posix_acl_access", &mut [0_u8; 0]);
    !matches!(found, Err(Errno::NODATA | Errno::OPNOTSUPP | Errno::NOENT))
}

/// Returns the extended attributes of an open object that a version has.
pub(super) fn attributes(object: &File, path: &Path) -> Result<Attributes, PublishError> {
    let failed = |error: Errno| PublishError::io("read the attributes of", path, error.into());
    let mut all = Attributes::default();
    // Most objects have none, or a short list.
    let mut short = [0; 256];
    let mut long = Vec::new();
    let names = match rustix::fs::flistxattr(object, &mut short) {
        Ok(length) => short.get(..length),
        Err(Errno::OPNOTSUPP) => None,
        Err(Errno::RANGE) => {
            long.resize(LONGEST, 0);
            let length = rustix::fs::flistxattr(object, long.as_mut_slice()).map_err(failed)?;
            long.get(..length)
        }
        Err(error) => return Err(failed(error)),
    };
    let names = names.unwrap_or_default().split(|byte| *byte == 0);
    for name in names.filter(|name| is_data(name)) {
        let mut value = vec![0; LONGEST];
        match rustix::fs::fgetxattr(object, name, value.as_mut_slice()) {
            Ok(length) => all.insert(name, value.get(..length).unwrap_or_default()),
            // Removed meanwhile: the time of change of the object tells.
            Err(Errno::NODATA) => {}
            Err(error) => return Err(failed(error)),
        }
    }
    Ok(all)
}
