//! [`Error`]: failed operation, cause and fix.

use std::io;
use std::path::{Path, PathBuf};

use cachewise_units::{Bytes, Pages, escaped};

/// Reason for a failed measurement.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A setting is invalid, alone or with another.
    #[error("{what}: {why}")]
    Invalid {
        /// The setting.
        what: &'static str,
        /// The fault, and a valid form.
        why: String,
    },

    /// A file operation failed.
    #[error("{operation} {}: {source}{advice}", escaped(path))]
    File {
        /// The operation.
        operation: &'static str,
        /// The file.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
        /// The fix, after "; ", if there is one.
        advice: &'static str,
    },

    /// The file is smaller than a chunk.
    #[error(
        "{} has {size}, less than one chunk of {chunk}: use a smaller chunk or a larger file",
        escaped(path)
    )]
    TooSmall {
        /// The file.
        path: PathBuf,
        /// Its size.
        size: Bytes,
        /// The chunk.
        chunk: Bytes,
    },

    /// The file to be made does not fit.
    #[error(
        "cannot make {} of {wanted}: its file system has {free} free; make it smaller, or elsewhere",
        escaped(path)
    )]
    NoRoom {
        /// The file.
        path: PathBuf,
        /// Its size.
        wanted: Bytes,
        /// The free space.
        free: Bytes,
    },

    /// Pages remain in the page cache, so the measurement would not start cold.
    #[error("{stayed} of {} could not be evicted: {why}", escaped(path))]
    NotEvicted {
        /// The file.
        path: PathBuf,
        /// The number of pages.
        stayed: Pages,
        /// The reason, and the fix.
        why: String,
    },

    /// The file shrank during the measurement.
    #[error(
        "{} became shorter while it was read: another program truncates it, so its figures would be meaningless",
        escaped(path)
    )]
    Truncated {
        /// The file.
        path: PathBuf,
    },

    /// A matrix file is invalid.
    #[error("{problem}")]
    Matrix {
        /// The fault, its position, and a valid form.
        problem: String,
    },

    /// Cancelled before the measurement started.
    #[error("interrupted before anything was measured")]
    Interrupted,

    /// A control group could not be used.
    #[error(transparent)]
    Control(#[from] cachewise_control::Error),

    /// The kernel's state could not be read.
    #[error(transparent)]
    Kernel(#[from] cachewise_kstat::Error),

    /// Residency of the file could not be read.
    #[error(transparent)]
    Residency(#[from] cachewise_residency::Error),

    /// A system call failed.
    #[error(transparent)]
    Sys(#[from] cachewise_sys::Error),
}

impl Error {
    pub(crate) fn file(
        operation: &'static str,
        path: &Path,
        source: impl Into<io::Error>,
    ) -> Error {
        let source = source.into();
        let advice = match rustix::io::Errno::from_io_error(&source) {
            Some(rustix::io::Errno::NOSPC) => "; free some, or make a smaller one elsewhere",
            Some(rustix::io::Errno::ROFS) => {
                "; its file system is mounted read-only: take another directory"
            }
            Some(rustix::io::Errno::EXIST) => {
                "; it is not overwritten: remove it, or use another name"
            }
            Some(rustix::io::Errno::FBIG) => {
                "; a file may not be as large here (ulimit -f, or its file system): make a smaller one"
            }
            Some(rustix::io::Errno::ACCESS) => {
                "; this user may not: take a file or a directory of your own, or be its owner or root"
            }
            Some(rustix::io::Errno::NOENT) if operation == "create" => {
                "; its directory is not there: make that first"
            }
            Some(rustix::io::Errno::NOENT) if operation == "open" => {
                "; name an existing file, or set a size to make it"
            }
            _ => "",
        };
        Error::File {
            operation,
            path: path.to_owned(),
            source,
            advice,
        }
    }

    pub(crate) fn advised(
        operation: &'static str,
        path: &Path,
        source: impl Into<io::Error>,
        advice: &'static str,
    ) -> Error {
        Error::File {
            operation,
            path: path.to_owned(),
            source: source.into(),
            advice,
        }
    }
}
