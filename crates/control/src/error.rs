//! [`Error`]: the operation, the object, the cause and the next step.

use std::io;
use std::path::{Path, PathBuf};

use cachewise_kstat::ErrorKind;
use cachewise_units::escaped;

/// A failed change.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The kernel's state cannot be read.
    #[error(transparent)]
    Kernel(#[from] cachewise_kstat::Error),

    /// A file or directory could not be written, made or removed.
    #[error("{operation} {}: {source}{}", escaped(path), next_step(source))]
    Io {
        /// The operation.
        operation: String,
        /// The file or directory.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },

    /// This kernel does not offer it, or not in this build, boot or mount.
    #[error("{what}: {reason}")]
    Unsupported {
        /// The operation.
        what: String,
        /// The missing part, and the fix.
        reason: String,
    },

    /// The request is invalid.
    #[error("{what}: {problem}")]
    Invalid {
        /// The request.
        what: String,
        /// The fault, and a valid form.
        problem: String,
    },
}

/// The next step, for errors that do not suggest it.
fn next_step(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::PermissionDenied => {
            "; it takes root, or with control groups of version 2 a group that was delegated to you: run it with \
             sudo, or under `systemd-run --user --scope -p Delegate=yes`"
        }
        io::ErrorKind::ReadOnlyFilesystem => {
            "; it is mounted read-only, as in most containers: run it on the host, or in a container with \
             --privileged"
        }
        _ => "",
    }
}

impl Error {
    pub(crate) fn io(operation: impl Into<String>, path: &Path, source: io::Error) -> Self {
        Self::Io {
            operation: operation.into(),
            path: path.to_owned(),
            source,
        }
    }

    /// Returns the kind of this failure.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Kernel(error) => error.kind(),
            Self::Io { source, .. } => match source.kind() {
                io::ErrorKind::NotFound => ErrorKind::NotFound,
                io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                    ErrorKind::Denied
                }
                io::ErrorKind::InvalidInput => ErrorKind::Invalid,
                io::ErrorKind::ResourceBusy | io::ErrorKind::WouldBlock => ErrorKind::Busy,
                io::ErrorKind::Interrupted => ErrorKind::Interrupted,
                _ => ErrorKind::Other,
            },
            Self::Unsupported { .. } => ErrorKind::Unsupported,
            Self::Invalid { .. } => ErrorKind::Invalid,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn denied_error_names_the_next_step() {
        let refused = |errno| {
            let source = io::Error::from_raw_os_error(errno);
            Error::io("make the control group", Path::new("/x"), source)
        };
        for (errno, kind, advice) in [
            (13, ErrorKind::Denied, "it takes root"),
            (1, ErrorKind::Denied, "it takes root"),
            (30, ErrorKind::Denied, "mounted read-only"),
            (22, ErrorKind::Invalid, ""),
            (16, ErrorKind::Busy, ""),
            (2, ErrorKind::NotFound, ""),
        ] {
            let error = refused(errno);
            assert_eq!(error.kind(), kind, "errno {errno}");
            let text = error.to_string();
            assert!(
                text.starts_with("make the control group /x: ") && text.contains(advice),
                "errno {errno}: {text}"
            );
        }
    }
}
