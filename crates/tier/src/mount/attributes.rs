//! Attributes for stat(2).

use std::time::SystemTime;

use fuser::{FileAttr, FileType, INodeNo};
use rustix::process::{getegid, geteuid};

use crate::{Kind, Meta};

/// The attributes that are the same for all objects.
#[derive(Clone, Copy, Debug)]
pub(super) struct Owner {
    uid: u32,
    gid: u32,
    /// The preferred I/O size, `st_blksize`, which programs like `cp` use.
    block_size: u32,
    /// Time of last change for objects whose origin does not report it.
    since: SystemTime,
    /// Whether other users than the mounting one have access.
    allow_other: bool,
    /// Whether the kernel checks the access control lists of the origin.
    checks_acls: bool,
}

impl Owner {
    /// Objects of an origin without users belong to the mounting user.
    pub(super) fn this(block_size: u64, allow_other: bool) -> Self {
        Self {
            uid: geteuid().as_raw(),
            gid: getegid().as_raw(),
            block_size: u32::try_from(block_size).unwrap_or(u32::MAX),
            since: SystemTime::now(),
            allow_other,
            checks_acls: false,
        }
    }

    /// From now on the kernel checks access control lists.
    pub(super) const fn with_acls(self) -> Self {
        Self {
            checks_acls: true,
            ..self
        }
    }

    /// Whether other users have access.
    pub(super) const fn is_shared(self) -> bool {
        self.allow_other
    }

    pub(super) fn attributes(self, number: u64, meta: &Meta) -> FileAttr {
        let modified = meta.modified.unwrap_or(self.since);
        let (uid, gid) = meta.owner.unwrap_or((self.uid, self.gid));
        FileAttr {
            ino: INodeNo(number),
            size: meta.size,
            blocks: meta.blocks.unwrap_or(meta.size.div_ceil(512)),
            atime: modified,
            mtime: modified,
            ctime: meta.changed.unwrap_or(modified),
            crtime: modified,
            kind: file_type(meta.kind),
            // Never setuid, and writing is never allowed.
            perm: match meta.kind {
                // The kernel does not check the permissions of a link; all file systems show these.
                Kind::Link => 0o777,
                _ => u16::try_from(meta.mode & self.allowed(meta)).unwrap_or(0),
            },
            nlink: meta.links,
            uid,
            gid,
            rdev: 0,
            blksize: self.block_size,
            flags: 0,
        }
    }

    /// The permission bits that may be shown. Where the kernel does not check an access control list of the origin, group
    /// and others get less than it may give them, and never more.
    const fn allowed(self, meta: &Meta) -> u32 {
        if self.allow_other && meta.has_acl && !self.checks_acls {
            0o500
        } else {
            0o555
        }
    }
}

/// Returns the file type. Objects that can be neither read nor listed look like sockets: opening a
/// socket fails at once, where a FIFO would block.
pub(super) fn file_type(kind: Kind) -> FileType {
    match kind {
        Kind::File => FileType::RegularFile,
        Kind::Directory => FileType::Directory,
        Kind::Link => FileType::Symlink,
        Kind::Other => FileType::Socket,
    }
}
