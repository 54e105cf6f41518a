//! One way to read or write, for one thread.
//!
//! # Layout
//! - [`Engine`]: what the loop of a thread calls.
//! - `look`: what is there before a read. `pread`: with and without `RWF_NOWAIT`, and around the cache. `map`: mapped;
//!   `bus`: a file that becomes shorter under a mapping. `write`. `uring`.

mod bus;
mod look;
mod map;
mod pread;
mod uring;
mod write;

use std::io;

use crate::tally::Done;

pub(crate) use map::{Copy, Map, Touch};
pub(crate) use pread::{Nowait, Pread};
pub(crate) use uring::Uring;
pub(crate) use write::Write;

/// What can be asked of the thread's own counters where an operation took long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sign {
    /// Nothing: the operation itself says whether it hit, or nothing can.
    None,
    /// A miss is a major fault.
    Faults,
    /// A miss has a device read.
    Device,
}

/// Reads or writes one chunk at a time.
pub(crate) trait Engine {
    /// How a miss shows.
    const SIGN: Sign;

    /// Whether it wants to [`look`](Self::look).
    const LOOKS: bool = false;

    /// Looks what there is before the operation at this offset begins, outside of its time.
    fn look(&mut self, _offset: u64) -> io::Result<()> {
        Ok(())
    }

    /// One operation at this offset.
    fn at(&mut self, offset: u64) -> io::Result<Done>;

    /// Whether it went wrong without the operation having noticed.
    fn is_lost(&self) -> bool {
        false
    }
}

/// Memory that begins at a page, for direct I/O and so that copies cost the same each time.
#[derive(Debug)]
pub(crate) struct Buffer {
    address: usize,
    len: usize,
    /// What is mapped.
    whole: usize,
}

/// From this size on, pages of a buffer that lie anywhere in memory cost a copy some per cent, as they meet in the CPU's
/// caches: one huge page has no such luck.
const LARGE: u64 = 256 << 10;

/// That of all architectures with pages of 4 KiB; on others, the advice does nothing.
const HUGE: u64 = 2 << 20;

impl Buffer {
    /// All of it is touched once, so that no operation pays for its page faults.
    ///
    /// # Errors
    /// There is no memory.
    pub fn new(len: usize) -> io::Result<Buffer> {
        Buffer::mapped(len, len)
    }

    /// The same in huge pages, where it is large and the kernel has some: for a thread's only buffer.
    ///
    /// # Errors
    /// There is no memory.
    pub fn only(len: usize) -> io::Result<Buffer> {
        Buffer::mapped(len, Buffer::only_takes(len as u64) as usize)
    }

    /// How much memory that takes at most.
    pub fn only_takes(len: u64) -> u64 {
        match len < LARGE {
            true => len,
            false => len.next_multiple_of(HUGE),
        }
    }

    fn mapped(len: usize, whole: usize) -> io::Result<Buffer> {
        use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory that is in use.
        let address =
            unsafe { mmap_anonymous(std::ptr::null_mut(), whole, protection, MapFlags::PRIVATE) }?;
        if whole > len {
            // SAFETY: the range is the mapping; the advice changes no memory. Refused, it is no loss.
            let _ = unsafe { madvise(address, whole, Advice::LinuxHugepage) };
        }
        let mut buffer = Buffer {
            address: address as usize,
            len,
            whole,
        };
        buffer.as_mut().fill(1);
        Ok(buffer)
    }

    pub fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub fn as_mut(&mut self) -> &mut [u8] {
        // SAFETY: the mapping has that many bytes, zeroed at first, is ours alone, and goes with `self`.
        unsafe { std::slice::from_raw_parts_mut(self.address as *mut u8, self.len) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and references into it borrow `self`.
        let _ = unsafe { rustix::mm::munmap(self.address as *mut _, self.whole) };
    }
}
