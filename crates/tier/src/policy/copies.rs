//! [`Copies`]: when a client looks for a copy of a block before the block itself.

use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::lease::LeaseTimes;
use crate::BlockKey;

/// Blocks that a client tries copies of after its start, or after a quiet time: whether others start with it is not known
/// yet, and when it is, they have asked one node for all of them.
const FIRST: u32 = 8;

/// Time without requests after which a client does not know what others read.
const QUIET: Duration = Duration::from_secs(60);

/// While nodes are busy and the reads of other clients are not known, one block of this many is tried.
const TRIED: u64 = 16;

/// Copies that other clients have made, for one that this client makes: with fewer, a block has too few readers.
const FOUND: i32 = 4;

/// Copies that a client makes, in a row at most, before it does without.
const MADE: i32 = 2;

/// When copies are looked for. A copy that no other client reads costs its maker two more requests and the nodes a block, so
/// copies are used where others read the same blocks now and nodes are busy with them, and tried where that is not known.
/// They are not used while a client makes more than a part of those that it wants.
#[derive(Debug)]
pub(super) struct Copies {
    /// Copies of a block, with the first.
    number: usize,
    first: Mutex<First>,
    /// Copies found, less [`FOUND`] for each that was made, within bounds.
    gain: AtomicI32,
}

#[derive(Debug)]
struct First {
    asked: Instant,
    left: u32,
}

impl Copies {
    pub(super) fn new(number: usize) -> Self {
        let (asked, left) = (Instant::now(), FIRST);
        Self {
            number,
            first: Mutex::new(First { asked, left }),
            gain: AtomicI32::new(0),
        }
    }

    /// Records that a copy was there.
    pub(super) fn found(&self) {
        self.gains(1);
    }

    /// Records that this client makes one.
    pub(super) fn makes(&self) {
        self.gains(-FOUND);
    }

    fn gains(&self, gain: i32) {
        let bounded = |gain: i32| gain.clamp(-MADE * FOUND, MADE * FOUND);
        let update = |before: i32| Some(bounded(before.saturating_add(gain)));
        // The update is never refused.
        let _ = self
            .gain
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, update);
    }

    /// Returns the copy to look for, a random one; `None` for the block itself.
    pub(super) fn of(
        &self,
        key: &BlockKey,
        times: Option<LeaseTimes>,
        are_busy: bool,
    ) -> Option<BlockKey> {
        if self.number < 2 {
            return None;
        }
        let is_contended = times?.is_contended;
        let is_first = self.is_first();
        // The same blocks in all clients, so that they meet.
        let is_tried = || key.seed().is_multiple_of(TRIED);
        let pays = self.gain.load(Ordering::Relaxed) > -MADE * FOUND;
        let is_due = pays && (is_first || are_busy && is_contended) || are_busy && is_tried();
        let number = fastrand::usize(..self.number);
        (is_due && number > 0).then(|| key.copy(number))
    }

    /// Returns the keys of all copies but the first.
    pub(super) fn all(&self, key: BlockKey) -> impl Iterator<Item = BlockKey> + use<> {
        (1..self.number).map(move |number| key.copy(number))
    }

    fn is_first(&self) -> bool {
        let mut first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if now.duration_since(first.asked) > QUIET {
            first.left = FIRST;
        }
        first.asked = now;
        let is_first = first.left > 0;
        first.left = first.left.saturating_sub(1);
        is_first
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Settings;
    use crate::policy::lease::Leases;

    /// Returns how many of 1,000 blocks are looked for in a copy.
    fn looked_for(copies: &Copies, times: LeaseTimes, are_busy: bool) -> usize {
        let keys = (0..1_000).map(|number| BlockKey::named("test", &[&u64::to_le_bytes(number)]));
        keys.filter(|key| copies.of(key, Some(times), are_busy).is_some())
            .count()
    }

    #[tokio::test(start_paused = true)]
    async fn copies_are_read_while_busy_with_the_same_blocks_and_tried_where_that_is_unknown() {
        fastrand::seed(1);
        let leases = Leases::new(&Settings::default());
        let times = leases.times().expect("leases are used");
        let contended = LeaseTimes {
            is_contended: true,
            ..times
        };
        let copies = Copies::new(1 << 20);
        let key = BlockKey::from_bytes([1; 16]);
        assert_eq!(copies.of(&key, None, true), None, "without leases");
        assert_eq!(
            looked_for(&copies, times, false),
            FIRST as usize,
            "at the start"
        );
        assert_eq!(looked_for(&copies, contended, false), 0, "of idle nodes");
        let tried = looked_for(&copies, times, true);
        assert!((30..100).contains(&tried), "a sixteenth: {tried}");
        assert_eq!(looked_for(&copies, contended, true), 1_000);
        for _ in 0..MADE {
            copies.makes();
        }
        let tried = looked_for(&copies, contended, true);
        assert!(
            (30..100).contains(&tried),
            "other clients read too few of them: {tried}"
        );
        copies.found();
        assert_eq!(looked_for(&copies, contended, true), 1_000, "they do now");
        tokio::time::advance(QUIET * 2).await;
        assert_eq!(
            looked_for(&copies, times, false),
            FIRST as usize,
            "once more"
        );
        assert_eq!(looked_for(&Copies::new(1), contended, true), 0, "of none");
        let half = looked_for(&Copies::new(2), contended, true);
        assert!((400..600).contains(&half), "each is read as often: {half}");
    }
}
