//! [`Error`]: what could not be found out or done, on what, and what helps.

use std::io;
use std::path::PathBuf;

use cachewise_units::escaped;

/// Something that could not be found out or done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or directory could not be read.
    #[error("cannot {operation} {}: {source}", escaped(path))]
    Io {
        /// What was tried.
        operation: &'static str,
        /// With which file or directory.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },

    /// The directory is not what `/sys` is.
    #[error("{} tells no CPUs: {advice}", escaped(path))]
    NoCpus {
        /// The file that should have told them.
        path: PathBuf,
        /// What to do.
        advice: &'static str,
    },
}

impl Error {
    /// For `map_err`: this was tried with that path.
    pub(crate) fn io(
        operation: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Error {
        let path = path.into();
        move |source| Error::Io {
            operation,
            path,
            source,
        }
    }
}
