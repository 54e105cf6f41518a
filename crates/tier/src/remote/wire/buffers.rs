//! [`Buffers`]: memory for blocks on their way in, used again when the block goes.
//!
//! An allocator gives memory of this size back to the kernel, and gets it anew, page by page and cleared: without that a
//! client gets a sixth more bytes for the same CPU time. A cache that is full lets one block go for each that comes.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::{Bytes, BytesMut};

use crate::block::LONGEST_ENVELOPE;

/// Maximum memory kept in unused buffers.
const MOST_FREE: usize = 16 << 20;

/// Minimum room for a read. The last part of a reply must not need a longer buffer.
pub(super) const LEAST_READ: usize = 4 << 10;

/// The longest value that is no block: names and addresses in the reply to `CLUSTER SLOTS`.
const LONGEST_OTHER: usize = 64 << 10;

/// Returns the length of the longest value that makes sense, with blocks of this length.
pub(super) fn longest_reply(block: u64) -> usize {
    usize::try_from(block)
        .unwrap_or(usize::MAX)
        .saturating_add(LONGEST_ENVELOPE)
        .max(LONGEST_OTHER)
}

/// Memory for blocks on their way in.
#[derive(Debug)]
pub(crate) struct Buffers {
    free: Mutex<Vec<BytesMut>>,
    /// How long each is.
    room: usize,
}

impl Buffers {
    /// Buffers for replies of at most this length.
    pub(crate) fn new(longest: usize) -> Arc<Self> {
        Arc::new(Self {
            free: Mutex::default(),
            room: longest.saturating_add(2 * LEAST_READ),
        })
    }

    /// Returns an empty one, with room for a reply.
    pub(crate) fn take(&self) -> BytesMut {
        let free = self.free().pop();
        free.unwrap_or_else(|| BytesMut::with_capacity(self.room))
    }

    /// Shares received bytes with readers. The buffer returns to the pool when the last reader
    /// drops it.
    pub(crate) fn lend(self: &Arc<Self>, filled: BytesMut) -> Bytes {
        Bytes::from_owner(Lent {
            buffer: filled,
            home: Arc::clone(self),
        })
    }

    /// Returns buffers for replies with a block of this length.
    pub(crate) fn for_blocks(block: u64) -> Arc<Self> {
        Self::new(longest_reply(block))
    }

    fn put_back(&self, mut buffer: BytesMut) {
        buffer.clear();
        // Room before the bytes, as a reply's head was there.
        let _ = buffer.try_reclaim(self.room);
        let mut free = self.free();
        let most = MOST_FREE / self.room.max(1);
        if buffer.capacity() >= self.room && free.len() < most.max(1) {
            free.push(buffer);
        }
    }

    fn free(&self) -> std::sync::MutexGuard<'_, Vec<BytesMut>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Lent {
    buffer: BytesMut,
    home: Arc<Buffers>,
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.buffer
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.home.put_back(std::mem::take(&mut self.buffer));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_comes_back_when_the_last_reader_is_gone() {
        let buffers = Buffers::new(64 << 10);
        let mut buffer = buffers.take();
        buffer.extend_from_slice(b"a block");
        let place = buffer.as_ptr();
        let block = buffers.lend(buffer);
        let part = block.slice(2..);
        drop(block);
        assert_ne!(buffers.take().as_ptr(), place, "it is still read");
        assert_eq!(part.as_ref(), b"block");
        drop(part);
        let again = buffers.take();
        assert_eq!((again.as_ptr(), again.len()), (place, 0), "the same, empty");
        assert!(again.capacity() >= (64 << 10) + LEAST_READ);
    }

    #[test]
    fn what_nobody_uses_is_bounded() {
        let buffers = Buffers::new(1 << 20);
        let all: Vec<Bytes> = (0..40).map(|_| buffers.lend(buffers.take())).collect();
        drop(all);
        assert_eq!(buffers.free().len(), 15, "16 MiB, of 1 MiB and some each");
        // One that was cut to a shorter length is not worth keeping.
        buffers.put_back(BytesMut::with_capacity(10));
        assert_eq!(buffers.free().len(), 15);
    }
}
