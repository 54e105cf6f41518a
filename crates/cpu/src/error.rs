//! [`Error`]: what could not be found out or done, on what, and what helps.

use std::io;
use std::path::PathBuf;

use cachewise_units::{Bytes, escaped};

use crate::CpuList;

/// Something that could not be found out or done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or directory could not be read.
    #[error("cannot {operation} {}: {source}", escaped(path))]
    Io {
        /// The operation.
        operation: &'static str,
        /// With which file or directory.
        path: PathBuf,
        /// The error of the kernel.
        source: io::Error,
    },

    /// The kernel would not say or change where this thread runs.
    #[error("cannot choose the CPU to run on: {0}")]
    Affinity(io::Error),

    /// A CPU that this process may not use.
    #[error(
        "CPU {cpu} cannot be had: this process may use only CPU {allowed}; taskset(1) or the container says which"
    )]
    NotOurs {
        /// The requested CPU.
        cpu: u32,
        /// Those that may be used.
        allowed: CpuList,
    },

    /// There is not so much memory.
    #[error("cannot get {} of memory to measure with: {source}; ask for less with --largest", Bytes(*bytes))]
    NoMemory {
        /// The requested size.
        bytes: u64,
        /// The error of the kernel.
        source: io::Error,
    },

    /// callgrind wrote nothing.
    #[error("valgrind could not simulate it: {0}")]
    NotSimulated(String),

    /// The output of callgrind has an unknown form.
    #[error(
        "what callgrind wrote to {} is not understood, at {line:?}: is valgrind older than 3.19?",
        escaped(path)
    )]
    Profile {
        /// The file.
        path: PathBuf,
        /// Where it begins to be something else.
        line: String,
    },

    /// The directory is not what `/sys` is.
    #[error("{} tells no CPUs: {advice}", escaped(path))]
    NoCpus {
        /// The file that should have told them.
        path: PathBuf,
        /// The next step.
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
