//! [`DevClusterError`]: why there is no cluster, and what to do.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cachewise_units::escaped;

/// Why there is no cluster.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DevClusterError {
    /// The program does not exist.
    #[error(
        "no program {}: it is in the package redis-server: sudo apt-get install -y redis-server \
         (Debian starts a server of its own on port 6379 with it, which is not used here)",
        escaped(program)
    )]
    NoServer {
        /// The name or path of the program.
        program: PathBuf,
    },

    /// An operation on a file, a directory or a process failed.
    #[error("{operation} {}: {source}", escaped(path))]
    Io {
        /// The operation that failed.
        operation: &'static str,
        /// The path.
        path: PathBuf,
        /// The error from the kernel.
        source: io::Error,
    },

    /// A server ended instead of serving.
    #[error(
        "{} ended at once ({status}); the end of its log: {words}",
        escaped(program)
    )]
    Ended {
        /// The program that was started.
        program: PathBuf,
        /// The exit status or signal.
        status: String,
        /// The end of its log.
        words: String,
    },

    /// Another program listens on a port of a server.
    #[error(
        "port {port} of 127.0.0.1 is in use by another program, which `ss -ltnp sport = :{port}` shows: choose another --port, or \
         end it"
    )]
    PortInUse {
        /// The port.
        port: u16,
    },

    /// A server did not answer as it should.
    #[error("{address} on {command}: {problem}")]
    Answer {
        /// The address of the server.
        address: String,
        /// The command.
        command: String,
        /// The problem.
        problem: String,
    },

    /// The time limit was exceeded.
    #[error("waited {} s until {what}; logs are in the nodes' directories with --dir DIR", patience.as_secs())]
    Late {
        /// The awaited condition.
        what: String,
        /// The time limit.
        patience: Duration,
    },

    /// The options contradict each other or exceed a limit.
    #[error("{problem}")]
    Invalid {
        /// The problem, and the correct value.
        problem: String,
    },

    /// The flag was raised.
    #[error("interrupted before the cluster was ready")]
    Interrupted,
}

impl DevClusterError {
    /// Returns whether a node knows slots of another cluster.
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
