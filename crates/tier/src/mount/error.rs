//! [`MountError`]: why there is no mount, and what to do.

use std::io;
use std::path::{Path, PathBuf};

use cachewise_units::escaped;

/// The errors of mounting.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MountError {
    /// The directory cannot be opened or read.
    #[error("{operation} {}: {source}{}", escaped(path), hint(source))]
    Io {
        /// The operation that failed.
        operation: &'static str,
        /// The path.
        path: PathBuf,
        /// The error from the kernel.
        source: io::Error,
    },

    /// The settings of the engine cannot be used.
    #[error(transparent)]
    Cache(#[from] crate::Error),

    /// The path is not a directory.
    #[error("{}: not a directory; name an empty one", escaped(path))]
    NotADirectory {
        /// The path.
        path: PathBuf,
    },

    /// The directory is not empty, and a mount would hide its files.
    #[error(
        "{}: not empty, and a mount would hide its contents; name an empty directory",
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
        /// The mounted origin.
        source_name: String,
    },

    /// The mount of a process that has ended, which cannot be removed.
    #[error(
        "{path}: a mount whose process has ended, and it cannot be removed ({why}): fusermount3 -u {path}",
        path = escaped(path)
    )]
    Dead {
        /// The directory.
        path: PathBuf,
        /// The reason.
        why: String,
    },

    /// FUSE is missing, or not permitted for this user.
    #[error("cannot open /dev/fuse: {source}{}", device_hint(source))]
    Device {
        /// The error from the kernel.
        source: io::Error,
    },

    /// The kernel does not mount it.
    #[error("cannot mount on {}: {source}{}", escaped(path), next_step(source))]
    Mount {
        /// The directory.
        path: PathBuf,
        /// The error from the kernel or fusermount3.
        source: io::Error,
    },

    /// The kernel does not unmount it.
    #[error("cannot unmount {path}: {why}; try: fusermount3 -u {path}", path = escaped(path))]
    Unmount {
        /// The directory.
        path: PathBuf,
        /// The reason.
        why: String,
    },
}

fn hint(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::NotFound => "; make the directory first (mkdir -p)",
        _ => "",
    }
}

/// Returns the steps to make FUSE available.
fn device_hint(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::PermissionDenied => {
            "; it is root's alone here, while udev makes it open to all users: chmod 666 /dev/fuse, as root, or mount as \
             root with --allow-other"
        }
        _ => {
            "; load the module (modprobe fuse), as root; a container is passed /dev/fuse and CAP_SYS_ADMIN"
        }
    }
}

/// Returns the remedy where the error from the kernel or fusermount3 is not clear.
fn next_step(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::NotFound => {
            "; ordinary users need the program fusermount3: install the package fuse3"
        }
        io::ErrorKind::PermissionDenied if source.to_string().contains("user_allow_other") => {
            "; root adds that line there, or mount without --allow-other"
        }
        io::ErrorKind::PermissionDenied => {
            "; ordinary users need the package fuse3 (fusermount3) and a directory that they may write to"
        }
        _ => "",
    }
}

impl MountError {
    pub(super) fn io(operation: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io {
            operation,
            path: path.to_owned(),
            source,
        }
    }

    pub(super) fn mount(path: &Path, source: io::Error) -> Self {
        // The message of fusermount3 ends with a line feed.
        let source = match source.get_ref() {
            Some(said) => io::Error::new(source.kind(), said.to_string().trim_end()),
            None => source,
        };
        Self::Mount {
            path: path.to_owned(),
            source,
        }
    }
}
