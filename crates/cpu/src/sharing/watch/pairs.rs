//! Two pieces of a line at the same moment: whether work that moves between threads shares the line falsely.
//!
//! Goroutines, async tasks and work stealing move work from thread to thread. Over a whole round each thread then
//! touches each variable, although at any moment each variable is one thread's. So pairs of pieces are watched at once, in
//! windows shorter than a scheduler's slice, and each window is judged by itself.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::{Glance, NoWatch, WORD, Watch};

/// How long a pair is watched at a time. A hit takes 10 to 50 microseconds, so that a thread is seen at one place and
/// hardly at the next one.
const WINDOW: Duration = Duration::from_micros(200);

/// A window that took longer is no moment: this process had to wait for a CPU, and work may have moved meanwhile.
const LONGEST: Duration = Duration::from_millis(1);

/// Pairs that are watched after each round.
const A_ROUND: usize = 16;

/// So many windows have to show the same.
const FEWEST: usize = 5;

/// One window of so many may show the opposite: work may move within it. Of two swaps in 5 ms windows of 1 ms showed every
/// third time both, and windows of 200 microseconds hardly ever.
const EXCEPTION: usize = 5;

/// A word that was touched in fewer than one of so many rounds plays no part.
const RARELY: usize = 10;

/// Observations of two pieces in windows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Pair {
    /// All windows.
    windows: usize,
    /// One thread touched the first piece alone, another one the second alone, and one of them wrote.
    pub(super) apart: usize,
    /// Two threads touched the same piece, and one of them wrote.
    together: usize,
    /// All that touched one of them touched both, as often: by one access, or one after the other.
    whole: usize,
}

/// The verdict on a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
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
    fn known(self) -> Known {
        let same = self.together + self.whole;
        if self.apart >= FEWEST && self.together * EXCEPTION <= self.apart {
            Known::Apart
        } else if same >= FEWEST && self.apart * EXCEPTION * 4 <= same {
            match self.together >= FEWEST && self.together * 4 >= same {
                true => Known::Together,
                false => Known::Whole,
            }
        } else {
            Known::Open
        }
    }

    fn add(&mut self, glances: &[Glance], (one, other): (u64, u64)) {
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

/// The verdict of all pairs together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moments {
    /// Each variable was one thread's at any moment, and the line several threads'.
    Apart,
    /// Some pairs are apart; in others threads use the same bytes at the same time.
    Mixed,
    /// Nothing lies apart.
    Together,
    /// Too little was seen, or it contradicts itself.
    Open,
}

impl Watch {
    /// Watches some pairs for a moment each, where several threads were seen at the same pieces.
    pub(super) fn moments(&mut self) -> Result<(), NoWatch> {
        let (words, bytes): (Vec<_>, Vec<_>) = self
            .candidates()
            .into_iter()
            .partition(|(_, len)| *len == WORD);
        // By turns, as words are few and tell most.
        for step in 0..A_ROUND {
            let lists = match step % 2 {
                0 => [&words, &bytes],
                _ => [&bytes, &words],
            };
            let Some(list) = lists.into_iter().find(|list| !list.is_empty()) else {
                break;
            };
            let place = (self.next_pair + step) / 2 % list.len();
            let Some(&((one, other), len)) = list.get(place) else {
                continue;
            };
            let (glances, took) = self.window(&[(one, len), (other, len)], WINDOW)?;
            if took <= LONGEST {
                self.add_moment((one, other), &glances);
            }
        }
        self.next_pair = self.next_pair.wrapping_add(A_ROUND);
        Ok(())
    }

    pub(super) fn add_moment(&mut self, pair: (u64, u64), glances: &[Glance]) {
        self.pairs.entry(pair).or_default().add(glances, pair);
    }

    /// The pairs of which moments are needed, with the length of a piece: words that are touched, where a thread has
    /// several of them; and in a word that several threads use its bytes.
    pub(super) fn candidates(&self) -> Vec<((u64, u64), u64)> {
        let used: BTreeMap<u64, usize> = self
            .words
            .iter()
            .filter(|(_, threads)| {
                let rounds: BTreeSet<&usize> = threads.values().flatten().collect();
                rounds.len() * RARELY >= self.rounds
            })
            .map(|(word, threads)| (*word, threads.len()))
            .collect();
        let shared: BTreeSet<u64> = used
            .iter()
            .filter(|(_, threads)| **threads > 1)
            .map(|(word, _)| *word)
            .collect();
        if shared.is_empty() {
            return Vec::new();
        }
        let words: Vec<u64> = used.into_keys().collect();
        let mut pairs = Vec::new();
        for (number, one) in words.iter().enumerate() {
            for other in words.iter().skip(number + 1) {
                pairs.push(((*one, *other), WORD));
            }
        }
        for word in shared {
            let bytes = self.pieces.range(word..word + WORD);
            let bytes = bytes.filter(|(_, piece)| piece.len == 1);
            let mut bytes = bytes.filter(|(at, piece)| !piece.touches(**at).is_empty());
            if let Some((first, _)) = bytes.next() {
                pairs.extend(bytes.map(|(other, _)| ((*first, *other), 1)));
            }
        }
        pairs
    }

    /// Their verdict; `None` where no pair had to be watched.
    pub(super) fn judged(&self) -> Option<Moments> {
        let wanted = self.candidates();
        if wanted.is_empty() {
            return None;
        }
        let known: Vec<Known> = wanted
            .iter()
            .map(|(pair, _)| {
                self.pairs
                    .get(pair)
                    .map_or(Known::Open, |pair| pair.known())
            })
            .collect();
        let has = |wanted| known.contains(&wanted);
        Some(match (has(Known::Apart), has(Known::Together)) {
            (true, true) => Moments::Mixed,
            (true, false) => Moments::Apart,
            (false, _) if has(Known::Open) => Moments::Open,
            (false, _) => Moments::Together,
        })
    }

    /// The windows in which two threads were apart, and all of that pair, where they were most often.
    pub(super) fn apart(&self) -> (usize, usize) {
        let pairs = self.pairs.values().map(|pair| (pair.apart, pair.windows));
        pairs.max().unwrap_or_default()
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
        assert_eq!(pair(&windows).known(), Known::Apart);
        assert_eq!(pair(&windows[..4]).known(), Known::Open, "too few");
    }

    #[test]
    fn threads_at_one_variable_are_together() {
        let same = [glance(1, 0, 9), glance(2, 0, 9)];
        assert_eq!(pair(&[&same[..]; 9]).known(), Known::Together);
        let wide = [glance(1, 0, 9), glance(1, 8, 9)];
        assert_eq!(pair(&[&wide[..]; 9]).known(), Known::Whole, "in turn");
        let moved = [glance(1, 0, 9), glance(1, 8, 5)];
        assert_eq!(
            pair(&[&moved[..]; 9]).known(),
            Known::Open,
            "one after the other, and not as often"
        );
        let beside = [glance(1, 0, 9), glance(2, 8, 9)];
        let windows = [[&same[..]; 9], [&beside[..]; 9]].concat();
        assert_eq!(pair(&windows).known(), Known::Open, "now this, now that");
        let alone = [glance(1, 0, 9)];
        assert_eq!(pair(&[&alone[..]; 30]).known(), Known::Open, "one thread");
        assert_eq!(pair(&[&[][..]; 30]).known(), Known::Open, "not touched");
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
