//! [`Error`]: what could not be changed, where, why, and what to do next.

use std::io;
use std::path::{Path, PathBuf};

use cachewise_kstat::ErrorKind;
use cachewise_units::escaped;

/// Something that could not be changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// What the kernel would not tell.
    #[error(transparent)]
    Kernel(#[from] cachewise_kstat::Error),

    /// A file or a directory could not be written, made or removed.
    #[error("{operation} {}: {source}{}", escaped(path), next_step(source))]
    Io {
        /// What was tried.
        operation: String,
        /// With which file or directory.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },

    /// This kernel does not offer it, or not as it was built, booted or mounted.
    #[error("{what}: {reason}")]
    Unsupported {
        /// What was wanted.
        what: String,
        /// What is missing, and what to do.
        reason: String,
    },

    /// What was asked for cannot be.
    #[error("{what}: {problem}")]
    Invalid {
        /// What was asked for.
        what: String,
        /// What is wrong with it, and what would be right.
        problem: String,
    },
}

/// What to do where what the kernel says leads nobody on.
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

    /// Returns what sort of failure this is.
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
    fn a_refusal_says_what_to_do_next() {
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
