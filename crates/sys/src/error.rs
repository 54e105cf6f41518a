//! [`Error`]: what could not be done, with which file, why, and what helps.

use std::io;
use std::path::{Path, PathBuf};

use cachewise_units::escaped;
use rustix::io::Errno;

use crate::FileKind;

/// Something that the kernel would not do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A system call failed.
    #[error(
        "{operation}{}: {source}{}",
        path_text(path),
        next_step(operation, source)
    )]
    Io {
        /// The system call.
        operation: &'static str,
        /// The file, where the caller gave one by path.
        path: Option<PathBuf>,
        /// The error of the kernel.
        source: io::Error,
    },

    /// A system call is offered, but not to this caller for this file.
    #[error("{operation}{}: {source}; {advice}", path_text(path))]
    Denied {
        /// The system call.
        operation: &'static str,
        /// The file, where the caller gave one by path.
        path: Option<PathBuf>,
        /// The permission that is missing, and the next step.
        advice: &'static str,
        /// The error of the kernel.
        source: io::Error,
    },

    /// This kernel, or this kind of file system, does not offer a system call.
    #[error("{operation}{}: {source}; {advice}", path_text(path))]
    Unsupported {
        /// The system call.
        operation: &'static str,
        /// The file, where the caller gave one by path.
        path: Option<PathBuf>,
        /// Since when there is such a call, and what to do.
        advice: &'static str,
        /// The error of the kernel.
        source: io::Error,
    },

    /// The path leads to something that has no pages of its own, or that must not be opened.
    #[error("open {}: {kind}, not a regular file or a block device", escaped(path))]
    NotAFile {
        /// The path as it was given.
        path: PathBuf,
        /// The kind of file at the path.
        kind: FileKind,
    },

    /// The file is on FUSE, and opening it could drop its pages.
    #[error(
        "open {}: FUSE files are not opened, because that can drop their pages; pass an open descriptor, or run \
         `cachewise files --all` as root, which opens no file",
        escaped(path)
    )]
    DropsPages {
        /// The path as it was given.
        path: PathBuf,
    },
}

fn path_text(path: &Option<PathBuf>) -> String {
    path.as_ref()
        .map(|path| format!(" {}", escaped(path)))
        .unwrap_or_default()
}

/// Returns the next step for errors of the kernel that do not suggest one.
fn next_step(operation: &str, source: &io::Error) -> &'static str {
    match Errno::from_io_error(source) {
        Some(Errno::LOOP) => "; symbolic links that lead in a circle: `namei PATH` shows them",
        Some(Errno::IO) => {
            "; the device or the server did not deliver the data: `dmesg` has its error"
        }
        // Opening for reading needs no right that gives this: it is not the file's permissions.
        Some(Errno::PERM) if operation == "open" => {
            "; refused to root as well, by the device rules of a container or a security module: allow it there, or \
             see `cachewise files --all`, which opens no device"
        }
        _ => "",
    }
}

/// Category of an [`Error`], for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// There is no such file.
    NotFound,
    /// This caller may not do that, another may.
    Denied,
    /// This kernel or file system does not offer it to anyone.
    Unsupported,
    /// The request makes no sense: a bad descriptor, the wrong kind of file.
    Invalid,
    /// It may work later.
    Busy,
    /// A signal came first.
    Interrupted,
    /// Anything else.
    Other,
}

impl Error {
    pub(crate) fn io(operation: &'static str, errno: Errno) -> Self {
        Self::Io {
            operation,
            path: None,
            source: errno.into(),
        }
    }

    /// Adds the path of the file to an error of a call that had only its descriptor.
    #[must_use]
    pub fn with_path(mut self, at: &Path) -> Self {
        match &mut self {
            Self::Io { path, .. } | Self::Denied { path, .. } | Self::Unsupported { path, .. } => {
                *path = Some(at.to_owned());
            }
            Self::NotAFile { path, .. } | Self::DropsPages { path } => at.clone_into(path),
        }
        self
    }

    /// Returns the path of the file, where it is known.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Io { path, .. } | Self::Denied { path, .. } | Self::Unsupported { path, .. } => {
                path.as_deref()
            }
            Self::NotAFile { path, .. } | Self::DropsPages { path } => Some(path),
        }
    }

    /// Returns what the kernel said, as a number of `errno`; `None` where it was not asked.
    #[must_use]
    pub fn os_error(&self) -> Option<i32> {
        match self {
            Self::Io { source, .. }
            | Self::Denied { source, .. }
            | Self::Unsupported { source, .. } => source.raw_os_error(),
            Self::NotAFile { .. } | Self::DropsPages { .. } => None,
        }
    }

    /// Returns what sort of failure this is.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Io { source, .. } => classify(source),
            Self::Denied { .. } => ErrorKind::Denied,
            Self::Unsupported { .. } => ErrorKind::Unsupported,
            Self::NotAFile { .. } => ErrorKind::Invalid,
            Self::DropsPages { .. } => ErrorKind::Unsupported,
        }
    }
}

fn classify(error: &io::Error) -> ErrorKind {
    match Errno::from_io_error(error) {
        // Of a file in /proc/PID, when the process has gone.
        Some(Errno::NOENT | Errno::NOTDIR | Errno::SRCH) => ErrorKind::NotFound,
        Some(Errno::PERM | Errno::ACCESS | Errno::ROFS) => ErrorKind::Denied,
        Some(Errno::NOSYS | Errno::OPNOTSUPP) => ErrorKind::Unsupported,
        Some(
            Errno::INVAL
            | Errno::BADF
            | Errno::LOOP
            | Errno::NAMETOOLONG
            | Errno::ISDIR
            | Errno::SPIPE
            | Errno::OVERFLOW,
        ) => ErrorKind::Invalid,
        Some(Errno::BUSY | Errno::AGAIN | Errno::TXTBSY) => ErrorKind::Busy,
        Some(Errno::INTR) => ErrorKind::Interrupted,
        _ => ErrorKind::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_follow_the_errno() {
        for (errno, kind) in [
            (Errno::NOENT, ErrorKind::NotFound),
            (Errno::SRCH, ErrorKind::NotFound),
            (Errno::ACCESS, ErrorKind::Denied),
            (Errno::NOSYS, ErrorKind::Unsupported),
            (Errno::BADF, ErrorKind::Invalid),
            (Errno::BUSY, ErrorKind::Busy),
            (Errno::INTR, ErrorKind::Interrupted),
            (Errno::IO, ErrorKind::Other),
        ] {
            assert_eq!(Error::io("read", errno).kind(), kind, "{errno:?}");
        }
    }

    #[test]
    fn messages_name_operation_path_and_cause() {
        let error = Error::io("fadvise", Errno::BADF);
        assert!(
            error.to_string().starts_with("fadvise: Bad file"),
            "no path: {error}"
        );
        let error = error.with_path(Path::new("/a b"));
        assert!(
            error.to_string().starts_with("fadvise /a b: Bad file"),
            "a path: {error}"
        );
        assert_eq!(
            error.path(),
            Some(Path::new("/a b")),
            "the path is there for programs too"
        );
    }

    #[test]
    fn a_name_begins_no_line_of_its_own() {
        let error = Error::io("open", Errno::NOENT).with_path(Path::new("x\nall is \x1b[1mwell"));
        let text = error.to_string();
        assert!(
            text.starts_with(r"open x\nall is \x1b[1mwell: No such"),
            "as tables show it: {text}"
        );
    }

    #[test]
    fn what_leads_nobody_on_has_a_next_step() {
        for (operation, errno, part) in [
            ("stat", Errno::LOOP, "namei"),
            ("open", Errno::PERM, "--all"),
        ] {
            let text = Error::io(operation, errno).to_string();
            assert!(text.contains(part), "{part:?} should be in {text:?}");
        }
        let text = Error::io("fadvise", Errno::PERM).to_string();
        assert!(!text.contains(';'), "nothing is guessed at: {text}");
    }

    #[test]
    fn a_refused_kind_of_file_is_named() {
        let error = Error::NotAFile {
            path: "/run/x".into(),
            kind: FileKind::Fifo,
        };
        assert_eq!(
            error.to_string(),
            "open /run/x: a FIFO, not a regular file or a block device",
            "the kind of file is the cause"
        );
        assert_eq!(
            error.kind(),
            ErrorKind::Invalid,
            "asking for it made no sense"
        );
    }
}
