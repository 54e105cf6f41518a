//! Advice about a whole file, and writing its dirty pages back.

use std::os::fd::BorrowedFd;

use rustix::fs::Advice;

use crate::Error;

/// Asks the kernel to drop the clean pages of the file.
///
/// Dirty pages and those under write-back stay: call [`sync_data`] first. Pages that are mapped
/// or locked, or that another CPU holds back in a batch, may stay too, so measure afterwards.
///
/// # Errors
/// An invalid descriptor, or one of a pipe.
pub fn fadvise_dont_need(fd: BorrowedFd<'_>) -> Result<(), Error> {
    advise(fd, Advice::DontNeed)
}

/// Disables readahead for this open file: each miss reads only the requested pages.
///
/// # Errors
/// An invalid descriptor, or one of a pipe.
pub fn fadvise_random(fd: BorrowedFd<'_>) -> Result<(), Error> {
    advise(fd, Advice::Random)
}

/// Restores the default readahead of this open file.
///
/// # Errors
/// An invalid descriptor, or one of a pipe.
pub fn fadvise_normal(fd: BorrowedFd<'_>) -> Result<(), Error> {
    advise(fd, Advice::Normal)
}

/// Asks the kernel to start bringing the file in, and returns without waiting for it.
///
/// The kernel may read less: it stops if memory is short or a read fails.
///
/// # Errors
/// An invalid descriptor, or one of a pipe.
pub fn fadvise_will_need(fd: BorrowedFd<'_>) -> Result<(), Error> {
    advise(fd, Advice::WillNeed)
}

/// Writes the dirty pages of the file to its device and waits for that.
///
/// # Errors
/// An invalid descriptor, or the device's failure to take the data.
pub fn sync_data(fd: BorrowedFd<'_>) -> Result<(), Error> {
    rustix::fs::fdatasync(fd).map_err(|errno| Error::io("fdatasync", errno))
}

fn advise(fd: BorrowedFd<'_>, advice: Advice) -> Result<(), Error> {
    // A length of none means to the end of the file, however long it becomes.
    rustix::fs::fadvise(fd, 0, None, advice).map_err(|errno| Error::io("fadvise", errno))
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;
    use crate::ErrorKind;

    #[test]
    fn a_pipe_has_no_pages_to_advise_on() {
        let (reader, _writer) = std::io::pipe().unwrap();
        let error = fadvise_dont_need(reader.as_fd()).unwrap_err();
        assert_eq!(
            error.kind(),
            ErrorKind::Invalid,
            "a pipe cannot seek: {error}"
        );
        let error = sync_data(reader.as_fd()).unwrap_err();
        assert_eq!(
            error.kind(),
            ErrorKind::Invalid,
            "nor be written back: {error}"
        );
    }

    #[test]
    fn all_advice_is_taken_for_a_file() {
        let file = tempfile::tempfile().unwrap();
        for advise in [
            fadvise_random,
            fadvise_normal,
            fadvise_will_need,
            fadvise_dont_need,
        ] {
            advise(file.as_fd()).unwrap();
        }
    }
}
