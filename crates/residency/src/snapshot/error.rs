//! [`SnapshotError`]: a snapshot that cannot be read or written.

use std::fmt;
use std::path::{Path, PathBuf};

use cachewise_sys::{ErrorKind, FileKind};

/// Why a snapshot cannot be read or written, and where.
#[derive(Debug)]
pub struct SnapshotError {
    /// The snapshot's own path, where it is known.
    pub path: Option<PathBuf>,
    /// The line, from 1, where it is one that is at fault.
    pub line: Option<u64>,
    /// The fault.
    pub fault: SnapshotFault,
}

/// Fault of a snapshot.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotFault {
    /// It cannot be read or written.
    #[error("{operation}: {source}")]
    Io {
        /// The operation.
        operation: &'static str,
        /// The reason.
        source: std::io::Error,
    },
    /// There is nothing in it.
    #[error("it is empty: save it again")]
    Empty,
    /// It is no file.
    #[error(
        "it is {0}, not a snapshot: name a file that `snapshot save` wrote; - is standard input"
    )]
    NotAFile(FileKind),
    /// It is something else.
    #[error("this is no snapshot of cachewise ({0}): name a file that `snapshot save` wrote")]
    Other(String),
    /// Something else is in the place of the one to be written.
    #[error(
        "there is something else of this name, which is left alone: name a new file, an empty one, or a snapshot"
    )]
    InTheWay,
    /// A later program wrote it.
    #[error(
        "it is of version {0}, and this program reads version 1: use the program that wrote it"
    )]
    Newer(u64),
    /// A line is damaged.
    #[error("{0}; the lines before it are sound: save it again")]
    Malformed(String),
    /// It ends before its end.
    #[error(
        "it ends here, without its last line: it was cut off or is still being written; save it again"
    )]
    Truncated,
}

impl SnapshotError {
    pub(super) fn new(line: Option<u64>, fault: SnapshotFault) -> Self {
        Self {
            path: None,
            line,
            fault,
        }
    }

    pub(super) fn io(operation: &'static str, source: std::io::Error) -> Self {
        Self::new(None, SnapshotFault::Io { operation, source })
    }

    pub(super) fn at(mut self, path: &Path) -> Self {
        self.path = Some(path.to_owned());
        self
    }

    /// Returns what sort of failure this is.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match &self.fault {
            SnapshotFault::Io { source, .. } => match source.kind() {
                std::io::ErrorKind::NotFound => ErrorKind::NotFound,
                std::io::ErrorKind::PermissionDenied | std::io::ErrorKind::ReadOnlyFilesystem => {
                    ErrorKind::Denied
                }
                _ => ErrorKind::Other,
            },
            SnapshotFault::Newer(_) => ErrorKind::Unsupported,
            _ => ErrorKind::Invalid,
        }
    }
}

/// Of opening it; the path is added by who knows it.
impl From<cachewise_sys::Error> for SnapshotError {
    fn from(error: cachewise_sys::Error) -> Self {
        use cachewise_sys::Error::{Denied, Io, NotAFile, Unsupported};
        match error {
            NotAFile { kind, .. } => Self::new(None, SnapshotFault::NotAFile(kind)),
            Io {
                operation, source, ..
            }
            | Denied {
                operation, source, ..
            }
            | Unsupported {
                operation, source, ..
            } => Self::io(operation, source),
            other => Self::io("open", std::io::Error::other(other)),
        }
    }
}

impl fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("snapshot")?;
        if let Some(path) = &self.path {
            write!(f, " {}", cachewise_units::escaped(path))?;
        }
        if let Some(line) = self.line {
            write!(f, ", line {line}")?;
        }
        write!(f, ": {}", self.fault)
    }
}

impl std::error::Error for SnapshotError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.fault)
    }
}
