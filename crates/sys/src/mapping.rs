//! [`Mapping`]: a file mapped for the kernel's sake alone.

use std::os::fd::BorrowedFd;

use cachewise_units::{PageRange, Pages};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, MlockFlags, ProtFlags};

use crate::{Error, page_size};

/// Shared, read-only mapping of a file's pages whose memory is never accessed.
///
/// It exists for what the kernel does with mapped pages: lock them, and tell who has them. As no memory
/// of it is touched, a file that is truncated meanwhile raises no SIGBUS. Unmapped, and so unlocked, on
/// drop.
#[derive(Debug)]
pub struct Mapping {
    address: usize,
    pages: PageRange,
}

impl Mapping {
    /// Maps pages of a file; they may lie beyond its end. No page is read.
    ///
    /// # Errors
    /// What `mmap(2)` says: invalid where there are no pages to map, no such device for files that cannot
    /// be mapped (`direct_io` of FUSE), denied for a descriptor that is not open for reading.
    ///
    /// # Cost
    /// One system call. Mapping counts as an access to the file: without `O_NOATIME` its access time
    /// may be written.
    pub fn of_pages(fd: BorrowedFd<'_>, pages: PageRange) -> Result<Self, Error> {
        let length = usize::try_from(pages.len().bytes(page_size()).0);
        let length = length.map_err(|_| Error::io("mmap", Errno::OVERFLOW))?;
        let offset = Pages(pages.start).bytes(page_size()).0;
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory that is in use, and
        // the pointer is only ever handed back to the kernel.
        let address = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                length,
                ProtFlags::READ,
                MapFlags::SHARED | MapFlags::NORESERVE,
                fd,
                offset,
            )
        };
        let address = address.map_err(|errno| Error::io("mmap", errno))? as usize;
        Ok(Self { address, pages })
    }

    /// Returns the pages of the file that are mapped.
    #[must_use]
    pub fn pages(&self) -> PageRange {
        self.pages
    }

    /// Returns the address of the first page, to find it in `/proc/self/maps` and `/proc/self/pagemap`.
    #[must_use]
    pub fn address(&self) -> usize {
        self.address
    }

    /// Reads and locks the mapped pages of this range, until the mapping is dropped.
    ///
    /// # Errors
    /// No memory (`ENOMEM`): more than `RLIMIT_MEMLOCK` allows; or a page beyond the end of the file; or
    /// too many mappings. Try again (`EAGAIN`): memory is short. Denied: the limit is 0.
    pub fn lock(&self, pages: PageRange) -> Result<(), Error> {
        let (address, length) = self.span(pages);
        // SAFETY: the span is inside the mapping, which lives as long as `self`; locking changes no
        // memory. A page that cannot be read is an error of mlock here, not a signal.
        unsafe { rustix::mm::mlock(address, length) }.map_err(|errno| Error::io("mlock", errno))
    }

    /// Locks each page from the moment at which it is [populated](Self::populate): none so far.
    ///
    /// # Errors
    /// As [`lock`](Self::lock), except for read errors.
    ///
    /// # Kernel
    /// Since 4.4.
    pub fn lock_on_fault(&self) -> Result<(), Error> {
        let (address, length) = self.span(self.pages);
        // SAFETY: the span is the whole mapping, which lives as long as `self`; marking it changes no
        // memory.
        unsafe { rustix::mm::mlock_with(address, length, MlockFlags::ONFAULT) }
            .map_err(|errno| Error::io("mlock2", errno))
    }

    /// Enters the mapped pages of this range into the page table, and reads those that are not
    /// resident.
    ///
    /// # Errors
    /// A bad address (`EFAULT`): a page beyond the end of the file.
    ///
    /// # Kernel
    /// Since 5.14.
    pub fn populate(&self, pages: PageRange) -> Result<(), Error> {
        let (address, length) = self.span(pages);
        // SAFETY: the span is inside the mapping, which lives as long as `self`; this advice reads pages
        // and never changes what memory holds.
        unsafe { rustix::mm::madvise(address, length, Advice::LinuxPopulateRead) }
            .map_err(|errno| Error::io("madvise", errno))
    }

    /// The address and length of those of the pages that are mapped.
    fn span(&self, pages: PageRange) -> (*mut std::ffi::c_void, usize) {
        let pages = pages.intersection(self.pages).unwrap_or(PageRange {
            start: self.pages.start,
            end: self.pages.start,
        });
        let before = Pages(pages.start - self.pages.start).bytes(page_size()).0;
        let length = pages.len().bytes(page_size()).0;
        // Both fit: the whole mapping has a length that does.
        let address = self.address + before as usize;
        (
            std::ptr::with_exposed_provenance_mut(address),
            length as usize,
        )
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let (address, length) = self.span(self.pages);
        // SAFETY: exactly the mapping that was made, whose memory has no references. It can only
        // fail for want of memory to split a mapping, which this does not.
        let _ = unsafe { rustix::mm::munmap(address, length) };
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::AsFd;

    use super::*;
    use crate::ErrorKind;

    fn pages(start: u64, end: u64) -> PageRange {
        PageRange { start, end }
    }

    #[test]
    fn what_is_mapped_can_be_locked_and_survives_truncation() {
        let mut file = tempfile::tempfile().unwrap();
        let size = Pages(4).bytes(page_size()).0;
        file.write_all(&vec![1; size as usize]).unwrap();
        let mapping = Mapping::of_pages(file.as_fd(), pages(1, 4)).unwrap();
        assert_eq!(mapping.pages(), pages(1, 4), "what was asked for");
        mapping.lock(pages(0, 2)).unwrap();
        mapping.lock_on_fault().unwrap();
        mapping.populate(pages(2, 9)).unwrap();
        mapping.lock(pages(9, 12)).unwrap();
        file.set_len(0).unwrap();
        let error = mapping.populate(pages(1, 2)).unwrap_err();
        assert_eq!(
            error.os_error(),
            Some(libc::EFAULT),
            "an error and no signal: {error}"
        );
    }

    #[test]
    fn what_cannot_be_mapped_is_an_error() {
        let (reader, _writer) = std::io::pipe().unwrap();
        let error = Mapping::of_pages(reader.as_fd(), pages(0, 1)).unwrap_err();
        assert_eq!(error.os_error(), Some(libc::ENODEV), "a pipe: {error}");
        let file = tempfile::tempfile().unwrap();
        let error = Mapping::of_pages(file.as_fd(), pages(3, 3)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "no pages: {error}");
    }
}
