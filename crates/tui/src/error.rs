//! What can go wrong.

use std::io;

/// What can go wrong on a terminal.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The terminal does not do what it is asked to.
    #[error("cannot {operation} the terminal: {source}")]
    Terminal {
        /// What it was asked.
        operation: &'static str,
        /// The reason.
        source: io::Error,
    },
    /// A thread of ours panicked; what it said stands above.
    #[error("the thread `{0}` panicked; what it said is above")]
    Gone(&'static str),
    /// There is nothing to show.
    #[error("the recording has no samples")]
    Empty,
    /// A sample cannot be shown.
    #[error("cannot show sample {sample}: {why}")]
    Sample {
        /// Which one, from 1.
        sample: usize,
        /// The reason.
        why: String,
    },
}
