//! Files that lose their pages when they are opened: those of FUSE.

use std::collections::{HashMap, HashSet};
use std::ffi::CString;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{AtFlags, Mode, OFlags, StatFs, StatxFlags};
use rustix::io::Errno;

use crate::OverlayMount;
use crate::overlay::unescaped;

/// `FUSE_SUPER_MAGIC` of the kernel; virtiofs has it too.
const FUSE: u32 = 0x6573_5546;
/// `OVERLAYFS_SUPER_MAGIC` of the kernel.
const OVERLAY: u32 = 0x794c_7630;

/// Says whether opening a file drops its pages from the page cache: the file is on FUSE, or on an overlay with a
/// layer on FUSE.
///
/// The kernel empties the cache of a FUSE file at each open that the server answers without `FOPEN_KEEP_CACHE`, which is
/// the default of libfuse. The answer of the server is known only when it is too late.
///
/// The descriptor may be one of `O_PATH`. Layers of an overlay are looked up by the paths that its mount options have; a
/// layer that no path leads to from here (another mount namespace) counts as one that is not on FUSE.
///
/// # Errors
/// The error of `fstatfs(2)`.
///
/// # Cost
/// One system call. On an overlay a second one, and a look at `/proc/self/mountinfo` for each mount, once.
pub fn opening_drops_pages(fd: BorrowedFd<'_>) -> Result<bool, Errno> {
    let found = rustix::fs::fstatfs(fd)?;
    Ok(match magic(&found) {
        FUSE => true,
        OVERLAY => is_layered_on_fuse(fd, &found),
        _ => false,
    })
}

/// Returns the last names of the places at which FUSE, virtiofs or an overlay is mounted. A mount on a single file does
/// not show in the directory that has the file.
///
/// # Cost
/// A look at `/proc/self/mountinfo`.
#[must_use]
pub fn names_of_mounts_that_may_drop_pages() -> HashSet<CString> {
    names(&std::fs::read("/proc/self/mountinfo").unwrap_or_default())
}

fn names(mountinfo: &[u8]) -> HashSet<CString> {
    let name = |line: &[u8]| {
        let mut fields = line.split(|byte| *byte == b' ');
        let place = unescaped(fields.nth(4)?);
        fields.by_ref().find(|field| *field == b"-")?;
        let kind = fields.next()?;
        let may_drop = kind.starts_with(b"fuse") || [&b"virtiofs"[..], b"overlay"].contains(&kind);
        let name = place.rsplit(|byte| *byte == b'/').next()?;
        CString::new(name)
            .ok()
            .filter(|_| may_drop && !name.is_empty())
    };
    mountinfo
        .split(|byte| *byte == b'\n')
        .filter_map(name)
        .collect()
}

/// Its width and sign differ between architectures; all of the numbers have 32 bits.
fn magic(found: &StatFs) -> u32 {
    found.f_type as u32
}

/// Whether a layer of an overlay is on FUSE.
fn is_layered_on_fuse(fd: BorrowedFd<'_>, found: &StatFs) -> bool {
    /// The number of a mount and its file system's own, for numbers of mounts are given again.
    type Key = (u64, String);
    static KNOWN: Mutex<Option<HashMap<Key, bool>>> = Mutex::new(None);
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let Ok(mount) = rustix::fs::statx(fd, c"", flags, StatxFlags::MNT_ID) else {
        return false;
    };
    let key = (mount.stx_mnt_id, format!("{:?}", found.f_fsid));
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    // The kernel allows two overlays on top of each other, and no more.
    let look = || has_layer_on_fuse(fd, 2);
    *known
        .get_or_insert_default()
        .entry(key)
        .or_insert_with(look)
}

fn has_layer_on_fuse(fd: BorrowedFd<'_>, overlays: u32) -> bool {
    let Some(mount) = OverlayMount::of_fd(fd).filter(|_| overlays > 0) else {
        return false;
    };
    mount.directories().any(|layer| {
        let opened = rustix::fs::open(layer, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
        opened.is_ok_and(
            |opened| match rustix::fs::fstatfs(&opened).map(|it| magic(&it)) {
                Ok(OVERLAY) => has_layer_on_fuse(opened.as_fd(), overlays - 1),
                found => found == Ok(FUSE),
            },
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_on_single_files_are_known_by_their_names() {
        let table = br"28 1 254:0 / / rw - ext4 /dev/vda rw
97 28 0:44 / /etc/ho\040sts rw shared:1 - fuse.lxcfs lxcfs rw
98 28 0:45 / /srv rw - tmpfs none rw
99 28 0:46 / / rw - overlay none rw
";
        let found = names(table);
        assert_eq!(found.len(), 1, "a root has no name: {found:?}");
        assert!(found.contains(c"ho sts"), "the name of the place");
    }

    #[test]
    fn opening_an_ordinary_file_drops_nothing() {
        let file = tempfile::tempfile().unwrap();
        assert_eq!(
            opening_drops_pages(file.as_fd()),
            Ok(false),
            "it is on no FUSE"
        );
    }
}
