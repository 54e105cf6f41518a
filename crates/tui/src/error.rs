//! Errors of the terminal and of recordings.

use std::io;

/// Failure of a view.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A terminal operation failed.
    #[error("cannot {operation} the terminal: {source}")]
    Terminal {
        /// The operation.
        operation: &'static str,
        /// The reason.
        source: io::Error,
    },
    /// A thread panicked; its message is above.
    #[error("the thread `{0}` panicked; its message is above")]
    Gone(&'static str),
    /// There is no sample.
    #[error("the recording has no samples")]
    Empty,
    /// A sample cannot be shown.
    #[error("cannot show sample {sample}: {why}")]
    Sample {
        /// Its number, from 1.
        sample: usize,
        /// The reason.
        why: String,
    },
}
