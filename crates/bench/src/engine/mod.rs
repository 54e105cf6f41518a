//! One way to read or write, for one thread.
//!
//! # Layout
//! - [`Engine`]: what the loop of a thread calls.
//! - `pread`: with and without `RWF_NOWAIT`, and around the cache. `map`: mapped; `bus`: a file that becomes shorter
//!   under a mapping. `write`. `uring`.

mod bus;
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
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

impl Buffer {
    /// All of it is touched once, so that no operation pays for its page faults.
    pub fn new(len: usize) -> Buffer {
        let page = cachewise_sys::page_size().get() as usize;
        // Not zeroed memory of the kernel's, which would be given page by page when it is first written to.
        let bytes = vec![1; len + page];
        let start = bytes.as_ptr().align_offset(page).min(page);
        Buffer { bytes, start, len }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub fn as_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.len]
    }
}
