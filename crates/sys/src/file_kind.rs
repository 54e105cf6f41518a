//! [`FileKind`]: file types without pages of their own.

use std::fmt;

use rustix::fs::FileType;

/// Kind of a file that is neither a regular file nor a block device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FileKind {
    /// A directory.
    Directory,
    /// A FIFO: opening it can wake the process at its other end.
    Fifo,
    /// A socket.
    Socket,
    /// A character device: opening it can start something, as a watchdog does.
    CharacterDevice,
    /// Something without a name here.
    Unknown,
}

impl FileKind {
    /// Returns the kind of a file without pages of its own; `None` for a regular file or a block
    /// device.
    #[must_use]
    pub fn without_pages(found: FileType) -> Option<Self> {
        Some(match found {
            FileType::RegularFile | FileType::BlockDevice => return None,
            FileType::Directory => Self::Directory,
            FileType::Fifo => Self::Fifo,
            FileType::Socket => Self::Socket,
            FileType::CharacterDevice => Self::CharacterDevice,
            _ => Self::Unknown,
        })
    }
}

impl fmt::Display for FileKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Directory => "a directory",
            Self::Fifo => "a FIFO",
            Self::Socket => "a socket",
            Self::CharacterDevice => "a character device",
            Self::Unknown => "something of an unknown kind",
        })
    }
}
