//! Hardware breakpoints on a line: which threads touch which bytes of it.
//!
//! Each hit stops the thread for some tens of microseconds, so a line is watched for a few milliseconds at a time, and
//! what is counted is evidence and no rate. Two pieces are watched at once, each by two of the four registers that
//! CPUs have: one for writes, one for any access. A piece that several threads use is halved, and looked at anew, until
//! it is known whether they mean the same bytes: so the width of accesses shows, of which a register says nothing.
//!
//! That a thread does not touch a piece is known only if it ran while the piece was watched, which is counted too: on
//! a busy machine threads are often just not there.

//!
//! # Layout
//! - `arm`: breakpoints for the threads of a process; `seen`: what the rounds together say
//! - `window`: watching the line, round by round; `glance`: one window on one piece
//! - `pairs`, `pair`: two pieces at the same moment, for work that moves between threads
//! - this file: a line, and the sums over its rounds

mod arm;
mod glance;
mod pair;
mod pairs;
mod seen;
mod window;

use std::collections::{BTreeMap, BTreeSet};

pub use arm::NoWatch;
use glance::{Glance, WORD};
use pair::Pair;

/// A line of a process's memory, and what was seen of it so far.
#[derive(Debug, Clone)]
pub struct Watch {
    pid: u32,
    line: u64,
    rounds: usize,
    /// By the first byte: pieces that make up the line.
    pieces: BTreeMap<u64, Piece>,
    /// The rounds in which each thread ran while any piece was watched.
    ran: BTreeMap<u32, BTreeSet<usize>>,
    /// By the first byte of a word: the rounds in which each thread touched any of it.
    words: BTreeMap<u64, BTreeMap<u32, BTreeSet<usize>>>,
    /// By their first bytes: what was seen of two pieces at once.
    pairs: BTreeMap<(u64, u64), Pair>,
    /// Where the next moments begin in the list of pairs.
    next_pair: usize,
    /// How many threads there were beyond those that are watched.
    left_out: usize,
}

/// Some bytes of a line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Piece {
    len: u64,
    threads: BTreeMap<u32, PieceUse>,
}

/// Accesses of a thread to a piece.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct PieceUse {
    writes: u64,
    reads: u64,
    /// The rounds in which it touched it.
    touched: BTreeSet<usize>,
    /// The rounds in which it ran while the piece was watched.
    ran: BTreeSet<usize>,
}

impl Watch {
    /// The line of this size in which an address is.
    #[must_use]
    pub fn of_address(pid: u32, address: u64, size: u64) -> Watch {
        let size = size.max(WORD).next_power_of_two();
        let line = address & !(size - 1);
        let words = (0..size / WORD).map(|word| line + word * WORD);
        let piece = |at| {
            let piece = Piece {
                len: WORD,
                ..Piece::default()
            };
            (at, piece)
        };
        Watch {
            pid,
            line,
            rounds: 0,
            pieces: words.map(piece).collect(),
            ran: BTreeMap::new(),
            words: BTreeMap::new(),
            pairs: BTreeMap::new(),
            next_pair: 0,
            left_out: 0,
        }
    }

    /// The address of its first byte.
    #[must_use]
    pub const fn line(&self) -> u64 {
        self.line
    }

    /// Adds a round, and halves what several threads use.
    fn add(&mut self, glances: &[Glance]) {
        for Glance {
            thread,
            at,
            writes,
            reads,
            ran,
        } in glances
        {
            let Some(piece) = self.pieces.get_mut(at) else {
                continue;
            };
            let entry = piece.threads.entry(*thread).or_default();
            entry.writes += writes;
            entry.reads += reads;
            if writes + reads > 0 {
                entry.touched.insert(self.rounds);
                let word = self.words.entry(at & !(WORD - 1)).or_default();
                word.entry(*thread).or_default().insert(self.rounds);
            }
            let all = self.ran.entry(*thread).or_default();
            if *ran {
                entry.ran.insert(self.rounds);
                all.insert(self.rounds);
            }
        }
        self.rounds += 1;
        let shared: Vec<u64> = self
            .pieces
            .iter()
            .filter(|(_, piece)| piece.len > 1 && piece.is_shared())
            .map(|(at, _)| *at)
            .collect();
        for at in shared {
            let Some(piece) = self.pieces.remove(&at) else {
                continue;
            };
            let len = piece.len / 2;
            for at in [at, at + len] {
                let threads = BTreeMap::new();
                self.pieces.insert(at, Piece { len, threads });
            }
        }
    }
}

impl Piece {
    /// Whether one thread writes to it, and another one touches it.
    fn is_shared(&self) -> bool {
        let users = self.threads.values().filter(|one| !one.touched.is_empty());
        users.clone().count() > 1 && users.clone().any(|one| one.writes > 0)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

    use super::super::line::LineUse;
    use super::*;

    #[repr(align(64))]
    struct Line([AtomicU8; 64]);

    /// Watches a line while two threads count in these bytes of it.
    fn watched(line: &Line, bytes: [usize; 2]) -> Result<Watch, NoWatch> {
        let address = line.0.as_ptr().addr() as u64;
        let mut watch = Watch::of_address(std::process::id(), address + 9, 64);
        assert_eq!(watch.line(), address, "from its beginning");
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for byte in bytes {
                let stop = &stop;
                scope.spawn(move || {
                    while !stop.load(Ordering::Relaxed) {
                        line.0[byte].fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            // Until the result is known, as threads may have to wait for their CPUs.
            let mut rounds = (0..40).map(|_| watch.round().map(|()| watch.seen()));
            let told = rounds.find(|seen| {
                !matches!(seen, Ok(None | Some(LineUse::OneThread | LineUse::Nothing)))
            });
            stop.store(true, Ordering::Relaxed);
            told.transpose()?;
            Ok(watch)
        })
    }

    #[test]
    fn accesses_are_seen_by_thread_and_byte() {
        let line = Line([const { AtomicU8::new(0) }; 64]);
        for (bytes, wanted, places) in [
            ([0, 40], LineUse::FalseSharing, vec![0, 40]),
            ([16, 20], LineUse::FalseSharing, vec![16, 20]),
            ([33, 33], LineUse::TrueSharing, vec![33]),
        ] {
            let found = match watched(&line, bytes) {
                Ok(found) => found,
                Err(reason) => {
                    println!("skipped: breakpoints: {reason}");
                    return;
                }
            };
            if found
                .seen()
                .is_none_or(|seen| matches!(seen, LineUse::OneThread | LineUse::Nothing))
            {
                println!(
                    "skipped: breakpoints: threads hardly ran: {}",
                    found.proof().says
                );
                continue;
            }
            assert_eq!(found.seen(), Some(wanted), "{bytes:?}: {found:?}");
            let touched: BTreeSet<u64> = found
                .touches()
                .iter()
                .map(|touch| touch.at - found.line)
                .collect();
            let near = |place: &u64| touched.iter().any(|at| at / WORD == place / WORD);
            assert!(
                places.iter().all(near),
                "{bytes:?}: in these words: {touched:?}"
            );
        }
    }

    #[test]
    fn work_that_swaps_threads_is_never_called_true_sharing() {
        let line = Line([const { AtomicU8::new(0) }; 64]);
        let address = line.0.as_ptr().addr() as u64;
        let mut watch = Watch::of_address(std::process::id(), address, 64);
        let (stop, begin) = (AtomicBool::new(false), std::time::Instant::now());
        let watched = std::thread::scope(|scope| {
            for own in 0..2 {
                let (stop, line) = (&stop, &line);
                scope.spawn(move || {
                    while !stop.load(Ordering::Relaxed) {
                        let turn = begin.elapsed().as_millis() as usize / 5;
                        for _ in 0..200 {
                            line.0[(turn + own) % 2 * 8].fetch_add(1, Ordering::Relaxed);
                        }
                    }
                });
            }
            let mut rounds = (0..40).map(|_| watch.round().map(|()| watch.seen()));
            let told = rounds.find(|seen| {
                !matches!(seen, Ok(Some(LineUse::OneThread | LineUse::Nothing) | None))
            });
            stop.store(true, Ordering::Relaxed);
            told.transpose()
        });
        match watched {
            Err(reason) => println!("skipped: breakpoints: {reason}"),
            Ok(None | Some(None)) => {
                println!(
                    "skipped: moving work: {}: {:?}",
                    watch.proof().says,
                    watch.pairs
                );
            }
            Ok(Some(seen)) => assert_eq!(seen, Some(LineUse::FalseSharing), "{watch:?}"),
        }
    }

    #[test]
    fn ended_process_cannot_be_watched() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id();
        child.wait().unwrap();
        assert_eq!(
            Watch::of_address(pid, 4096, 64).round(),
            Err(NoWatch::Ended),
            "it is gone"
        );
    }
}
