//! Whether an open file may be read.

use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::Errno;

use crate::has_rights_of_its_own;

/// Returns whether the caller may open for reading what a descriptor refers to, without opening it. The
/// descriptor may be one of `O_PATH`.
///
/// The kernel checks permission bits, access control lists and capabilities; a network file system asks its
/// server. A program with rights that its caller does not have is checked by its real user and group.
///
/// # Errors
/// The error of the file system, except `EACCES` and `EPERM`.
///
/// # Kernel
/// `faccessat2(2)` of Linux 5.8.
pub fn may_read(fd: BorrowedFd<'_>) -> Result<bool, Errno> {
    let flags = match has_rights_of_its_own() {
        true => libc::AT_EMPTY_PATH,
        false => libc::AT_EMPTY_PATH | libc::AT_EACCESS,
    };
    // SAFETY: the path is an empty text that ends with a zero byte, and the call reads nothing else.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_faccessat2,
            fd.as_raw_fd(),
            c"".as_ptr(),
            libc::R_OK,
            flags,
        )
    };
    if answer == 0 {
        return Ok(true);
    }
    let error = std::io::Error::last_os_error();
    match Errno::from_io_error(&error) {
        Some(Errno::ACCESS | Errno::PERM) => Ok(false),
        Some(errno) => Err(errno),
        None => Err(Errno::IO),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File, Permissions};
    use std::os::fd::AsFd;
    use std::os::unix::fs::PermissionsExt;

    use rustix::fs::{CWD, Mode, OFlags, openat};

    use super::*;

    #[test]
    fn own_file_may_be_read_without_being_opened() {
        let file = tempfile::NamedTempFile::new().expect("a file can be made");
        let path = openat(CWD, file.path(), OFlags::PATH, Mode::empty()).expect("it is there");
        assert_eq!(may_read(path.as_fd()), Ok(true), "it is ours");
    }

    #[test]
    fn answer_is_that_of_open() {
        let file = tempfile::NamedTempFile::new().expect("a file can be made");
        fs::set_permissions(file.path(), Permissions::from_mode(0o000)).expect("it is ours");
        let path = openat(CWD, file.path(), OFlags::PATH, Mode::empty()).expect("it is there");
        let opens = File::open(file.path()).is_ok();
        assert_eq!(
            may_read(path.as_fd()),
            Ok(opens),
            "root may, others may not"
        );
    }
}
