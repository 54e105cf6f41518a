//! [`FileSystem`]: whose zeros can be believed.

use std::os::fd::BorrowedFd;

use crate::Error;

/// Meaning of the answer "no page of this file is resident" on a file system.
///
/// Only that answer is ever wrong: what cachestat counts is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileSystem {
    /// It keeps the pages of its files, so that 0 is 0. All that are not known to be otherwise.
    Plain,
    /// Its files stand before others, which have the pages.
    Overlay,
    /// Its files may stand before others (passthrough), or go around the page cache (`direct_io`).
    Fuse,
    /// Its files are pages of another size, not in the page cache's count.
    Huge,
    /// Its files have no stored content.
    MadeUp,
}

impl FileSystem {
    /// Asks for the file system that an open file is on: one system call.
    pub fn of_fd(fd: BorrowedFd<'_>) -> Result<Self, Error> {
        let found = rustix::fs::fstatfs(fd).map_err(|errno| Error::from_errno("fstatfs", errno))?;
        // Its width and sign differ between architectures; all of the numbers have 32 bits.
        Ok(Self::from_magic(found.f_type as u32))
    }

    /// The numbers are those of `linux/magic.h`, and of the file systems' own sources.
    fn from_magic(magic: u32) -> Self {
        match magic {
            0x794c_7630 => Self::Overlay,
            0x6573_5546 => Self::Fuse,
            0x9584_58f6 => Self::Huge,
            0x0000_9fa0 // proc
            | 0x6265_6572 // sysfs
            | 0x6462_6720 // debugfs
            | 0x7472_6163 // tracefs
            | 0x0027_e0eb // cgroup
            | 0x6367_7270 // cgroup2
            | 0x7363_6673 // securityfs
            | 0x6265_6570 // configfs
            | 0xcafe_4a11 // bpf
            | 0x6165_676c // pstore
            | 0xde5e_81e4 // efivarfs
            | 0x6573_5543 // fusectl
            | 0x4249_4e4d // binfmt_misc
            | 0x1980_0202 // mqueue
            | 0x6e73_6673 // nsfs
            | 0x5049_4446 // pidfs
            | 0x0000_1cd1 // devpts
            | 0xf97c_ff8c // selinuxfs
            | 0x4341_5d53 // smackfs
            | 0x0765_5821 // resctrl
            | 0x0904_1934 // anonymous inodes
            => Self::MadeUp,
            _ => Self::Plain,
        }
    }
}
