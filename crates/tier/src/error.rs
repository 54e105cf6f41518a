//! [`Error`]: why there are no bytes.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cachewise_units::{ByteRange, escaped};

/// The error of a request to the cache. Cheap to clone, as all readers that wait for one block get
/// it.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The origin has nothing of that name.
    #[error("{}: not found at the origin; check the name", named(path))]
    NotFound {
        /// The path, relative to the origin.
        path: PathBuf,
    },

    /// The origin denies access to this user.
    #[error(
        "{}: the origin refuses access ({source}); check its permissions and credentials",
        named(path)
    )]
    Denied {
        /// The path, relative to the origin.
        path: PathBuf,
        /// The error from the origin.
        source: Arc<io::Error>,
    },

    /// The origin has names, and no lists of them.
    #[error(
        "{}: the origin does not list directories ({why}); name files by their paths, or serve them by \
         WebDAV or S3, which list",
        named(path)
    )]
    NotListed {
        /// The directory, relative to the origin.
        path: PathBuf,
        /// The missing feature.
        why: &'static str,
    },

    /// The object is not what it was when it was looked at: no bytes are mixed.
    #[error(
        "{}: changed at the origin while it was read ({what}); read it again",
        named(path)
    )]
    Changed {
        /// The path, relative to the origin.
        path: PathBuf,
        /// The property that differs.
        what: &'static str,
    },

    /// The file system does not tell states of a file apart, and nothing else does.
    #[error(
        "{}: {file_system} does not store the time of last change, so the cache could return bytes of an earlier image or \
         state; name the present state with the setting identity (--identity NAME), and use a new name when it changes",
        named(path)
    )]
    Unversioned {
        /// The origin, or the path in it.
        path: PathBuf,
        /// The type of the file system.
        file_system: String,
    },

    /// The path cannot be one of this origin.
    #[error("{}: {why}", escaped(path))]
    Path {
        /// The path as it was given.
        path: PathBuf,
        /// The problem, and the correct form.
        why: &'static str,
    },

    /// The range begins behind the end, or is too long for one read.
    #[error("{}: bytes {} to {} cannot be read: {why}", escaped(path), range.start, range.end())]
    Range {
        /// The path, relative to the origin.
        path: PathBuf,
        /// The requested range.
        range: ByteRange,
        /// The problem.
        why: &'static str,
    },

    /// Nothing answered in time: the promise is bounded time, not success.
    #[error("{}: no answer within {} ms ({waiting_for}); try again, or raise --read-deadline", named(path), after.as_millis())]
    Deadline {
        /// The path, relative to the origin.
        path: PathBuf,
        /// The time waited.
        after: Duration,
        /// The awaited answer.
        waiting_for: &'static str,
    },

    /// Earlier calls hang, and this one would only join them: other parts of the origin can be read.
    #[error(
        "{}: {calls} earlier requests to the origin have no answer for more than {} ms; check what is mounted there, and try \
         again",
        named(path), longer_than.as_millis()
    )]
    Hangs {
        /// The path, relative to the origin.
        path: PathBuf,
        /// Requests without an answer to the object, or in its directory.
        calls: usize,
        /// How long each of them takes at least.
        longer_than: Duration,
    },

    /// A part of the origin has answered nothing but errors for some time, so the request was not sent.
    #[error(
        "{}: not sent, as the origin has answered none of {failures} requests to {} for {:.1} s (last: {last}); {}",
        named(path), escaped(&dotted(scope)), since.as_secs_f64(), again_after(*again)
    )]
    Unanswered {
        /// The path, relative to the origin.
        path: PathBuf,
        /// The object or directory that answers nothing.
        scope: PathBuf,
        /// Requests to it that failed in a row.
        failures: u32,
        /// Time without an answer from it.
        since: Duration,
        /// Time until the next request is sent; 0 while one is under way.
        again: Duration,
        /// The failure of the last request.
        last: Box<Error>,
    },

    /// The origin failed.
    #[error("{}: {operation} at the origin: {source}", named(path))]
    Origin {
        /// The path, relative to the origin.
        path: PathBuf,
        /// The operation that failed.
        operation: &'static str,
        /// The underlying I/O error.
        source: Arc<io::Error>,
    },

    /// The directory of the cache cannot be used.
    #[error("cache directory {}: {operation}: {source}", escaped(path))]
    Directory {
        /// The directory.
        path: PathBuf,
        /// The operation that failed.
        operation: &'static str,
        /// The underlying I/O error.
        source: Arc<io::Error>,
    },

    /// Another process has the directory of the cache.
    #[error(
        "cache directory {}: in use by {}; two caches in one directory would overwrite each other: \
         name another directory, or end that process", escaped(path), holder(*pid)
    )]
    Locked {
        /// The directory.
        path: PathBuf,
        /// The process, where it left its number.
        pid: Option<u32>,
    },

    /// A setting is out of bounds.
    #[error("{setting}: {why}")]
    Setting {
        /// The setting's name.
        setting: &'static str,
        /// The problem, and the permitted values.
        why: String,
    },

    /// The engine cannot be used as it is set up.
    #[error("engine {engine}: {why}")]
    Engine {
        /// The engine, without secrets.
        engine: String,
        /// The problem, and the remedy.
        why: String,
    },

    /// Bytes are not those that were published.
    #[error("{}: {why}", named(path))]
    Published {
        /// The path in the version, or the name of the pack.
        path: PathBuf,
        /// The problem, and the remedy.
        why: &'static str,
    },

    /// A worker ended without an answer, which is a defect of this program.
    #[error(
        "{}: the worker that fetched it died; this is a defect, please report it",
        escaped(path)
    )]
    Worker {
        /// The path, relative to the origin.
        path: PathBuf,
    },
}

/// The kind of a failure. A mount maps it to an errno, a program to an exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// No such object.
    NotFound,
    /// Not allowed.
    Denied,
    /// The request is invalid.
    Invalid,
    /// The object is another one by now.
    Changed,
    /// Not in time.
    Deadline,
    /// The origin cannot do it.
    Unsupported,
    /// Another process holds it.
    Busy,
    /// Origin, disk or engine failed.
    Failed,
}

impl Error {
    /// Returns what sort of failure this is.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::NotFound { .. } => ErrorKind::NotFound,
            Self::Denied { .. } => ErrorKind::Denied,
            Self::Path { .. }
            | Self::Range { .. }
            | Self::Setting { .. }
            | Self::Unversioned { .. } => ErrorKind::Invalid,
            Self::Changed { .. } => ErrorKind::Changed,
            Self::NotListed { .. } => ErrorKind::Unsupported,
            Self::Deadline { .. } | Self::Hangs { .. } => ErrorKind::Deadline,
            Self::Unanswered { last, .. } => last.kind(),
            Self::Locked { .. } => ErrorKind::Busy,
            Self::Origin { .. }
            | Self::Directory { .. }
            | Self::Engine { .. }
            | Self::Published { .. }
            | Self::Worker { .. } => ErrorKind::Failed,
        }
    }

    /// Returns whether the origin gave no answer: it cannot be reached, does not answer in time, or reports a failure of
    /// its own. "Not found", "access denied" and a refused request are answers.
    #[must_use]
    pub fn is_outage(&self) -> bool {
        match self {
            Self::Deadline { .. } | Self::Hangs { .. } => true,
            Self::Origin { source, .. } => {
                !matches!(
                    source.kind(),
                    io::ErrorKind::InvalidFilename
                        | io::ErrorKind::InvalidInput
                        | io::ErrorKind::InvalidData
                        | io::ErrorKind::NotADirectory
                        | io::ErrorKind::IsADirectory
                        | io::ErrorKind::StaleNetworkFileHandle
                        | io::ErrorKind::Unsupported
                ) && source.raw_os_error() != Some(rustix::io::Errno::LOOP.raw_os_error())
            }
            _ => false,
        }
    }

    /// Makes the error of a call at the origin.
    pub(crate) fn of_origin(path: &Path, operation: &'static str, source: io::Error) -> Self {
        let path = path.to_owned();
        match source.kind() {
            io::ErrorKind::NotFound => Self::NotFound { path },
            io::ErrorKind::PermissionDenied => Self::Denied {
                path,
                source: Arc::new(source),
            },
            _ => Self::Origin {
                path,
                operation,
                source: Arc::new(source),
            },
        }
    }
}

/// A path as the head of a sentence; the origin itself has none.
fn named(path: &Path) -> String {
    match path.as_os_str().is_empty() {
        true => ".".to_owned(),
        false => escaped(path).to_string(),
    }
}

fn dotted(path: &Path) -> PathBuf {
    match path.as_os_str().is_empty() {
        true => PathBuf::from("."),
        false => path.to_owned(),
    }
}

fn again_after(time: Duration) -> String {
    match time.is_zero() {
        true => "one request tests now whether it answers again".to_owned(),
        false => format!("the next request is sent in {} ms", time.as_millis().max(1)),
    }
}

fn holder(pid: Option<u32>) -> String {
    pid.map_or_else(
        || "another process".to_owned(),
        |pid| format!("process {pid}"),
    )
}
