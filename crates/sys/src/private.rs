//! [`PrivateDirectory`]: a directory and files that no other user can read or replace.

use std::ffi::OsStr;
use std::fs::{DirBuilder, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::FileKind;

/// Why a file or a directory is not trusted: another user can write to it, or put it there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Distrust {
    /// Another user owns it.
    #[error("it belongs to user {0}, not to the user of this process")]
    Owner(u32),
    /// Its mode lets others write.
    #[error("other users can write to it (chmod go-w)")]
    Writable,
    /// A link leads to a file that another user chose.
    #[error("it is a symbolic link")]
    Link,
    /// The same file has names elsewhere.
    #[error("it has {0} names (hard links)")]
    Names(u64),
    /// It is neither a file nor a directory as expected.
    #[error("it is {0}")]
    Kind(FileKind),
    /// A regular file is where a directory is expected.
    #[error("it is not a directory")]
    NotADirectory,
}

/// Checks that this user alone can write to a file or directory, by the result of `lstat(2)` or `fstat(2)`.
///
/// # Errors
/// A symbolic link, another owner, or write permission for group or others.
pub fn check_private(found: &Stat) -> Result<(), Distrust> {
    if FileType::from_raw_mode(found.st_mode).is_symlink() {
        return Err(Distrust::Link);
    }
    if found.st_uid != rustix::process::geteuid().as_raw() {
        return Err(Distrust::Owner(found.st_uid));
    }
    let writable = Mode::from_raw_mode(found.st_mode) & (Mode::WGRP | Mode::WOTH);
    match writable.is_empty() {
        true => Ok(()),
        false => Err(Distrust::Writable),
    }
}

/// An open directory of this user, in which files are opened by descriptor and links are never followed.
#[derive(Debug)]
pub struct PrivateDirectory {
    fd: OwnedFd,
    path: PathBuf,
}

impl PrivateDirectory {
    /// Opens a directory, or makes it with mode 0700. The last component may be a symbolic link of this user or of root.
    ///
    /// An existing directory becomes 0700 if `known` holds for every name in it; a directory with other files keeps
    /// its mode.
    ///
    /// # Errors
    /// The error of the kernel; [`Distrust`], as the source of the error, where another user owns the directory or can
    /// write to it.
    pub fn open(path: &Path, known: impl Fn(&OsStr) -> bool) -> io::Result<Self> {
        let path: PathBuf = path.components().collect();
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&path)?;
        let fd = match open_directory(CWD, &path) {
            Err(Errno::NOTDIR | Errno::LOOP) => open_link(&path)?,
            opened => opened?,
        };
        let directory = Self { fd, path };
        directory.check_owner()?;
        if directory.names()?.iter().all(|name| known(name)) {
            directory.tighten()?;
        }
        check_private(&rustix::fs::fstat(&directory.fd)?).map_err(distrusted)?;
        Ok(directory)
    }

    /// Opens a directory in this one, or makes it; its mode is 0700 afterwards.
    ///
    /// # Errors
    /// The errors of [`open`](Self::open); a symbolic link is refused.
    pub fn directory(&self, name: &str) -> io::Result<Self> {
        match rustix::fs::mkdirat(&self.fd, name, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        let fd = match open_directory(self.fd.as_fd(), Path::new(name)) {
            Err(Errno::NOTDIR | Errno::LOOP) => {
                let found = rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW)?;
                check_private(&found).map_err(distrusted)?;
                return Err(distrusted(Distrust::NotADirectory));
            }
            opened => opened?,
        };
        let path = self.path.join(name);
        let directory = Self { fd, path };
        directory.check_owner()?;
        directory.tighten()?;
        Ok(directory)
    }

    /// Opens a regular file in this directory for reading and writing, or makes it; its mode is 0600 afterwards.
    ///
    /// # Errors
    /// The error of the kernel; [`Distrust`] for a symbolic link, a file of another user, one with several names, and
    /// whatever is not a regular file.
    pub fn file(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::RDWR
            | OFlags::CREATE
            | OFlags::NOFOLLOW
            | OFlags::NONBLOCK
            | OFlags::NOCTTY
            | OFlags::CLOEXEC;
        // The kind decides before the file is opened: opening a FIFO or a device has effects.
        self.check_file(name)?;
        let fd = rustix::fs::openat(&self.fd, name, flags, Mode::RUSR | Mode::WUSR)?;
        let found = rustix::fs::fstat(&fd)?;
        check_file(&found).map_err(distrusted)?;
        rustix::fs::fchmod(&fd, Mode::RUSR | Mode::WUSR)?;
        Ok(File::from(fd))
    }

    /// Checks a name as [`file`](Self::file) does, without opening it. No file of this name is fine.
    ///
    /// # Errors
    /// The errors of [`file`](Self::file).
    pub fn check_file(&self, name: &str) -> io::Result<()> {
        match rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => check_file(&found).map_err(distrusted),
            Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns a path that leads to this very directory, whatever becomes of its name: `/proc/self/fd/N`. Valid while
    /// this value lives. Without `/proc` it is the path by which the directory was opened.
    #[must_use]
    pub fn steady_path(&self) -> PathBuf {
        let steady = PathBuf::from(format!("/proc/self/fd/{}", self.fd.as_raw_fd()));
        let is_same = rustix::fs::stat(&steady)
            .ok()
            .zip(rustix::fs::fstat(&self.fd).ok())
            .is_some_and(|(one, other)| (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino));
        match is_same {
            true => steady,
            false => self.path.clone(),
        }
    }

    fn names(&self) -> io::Result<Vec<std::ffi::OsString>> {
        use std::os::unix::ffi::OsStringExt;
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::read_from(&self.fd)? {
            let name = entry?.file_name().to_bytes().to_vec();
            if name != b"." && name != b".." {
                names.push(std::ffi::OsString::from_vec(name));
            }
        }
        Ok(names)
    }

    fn check_owner(&self) -> io::Result<()> {
        match check_private(&rustix::fs::fstat(&self.fd)?) {
            Ok(()) | Err(Distrust::Writable) => Ok(()),
            Err(why) => Err(distrusted(why)),
        }
    }

    fn tighten(&self) -> io::Result<()> {
        Ok(rustix::fs::fchmod(&self.fd, Mode::RWXU)?)
    }
}

fn check_file(found: &Stat) -> Result<(), Distrust> {
    match FileType::from_raw_mode(found.st_mode) {
        FileType::RegularFile => {}
        FileType::Symlink => return Err(Distrust::Link),
        FileType::BlockDevice => return Err(Distrust::Kind(FileKind::Unknown)),
        other => {
            let kind = FileKind::without_pages(other).unwrap_or(FileKind::Unknown);
            return Err(Distrust::Kind(kind));
        }
    }
    match check_private(found) {
        // Files of an older version: in a directory of mode 0700 no other user reaches them.
        Ok(()) | Err(Distrust::Writable) => {}
        Err(why) => return Err(why),
    }
    match found.st_nlink {
        0 | 1 => Ok(()),
        names => Err(Distrust::Names(names)),
    }
}

fn open_directory(at: impl AsFd, path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(at, path, flags, Mode::empty())
}

/// Opens the directory that a symbolic link leads to, if this user or root owns the link.
fn open_link(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let link = rustix::fs::open(path, flags, Mode::empty())?;
    let found = rustix::fs::fstat(&link)?;
    if !FileType::from_raw_mode(found.st_mode).is_symlink() {
        return Err(distrusted(Distrust::NotADirectory));
    }
    if found.st_uid != 0 && found.st_uid != rustix::process::geteuid().as_raw() {
        return Err(distrusted(Distrust::Link));
    }
    // The text of the link that was checked, and not of one that has taken its place since.
    let target = rustix::fs::readlinkat(&link, "", Vec::new())?;
    let target = Path::new(OsStr::from_bytes(target.as_bytes()));
    let target = path.parent().unwrap_or(Path::new("")).join(target);
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(&target, flags, Mode::empty())?)
}

fn distrusted(why: Distrust) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, why)
}
