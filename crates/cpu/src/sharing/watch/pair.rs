//! [`Pair`]: sums over the windows of two pieces, and their verdict.

use std::collections::BTreeMap;

use super::glance::Glance;

/// Number of windows that must agree.
const FEWEST: usize = 5;

/// One window in this number may contradict: work may move within it. For two swaps in 5 ms, every
/// third window of 1 ms showed both, and hardly any window of 200 microseconds did.
const EXCEPTION: usize = 5;

/// Observations of two pieces in windows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Pair {
    /// All windows.
    pub(super) windows: usize,
    /// One thread touched the first piece alone, another one the second alone, and one of them wrote.
    pub(super) apart: usize,
    /// Two threads touched the same piece, and one of them wrote.
    together: usize,
    /// All that touched one of them touched both, as often: by one access, or one after the other.
    whole: usize,
}

/// The verdict on a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PairVerdict {
    /// At any moment each piece is one thread's.
    Apart,
    /// Threads use the same bytes at the same time.
    Together,
    /// They are used as one.
    Whole,
    /// Some windows say this, and some that; or they are too few.
    Open,
}

impl Pair {
    pub(super) fn known(self) -> PairVerdict {
        let same = self.together + self.whole;
        if self.apart >= FEWEST && self.together * EXCEPTION <= self.apart {
            PairVerdict::Apart
        } else if same >= FEWEST && self.apart * EXCEPTION * 4 <= same {
            match self.together >= FEWEST && self.together * 4 >= same {
                true => PairVerdict::Together,
                false => PairVerdict::Whole,
            }
        } else {
            PairVerdict::Open
        }
    }

    pub(super) fn add(&mut self, glances: &[Glance], (one, other): (u64, u64)) {
        // For each thread, its touches of the first and of the second piece, and how many of them wrote.
        let mut threads: BTreeMap<u32, [(u64, u64); 2]> = BTreeMap::new();
        for glance in glances {
            let place = match glance.at {
                at if at == one => 0,
                at if at == other => 1,
                _ => continue,
            };
            let entry = threads.entry(glance.thread).or_default();
            entry[place] = (glance.writes + glance.reads, glance.writes);
        }
        let users: Vec<[(u64, u64); 2]> = threads
            .into_values()
            .filter(|[first, second]| first.0 + second.0 > 0)
            .collect();
        let at = |place: usize| users.iter().filter(move |user| user[place].0 > 0);
        let is_shared =
            |place: usize| at(place).count() > 1 && at(place).any(|user| user[place].1 > 0);
        let only = |place: usize| at(place).filter(move |user| user[1 - place].0 == 0);
        let writes = |place: usize| only(place).any(|user| user[place].1 > 0);
        let both = only(0).next().is_some() && only(1).next().is_some();
        self.windows += 1;
        self.apart += usize::from(both && (writes(0) || writes(1)));
        self.together += usize::from(is_shared(0) || is_shared(1));
        // A window may begin between the two.
        let is_whole = !users.is_empty()
            && users.iter().all(|[first, second]| {
                first.0.min(second.0) > 0 && first.0.abs_diff(second.0) <= 1
            });
        self.whole += usize::from(is_whole && !is_shared(0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn glance(thread: u32, at: u64, writes: u64) -> Glance {
        Glance {
            thread,
            at,
            writes,
            reads: 0,
            ran: true,
        }
    }

    fn pair(windows: &[&[Glance]]) -> Pair {
        let mut pair = Pair::default();
        for glances in windows {
            pair.add(glances, (0, 8));
        }
        pair
    }

    #[test]
    fn threads_that_swap_variables_are_apart_at_each_moment() {
        let straight = [glance(1, 0, 9), glance(2, 8, 9)];
        let crossed = [glance(2, 0, 9), glance(1, 8, 9)];
        let swap = [
            glance(1, 0, 9),
            glance(1, 8, 9),
            glance(2, 0, 9),
            glance(2, 8, 9),
        ];
        let windows: Vec<&[Glance]> = (0..20)
            .map(|number| match number {
                0 => &swap[..],
                number if number % 2 == 0 => &straight,
                _ => &crossed,
            })
            .collect();
        assert_eq!(pair(&windows).known(), PairVerdict::Apart);
        assert_eq!(pair(&windows[..4]).known(), PairVerdict::Open, "too few");
    }

    #[test]
    fn threads_at_one_variable_are_together() {
        let same = [glance(1, 0, 9), glance(2, 0, 9)];
        assert_eq!(pair(&[&same[..]; 9]).known(), PairVerdict::Together);
        let wide = [glance(1, 0, 9), glance(1, 8, 9)];
        assert_eq!(pair(&[&wide[..]; 9]).known(), PairVerdict::Whole, "in turn");
        let moved = [glance(1, 0, 9), glance(1, 8, 5)];
        assert_eq!(
            pair(&[&moved[..]; 9]).known(),
            PairVerdict::Open,
            "one after the other, and not as often"
        );
        let beside = [glance(1, 0, 9), glance(2, 8, 9)];
        let windows = [[&same[..]; 9], [&beside[..]; 9]].concat();
        assert_eq!(
            pair(&windows).known(),
            PairVerdict::Open,
            "now this, now that"
        );
        let alone = [glance(1, 0, 9)];
        assert_eq!(
            pair(&[&alone[..]; 30]).known(),
            PairVerdict::Open,
            "one thread"
        );
        assert_eq!(
            pair(&[&[][..]; 30]).known(),
            PairVerdict::Open,
            "not touched"
        );
    }

    #[test]
    fn reading_beside_a_reader_is_no_conflict() {
        let read = |thread, at| Glance {
            reads: 9,
            ..glance(thread, at, 0)
        };
        let both = [read(1, 0), read(2, 8)];
        assert_eq!(pair(&[&both[..]; 9]).apart, 0, "neither writes");
        let one = [read(1, 0), glance(2, 8, 9)];
        assert_eq!(pair(&[&one[..]; 9]).apart, 9, "one of them writes");
    }
}
