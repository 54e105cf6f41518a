//! [`Local`]: a directory to publish.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Statx, StatxFlags};
use rustix::io::Errno;

use super::attributes::{Attributes, is_data};
use super::error::PublishError;
use super::index::FileState;
use super::source::{Extended, FileRead, Found, IsKnown, Source};
use super::stat::Stat;
use crate::Kind;

/// The longest value, and the longest list of names, that Linux has.
const LONGEST: usize = 64 << 10;

/// A directory of this machine.
#[derive(Debug)]
pub(super) struct Local<'a> {
    path: &'a Path,
    root: File,
    /// Files that changed at this time or later may change again without a trace in their times.
    settled: (i64, u32),
    buffer: Vec<u8>,
}

impl<'a> Local<'a> {
    pub(super) fn open(
        path: &'a Path,
        block: u64,
        settled: (i64, u32),
    ) -> Result<Self, PublishError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(path, flags, Mode::empty());
        let failed = |error: Errno| PublishError::io("open", path, error.into());
        Ok(Self {
            path,
            root: root.map_err(failed)?.into(),
            settled,
            buffer: vec![0; usize::try_from(block).unwrap_or(0)],
        })
    }

    fn found(&self, found: &Statx) -> Found {
        let changed = (found.stx_ctime.tv_sec, found.stx_ctime.tv_nsec);
        Found {
            kind: match FileType::from_raw_mode(found.stx_mode.into()) {
                FileType::RegularFile => Kind::File,
                FileType::Directory => Kind::Directory,
                FileType::Symlink => Kind::Link,
                _ => Kind::Other,
            },
            stat: Stat {
                mode: u32::from(found.stx_mode) & 0o7777,
                owner: (found.stx_uid, found.stx_gid),
                modified: (found.stx_mtime.tv_sec, found.stx_mtime.tv_nsec),
                size: found.stx_size,
                links: found.stx_nlink,
                blocks: found.stx_blocks,
            },
            has_acl: false,
            state: FileState::of(found),
            is_settled: changed < self.settled,
        }
    }

    /// Reads the blocks of a file; `false` where it is shorter than its size said. Holes are not read.
    fn blocks(
        &mut self,
        file: &mut File,
        path: &Path,
        found: &Found,
        take: &mut dyn FnMut(&[u8]) -> Result<(), PublishError>,
    ) -> Result<bool, PublishError> {
        let failed = |error: io::Error| PublishError::io("read", path, error);
        let size = found.stat.size;
        let is_sparse = found.stat.blocks.saturating_mul(512) < size;
        let mut start = 0;
        let mut data = 0;
        while start < size {
            let left = usize::try_from(size - start).unwrap_or(usize::MAX);
            let len = self.buffer.len().min(left);
            let bytes = self.buffer.get_mut(..len).unwrap_or_default();
            // Lossless: it is no longer than a block.
            let end = start + len as u64;
            if is_sparse && data <= start {
                data = next_data(file, start).unwrap_or(size);
            }
            if is_sparse && data >= end {
                bytes.fill(0);
            } else {
                if is_sparse {
                    file.seek(SeekFrom::Start(start)).map_err(failed)?;
                }
                match file.read_exact(bytes) {
                    Ok(()) => {}
                    Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
                    Err(error) => return Err(failed(error)),
                }
            }
            take(bytes)?;
            start = end;
        }
        Ok(true)
    }
}

impl Source for Local<'_> {
    type Directory = File;

    fn root(&mut self, _is_known: IsKnown<'_>) -> Result<(Found, File), PublishError> {
        let path = self.path;
        let root = self.root.try_clone();
        let root = root.map_err(|error| PublishError::io("open", path, error))?;
        Ok((self.found(&statx(&root, path)?), root))
    }

    fn names(&mut self, directory: &mut File, path: &Path) -> Result<Vec<Vec<u8>>, PublishError> {
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

    fn look(
        &mut self,
        directory: &mut File,
        name: &[u8],
        path: &Path,
    ) -> Result<Option<Found>, PublishError> {
        let mask = StatxFlags::BASIC_STATS;
        match rustix::fs::statx(&*directory, name, AtFlags::SYMLINK_NOFOLLOW, mask) {
            Ok(found) => {
                let found = self.found(&found);
                let has_acl = found.kind == Kind::Other && has_acl(directory, name);
                Ok(Some(Found { has_acl, ..found }))
            }
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(PublishError::io("look at", path, error.into())),
        }
    }

    fn enter(
        &mut self,
        directory: &mut File,
        name: &[u8],
        path: &Path,
        _is_known: IsKnown<'_>,
    ) -> Result<Option<File>, PublishError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
        match open(directory, name, flags) {
            Ok(below) => Ok(Some(below)),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(PublishError::io("open", path, error.into())),
        }
    }

    fn extended(&mut self, directory: &mut File, path: &Path) -> Result<Extended, PublishError> {
        Ok(Extended {
            attributes: attributes(directory, path)?,
            has_acl: has_acl(directory, b"."),
        })
    }

    fn modified(&self, _directory: &File) -> Option<(i64, u32)> {
        None
    }

    fn target(
        &mut self,
        directory: &mut File,
        name: &[u8],
        path: &Path,
    ) -> Result<Option<Vec<u8>>, PublishError> {
        match rustix::fs::readlinkat(directory, name, Vec::new()) {
            Ok(target) => Ok(Some(target.into_bytes())),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(PublishError::io("read", path, error.into())),
        }
    }

    fn read(
        &mut self,
        directory: &mut File,
        name: &[u8],
        path: &Path,
        _times: u32,
        take: &mut dyn FnMut(&[u8]) -> Result<(), PublishError>,
    ) -> Result<FileRead, PublishError> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let mut file = match open(directory, name, flags) {
            Ok(file) => file,
            Err(Errno::NOENT) => return Ok(FileRead::Vanished),
            Err(error) => return Err(PublishError::io("open", path, error.into())),
        };
        let before = self.found(&statx(&file, path)?);
        if before.kind != Kind::File || !self.blocks(&mut file, path, &before, take)? {
            return Ok(FileRead::Changed);
        }
        let extended = Extended {
            attributes: attributes(&file, path)?,
            has_acl: has_acl(directory, name),
        };
        let after = FileState::of(&statx(&file, path)?);
        Ok(match after == before.state {
            true => FileRead::Whole(before, extended),
            false => FileRead::Changed,
        })
    }

    fn check(&mut self) -> Result<(), PublishError> {
        Ok(())
    }
}

/// Returns where data begins at or behind this place; the place itself on a file system that does not tell.
fn next_data(file: &File, at: u64) -> Option<u64> {
    match rustix::fs::seek(file, rustix::fs::SeekFrom::Data(at)) {
        Ok(data) => Some(data),
        // Nothing but a hole up to the end.
        Err(Errno::NXIO) => None,
        Err(_) => Some(at),
    }
}

fn statx(file: &File, path: &Path) -> Result<Statx, PublishError> {
    rustix::fs::statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS)
        .map_err(|error| PublishError::io("look at", path, error.into()))
}

/// Opens an object of a directory, without a change of its access time where that is allowed.
fn open(directory: &File, name: &[u8], flags: OFlags) -> Result<File, Errno> {
    let flags = flags | OFlags::CLOEXEC;
    match rustix::fs::openat(directory, name, flags | OFlags::NOATIME, Mode::empty()) {
        Err(Errno::PERM) => rustix::fs::openat(directory, name, flags, Mode::empty()),
        opened => opened,
    }
    .map(File::from)
}

/// Returns whether an access control list extends the permissions of an object, or may.
fn has_acl(directory: &File, name: &[u8]) -> bool {
    let mut path = PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd()));
    path.push(std::ffi::OsStr::from_bytes(name));
    let found = rustix::fs::lgetxattr(path, "system.posix_acl_access", &mut [0_u8; 0]);
    !matches!(found, Err(Errno::NODATA | Errno::OPNOTSUPP | Errno::NOENT))
}

/// Returns the extended attributes of an open object that a version has.
fn attributes(object: &File, path: &Path) -> Result<Attributes, PublishError> {
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
