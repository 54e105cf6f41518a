//! Opening files for reading without side effects: no access time, no pages dropped, no FIFO or
//! device started.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::path::Arg;

use crate::{Error, FileKind, opening_drops_pages};

/// Opens a regular file or a block device for reading, changing nothing by it.
///
/// No access time is written, where the caller may ask for that. Symbolic links are followed. A file that
/// [loses its pages](opening_drops_pages) when it is opened is not opened.
///
/// # Errors
/// [`Error::NotAFile`] for anything but a regular file and a block device, [`Error::DropsPages`] for a file of FUSE:
/// these are not opened; otherwise what `open(2)` says.
///
/// # Cost
/// Five system calls: the path is followed once, by a descriptor (`O_PATH`) that opens nothing, because opening a FIFO
/// or a device has effects of its own; what it leads to is looked at, and then opened. One more where the file belongs
/// to another user, two more on overlayfs.
pub fn open_quietly(path: &Path) -> Result<File, Error> {
    opened(path, Drops::Refuse)
}

/// Opens a regular file or a block device as [`open_quietly`] does, and a file of FUSE as well: for those who read it,
/// evict it or bring it in.
///
/// # Errors
/// Those of [`open_quietly`], but for [`Error::DropsPages`].
///
/// # Cost
/// Four system calls, one more where the file belongs to another user.
pub fn open_to_act(path: &Path) -> Result<File, Error> {
    opened(path, Drops::Allow)
}

/// Whether a file may lose its pages by being opened.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Drops {
    Refuse,
    Allow,
}

fn opened(path: &Path, drops: Drops) -> Result<File, Error> {
    let failed = |operation| move |errno| Error::io(operation, errno).with_path(path);
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let found = rustix::fs::openat(CWD, path, flags, Mode::empty()).map_err(failed("open"))?;
    let kind = rustix::fs::fstat(&found).map_err(failed("fstat"))?;
    check(path, FileType::from_raw_mode(kind.st_mode))?;
    if drops == Drops::Refuse && opening_drops_pages(found.as_fd()).map_err(failed("fstatfs"))? {
        return Err(Error::DropsPages {
            path: path.to_owned(),
        });
    }
    let by_descriptor = format!("/proc/self/fd/{}", found.as_raw_fd());
    match open_quietly_at(CWD, by_descriptor.as_str(), OFlags::empty()) {
        Ok(fd) => Ok(File::from(fd)),
        // Without /proc the path is followed once more, and may lead elsewhere by then.
        Err(Errno::NOENT) => {
            let fd = open_quietly_at(CWD, path, OFlags::empty()).map_err(failed("open"))?;
            let after = rustix::fs::fstat(&fd).map_err(failed("fstat"))?;
            check(path, FileType::from_raw_mode(after.st_mode))?;
            Ok(File::from(fd))
        }
        Err(errno) => Err(failed("open")(errno)),
    }
}

/// Opens a path in an open directory for reading, whatever it is, with further flags (`O_DIRECTORY`,
/// `O_NOFOLLOW`), as [`open_quietly`] does, but for its look at the kind of file.
///
/// # Errors
/// What `openat(2)` says.
///
/// # Cost
/// One system call, two if the file belongs to another user.
pub fn open_quietly_at<P: Arg + Copy>(
    directory: BorrowedFd<'_>,
    path: P,
    flags: OFlags,
) -> Result<OwnedFd, Errno> {
    // Not to block matters only where the path leads elsewhere by now: a FIFO would hang.
    let flags = flags | OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    match rustix::fs::openat(directory, path, flags | OFlags::NOATIME, Mode::empty()) {
        // Only the owner may keep the access time. For the others, opening alone leaves it alone.
        Err(Errno::PERM) => rustix::fs::openat(directory, path, flags, Mode::empty()),
        opened => opened,
    }
}

fn check(path: &Path, found: FileType) -> Result<(), Error> {
    match FileKind::without_pages(found) {
        None => Ok(()),
        Some(kind) => Err(Error::NotAFile {
            path: path.to_owned(),
            kind,
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::fs::MetadataExt;

    use super::*;
    use crate::ErrorKind;

    fn kind_at(path: &Path) -> Option<FileKind> {
        match open_quietly(path) {
            Err(Error::NotAFile { kind, .. }) => Some(kind),
            _ => None,
        }
    }

    #[test]
    fn refuses_what_has_no_pages_without_blocking() {
        let dir = tempfile::tempdir().unwrap();
        let fifo = dir.path().join("fifo");
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, FileType::Fifo, Mode::RUSR, 0).unwrap();
        let socket = dir.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        assert_eq!(kind_at(&fifo), Some(FileKind::Fifo), "a FIFO is refused");
        assert_eq!(
            kind_at(&socket),
            Some(FileKind::Socket),
            "a socket is refused"
        );
        assert_eq!(
            kind_at(dir.path()),
            Some(FileKind::Directory),
            "a directory is refused"
        );
        let null = Path::new("/dev/null");
        assert_eq!(
            kind_at(null),
            Some(FileKind::CharacterDevice),
            "a device is refused"
        );
    }

    #[test]
    fn a_missing_file_is_named() {
        let path = Path::new("/nonexistent/file");
        let error = open_quietly(path).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound, "there is none");
        assert_eq!(error.path(), Some(path), "and the error says which");
    }

    #[test]
    fn reading_leaves_the_access_time_alone() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "content").unwrap();
        // Older than the modification, so that even `relatime` would write a new one.
        let old = std::fs::FileTimes::new().set_accessed(std::time::UNIX_EPOCH);
        file.as_file().set_times(old).unwrap();

        let mut content = String::new();
        open_quietly(file.path())
            .unwrap()
            .read_to_string(&mut content)
            .unwrap();
        assert_eq!(content, "content", "the file can be read");
        let atime = std::fs::metadata(file.path()).unwrap().atime();
        assert_eq!(atime, 0, "and its access time is the one set");
    }
}
