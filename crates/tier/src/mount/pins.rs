//! Small files that are read whole when they are opened, so that readers keep the state that they opened.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use crate::{File, Kind};

/// Share of the memory for blocks that open files may hold beside it.
const SHARE: u64 = 4;

/// The bound on all bytes that open files hold.
#[derive(Debug)]
pub(super) struct Pins {
    /// Maximum size of a file that is read when it is opened; 0 for none.
    largest: u64,
    most: u64,
    held: AtomicU64,
}

/// The bytes of a file, as long as it is open.
#[derive(Debug, Default)]
pub(super) struct Pin(Mutex<PinState>);

#[derive(Debug, Default)]
struct PinState {
    opens: u64,
    bytes: Option<Pinned>,
}

#[derive(Debug)]
struct Pinned {
    bytes: Bytes,
    /// Part of `Pins::held`.
    len: u64,
    of: Arc<Pins>,
}

impl Drop for Pinned {
    fn drop(&mut self) {
        self.of.held.fetch_sub(self.len, Ordering::Relaxed);
    }
}

impl Pins {
    /// `memory` is that of the blocks, in bytes.
    pub(super) fn new(largest: u64, memory: u64) -> Arc<Self> {
        Arc::new(Self {
            largest,
            most: memory / SHARE,
            held: AtomicU64::new(0),
        })
    }

    /// Whether files are read when they are opened.
    pub(super) fn are_used(&self) -> bool {
        self.largest > 0
    }

    /// Whether a file is small enough.
    pub(super) fn takes(&self, file: &File) -> bool {
        file.meta().kind == Kind::File && (1..=self.largest).contains(&file.meta().size)
    }

    /// Takes bytes, if there is room.
    fn pinned(self: &Arc<Self>, bytes: Bytes) -> Option<Pinned> {
        let len = u64::try_from(bytes.len()).ok()?;
        let before = self.held.fetch_add(len, Ordering::Relaxed);
        // Dropped, and subtracted again, where it is too much.
        let pinned = Pinned {
            bytes,
            len,
            of: Arc::clone(self),
        };
        (before.saturating_add(len) <= self.most).then_some(pinned)
    }
}

impl Pin {
    fn state(&self) -> MutexGuard<'_, PinState> {
        // Each change is whole before anything can panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the bytes of the whole file, if they are held.
    pub(super) fn bytes(&self) -> Option<Bytes> {
        let state = self.state();
        state.bytes.as_ref().map(|pinned| pinned.bytes.clone())
    }

    /// Counts an open of a file whose bytes are held.
    pub(super) fn again(&self) -> bool {
        let mut state = self.state();
        state.opens += u64::from(state.bytes.is_some());
        state.bytes.is_some()
    }

    /// Counts an open with these bytes, if there is room.
    pub(super) fn hold(&self, bytes: Bytes, pins: &Arc<Pins>) -> bool {
        let mut state = self.state();
        if state.bytes.is_none() {
            state.bytes = pins.pinned(bytes);
        }
        state.opens += u64::from(state.bytes.is_some());
        state.bytes.is_some()
    }

    /// Counts the end of an open; the last one frees the bytes.
    pub(super) fn release(&self) {
        let mut state = self.state();
        state.opens = state.opens.saturating_sub(1);
        if state.opens == 0 {
            state.bytes = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_files_hold_a_bounded_number_of_bytes() {
        let pins = Pins::new(100, 4 * 150);
        let (one, other) = (Pin::default(), Pin::default());
        let bytes = Bytes::from(vec![7; 100]);
        assert!(!one.again(), "not yet");
        assert!(one.hold(bytes.clone(), &pins));
        assert!(one.again(), "opened twice");
        assert!(!other.hold(bytes.clone(), &pins), "no room");
        assert_eq!(other.bytes(), None);
        one.release();
        assert_eq!(one.bytes(), Some(bytes.clone()), "open still");
        one.release();
        assert_eq!(one.bytes(), None);
        assert!(other.hold(bytes.clone(), &pins), "there is room again");
        drop(other);
        assert!(one.hold(bytes, &pins), "of an inode that ends");
        assert_eq!(pins.held.load(Ordering::Relaxed), 100);
    }
}
