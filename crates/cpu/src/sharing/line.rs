//! Threads, and the bytes of a line that each touches.

use std::collections::{BTreeMap, BTreeSet};

/// Accesses of a thread to some bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Touch {
    /// The thread's id.
    pub thread: u32,
    /// The address of the first byte.
    pub at: u64,
    /// How many bytes.
    pub len: u64,
    /// How often it wrote to any of them; what reads and writes at once is here.
    pub writes: u64,
    /// How often it only read.
    pub reads: u64,
}

/// Use of a line by threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LineUse {
    /// No thread touched it.
    Nothing,
    /// One thread did.
    OneThread,
    /// Several did, and none wrote.
    OnlyReads,
    /// Several threads did, and the written bytes are those that the others use: true sharing,
    /// which padding does not fix.
    TrueSharing,
    /// Threads use some bytes together, and others alone: padding fixes a part at most.
    Mixed,
    /// One thread writes to bytes that another one does not touch, and that one uses bytes that the first does not.
    FalseSharing,
}

impl LineUse {
    /// The name in machine formats.
    #[must_use]
    pub const fn id(self) -> &'static str {
        match self {
            LineUse::Nothing => "nothing",
            LineUse::OneThread => "one_thread",
            LineUse::OnlyReads => "only_reads",
            LineUse::TrueSharing => "true_sharing",
            LineUse::Mixed => "mixed",
            LineUse::FalseSharing => "false_sharing",
        }
    }
}

/// Samples of a thread in a word: fewer say nothing of where else it is not.
const FEWEST: u64 = 10;

/// A sample does not show the width of an access: accesses within one word may overlap.
const WORD: u64 = 8;

/// Returns the verdict of sampled touches of one line; `None` if they are too few to distinguish
/// false from true sharing.
///
/// One access of thousands is sampled, so a thread without samples in a word may still use it: the
/// holder of a lock was perhaps never sampled at the data that the lock protects. Absence counts
/// only for threads with many samples elsewhere in the line.
#[must_use]
pub fn judge(touches: &[Touch]) -> Option<LineUse> {
    let mut words: BTreeMap<(u32, u64), (u64, u64)> = BTreeMap::new();
    let mut places: BTreeMap<u64, (BTreeSet<u32>, u64)> = BTreeMap::new();
    let touched = |touch: &&Touch| touch.writes > 0 || touch.reads > 0;
    for touch in touches.iter().filter(touched) {
        let (writes, all) = words.entry((touch.thread, touch.at / WORD)).or_default();
        *writes = writes.saturating_add(touch.writes);
        *all = all.saturating_add(touch.writes).saturating_add(touch.reads);
        let (threads, writes) = places.entry(touch.at).or_default();
        threads.insert(touch.thread);
        *writes = writes.saturating_add(touch.writes);
    }
    let threads: BTreeSet<u32> = words.keys().map(|(thread, _)| *thread).collect();
    match threads.len() {
        0 => return Some(LineUse::Nothing),
        1 => return Some(LineUse::OneThread),
        _ => {}
    }
    if words.values().all(|(writes, _)| *writes == 0) {
        return Some(LineUse::OnlyReads);
    }
    // Whether one of a writer and another thread, each with a word where the other was never seen, was seen often.
    let mut is_open = false;
    for ((writer, own), (writes, of_writer)) in &words {
        if *writes == 0 {
            continue;
        }
        for ((user, theirs), (_, of_user)) in &words {
            let is_apart = user != writer
                && !words.contains_key(&(*user, *own))
                && !words.contains_key(&(*writer, *theirs));
            if !is_apart {
                continue;
            }
            if *of_writer.min(of_user) >= FEWEST {
                return Some(LineUse::FalseSharing);
            }
            is_open |= *of_writer.max(of_user) >= FEWEST;
        }
    }
    let is_shared = places
        .values()
        .any(|(threads, writes)| threads.len() > 1 && *writes > 0);
    (is_shared && !is_open && !may_move(&words)).then_some(LineUse::TrueSharing)
}

/// Whether two threads use the same two words, one of which is written to. Each may be one thread's at any moment, as
/// where tasks move between threads; samples do not say when.
fn may_move(words: &BTreeMap<(u32, u64), (u64, u64)>) -> bool {
    let mut of_words: BTreeMap<u64, (BTreeSet<u32>, u64)> = BTreeMap::new();
    for ((thread, word), (writes, _)) in words {
        let (threads, all) = of_words.entry(*word).or_default();
        threads.insert(*thread);
        *all = all.saturating_add(*writes);
    }
    let words: Vec<_> = of_words.into_values().collect();
    words.iter().enumerate().any(|(number, (threads, writes))| {
        words.iter().skip(number + 1).any(|(others, theirs)| {
            threads.intersection(others).count() > 1 && (*writes > 0 || *theirs > 0)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touch(thread: u32, at: u64, writes: u64, reads: u64) -> Touch {
        Touch {
            thread,
            at,
            len: 8,
            writes,
            reads,
        }
    }

    #[test]
    fn adjacent_counters_share_falsely() {
        assert_eq!(
            judge(&[touch(1, 0, 9, 9), touch(2, 8, 9, 9)]),
            Some(LineUse::FalseSharing),
            "two that write"
        );
        assert_eq!(
            judge(&[touch(1, 0, 19, 0), touch(2, 56, 0, 19)]),
            Some(LineUse::FalseSharing),
            "who only reads waits for the one who writes beside it"
        );
        assert_eq!(
            judge(&[
                touch(1, 0, 19, 0),
                touch(1, 8, 1, 0),
                touch(2, 8, 1, 0),
                touch(2, 16, 19, 0)
            ]),
            Some(LineUse::FalseSharing),
            "also beside something that is shared in truth"
        );
    }

    #[test]
    fn shared_bytes_are_not_false_sharing() {
        assert_eq!(
            judge(&[touch(1, 0, 9, 0), touch(2, 0, 9, 0)]),
            Some(LineUse::TrueSharing),
            "one counter"
        );
        assert_eq!(
            judge(&[touch(1, 0, 9, 0), touch(1, 8, 90, 0), touch(2, 8, 0, 9)]),
            Some(LineUse::TrueSharing),
            "all that the second one uses is the first one's too"
        );
    }

    #[test]
    fn samples_without_times_do_not_deny_that_work_moves() {
        let both = [
            touch(1, 0, 90, 0),
            touch(1, 8, 90, 0),
            touch(2, 0, 90, 0),
            touch(2, 8, 90, 0),
        ];
        assert_eq!(
            judge(&both),
            None,
            "each word may be one thread's at a time"
        );
    }

    #[test]
    fn few_samples_do_not_prove_absence_of_accesses() {
        let lock = [touch(1, 0, 90, 9), touch(2, 0, 90, 9)];
        let with = |more: &[Touch]| judge(&[&lock, more].concat());
        assert_eq!(
            with(&[touch(1, 8, 3, 0), touch(2, 16, 4, 0)]),
            Some(LineUse::TrueSharing),
            "a lock, and what it protects, of which little was seen"
        );
        assert_eq!(
            with(&[touch(1, 8, 30, 0), touch(2, 16, 4, 0)]),
            None,
            "one was seen often, the other one was not"
        );
        assert_eq!(
            judge(&[touch(1, 0, 3, 0), touch(2, 8, 3, 0)]),
            None,
            "a few samples side by side"
        );
        assert_eq!(
            judge(&[touch(1, 0, 90, 0), touch(2, 4, 90, 0)]),
            None,
            "in one word, of which nobody knows how wide the accesses are"
        );
    }

    #[test]
    fn without_a_second_thread_or_a_write_there_is_nothing() {
        assert_eq!(judge(&[]), Some(LineUse::Nothing), "untouched");
        assert_eq!(
            judge(&[touch(1, 0, 0, 0)]),
            Some(LineUse::Nothing),
            "a count of none is no touch"
        );
        assert_eq!(
            judge(&[touch(1, 0, 9, 0), touch(1, 8, 9, 0)]),
            Some(LineUse::OneThread),
            "alone"
        );
        assert_eq!(
            judge(&[touch(1, 0, 0, 19), touch(2, 8, 0, 19)]),
            Some(LineUse::OnlyReads),
            "readers"
        );
    }
}
