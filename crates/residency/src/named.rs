//! [`NamedFiles`]: residency of files by their paths, one after the other; [`query_inode`]: of a known inode.

use std::ffi::{CStr, OsStr};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use cachewise_sys::{open_quietly_at, opening_drops_pages};
use cachewise_units::ByteRange;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, StatxFlags};
use rustix::path::Arg;

use crate::file_system::FileSystem;
use crate::query::{count, open, pages_of};
use crate::{Counts, Error, Inode};

/// The result of [`NamedFiles::look`]: the inode, and the counts or why they are unknown.
pub type Looked = (Inode, Result<Counts, Error>);

/// Looks at files by their paths. Files of the directory of the previous path are looked at from there: lists name the
/// files of a directory one after the other, and following a path costs as much as counting the pages of a small file.
#[derive(Debug, Default)]
pub struct NamedFiles {
    /// The directory of the latest path, as it was named. `None` before the first path: a single file is not worth
    /// opening its directory.
    parent: Option<Vec<u8>>,
    near: Option<Near>,
    /// The device of the latest directory on a plain file system: others on it need no look at their file system.
    plain: Option<DeviceId>,
}

/// Major and minor number.
type DeviceId = (u32, u32);

/// An open directory on a file system whose files can be asked without further ado.
#[derive(Debug)]
struct Near {
    directory: OwnedFd,
    device: DeviceId,
}

impl NamedFiles {
    /// Counts the resident pages of the file that a path leads to.
    ///
    /// # Errors
    /// Those of [`open`](crate::open). Where the inode is known, errors of counting come beside it.
    ///
    /// # Cost
    /// Four system calls for a file in the directory of the previous path, or three more for another directory of the
    /// same file system. Nine for the first path, symbolic links, mount points, and file systems other than plain ones.
    pub fn look(&mut self, path: &Path) -> Result<Looked, Error> {
        if let Some(looked) = self.look_near(path) {
            return Ok(looked);
        }
        let file = open(path)?;
        let inode = Inode::of_fd(file.as_fd())?;
        let pages = pages_of(&inode, ByteRange::starting_at(0));
        let counts = pages
            .map_err(Error::from)
            .and_then(|pages| count(file.as_fd(), pages, || FileSystem::of_fd(file.as_fd())));
        Ok((inode, counts))
    }

    /// The same from the open directory; `None` where that does not do, or fails: the whole path is followed then.
    fn look_near(&mut self, path: &Path) -> Option<Looked> {
        let bytes = path.as_os_str().as_bytes();
        let slash = bytes.iter().rposition(|byte| *byte == b'/');
        let (parent, name) = match slash {
            Some(slash) => (&bytes[..=slash], &bytes[slash + 1..]),
            None => (&b"."[..], bytes),
        };
        if matches!(name, b"" | b"." | b"..") {
            return None;
        }
        if self.parent.as_deref() != Some(parent) {
            let is_first = self.parent.is_none();
            let of = self.parent.get_or_insert_default();
            of.clear();
            of.extend_from_slice(parent);
            self.near = match is_first {
                true => None,
                false => Near::open(Path::new(OsStr::from_bytes(parent)), self.plain),
            };
            if let Some(near) = &self.near {
                self.plain = Some(near.device);
            }
        }
        let near = self.near.as_ref()?;
        // Both calls take the name with its end.
        name.into_with_c_str(|name| Ok(near.look(name))).ok()?
    }
}

/// Counts the resident pages of a regular file whose inode the caller knows, by one of its paths; `None` if the path
/// leads elsewhere by now, through a symbolic link included.
///
/// The file must be on a file system that keeps the pages of its files itself (ext4, XFS, Btrfs, tmpfs): on others 0 may
/// be wrong, and opening a file may drop its pages.
///
/// # Errors
/// Those of [`query`](crate::query()).
///
/// # Cost
/// Four system calls.
pub fn query_inode(path: &Path, device: (u32, u32), number: u64) -> Result<Option<Counts>, Error> {
    // Before it is opened: opening a FIFO, a device or a FUSE file has effects.
    let Ok(inode) = Inode::in_directory(CWD, path, AtFlags::SYMLINK_NOFOLLOW) else {
        return Ok(None);
    };
    if (inode.device, inode.number) != (device, number) {
        return Ok(None);
    }
    let pages = pages_of(&inode, ByteRange::starting_at(0))?;
    let Ok(file) = open_quietly_at(CWD, path, OFlags::NOFOLLOW) else {
        return Ok(None);
    };
    count(file.as_fd(), pages, || Ok(FileSystem::Plain)).map(Some)
}

impl Near {
    /// Opens a directory; `plain` is a device that is known to have a plain file system.
    fn open(path: &Path, plain: Option<DeviceId>) -> Option<Near> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::openat(CWD, path, flags, Mode::empty()).ok()?;
        let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
        let found = rustix::fs::statx(&directory, c"", flags, StatxFlags::INO).ok()?;
        let device = (found.stx_dev_major, found.stx_dev_minor);
        let is_plain = plain == Some(device)
            || FileSystem::of_fd(directory.as_fd()).ok()? == FileSystem::Plain
                && !opening_drops_pages(directory.as_fd()).unwrap_or(true);
        is_plain.then_some(Near { directory, device })
    }

    /// Looks at a file by its name in the directory.
    fn look(&self, name: &CStr) -> Option<Looked> {
        let directory = self.directory.as_fd();
        // Before it is opened: opening a FIFO or a device has effects.
        let inode = Inode::in_directory(directory, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        if inode.device != self.device {
            return None;
        }
        let pages = pages_of(&inode, ByteRange::starting_at(0)).ok()?;
        let file = open_quietly_at(directory, name, OFlags::NOFOLLOW).ok()?;
        Some((inode, count(file.as_fd(), pages, || Ok(FileSystem::Plain))))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use cachewise_units::Pages;

    use super::*;
    use crate::query;

    #[test]
    fn a_known_inode_is_counted_only_where_the_path_leads_to_it() {
        let scratch = tempfile::tempdir().unwrap();
        let at = |name: &str| scratch.path().join(name);
        for name in ["a", "b"] {
            fs::write(at(name), vec![1; 5000]).unwrap();
        }
        symlink("a", at("link")).unwrap();
        let Inode { device, number, .. } = Inode::at(&at("a")).unwrap();
        let whole = query(open(&at("a")).unwrap(), ByteRange::starting_at(0)).unwrap();
        let counted = |name: &str, number| query_inode(&at(name), device, number).unwrap();
        assert_eq!(counted("a", number), Some(whole));
        assert_eq!(counted("b", number), None, "another file");
        assert_eq!(counted("link", number), None, "a link to it");
        assert_eq!(counted("none", number), None, "nothing");
        let other = query_inode(&at("a"), (device.0, device.1 + 1), number);
        assert_eq!(other.unwrap(), None, "another file system");
    }

    #[test]
    fn files_are_found_as_by_their_whole_paths() {
        let scratch = tempfile::tempdir().unwrap();
        let at = |name: &str| scratch.path().join(name);
        fs::create_dir(at("below")).unwrap();
        for name in ["a", "b", "below/c", "d"] {
            fs::write(at(name), vec![1; 5000]).unwrap();
        }
        symlink("below/c", at("link")).unwrap();
        rustix::fs::mknodat(CWD, at("fifo"), rustix::fs::FileType::Fifo, Mode::RUSR, 0).unwrap();
        let mut named = NamedFiles::default();
        for name in ["a", "b", "below/c", "d", "link", "below/../a", "./b"] {
            let path = at(name);
            let (inode, counts) = named.look(&path).unwrap();
            assert_eq!(inode, Inode::at(&path).unwrap(), "{name}");
            let whole = query(open(&path).unwrap(), ByteRange::starting_at(0)).unwrap();
            assert_eq!(counts.unwrap(), whole, "{name}");
            assert_eq!(whole.total, Pages(2), "{name}");
        }
        for name in ["fifo", "below", "none", "a/", "below/."] {
            let path = at(name);
            let near = named.look(&path).unwrap_err().to_string();
            assert_eq!(near, open(&path).unwrap_err().to_string(), "{name}");
        }
    }
}
