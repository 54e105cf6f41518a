//! Two pieces of a line at the same moment: whether work that moves between threads shares the line falsely.
//!
//! Goroutines, async tasks and work stealing move work from thread to thread. Over a whole round each thread then
//! touches each variable, although at any moment each variable is one thread's. So pairs of pieces are watched at once, in
//! windows shorter than a scheduler's slice, and each window is judged by itself.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::Watch;
use super::arm::NoWatch;
use super::glance::{Glance, WORD};
use super::pair::PairVerdict;

/// How long a pair is watched at a time. A hit takes 10 to 50 microseconds, so that a thread is seen at one place and
/// hardly at the next one.
const WINDOW: Duration = Duration::from_micros(200);

/// A window that took longer is no moment: this process had to wait for a CPU, and work may have moved meanwhile.
const LONGEST: Duration = Duration::from_millis(1);

/// Pairs that are watched after each round.
const A_ROUND: usize = 16;

/// A word that was touched in fewer than one in this number of rounds is ignored.
const RARELY: usize = 10;

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
        let known: Vec<PairVerdict> = wanted
            .iter()
            .map(|(pair, _)| {
                self.pairs
                    .get(pair)
                    .map_or(PairVerdict::Open, |pair| pair.known())
            })
            .collect();
        let has = |wanted| known.contains(&wanted);
        Some(
            match (has(PairVerdict::Apart), has(PairVerdict::Together)) {
                (true, true) => Moments::Mixed,
                (true, false) => Moments::Apart,
                (false, _) if has(PairVerdict::Open) => Moments::Open,
                (false, _) => Moments::Together,
            },
        )
    }

    /// The windows in which two threads were apart, and all of that pair, where they were most often.
    pub(super) fn apart(&self) -> (usize, usize) {
        let pairs = self.pairs.values().map(|pair| (pair.apart, pair.windows));
        pairs.max().unwrap_or_default()
    }
}
