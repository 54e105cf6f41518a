//! [`Waiting`]: blocks that were passed to foyer for its disk and have not been seen there yet.
//!
//! foyer does not report writes that the disk refused: its waiters get success, and no metric
//! changes. Written blocks are in its index, so this module looks there.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::BlockKey;

/// Maximum number of keys to keep: 1 MiB of them.
const MOST: u64 = 64 << 10;

/// Blocks that were passed to foyer for its disk and have not been seen there yet. Without any, foyer is neither awaited
/// nor closed: closing it would use up a segment of the disk, and discard the blocks of an earlier start in it.
#[derive(Debug)]
pub(super) struct Waiting {
    given: Mutex<Given>,
    /// Maximum number to look for: of more, some may have been evicted again by then.
    most: usize,
}

/// The blocks given to foyer, oldest first.
#[derive(Debug, Default)]
pub(super) struct Given {
    keys: VecDeque<BlockKey>,
    /// Count of dropped blocks when the first of these was passed.
    dropped_before: u64,
}

impl Waiting {
    /// Makes a record for a disk of `capacity` bytes.
    pub(super) fn new(capacity: u64, block: u64) -> Self {
        let most = (capacity / 4 / block.max(1)).clamp(16, MOST);
        Self {
            given: Mutex::default(),
            most: usize::try_from(most).unwrap_or(usize::MAX),
        }
    }

    /// Gives a block to foyer by `give`. `dropped` is the number of blocks dropped so far.
    ///
    /// Calls are serialized, as foyer numbers a block first and then queues it. Two concurrent
    /// calls could put the later number first in a segment. At the next start foyer takes
    /// everything after a decreasing number for the remains of an older use of the segment, and
    /// discards it.
    pub(super) fn give(&self, key: BlockKey, dropped: u64, give: impl FnOnce()) {
        let mut given = self.given();
        give();
        if given.keys.is_empty() {
            given.dropped_before = dropped;
        }
        given.keys.push_back(key);
        if given.keys.len() > self.most {
            given.keys.pop_front();
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.given().keys.is_empty()
    }

    /// Takes the given blocks, so that the caller can wait for them. Blocks that are not yet
    /// [seen](Taken::seen) continue to wait.
    pub(super) fn take(&self) -> Option<Taken<'_>> {
        let given = std::mem::take(&mut *self.given());
        (!given.keys.is_empty()).then_some(Taken {
            waiting: self,
            given,
        })
    }

    fn given(&self) -> MutexGuard<'_, Given> {
        // A panic leaves no half-done state.
        self.given.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Blocks that are waited for.
pub(super) struct Taken<'a> {
    waiting: &'a Waiting,
    given: Given,
}

impl Taken<'_> {
    /// Ends the wait. Returns how many are not there, beyond those that were counted as dropped meanwhile.
    pub(super) fn seen(mut self, dropped: u64, is_there: impl Fn(&BlockKey) -> bool) -> u64 {
        let Given {
            keys,
            dropped_before,
        } = std::mem::take(&mut self.given);
        let mut missing: Vec<BlockKey> = keys.into_iter().filter(|key| !is_there(key)).collect();
        missing.sort_unstable();
        missing.dedup();
        let missing = u64::try_from(missing.len()).unwrap_or(u64::MAX);
        missing.saturating_sub(dropped.saturating_sub(dropped_before))
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        if self.given.keys.is_empty() {
            return;
        }
        let mut given = self.waiting.given();
        let since = std::mem::replace(&mut *given, std::mem::take(&mut self.given));
        given.keys.extend(since.keys);
        while given.keys.len() > self.waiting.most {
            given.keys.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u8) -> BlockKey {
        BlockKey::from_bytes([number; 16])
    }

    fn given(waiting: &Waiting, keys: std::ops::Range<u8>, dropped: u64) {
        keys.for_each(|number| waiting.give(key(number), dropped, || {}));
    }

    #[test]
    fn what_is_not_there_is_counted_once() {
        let waiting = Waiting::new(64 << 20, 64 << 10);
        assert!(waiting.take().is_none(), "nothing is waited for");
        given(&waiting, 0..10, 100);
        given(&waiting, 0..2, 101);
        let taken = waiting.take().expect("there are some");
        assert!(waiting.is_empty());
        // Three are not there, of which foyer counted one.
        assert_eq!(taken.seen(101, |found| *found > key(2)), 2);
        assert!(waiting.is_empty(), "they were looked for");
    }

    #[test]
    fn what_was_not_looked_for_waits_still() {
        let waiting = Waiting::new(0, 1);
        given(&waiting, 0..4, 5);
        let taken = waiting.take();
        given(&waiting, 4..8, 6);
        drop(taken);
        let taken = waiting.take().expect("they wait");
        assert_eq!(taken.seen(6, |_| false), 7, "of eight, one was counted");
        given(&waiting, 0..40, 6);
        let taken = waiting.take().expect("the newest");
        assert_eq!(taken.seen(6, |_| false), 16);
    }
}
