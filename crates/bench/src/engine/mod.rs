//! One kind of read or write, for one thread.
//!
//! # Layout
//! - [`Engine`]: the interface for a thread's loop.
//! - `cachestat`: residency before a read. `pread`: with and without `RWF_NOWAIT`, and direct I/O.
//!   `map`: mapped reads; `bus`: files that shrink under a mapping. `write`. `uring`.

mod bus;
mod cachestat;
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

/// The thread's counter that reveals a miss after a slow operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sign {
    /// None: the operation itself reports hits, or there is no way to tell.
    None,
    /// A miss causes a major fault.
    Faults,
    /// A miss makes a device read.
    Device,
}

/// Reads or writes one chunk at a time.
pub(crate) trait Engine {
    /// Sign of a miss.
    const SIGN: Sign;

    /// Whether it implements [`look`](Self::look).
    const LOOKS: bool = false;

    /// Reads the residency before the operation at this offset, outside of its latency.
    fn look(&mut self, _offset: u64) -> io::Result<()> {
        Ok(())
    }

    /// Performs one operation at this offset.
    fn at(&mut self, offset: u64) -> io::Result<Done>;

    /// Whether it failed without the operation noticing.
    fn is_lost(&self) -> bool {
        false
    }
}

/// Page-aligned memory, for direct I/O and for constant costs of copies.
#[derive(Debug)]
pub(crate) struct Buffer {
    address: usize,
    len: usize,
    /// The mapped size.
    whole: usize,
}

/// From this size on, copies to scattered pages cost some per cent more, because the pages conflict
/// in the CPU's caches; a huge page avoids this.
const LARGE: u64 = 256 << 10;

/// The huge page size of all architectures with 4 KiB pages; on others the advice has no effect.
const HUGE: u64 = 2 << 20;

impl Buffer {
    /// A buffer with all pages touched, so that no operation pays for its page faults.
    ///
    /// # Errors
    /// Not enough memory.
    pub fn new(len: usize) -> io::Result<Buffer> {
        Buffer::mapped(len, len)
    }

    /// The same in huge pages, if it is large and the kernel has some: for a thread's only buffer.
    ///
    /// # Errors
    /// Not enough memory.
    pub fn only(len: usize) -> io::Result<Buffer> {
        Buffer::mapped(len, Buffer::only_takes(len as u64) as usize)
    }

    /// The maximum memory that it takes.
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
            // SAFETY: the range is the mapping; the advice changes no memory. A refusal does no
            // harm.
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
