//! Block devices, of which `stat` does not know the size.

use std::os::fd::BorrowedFd;

use cachewise_units::Bytes;
use rustix::ioctl;

use crate::Error;

/// Returns the size of an open block device.
///
/// # Errors
/// Not a block device; a medium that was taken out.
pub fn device_size(fd: BorrowedFd<'_>) -> Result<Bytes, Error> {
    const BLKGETSIZE64: ioctl::Opcode = ioctl::opcode::read::<usize>(0x12, 114);
    // SAFETY: this request writes a 64-bit size, though its number was made with `size_t`.
    let request = unsafe { ioctl::Getter::<BLKGETSIZE64, u64>::new() };
    // SAFETY: a request that reads the size and changes nothing; other files refuse it.
    let size = unsafe { ioctl::ioctl(fd, request) };
    size.map(Bytes)
        .map_err(|errno| Error::io("ioctl BLKGETSIZE64", errno))
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn a_file_is_no_device() {
        let file = tempfile::tempfile().unwrap();
        let error = device_size(file.as_fd()).unwrap_err();
        assert_eq!(error.os_error(), Some(libc::ENOTTY), "refused: {error}");
    }
}
