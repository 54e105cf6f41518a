//! Parts of counts that a later interval takes back.
//!
//! The kernel's side books a request when it begins, and corrects it as it goes on: pages that were counted as hits turn out
//! to be misses, and what a request did not do is taken back. If an interval ends in between, the correction makes a count of
//! the next one less than zero. Nothing can be taken from an interval that has been returned: the count is 0, and the rest
//! is taken from the row's next interval, so that sums over intervals are right.

use std::collections::HashMap;

use cachewise_model::Counter;

use crate::record::Booked;

/// Intervals for which a part is kept of a row that is not used any more.
const KEPT: u32 = 64;

/// The parts that are to be added to the next interval of each row, by the row's key.
#[derive(Debug, Default)]
pub(crate) struct Carried {
    rows: HashMap<Box<[u8]>, (Booked, u32)>,
}

impl Carried {
    /// The counts of a row in an interval, none of which is less than zero.
    pub(crate) fn settle(&mut self, key: &[u8], mut booked: Booked) -> Booked {
        // Most of the time there is none.
        if !self.rows.is_empty()
            && let Some((before, _)) = self.rows.remove(key)
        {
            booked.add(&before);
        }
        if let Some(rest) = split(&mut booked) {
            self.rows.insert(key.into(), (rest, 0));
        }
        booked
    }

    /// An interval has ended.
    pub(crate) fn end_interval(&mut self) {
        self.rows.retain(|_, (_, intervals)| {
            *intervals += 1;
            *intervals <= KEPT
        });
    }
}

/// Takes what is less than zero out of the counts, and what contradicts the zeros that are left; `None`: nothing is.
///
/// Requested pages are hits, misses and unserved pages, in each interval, and readahead hits are a part of the hits.
fn split(booked: &mut Booked) -> Option<Booked> {
    use Counter::{
        ReadHitPages, ReadMissedPages, ReadRequestedPages, ReadUnservedPages, ReadaheadHitPages,
    };
    if !Counter::ALL
        .iter()
        .any(|counter| booked.signed(*counter) < 0)
    {
        return None;
    }
    let mut rest = Booked::default();
    let mut move_part = |booked: &mut Booked, counter, part: i64| {
        booked.add_to(counter, part.wrapping_neg().cast_unsigned());
        rest.add_to(counter, part.cast_unsigned());
    };
    for counter in Counter::ALL {
        let count = booked.signed(*counter);
        move_part(booked, *counter, count.min(0));
    }
    let sum = |booked: &Booked| {
        let parts = [ReadHitPages, ReadMissedPages, ReadUnservedPages];
        parts.map(|part| booked.signed(part)).iter().sum::<i64>()
    };
    for counter in [ReadMissedPages, ReadHitPages, ReadUnservedPages] {
        let more = sum(booked) - booked.signed(ReadRequestedPages);
        let part = more.clamp(0, booked.signed(counter));
        move_part(booked, counter, part);
    }
    let fewer = booked.signed(ReadRequestedPages) - sum(booked);
    move_part(booked, ReadRequestedPages, fewer.max(0));
    let more = booked.signed(ReadaheadHitPages) - booked.signed(ReadHitPages);
    move_part(booked, ReadaheadHitPages, more.max(0));
    Some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    const COUNTERS: [Counter; 5] = [
        Counter::ReadRequestedPages,
        Counter::ReadHitPages,
        Counter::ReadMissedPages,
        Counter::ReadUnservedPages,
        Counter::ReadaheadHitPages,
    ];

    fn booked(counts: [i64; 5]) -> Booked {
        let mut booked = Booked::default();
        for (counter, count) in COUNTERS.into_iter().zip(counts) {
            booked.add_to(counter, count.cast_unsigned());
        }
        booked
    }

    fn counts(booked: &Booked) -> [i64; 5] {
        COUNTERS.map(|counter| booked.signed(counter))
    }

    /// Settles intervals of one row; returns them as they are shown.
    fn shown(intervals: &[[i64; 5]]) -> Vec<[i64; 5]> {
        let mut carried = Carried::default();
        let settle = |interval: &[i64; 5]| {
            let settled = carried.settle(b"row", booked(*interval));
            carried.end_interval();
            counts(&settled)
        };
        intervals.iter().map(settle).collect()
    }

    #[test]
    fn hits_that_turn_out_to_be_misses_are_taken_from_the_next_interval() {
        let shown = shown(&[[8, 8, 0, 0, 0], [0, -3, 3, 0, 0], [10, 10, 0, 0, 0]]);
        assert_eq!(shown[1], [0; 5], "no interval contradicts itself");
        assert_eq!(shown[2], [10, 7, 3, 0, 0], "in all it is what was done");
    }

    #[test]
    fn a_request_that_is_taken_back_is_taken_from_the_next_intervals() {
        let shown = shown(&[
            [5, 5, 0, 0, 2],
            [-5, -5, 0, 0, -2],
            [2, 1, 1, 0, 1],
            [9, 9, 0, 0, 4],
        ]);
        let sum: [i64; 5] = std::array::from_fn(|of| shown.iter().map(|one| one[of]).sum());
        assert_eq!(sum, [11, 10, 1, 0, 5], "{shown:?}");
    }

    #[test]
    fn no_interval_contradicts_itself() {
        for interval in [
            [0, -3, 3, 0, 0],
            [4, -1, 5, 0, 0],
            [-2, 3, -5, 0, 0],
            [3, 9, -4, -2, 7],
            [-1, -1, 0, 0, 0],
            [6, 2, 4, 0, -1],
        ] {
            let [requested, hits, misses, unserved, ahead] = shown(&[interval])[0];
            assert_eq!(requested, hits + misses + unserved, "{interval:?}");
            assert!(ahead <= hits, "{interval:?}");
            assert!(hits >= 0 && misses >= 0 && unserved >= 0, "{interval:?}");
        }
    }

    #[test]
    fn the_rest_of_a_row_that_is_not_used_any_more_is_forgotten() {
        let mut carried = Carried::default();
        carried.settle(b"row", booked([0, -3, 3, 0, 0]));
        for _ in 0..=KEPT {
            carried.end_interval();
        }
        let later = carried.settle(b"row", booked([9, 9, 0, 0, 0]));
        assert_eq!(counts(&later), [9, 9, 0, 0, 0]);
    }
}
