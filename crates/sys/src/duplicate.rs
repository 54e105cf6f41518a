//! A descriptor of one's own of a file that another owner has open.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};

/// Returns a new descriptor of the open file behind a number that its owner, for example an
/// interpreter, passed in. The owner may close its number; the new descriptor stays open. It is
/// closed on exec.
///
/// # Errors
/// `EBADF` where the number is none of an open file; `EMFILE` where there are too many.
pub fn duplicate(number: RawFd) -> io::Result<OwnedFd> {
    if number < 0 {
        return Err(io::Error::from_raw_os_error(libc::EBADF));
    }
    // SAFETY: not negative, and borrowed for the length of one `fcntl(F_DUPFD_CLOEXEC)`, which takes any number:
    // where it is closed meanwhile, the answer is EBADF, or another file that this process has open.
    unsafe { BorrowedFd::borrow_raw(number) }.try_clone_to_owned()
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn the_copy_outlives_what_it_was_made_of() {
        let file = File::open("/proc/self/exe").unwrap();
        let number = file.as_raw_fd();
        let copy = File::from(duplicate(number).unwrap());
        assert_ne!(copy.as_raw_fd(), number, "it is another descriptor");
        let size = file.metadata().unwrap().len();
        drop(file);
        assert_eq!(copy.metadata().unwrap().len(), size, "of the same file");
    }

    #[test]
    fn a_number_of_nothing_is_an_error() {
        for number in [-1, i32::MIN, i32::MAX] {
            let error = duplicate(number).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::EBADF), "{number}");
        }
    }
}
