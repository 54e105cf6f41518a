//! [`DevClusterError`]: why there is no cluster, and what to do.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cachewise_units::escaped;

/// Why there is no cluster.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DevClusterError {
    /// There is no such program.
    #[error(
        "no program {}: it is in the package redis-server: sudo apt-get install -y redis-server \
         (Debian starts a server of its own on port 6379 with it, which is not used here)",
        escaped(program)
    )]
    NoServer {
        /// As it was looked for.
        program: PathBuf,
    },

    /// A file, directory or process of it.
    #[error("{operation} {}: {source}", escaped(path))]
    Io {
        /// What was tried.
        operation: &'static str,
        /// With what.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },

    /// A server ended instead of serving.
    #[error("a redis-server ended at once ({status}); its last words: {words}")]
    Ended {
        /// How.
        status: String,
        /// The end of its log.
        words: String,
    },

    /// A server did not answer as it should.
    #[error("{address} on {command}: {problem}")]
    Answer {
        /// Whose.
        address: String,
        /// What was asked.
        command: String,
        /// What is wrong.
        problem: String,
    },

    /// It took too long.
    #[error("waited {} s until {what}; logs are in the nodes' directories with --dir DIR", patience.as_secs())]
    Late {
        /// For what.
        what: String,
        /// How long.
        patience: Duration,
    },

    /// What was asked for cannot be.
    #[error("{problem}")]
    Invalid {
        /// What is wrong, and what would be right.
        problem: String,
    },

    /// The flag was raised.
    #[error("interrupted before the cluster was whole")]
    Interrupted,
}

impl DevClusterError {
    /// Says whether a node knows of slots that nobody gave it here.
    pub(super) fn is_of_another(&self) -> bool {
        matches!(self, Self::Answer { problem, .. } if problem.contains("already busy"))
    }

    pub(super) fn io(operation: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io {
            operation,
            path: path.to_owned(),
            source,
        }
    }
}
