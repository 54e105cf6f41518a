//! [`Error`]: kernel state that cannot be read, and the cause.

use std::io;
use std::path::{Path, PathBuf};

use cachewise_units::escaped;

/// Kernel state that cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file of `/proc` or `/sys` could not be read.
    #[error("{operation} {}: {source}", escaped(path))]
    Io {
        /// The operation.
        operation: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },

    /// A file of `/proc` or `/sys` has unexpected text.
    #[error("parse {}: {problem}", escaped(path))]
    Parse {
        /// The file.
        path: PathBuf,
        /// The fault in its text.
        problem: String,
    },

    /// This kernel does not offer it, or not in this build, boot or mount.
    #[error("{operation} {}: {advice}", escaped(path))]
    Unsupported {
        /// The operation.
        operation: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The missing part, and the fix.
        advice: &'static str,
    },

    /// The name of a setting or of a control group is invalid.
    #[error("{name:?}: {problem}")]
    Invalid {
        /// The name.
        name: String,
        /// The fault.
        problem: String,
    },

    /// The hierarchy that accounts the page cache has no control group with this name.
    #[error(
        "no control group {name:?} under {}: list that directory for their names",
        escaped(mount)
    )]
    NoCgroup {
        /// The name.
        name: String,
        /// The mount point of the hierarchy.
        mount: PathBuf,
    },
}

/// Kind of an [`Error`], for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The file, process or control group does not exist (any more).
    NotFound,
    /// This caller may not read it; another may.
    Denied,
    /// This kernel does not offer it.
    Unsupported,
    /// The request is invalid.
    Invalid,
    /// A retry may succeed.
    Busy,
    /// A signal interrupted it.
    Interrupted,
    /// Any other failure.
    Other,
}

/// ESRCH: returned by reads of a file under `/proc/PID` after the end of the process.
const ESRCH: i32 = 3;
/// ENODEV: returned by reads of an open file of a control group that is gone.
const ENODEV: i32 = 19;
/// EOPNOTSUPP: returned by pressure files if the kernel was booted without pressure accounting.
const EOPNOTSUPP: i32 = 95;

impl Error {
    pub(crate) fn io(operation: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io {
            operation,
            path: path.to_owned(),
            source,
        }
    }

    pub(crate) fn parse(path: &Path, problem: impl Into<String>) -> Self {
        Self::Parse {
            path: path.to_owned(),
            problem: problem.into(),
        }
    }

    /// Returns the kind of this failure.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Io { source, .. } => classify(source),
            Self::Parse { .. } => ErrorKind::Other,
            Self::Unsupported { .. } => ErrorKind::Unsupported,
            Self::Invalid { .. } => ErrorKind::Invalid,
            Self::NoCgroup { .. } => ErrorKind::NotFound,
        }
    }
}

fn classify(error: &io::Error) -> ErrorKind {
    match error.raw_os_error() {
        Some(ESRCH | ENODEV) => return ErrorKind::NotFound,
        Some(EOPNOTSUPP) => return ErrorKind::Unsupported,
        _ => {}
    }
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => ErrorKind::NotFound,
        io::ErrorKind::PermissionDenied => ErrorKind::Denied,
        io::ErrorKind::Unsupported => ErrorKind::Unsupported,
        io::ErrorKind::InvalidInput | io::ErrorKind::IsADirectory => ErrorKind::Invalid,
        io::ErrorKind::ResourceBusy | io::ErrorKind::WouldBlock => ErrorKind::Busy,
        io::ErrorKind::Interrupted => ErrorKind::Interrupted,
        _ => ErrorKind::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kind_follows_errno() {
        for (errno, kind) in [
            (2, ErrorKind::NotFound),
            (ESRCH, ErrorKind::NotFound),
            (ENODEV, ErrorKind::NotFound),
            (1, ErrorKind::Denied),
            (13, ErrorKind::Denied),
            (EOPNOTSUPP, ErrorKind::Unsupported),
            (22, ErrorKind::Invalid),
            (16, ErrorKind::Busy),
            (4, ErrorKind::Interrupted),
            (5, ErrorKind::Other),
        ] {
            let error = Error::io("read", Path::new("/x"), io::Error::from_raw_os_error(errno));
            assert_eq!(error.kind(), kind, "errno {errno}");
            assert!(
                error.to_string().starts_with("read /x: "),
                "operation and path: {error}"
            );
        }
    }
}
