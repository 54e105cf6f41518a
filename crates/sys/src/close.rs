//! Closing many files at once.

use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};

/// Closes all of these files, with one system call for each row of consecutive descriptors.
///
/// Descriptors of a program that opens one file after the other are consecutive, since the kernel
/// assigns the lowest free number. Errors of closing (a late write error of a network file system)
/// are ignored, as on drop.
///
/// # Kernel
/// `close_range(2)` since 5.9; before that, and where it is refused, one by one.
pub fn close_together(files: &mut Vec<OwnedFd>) {
    files.sort_unstable_by_key(AsRawFd::as_raw_fd);
    let mut rows = files.drain(..).map(IntoRawFd::into_raw_fd).peekable();
    while let Some(first) = rows.next() {
        let mut last = first;
        while let Some(next) = rows.next_if(|next| *next == last + 1) {
            last = next;
        }
        close_row(first, last);
    }
}

/// Closes the descriptors from `first` to `last`, which all are the caller's to close.
fn close_row(first: RawFd, last: RawFd) {
    let flags: libc::c_uint = 0;
    // SAFETY: each number of the range belonged to an `OwnedFd` that was consumed, so no other code
    // uses it.
    let result = unsafe {
        libc::syscall(
            libc::SYS_close_range,
            first as libc::c_uint,
            last as libc::c_uint,
            flags,
        )
    };
    if result != 0 {
        for number in first..=last {
            // SAFETY: as above; the call has failed before it closed any.
            drop(unsafe { OwnedFd::from_raw_fd(number) });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn all_are_closed_and_no_other() {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let mut copies: Vec<OwnedFd> = (0..9)
            .map(|_| OwnedFd::from(writer.try_clone().unwrap()))
            .collect();
        // A gap, out of order.
        let kept = copies.swap_remove(4);
        drop(writer);
        close_together(&mut copies);
        assert!(copies.is_empty(), "none is left to be closed twice");
        let still_open = std::io::PipeWriter::from(kept);
        drop(still_open.try_clone().unwrap());
        drop(still_open);
        let mut rest = Vec::new();
        reader.read_to_end(&mut rest).unwrap();
        assert!(
            rest.is_empty(),
            "a pipe ends when its last writer is closed"
        );
    }
}
