//! [`FileSystem`]: the file system under an origin, and whether its times tell states of a file apart.

use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;

use cachewise_kstat::{Kernel, Mount};
use cachewise_sys::{OverlayMount, file_system_uuid};
use rustix::fs::{AtFlags, StatFs, StatxFlags, fstatfs, fstatvfs, statfs, statx};

/// The type of FUSE, whose server may check permissions when a file is opened and not before.
const FUSE: u64 = 0x6573_5546;

/// The type of overlayfs, whose files are those of other file systems.
const OVERLAY: u64 = 0x794c_7630;

/// Types of file systems that set the time of last change (`ctime`) at each write, to the kernel's or the server's
/// clock. The time is in the version of a file, and no program can set it back.
///
/// Others do not: an image that is only read (squashfs, erofs, iso9660) has the times it was made with, FAT, exFAT and
/// NTFS have no such time or derive it, AFS and most servers of FUSE repeat the time of last modification. Those are left
/// out, and so are types that are not known here.
const KEEPS_CHANGE_TIME: [u64; 25] = [
    0xef53,      // ext2, ext3, ext4
    0x5846_5342, // XFS
    0x9123_683e, // btrfs
    0x2fc1_2fc1, // ZFS
    0xca45_1a4e, // bcachefs
    0xf2f5_2010, // F2FS
    0x3153_464a, // JFS
    0x5265_4973, // ReiserFS
    0x3434,      // NILFS2
    0x2405_1905, // UBIFS
    0x72b6,      // JFFS2
    0x0102_1994, // tmpfs
    0x8584_58f6, // ramfs
    0x9584_58f6, // hugetlbfs
    0xf15f,      // eCryptfs
    OVERLAY,
    0x6969,      // NFS
    0xff53_4d42, // CIFS
    0xfe53_4d42, // SMB2
    0x00c3_6400, // Ceph
    0x0102_1997, // 9P
    0x786f_4256, // vboxsf
    0x0116_1970, // GFS2
    0x7461_636f, // OCFS2
    0x0bd0_0bd0, // Lustre
];

/// The file system that a file is on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FileSystem {
    /// Its type and its UUID, else the number that statfs(2) gives it, else its source: the same after a remount, and
    /// another one for another image.
    pub identity: String,
    /// Its type in words, where its times do not tell states of a file apart.
    pub forgets_changes: Option<String>,
    /// Whether only an open shows that a file may be read.
    pub checks_at_open: bool,
}

impl FileSystem {
    /// Looks at the file system of an open file or directory, which is not open as `O_PATH`.
    ///
    /// # Errors
    /// The errors of `fstatfs(2)`.
    pub(super) fn of_file(file: &File) -> rustix::io::Result<Self> {
        let found = fstatfs(file)?;
        let kind = kind_of(&found);
        let mount = mount_of(file);
        let mount = mount.as_ref();
        let mut identity = format!("{kind:x}");
        let number = fstatvfs(file)?.f_fsid;
        if let Some(uuid) = file_system_uuid(file.as_fd()) {
            identity.push_str(&format!(" uuid {:032x}", u128::from_be_bytes(uuid)));
        } else if number != 0 {
            identity.push_str(&format!(" number {number:x}"));
        } else if let Some(mount) = mount {
            identity.push_str(&format!(" source {}", mount.source));
        }
        let mut forgets_changes = (!keeps_change_time(kind)).then(|| {
            let name = mount.map(|mount| mount.fs_type.clone());
            name.unwrap_or_else(|| format!("a file system of type {kind:#x}"))
        });
        if kind == OVERLAY
            && let Some(overlay) = OverlayMount::of_fd(file.as_fd())
        {
            let layers: Vec<&Path> = overlay.directories().collect();
            identity.push_str(&format!(" layers {layers:?}"));
            if layers.into_iter().any(forgets) {
                forgets_changes = Some("overlay over a file system".to_owned());
            }
        }
        Ok(Self {
            identity,
            forgets_changes,
            checks_at_open: kind == FUSE,
        })
    }
}

fn kind_of(found: &StatFs) -> u64 {
    // Types are 32 bits; some architectures extend their sign.
    u64::from(found.f_type as u32)
}

fn keeps_change_time(kind: u64) -> bool {
    KEEPS_CHANGE_TIME.contains(&kind)
}

/// Whether a layer of an overlay is on a file system that does not keep the time of last change. A layer may be an overlay
/// itself; one that another mount namespace has, or that was named relative to a directory, is not seen from here.
fn forgets(layer: &Path) -> bool {
    let Ok(found) = statfs(layer) else {
        return false;
    };
    let of_its_own = || {
        let directory = File::open(layer).ok()?;
        FileSystem::of_file(&directory).ok()?.forgets_changes
    };
    layer.is_absolute()
        && match kind_of(&found) {
            OVERLAY => of_its_own().is_some(),
            kind => !keeps_change_time(kind),
        }
}

/// The mount that a file was opened through, where /proc shows it.
fn mount_of(file: &File) -> Option<Mount> {
    let found = statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID).ok()?;
    let id = u32::try_from(found.stx_mnt_id).ok()?;
    let mounts = Kernel::new().mounts(None).ok()?;
    mounts.into_iter().find(|mount| mount.id == id).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn procfs_is_not_trusted_with_times() {
        let file = File::open("/proc/self/stat").expect("proc is mounted");
        let found = FileSystem::of_file(&file).expect("statfs works on every file system");
        assert_eq!(
            found.forgets_changes.as_deref(),
            Some("proc"),
            "named by its type"
        );
    }

    #[test]
    fn all_files_of_a_file_system_have_its_identity() {
        let directory = tempfile::tempdir().expect("a directory can be made");
        let file = tempfile::NamedTempFile::new_in(directory.path()).expect("a file can be made");
        let root = File::open(directory.path()).expect("it is ours");
        let (one, other) = (
            FileSystem::of_file(&root),
            FileSystem::of_file(file.as_file()),
        );
        assert_eq!(one, other, "both are on one file system");
        let proc = File::open("/proc/self/stat").expect("proc is mounted");
        assert_ne!(one, FileSystem::of_file(&proc), "another file system");
    }
}
