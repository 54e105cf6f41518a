//! [`Error`]: why there is no mount, and what to do.

use std::io;
use std::path::{Path, PathBuf};

use cachewise_units::escaped;

/// Why there is no mount.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The directory cannot be looked at.
    #[error("{operation} {}: {source}{}", escaped(path), hint(source))]
    Io {
        /// What was tried.
        operation: &'static str,
        /// With what.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },

    /// It is something else.
    #[error("{}: not a directory; name an empty one", escaped(path))]
    NotADirectory {
        /// What was named.
        path: PathBuf,
    },

    /// What is in it would be hidden.
    #[error(
        "{}: not empty, and mounting would hide what is in it; name an empty directory",
        escaped(path)
    )]
    NotEmpty {
        /// The directory.
        path: PathBuf,
    },

    /// A mount of ours is there already.
    #[error(
        "{path}: already mounted ({source_name}); end that process, or: fusermount3 -u {path}",
        path = escaped(path)
    )]
    Mounted {
        /// The directory.
        path: PathBuf,
        /// What is mounted.
        source_name: String,
    },

    /// The mount of a process that is gone, and it cannot be taken away.
    #[error(
        "{path}: a mount that nobody serves any more, and it cannot be taken away ({why}): fusermount3 -u {path}",
        path = escaped(path)
    )]
    Dead {
        /// The directory.
        path: PathBuf,
        /// What stood in the way.
        why: String,
    },

    /// The kernel does not mount it.
    #[error("cannot mount on {}: {source}{}", escaped(path), next_step(source))]
    Mount {
        /// The directory.
        path: PathBuf,
        /// What the kernel, or fusermount3, said.
        source: io::Error,
    },

    /// The kernel does not unmount it.
    #[error("cannot unmount {path}: {why}; try: fusermount3 -u {path}", path = escaped(path))]
    Unmount {
        /// The directory.
        path: PathBuf,
        /// What stood in the way.
        why: String,
    },
}

fn hint(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::NotFound => "; make the directory first (mkdir -p)",
        _ => "",
    }
}

/// What to do where what the kernel says leads nobody on.
fn next_step(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::NotFound => {
            "; /dev/fuse or the program fusermount3 is missing: load the module (modprobe fuse), install the package \
             fuse3, and in a container pass /dev/fuse and CAP_SYS_ADMIN"
        }
        io::ErrorKind::PermissionDenied => {
            "; ordinary users need the package fuse3 (fusermount3) and write access to the directory; for \
             --allow-other the line user_allow_other in /etc/fuse.conf"
        }
        _ => "",
    }
}

impl Error {
    pub(super) fn io(operation: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io {
            operation,
            path: path.to_owned(),
            source,
        }
    }

    pub(super) fn mount(path: &Path, source: io::Error) -> Self {
        Self::Mount {
            path: path.to_owned(),
            source,
        }
    }
}
