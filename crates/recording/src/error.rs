//! Errors of recordings, and the damage that a reader skips.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Why a recording cannot be written or read.
#[derive(Debug, thiserror::Error)]
#[error("cannot {operation} {}: {kind}{}", path.display(), kind.next_step(operation))]
pub struct Error {
    /// The failed operation: `read`, `append to`.
    pub operation: &'static str,
    /// The file.
    pub path: PathBuf,
    /// Why not.
    #[source]
    pub kind: ErrorKind,
}

impl Error {
    pub(crate) fn new(operation: &'static str, path: &Path, kind: impl Into<ErrorKind>) -> Error {
        Error {
            operation,
            path: path.to_owned(),
            kind: kind.into(),
        }
    }

    /// Whether the file system has no more room for it.
    #[must_use]
    pub fn is_full(&self) -> bool {
        matches!(&self.kind, ErrorKind::Io(error) if matches!(
            error.kind(),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
        ))
    }
}

/// Why not.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The system said no.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A directory, a FIFO, a device.
    #[error("it is {0}, and recordings are regular files")]
    NotAFile(&'static str),
    /// Nothing is in it.
    #[error("it is empty: nothing was ever recorded in it")]
    Empty,
    /// It begins like something else.
    #[error("it is not a recording of cachewise")]
    NoRecording,
    /// It begins like a JSON document, as reports do.
    #[error("it is a JSON document, not a recording of cachewise")]
    Json,
    /// Its first bytes are those of a recording, and damaged.
    #[error("it is a recording whose beginning is damaged")]
    Damaged,
    /// A later cachewise wrote it.
    #[error(
        "it is a recording of format {version}, and this cachewise knows formats up to {known}: read it with \
         the version that wrote it, or a newer one"
    )]
    Newer {
        /// Its version.
        version: u16,
        /// The newest that is known here.
        known: u16,
    },
    /// Another process has it open for writing.
    #[error("another process records into it")]
    Busy,
    /// A sample that does not fit into a recording.
    #[error("{0}")]
    Sample(String),
}

impl ErrorKind {
    /// Returns the remedy, or an empty text if the error says it all.
    fn next_step(&self, operation: &str) -> &'static str {
        let ErrorKind::Io(error) = self else {
            return "";
        };
        match error.kind() {
            io::ErrorKind::PermissionDenied if operation.starts_with("create") => {
                "; record into a directory that you may write to"
            }
            io::ErrorKind::PermissionDenied => {
                "; recordings are for their owner only: be that user, or root"
            }
            io::ErrorKind::NotFound => "; check the spelling, and that its directory exists",
            _ => "",
        }
    }
}

impl PartialEq for ErrorKind {
    fn eq(&self, other: &ErrorKind) -> bool {
        self.to_string() == other.to_string()
    }
}

/// Something that could not be read; the rest could.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Problem {
    /// The last sample was not written to its end.
    Cut {
        /// The file.
        path: PathBuf,
        /// How many bytes at its end were left out.
        bytes: u64,
    },
    /// In the middle something is damaged.
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where the damage begins.
        offset: u64,
        /// How many bytes were left out.
        bytes: u64,
        /// Whether nothing after them could be read.
        to_end: bool,
        /// How many samples after them were left out too, being differences to what was there.
        samples: u64,
    },
    /// Samples in intact frames that depend on a damaged one.
    Orphans {
        /// The file.
        path: PathBuf,
        /// How many.
        samples: u64,
    },
    /// A part of the recording is not there.
    PartMissing {
        /// The part after it.
        path: PathBuf,
        /// How many.
        parts: u64,
    },
    /// A part of the recording cannot be read.
    PartUnreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::Cut { path, bytes } => write!(
                f,
                "{}: the last {bytes} bytes were left out: a sample that was not written to its end",
                path.display()
            ),
            Problem::Damaged {
                path,
                offset,
                bytes,
                to_end,
                samples,
            } => {
                let path = path.display();
                write!(
                    f,
                    "{path}: {bytes} bytes from byte {offset} on are damaged and were left out"
                )?;
                match (to_end, samples) {
                    (true, 0) => write!(f, ": there is nothing after them that could be read"),
                    (_, 0) => Ok(()),
                    (_, samples) => write!(
                        f,
                        ", and with them {} that build on what was there",
                        cachewise_units::counted(*samples, "sample")
                    ),
                }
            }
            Problem::Orphans { path, samples } => write!(
                f,
                "{}: left out: {} that build on what is not there",
                path.display(),
                cachewise_units::counted(*samples, "sample")
            ),
            Problem::PartMissing { path, parts } => write!(
                f,
                "before {} {parts} {} missing",
                path.display(),
                if *parts == 1 { "part is" } else { "parts are" }
            ),
            Problem::PartUnreadable { path, why } => {
                write!(f, "{} was left out: {why}", path.display())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_not_read_it_is_told_who_may() {
        let error = |kind: io::ErrorKind| {
            Error::new("read", Path::new("/day.rec"), io::Error::from(kind)).to_string()
        };
        assert_eq!(
            error(io::ErrorKind::PermissionDenied),
            "cannot read /day.rec: permission denied; recordings are for their owner only: be that user, or root"
        );
        assert!(
            error(io::ErrorKind::NotFound).ends_with("that its directory exists"),
            "what is not there may be elsewhere"
        );
        let refused = io::Error::from(io::ErrorKind::PermissionDenied);
        let create = Error::new("create the recording", Path::new("/day.rec"), refused);
        assert!(
            create.to_string().ends_with("that you may write to"),
            "a new one has no owner yet: {create}"
        );
        assert_eq!(
            error(io::ErrorKind::StorageFull),
            "cannot read /day.rec: no storage space",
            "what to do is plain"
        );
    }
}
