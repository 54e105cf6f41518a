//! [`Block`]: what a scan hands out, and whose memory it is.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// A part of a file.
///
/// Its memory is used again once it is dropped, so drop it soon.
pub struct Block {
    path: Arc<Path>,
    offset: u64,
    len: usize,
    buffer: Vec<u8>,
    buffers: Buffers,
}

impl Block {
    /// Makes a block of data in memory of [`Buffers::take`], which gets the memory back.
    pub(super) fn new(
        path: Arc<Path>,
        offset: u64,
        len: usize,
        buffer: Vec<u8>,
        buffers: &Buffers,
    ) -> Self {
        Self {
            path,
            offset,
            len,
            buffer,
            buffers: buffers.clone(),
        }
    }

    /// Returns the file, as it was given.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns where in the file it begins.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns what it holds: at least one byte.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.buffer[..self.len]
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        self.buffers.put(std::mem::take(&mut self.buffer));
    }
}

impl fmt::Debug for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Block")
            .field("path", &self.path)
            .field("offset", &self.offset)
            .field("len", &self.len)
            .finish()
    }
}

/// Memory that blocks have given back: fresh memory for each would cost a page fault a page.
#[derive(Clone, Default)]
pub(super) struct Buffers(Arc<Mutex<Vec<Vec<u8>>>>);

impl Buffers {
    pub fn take(&self, len: usize) -> Vec<u8> {
        let mut spare = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut buffer = spare.pop().unwrap_or_default();
        buffer.resize(len, 0);
        buffer
    }

    fn put(&self, buffer: Vec<u8>) {
        const MOST: usize = 8;
        let mut spare = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if spare.len() < MOST {
            spare.push(buffer);
        }
    }
}
