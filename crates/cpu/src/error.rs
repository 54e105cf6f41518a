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

    /// The CPU affinity of this thread cannot be read or set.
    #[error("cannot choose the CPU to run on: {0}")]
    Affinity(io::Error),

    /// A CPU that this process may not use.
    #[error(
        "cannot run on CPU {cpu}: this process may use only CPU {allowed}; choose one of them, or change the affinity \
         with taskset(1) or in the container"
    )]
    NotOurs {
        /// The requested CPU.
        cpu: u32,
        /// Those that may be used.
        allowed: CpuList,
    },

    /// The memory to measure with cannot be allocated.
    #[error("cannot allocate {} to measure with: {source}; use a smaller --largest", Bytes(*bytes))]
    NoMemory {
        /// The requested size.
        bytes: u64,
        /// The error of the kernel.
        source: io::Error,
    },

    /// callgrind wrote nothing.
    #[error("valgrind could not simulate the program: {0}")]
    NotSimulated(String),

    /// The output of callgrind has an unknown form.
    #[error(
        "cannot parse the output of callgrind in {}, at {line:?}: use valgrind 3.19 or later",
        escaped(path)
    )]
    Profile {
        /// The file.
        path: PathBuf,
        /// The first unexpected line.
        line: String,
    },

    /// The directory is not what `/sys` is.
    #[error("cannot read the list of CPUs in {}: {advice}", escaped(path))]
    NoCpus {
        /// The file that should list them.
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
