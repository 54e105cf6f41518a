//! A ring buffer of the kernel, read in batches.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use libbpf_rs::{MapHandle, RingBuffer, RingBufferBuilder};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::error::Error;

/// A ring, and its records that are parsed.
pub(crate) struct Ring<T> {
    ring: RingBuffer<'static>,
    /// The callback of the ring adds to it.
    arrived: Arc<Mutex<Vec<T>>>,
    batch: usize,
    /// The operation that an error names.
    operation: &'static str,
    // Dropped last: the ring is in it.
    map: MapHandle,
}

impl<T: Send + 'static> Ring<T> {
    /// Opens a ring of which each reading returns at most `batch` records. `parse` makes any number of them from the bytes
    /// of one.
    pub(crate) fn open<P: IntoIterator<Item = T>>(
        map: MapHandle,
        batch: usize,
        operation: &'static str,
        parse: impl Fn(&[u8]) -> P + Send + 'static,
    ) -> Result<Self, Error> {
        let arrived = Arc::new(Mutex::new(Vec::with_capacity(batch)));
        let inbox = Arc::clone(&arrived);
        let failed = |source: libbpf_rs::Error| error(operation, source);
        let mut ring = RingBufferBuilder::new();
        ring.add(&map, move |bytes| {
            inbox
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .extend(parse(bytes));
            0
        })
        .map_err(failed)?;
        Ok(Ring {
            ring: ring.build().map_err(failed)?,
            arrived,
            batch,
            operation,
            map,
        })
    }

    /// Waits until the kernel wakes readers of the ring, and at most so long.
    pub(crate) fn wait(&self, longest: Duration) {
        // Not the ring's epoll, which costs a second look at it.
        wait(self.map.as_fd(), longest);
    }

    /// The same for a thread that does not have the ring.
    pub(crate) fn waiter(&self) -> Result<RingWaiter, Error> {
        let ring = self.map.as_fd().try_clone_to_owned();
        let ring = ring.map_err(|source| error(self.operation, source.into()))?;
        Ok(RingWaiter { ring })
    }

    /// Replaces `records` by those that have come; at most a batch.
    pub(crate) fn read(&self, records: &mut Vec<T>) -> Result<(), Error> {
        records.clear();
        let read = self.ring.consume_raw_n(self.batch);
        if read < 0 {
            let source = libbpf_rs::Error::from_raw_os_error(-read);
            return Err(error(self.operation, source));
        }
        let mut arrived = self.arrived.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::swap(records, &mut arrived);
        Ok(())
    }
}

/// Waits for a ring without access to its records.
#[derive(Debug)]
pub struct RingWaiter {
    ring: OwnedFd,
}

impl RingWaiter {
    /// Waits as the ring's own `wait` does.
    pub fn wait(&self, longest: Duration) {
        wait(self.ring.as_fd(), longest);
    }
}

fn wait(ring: BorrowedFd<'_>, longest: Duration) {
    let longest = Timespec::try_from(longest).ok();
    // Interrupted or not: the caller reads what has come.
    let _ = poll(&mut [PollFd::new(&ring, PollFlags::IN)], longest.as_ref());
}

fn error(operation: &'static str, source: libbpf_rs::Error) -> Error {
    Error::Map {
        operation,
        source: source.into(),
    }
}
