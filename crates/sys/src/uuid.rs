//! The UUID of a file system.

use std::os::fd::BorrowedFd;

use rustix::ioctl;

/// The structure that `FS_IOC_GETFSUUID` fills in (`struct fsuuid2`).
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct FsUuid {
    len: u8,
    bytes: [u8; 16],
}

/// The beginning of what `XFS_IOC_FSGEOMETRY_V1` fills in (`struct xfs_fsop_geom_v1`): 112 bytes, of which the UUID
/// is 16 from the 64th on.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct XfsGeometry {
    before: [u8; 64],
    uuid: [u8; 16],
    behind: [u8; 32],
}

/// Returns the UUID in the superblock of the file system that an open file or directory is on; `None` where it has
/// none, or the kernel does not say. It is the same after a remount, and on every machine. The descriptor must not be one
/// of `O_PATH`.
///
/// # Kernel
/// All file systems since Linux 6.9; XFS since 2.6.
#[must_use]
pub fn file_system_uuid(fd: BorrowedFd<'_>) -> Option<[u8; 16]> {
    const FS_IOC_GETFSUUID: ioctl::Opcode = ioctl::opcode::read::<FsUuid>(0x15, 0);
    const XFS_IOC_FSGEOMETRY_V1: ioctl::Opcode = ioctl::opcode::read::<XfsGeometry>(b'X', 100);
    // SAFETY: this request writes a `struct fsuuid2`, which `FsUuid` is.
    let request = unsafe { ioctl::Getter::<FS_IOC_GETFSUUID, FsUuid>::new() };
    // SAFETY: a request that reads a number and changes nothing; kernels without it refuse it.
    if let Ok(found) = unsafe { ioctl::ioctl(fd, request) } {
        return (usize::from(found.len) == found.bytes.len()).then_some(found.bytes);
    }
    // SAFETY: this request writes a `struct xfs_fsop_geom_v1`, which is as long as `XfsGeometry`.
    let request = unsafe { ioctl::Getter::<XFS_IOC_FSGEOMETRY_V1, XfsGeometry>::new() };
    // SAFETY: a request that reads the geometry and changes nothing; other file systems refuse it.
    let found = unsafe { ioctl::ioctl(fd, request) };
    found.ok().map(|geometry| geometry.uuid)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn layouts_are_those_of_the_kernel() {
        assert_eq!(size_of::<FsUuid>(), 17, "struct fsuuid2");
        assert_eq!(size_of::<XfsGeometry>(), 112, "struct xfs_fsop_geom_v1");
    }

    #[test]
    fn uuid_is_the_same_for_all_files_of_a_file_system() {
        let directory = tempfile::tempdir().expect("a directory can be made");
        let file = tempfile::NamedTempFile::new_in(directory.path()).expect("a file can be made");
        let directory = File::open(directory.path()).expect("it is ours");
        assert_eq!(
            file_system_uuid(directory.as_fd()),
            file_system_uuid(file.as_file().as_fd()),
            "both are on one file system"
        );
    }

    #[test]
    fn proc_has_no_uuid() {
        let file = File::open("/proc/self/stat").expect("proc is mounted");
        assert_eq!(
            file_system_uuid(file.as_fd()),
            None,
            "it has no superblock on a disk"
        );
    }
}
