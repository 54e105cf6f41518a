//! [`Error`]: what the kernel would not tell, and why.

use std::io;
use std::path::{Path, PathBuf};

use cachewise_units::escaped;

/// Something that could not be found out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file of `/proc` or `/sys` could not be read.
    #[error("{operation} {}: {source}", escaped(path))]
    Io {
        /// What was tried.
        operation: &'static str,
        /// With which file or directory.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },

    /// A file of `/proc` or `/sys` says something that is not understood.
    #[error("parse {}: {problem}", escaped(path))]
    Parse {
        /// The file.
        path: PathBuf,
        /// What is wrong with its text.
        problem: String,
    },

    /// This kernel does not offer it, or not as it was built, booted or mounted.
    #[error("{operation} {}: {advice}", escaped(path))]
    Unsupported {
        /// What was tried.
        operation: &'static str,
        /// With which file or directory.
        path: PathBuf,
        /// What is missing, and what to do.
        advice: &'static str,
    },

    /// The name of a setting or of a control group can name none.
    #[error("{name:?}: {problem}")]
    Invalid {
        /// The name as it was given.
        name: String,
        /// What is wrong with it.
        problem: String,
    },

    /// There is no control group of that name where the page cache is accounted.
    #[error(
        "no control group {name:?} under {}: list that directory for their names",
        escaped(mount)
    )]
    NoCgroup {
        /// The name as it was given.
        name: String,
        /// Where the hierarchy is mounted.
        mount: PathBuf,
    },
}

/// What sort of failure an [`Error`] is, for programs to act on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// There is no such file, process or control group (any more).
    NotFound,
    /// This caller may not know, another may.
    Denied,
    /// This kernel does not offer it to anyone.
    Unsupported,
    /// The request makes no sense.
    Invalid,
    /// It may work later.
    Busy,
    /// A signal came first.
    Interrupted,
    /// Anything else.
    Other,
}

/// No such process: what reading a file under `/proc/PID` says once the process has gone.
const ESRCH: i32 = 3;
/// No such device: what an open file of a control group says once the group has gone.
const ENODEV: i32 = 19;
/// What files of pressure say where the kernel was booted without it.
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

    /// Returns what sort of failure this is.
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
    fn kinds_follow_the_errno() {
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
                "what and where: {error}"
            );
        }
    }
}
