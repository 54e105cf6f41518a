//! [`Error`]: a question about a file that has no answer.

use std::path::{Path, PathBuf};

use cachewise_sys::ErrorKind;
use cachewise_units::escaped;
use rustix::io::Errno;

use crate::Unknown;
use crate::memlock_limit::MemlockLimit;
use crate::snapshot::SnapshotError;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Residency is unknown, in general or to this caller.
    #[error("{}", unknown(path.as_deref(), *why))]
    Unknown {
        /// The file, where the caller gave one by path.
        path: Option<PathBuf>,
        /// The reason.
        why: Unknown,
    },

    /// A pattern of file names cannot be understood.
    #[error(
        "pattern {pattern:?}: {why}; * ? [a-z] {{a,b}} and ** mean something, \\ takes that away"
    )]
    Pattern {
        /// The pattern.
        pattern: String,
        /// The fault of the pattern.
        why: String,
    },
    /// No more memory may be locked.
    #[error(transparent)]
    Memlock(#[from] MemlockLimit),

    /// A snapshot cannot be read or written.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),

    /// The kernel would not do something.
    #[error(transparent)]
    Sys(#[from] cachewise_sys::Error),
}

fn unknown(path: Option<&Path>, why: Unknown) -> String {
    let advice = why.advice();
    match (path, why) {
        // The kind of file comes first.
        (Some(path), Unknown::NotAFile(kind)) => {
            format!("{} is {kind}: {why}; {advice}", escaped(path))
        }
        (Some(path), _) => format!("residency of {} is unknown: {why}; {advice}", escaped(path)),
        (None, _) => format!("residency is unknown: {why}; {advice}"),
    }
}

impl Error {
    /// Makes the error of a system call that failed on a descriptor.
    pub(crate) fn from_errno(operation: &'static str, errno: Errno) -> Self {
        cachewise_sys::Error::Io {
            operation,
            path: None,
            source: errno.into(),
        }
        .into()
    }

    /// Adds the path of the file to an error of a call that had only its descriptor.
    #[must_use]
    pub fn with_path(self, at: &Path) -> Self {
        match self {
            Self::Unknown { why, .. } => Self::Unknown {
                path: Some(at.to_owned()),
                why,
            },
            Self::Memlock(_) | Self::Snapshot(_) => self,
            Self::Sys(error) => Self::Sys(error.with_path(at)),
            Self::Pattern { .. } => self,
        }
    }

    /// Returns the path of the file, where it is known.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Unknown { path, .. } => path.as_deref(),
            Self::Sys(error) => error.path(),
            Self::Pattern { .. } | Self::Memlock(_) | Self::Snapshot(_) => None,
        }
    }

    /// Returns the reason, where the answer exists but cannot be known.
    #[must_use]
    pub fn unknown(&self) -> Option<Unknown> {
        match self {
            Self::Unknown { why, .. } => Some(*why),
            Self::Sys(_) | Self::Pattern { .. } | Self::Memlock(_) | Self::Snapshot(_) => None,
        }
    }

    /// Returns what sort of failure this is.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Unknown { why, .. } => match why {
                Unknown::NoPermission | Unknown::Overlay | Unknown::Fuse => ErrorKind::Denied,
                Unknown::NotAFile(_) | Unknown::MadeUp => ErrorKind::Invalid,
                _ => ErrorKind::Unsupported,
            },
            Self::Memlock(_) => ErrorKind::Denied,
            Self::Snapshot(error) => error.kind(),
            Self::Sys(error) => error.kind(),
            Self::Pattern { .. } => ErrorKind::Invalid,
        }
    }
}

/// Separates the error that the caller may not see the pages of a file, which has some, from other errors.
pub(crate) fn unless_told<T>(answer: Result<T, Error>) -> Result<Result<T, Unknown>, Error> {
    match answer {
        Ok(found) => Ok(Ok(found)),
        Err(error) => match error.unknown() {
            Some(why) if why.is_of_caller() => Ok(Err(why)),
            _ => Err(error),
        },
    }
}

impl From<Unknown> for Error {
    fn from(why: Unknown) -> Self {
        Self::Unknown { path: None, why }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_names_file_reason_and_fix() {
        let error = Error::from(Unknown::NoPermission).with_path(Path::new("/etc/passwd"));
        let text = error.to_string();
        for part in ["/etc/passwd", "unknown", "users who own", "as root"] {
            assert!(text.contains(part), "{part:?} should be in {text:?}");
        }
        assert_eq!(error.kind(), ErrorKind::Denied, "others may know");
        let kind = cachewise_sys::FileKind::Fifo;
        let error = Error::from(Unknown::NotAFile(kind)).with_path(Path::new("pipe"));
        let text = error.to_string();
        assert!(
            text.starts_with("pipe is a FIFO: a FIFO has no page cache; name a regular file"),
            "its kind comes first: {text}"
        );
    }
}
