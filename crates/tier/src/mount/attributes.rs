//! What stat(2) shows.

use std::time::SystemTime;

use fuser::{FileAttr, FileType, INodeNo};
use rustix::process::{getegid, geteuid};

use crate::{Kind, Meta};

/// What does not depend on the object.
#[derive(Clone, Copy, Debug)]
pub(super) struct Owner {
    uid: u32,
    gid: u32,
    /// What one read should have, as programs like `cp` ask for it.
    block_size: u32,
    /// When an object was written of which the origin does not say.
    since: SystemTime,
}

impl Owner {
    /// Everything belongs to who mounts it: an origin's users need not be this machine's.
    pub(super) fn this(block_size: u64) -> Self {
        Self {
            uid: geteuid().as_raw(),
            gid: getegid().as_raw(),
            block_size: u32::try_from(block_size).unwrap_or(u32::MAX),
            since: SystemTime::now(),
        }
    }

    pub(super) fn attributes(self, number: u64, meta: &Meta) -> FileAttr {
        let modified = meta.modified.unwrap_or(self.since);
        FileAttr {
            ino: INodeNo(number),
            size: meta.size,
            blocks: meta.size.div_ceil(512),
            atime: modified,
            mtime: modified,
            ctime: modified,
            crtime: modified,
            kind: file_type(meta.kind),
            // Never setuid, and what nobody can do is not shown as allowed.
            perm: u16::try_from(meta.mode & 0o555).unwrap_or(0),
            nlink: if meta.is_dir() { 2 } else { 1 },
            uid: self.uid,
            gid: self.gid,
            rdev: 0,
            blksize: self.block_size,
            flags: 0,
        }
    }
}

/// What can be neither read nor listed looks like a socket: opening one fails at once, where a FIFO would wait.
pub(super) fn file_type(kind: Kind) -> FileType {
    match kind {
        Kind::File => FileType::RegularFile,
        Kind::Directory => FileType::Directory,
        Kind::Other => FileType::Socket,
    }
}
