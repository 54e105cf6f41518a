//! [`WarmShortfall`]: the reason why fewer pages are resident than requested.

use std::fmt;

use cachewise_units::{Bytes, Pages};
use rustix::io::Errno;

/// Reason why fewer pages are resident than requested.
#[derive(Debug)]
#[non_exhaustive]
pub enum WarmShortfall {
    /// The work was cancelled.
    Cancelled,
    /// Reading failed, and was given up.
    Failed {
        /// The offset in bytes at which it did.
        at: u64,
        /// The reason.
        error: cachewise_sys::Error,
    },
    /// The file is shorter than it was.
    Shrank {
        /// Its size now.
        size: Bytes,
    },
    /// Everything was read, and this number of pages was evicted again: the machine or the control
    /// group has too little memory, or a process evicts them.
    Evicted(Pages),
}

impl WarmShortfall {
    /// Returns it in a few words, without what to do.
    #[must_use]
    pub fn brief(&self) -> String {
        match self {
            Self::Failed { error, .. } => match error.os_error() {
                Some(errno) => Errno::from_raw_os_error(errno).to_string(),
                None => "it could not be read".to_owned(),
            },
            Self::Evicted(pages) => format!("{pages} pages did not stay"),
            short => short.to_string(),
        }
    }
}

impl fmt::Display for WarmShortfall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cancelled => f.write_str("interrupted"),
            Self::Failed { at, error } => write!(f, "at byte {at}: {error}"),
            Self::Shrank { size } => write!(f, "the file was cut to {size} meanwhile"),
            Self::Evicted(pages) => write!(
                f,
                "{pages} pages did not stay: compare the size with MemAvailable of /proc/meminfo and with the \
                 memory limit of the control group"
            ),
        }
    }
}
