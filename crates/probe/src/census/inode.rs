//! [`CachedInode`]: what is known of one inode, from the kernel's record.

use std::ffi::{OsStr, OsString};
use std::mem::offset_of;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cachewise_kstat::{Device, Kernel, Mounts};
use cachewise_units::{Bytes, Pages};

use super::skeleton::types;
use crate::error::Error;
use crate::record::{self, Raw};
use crate::snapshot::FileId;

/// `enum inode_flags` in `bpf/census.h`.
mod flag {
    pub const DELETED: u32 = 1;
    pub const MAPPED: u32 = 2;
    pub const WRITERS: u32 = 4;
    pub const LABELLED: u32 = 8;
    pub const CUT: u32 = 16;
    pub const CLEAN: u32 = 32;
}

/// The name of an inode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Name {
    /// The path of one of its links from the root of its file system; its last path, if it is deleted. Of a
    /// path of more than 4 KiB only the end is known: it is relative then.
    Path(PathBuf),
    /// The kernel's label of an inode that never had a path: `memfd:x`, `dev/zero` (anonymous memory that
    /// processes share), `SYSV00000000`.
    Label(OsString),
    /// Unknown, or there is none: block devices, inodes of the file system itself, files opened by handle. The kernel
    /// drops names from memory before inodes, so closed files can lose theirs. Always without
    /// [`Options::names`](super::Options::names).
    Unknown,
}

/// An inode with pages in the page cache, or one that lost them all to reclaim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CachedInode {
    /// As stat(2) names it; a block device is its own number and inode 0.
    pub id: FileId,
    /// Its file system, as mountinfo has it. Differs from `id` on btrfs and for block devices.
    pub device: Device,
    /// The type of its file system, as the kernel calls it: `ext4`, `tmpfs`, `bdev` for block devices.
    pub file_system: Arc<str>,
    /// Its name.
    pub name: Name,
    /// Its pages in the cache. 0: reclaim took all of them.
    pub pages: Pages,
    /// Its size.
    pub size: Bytes,
    /// Type and permissions, as in stat(2).
    pub mode: u32,
    /// Hard links.
    pub links: u32,
    /// Number of references that keep it in memory: open files, mappings, cached names.
    pub references: u32,
    /// It had a path and was deleted; it exists while it is open or mapped.
    pub deleted: bool,
    /// Some process has it mapped.
    pub mapped: bool,
    /// Some process has it open for writing.
    pub writers: bool,
    /// No page is dirty or under writeback, and the kernel remembers no evicted page: `cachestat(2)` would report 0 for
    /// each. `false` says nothing, because the walk looks only at files of up to 4,096 pages for evicted ones.
    pub clean: bool,
}

impl CachedInode {
    /// Returns whether it is a block device: its pages are reads of the device, or metadata of its file system.
    #[must_use]
    pub fn is_block_device(&self) -> bool {
        record::is_block_device(self.mode)
    }

    /// Returns whether it has no pages left, and the last ones were reclaimed.
    #[must_use]
    pub fn is_evicted(&self) -> bool {
        self.pages.is_zero()
    }

    /// The path under which it is seen in a mount namespace: that of `mounts`. `None` if it has none
    /// there, or has no path at all; a deleted file's is the one that it had.
    ///
    /// # Cost
    /// No system call, but one for a block device.
    #[must_use]
    pub fn path(&self, kernel: &Kernel, mounts: &Mounts) -> Option<PathBuf> {
        let path = match &self.name {
            Name::Path(path) => Some(path.as_path()),
            Name::Label(_) | Name::Unknown => None,
        };
        record::seen_path(self.id, self.mode, self.device, path, kernel, Some(mounts))
    }
}

/// Tells inodes apart within one super block in one census.
pub(super) type Identity = (u64, u64, u32);

/// The numbers of a record that say whose it is, and not more.
pub(super) struct Head {
    pub(super) super_block: u32,
    pub(super) identity: Identity,
}

/// A record that is long enough.
pub(super) fn record(bytes: &[u8]) -> Result<Raw<'_>, Error> {
    Raw::new(
        bytes,
        "record of an inode",
        offset_of!(types::cached_inode, names),
    )
}

pub(super) fn head(raw: Raw<'_>) -> Head {
    Head {
        super_block: raw.u32(offset_of!(types::cached_inode, super_block)),
        identity: (
            raw.u64(offset_of!(types::cached_inode, address)),
            raw.u64(offset_of!(types::cached_inode, id.inode)),
            raw.u32(offset_of!(types::cached_inode, id.generation)),
        ),
    }
}

/// The type of the record's file system.
pub(super) fn file_system(raw: Raw<'_>) -> Arc<str> {
    let name = raw.tail(offset_of!(types::cached_inode, fs_type));
    let room = offset_of!(types::cached_inode, length) - offset_of!(types::cached_inode, fs_type);
    let name = name.get(..room).unwrap_or_default();
    let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(name).into()
}

pub(super) fn inode(raw: Raw<'_>, file_system: Arc<str>) -> CachedInode {
    macro_rules! number {
        ($type:ident, $($field:ident).+) => {
            raw.$type(offset_of!(types::cached_inode, $($field).+))
        };
    }
    let flags = number!(u32, flags);
    let own = Device::from_kernel(number!(u32, id.dev));
    CachedInode {
        id: FileId {
            major: own.major,
            minor: own.minor,
            inode: number!(u64, id.inode),
            generation: number!(u32, id.generation),
            volume: 0,
        },
        device: Device::from_kernel(number!(u32, super_dev)),
        file_system,
        name: name(raw, flags),
        pages: Pages(number!(u64, pages)),
        size: Bytes(number!(u64, size)),
        mode: number!(u32, mode),
        links: number!(u32, links),
        references: number!(u32, references),
        deleted: flags & flag::DELETED != 0,
        mapped: flags & flag::MAPPED != 0,
        writers: flags & flag::WRITERS != 0,
        clean: flags & flag::CLEAN != 0,
    }
}

fn name(raw: Raw<'_>, flags: u32) -> Name {
    let length = raw.u32(offset_of!(types::cached_inode, length)) as usize;
    let names = raw.tail(offset_of!(types::cached_inode, names));
    let Some(names) = names.get(..length).unwrap_or(names).strip_suffix(&[0]) else {
        return Name::Unknown;
    };
    if flags & flag::LABELLED != 0 {
        return Name::Label(OsStr::from_bytes(names).to_owned());
    }
    // Those of the directories come from the inner to the outer, and then the file's own.
    let (above, own) = match names.iter().rposition(|byte| *byte == 0) {
        Some(end) => (Some(&names[..end]), &names[end + 1..]),
        None => (None, names),
    };
    let above = above
        .into_iter()
        .flat_map(|names| names.rsplit(|byte| *byte == 0));
    let path = record::path("", above.chain([own]));
    Name::Path(match flags & flag::CUT {
        0 => path,
        _ => path.strip_prefix("/").map(Path::to_owned).unwrap_or(path),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: usize = offset_of!(types::cached_inode, names);

    fn with_names(names: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; NAMES];
        let length = offset_of!(types::cached_inode, length);
        bytes[length..length + 4].copy_from_slice(&(names.len() as u32).to_ne_bytes());
        bytes.extend(names);
        bytes
    }

    fn named(names: &[u8], flags: u32) -> Name {
        name(record(&with_names(names)).unwrap(), flags)
    }

    #[test]
    fn a_name_is_a_path_a_label_or_unknown() {
        let path = |path: &str| Name::Path(path.into());
        assert_eq!(named(b"b\0a\0c\0", 0), path("/a/b/c"), "from the root down");
        assert_eq!(named(b"c\0", 0), path("/c"), "in the root");
        assert_eq!(named(b"\0", 0), path("/"), "the root itself");
        assert_eq!(
            named(b"b\0c\0", flag::CUT),
            path("b/c"),
            "the end of a long path does not begin at the root"
        );
        assert_eq!(
            named(b"memfd:a/b\0", flag::LABELLED),
            Name::Label("memfd:a/b".into()),
            "a label is no path, whatever is in it"
        );
        assert_eq!(named(b"", 0), Name::Unknown, "no dentry, no name");
    }

    #[test]
    fn only_a_whole_path_is_looked_for() {
        let mut found = inode(record(&with_names(b"etc\0passwd\0")).unwrap(), "x".into());
        let kernel = Kernel::new();
        let mounts = kernel.mounts(None).unwrap();
        let root = mounts
            .covering(std::path::Path::new("/"))
            .expect("something is mounted on /");
        found.device = root.dev;
        assert!(
            found.path(&kernel, &mounts).is_some() || root.root.as_os_str() != "/",
            "a path on the root's file system is seen"
        );
        found.name = Name::Path("etc/passwd".into());
        assert_eq!(
            found.path(&kernel, &mounts),
            None,
            "where the end of a path hangs is not known"
        );
    }

    #[test]
    fn a_short_record_is_an_error() {
        assert!(record(&[0; NAMES - 1]).is_err(), "nothing is read past it");
    }
}
