//! [`Unknown`]: the reasons for unknown residency.

use std::fmt;

use cachewise_sys::FileKind;

/// Why the residency of a file is not known. Its text is the reason; [`advice`](Self::advice) is the
/// next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Unknown {
    /// This kernel has no `cachestat`, and `mincore` does not tell this caller.
    NoSyscall,
    /// A seccomp profile refuses `cachestat`, and `mincore` does not tell this caller.
    Seccomp,
    /// The caller neither owns the file nor may write it.
    NoPermission,
    /// The file is on overlayfs, where only `mincore` sees pages, and it does not tell this caller.
    Overlay,
    /// The file is on FUSE and goes around the page cache (`direct_io`).
    DirectIo,
    /// The file is on FUSE, of which 0 is no answer, and `mincore` does not tell this caller.
    Fuse,
    /// The file is on FUSE, and was not opened: that can drop its pages.
    FuseNotOpened,
    /// The file is on persistent memory, without pages in the page cache (DAX).
    Dax,
    /// The file is on hugetlbfs.
    HugePages,
    /// It is no file that could have pages.
    NotAFile(FileKind),
    /// The kernel makes the file's content up whenever it is read, as in `/proc`.
    MadeUp,
}

impl Unknown {
    /// Returns a name for programs, which stays the same.
    #[must_use]
    pub const fn id(self) -> &'static str {
        match self {
            Self::NoSyscall => "no_syscall",
            Self::Seccomp => "seccomp",
            Self::NoPermission => "no_permission",
            Self::Overlay => "overlayfs",
            Self::DirectIo => "direct_io",
            Self::Fuse => "fuse",
            Self::FuseNotOpened => "fuse_not_opened",
            Self::Dax => "dax",
            Self::HugePages => "hugetlbfs",
            Self::NotAFile(_) => "not_a_file",
            Self::MadeUp => "made_up",
        }
    }

    /// Returns what to do about it.
    #[must_use]
    pub const fn advice(self) -> &'static str {
        match self {
            Self::NoSyscall => {
                "run Linux 6.5 or later, or query as root or as a user who owns or may write the file"
            }
            Self::Seccomp => {
                "allow cachestat in the seccomp profile of the container, or query as root or as a user who \
                 owns or may write the file"
            }
            Self::NoPermission => "query as root or as a user who owns or may write the file",
            Self::Overlay => {
                "query as root or as the owner of the file, or query the file in its upper or lower \
                 directory"
            }
            Self::DirectIo => {
                "examine the cache of the FUSE server, or let it open files without direct_io"
            }
            Self::Fuse => {
                "query as root or as the owner of the file, or examine the cache of the FUSE server"
            }
            Self::FuseNotOpened => {
                "run `cachewise files` as root, which counts it by the census; a program can pass an open descriptor"
            }
            Self::Dax => "there is nothing to cache: reads go to the memory of the device",
            Self::HugePages => "read HugePages_Total and HugePages_Free of /proc/meminfo",
            Self::NotAFile(_) => "name a regular file or a block device",
            Self::MadeUp => "there is nothing to cache: name a file that is stored somewhere",
        }
    }

    /// Returns whether the file has pages in the page cache and only this caller may not see them: operations on them work.
    #[must_use]
    pub const fn is_of_caller(self) -> bool {
        matches!(
            self,
            Self::NoSyscall
                | Self::Seccomp
                | Self::NoPermission
                | Self::Overlay
                | Self::Fuse
                | Self::FuseNotOpened
        )
    }

    /// Returns the reason in words that fit every file.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::NoSyscall => {
                "this kernel has no cachestat(2), and mincore(2) reports residency only to users who own or \
                 may write the file"
            }
            Self::Seccomp => {
                "a seccomp profile refuses cachestat(2), and mincore(2) reports residency only to users who \
                 own or may write the file"
            }
            Self::NoPermission => {
                "residency is visible only to users who own or may write the file"
            }
            Self::Overlay => {
                "cachestat(2) finds no pages of files on overlayfs, and mincore(2) reports residency only to \
                 users who own or may write the file"
            }
            Self::DirectIo => {
                "a FUSE server keeps this file out of the kernel's page cache (direct_io)"
            }
            Self::Fuse => {
                "cachestat(2) can miss pages of FUSE files, and mincore(2) reports residency only to users \
                 who own or may write the file"
            }
            Self::FuseNotOpened => "FUSE files are not opened, because that can drop their pages",
            Self::Dax => "a file on DAX has no page cache",
            Self::HugePages => "the kernel does not count the huge pages of hugetlbfs",
            Self::NotAFile(_) => "only files and block devices have pages",
            Self::MadeUp => "the kernel generates this file at each read",
        }
    }
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAFile(kind) => write!(f, "{kind} has no page cache"),
            other => f.write_str(other.reason()),
        }
    }
}
