//! [`Error`]: what could not be measured, why, and what to do.

use std::io;
use std::path::{Path, PathBuf};

use cachewise_units::{Bytes, Pages, escaped};

/// Why there is no measurement.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A setting makes no sense, alone or beside another.
    #[error("{what}: {why}")]
    Invalid {
        /// Its name.
        what: &'static str,
        /// What is wrong with it, and what to write.
        why: String,
    },

    /// Something could not be done with a file.
    #[error("{operation} {}: {source}{advice}", escaped(path))]
    File {
        /// What was tried.
        operation: &'static str,
        /// With which file.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
        /// What to do, after "; ", where there is something to say.
        advice: &'static str,
    },

    /// There is less of the file than is asked for at a time.
    #[error(
        "{} has {size}, less than one chunk of {chunk}: take a smaller chunk or a larger file",
        escaped(path)
    )]
    TooSmall {
        /// The file.
        path: PathBuf,
        /// How large it is.
        size: Bytes,
        /// What is to be asked for.
        chunk: Bytes,
    },

    /// There is no room for the file that is to be made.
    #[error(
        "cannot make {} of {wanted}: its file system has {free} free; make it smaller, or elsewhere",
        escaped(path)
    )]
    NoRoom {
        /// The file.
        path: PathBuf,
        /// How large it is to be.
        wanted: Bytes,
        /// How much there is.
        free: Bytes,
    },

    /// Pages stayed in the page cache that were to go, so the measurement would not begin cold.
    #[error(
        "{stayed} of {} could not be put out of the page cache: {why}",
        escaped(path)
    )]
    NotEvicted {
        /// The file.
        path: PathBuf,
        /// How many.
        stayed: Pages,
        /// What holds them, and what to do.
        why: String,
    },

    /// The file became shorter while it was read.
    #[error(
        "{} became shorter while it was read: somebody truncates it, so its figures would mean nothing",
        escaped(path)
    )]
    Truncated {
        /// The file.
        path: PathBuf,
    },

    /// A matrix's file asks for what cannot be.
    #[error("{problem}")]
    Matrix {
        /// What is wrong, where, and what to write.
        problem: String,
    },

    /// It was asked to end before it began to measure.
    #[error("interrupted before anything was measured")]
    Interrupted,

    /// A control group could not be had.
    #[error(transparent)]
    Control(#[from] cachewise_control::Error),

    /// The kernel would not tell something.
    #[error(transparent)]
    Kernel(#[from] cachewise_kstat::Error),

    /// A question about the file has no answer.
    #[error(transparent)]
    Residency(#[from] cachewise_residency::Error),

    /// The kernel would not do something.
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
                "; it is not written over: remove it, or give another name"
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
                "; give one that is there, or a size, and it is made"
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
