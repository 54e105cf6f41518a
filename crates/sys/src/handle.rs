//! Opening files by inode number, without a path.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd};

/// `FILEID_INO32_GEN` of the kernel: an inode number and its generation.
const INODE_AND_GENERATION: i32 = 1;

/// The kernel's `struct file_handle` with such an identity.
#[repr(C)]
struct Handle {
    bytes: u32,
    kind: i32,
    inode: u32,
    generation: u32,
}

/// Opens a file for reading by its inode number and generation, on the file system that `mount` is on, as `ext4`, `xfs`
/// and others let a server of NFS do. It sets no access time, and does not wait for leases.
///
/// # Errors
/// `ESTALE`: there is no such file any more; `EOPNOTSUPP`: the file system has no such handles; `EPERM`: it needs
/// `CAP_DAC_READ_SEARCH`; `EINVAL`: the inode number has more than 32 bits.
///
/// # Kernel
/// Since 2.6.39.
pub fn open_by_inode(mount: BorrowedFd<'_>, inode: u64, generation: u32) -> io::Result<File> {
    let handle = Handle {
        bytes: 8,
        kind: INODE_AND_GENERATION,
        inode: u32::try_from(inode).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?,
        generation,
    };
    let flags = libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NONBLOCK | libc::O_NOCTTY;
    // SAFETY: the kernel reads the handle, which lives until the call returns, and whose size it has from `bytes`.
    let opened = unsafe {
        libc::syscall(
            libc::SYS_open_by_handle_at,
            mount.as_raw_fd(),
            &raw const handle,
            flags,
        )
    };
    match i32::try_from(opened) {
        // SAFETY: the descriptor was made just now, and nothing else has it.
        Ok(opened) if opened >= 0 => Ok(unsafe { File::from_raw_fd(opened) }),
        _ => Err(io::Error::last_os_error()),
    }
}
