//! Watching a line: its pieces in windows, all of them once a round.

use std::time::{Duration, Instant};

use perf_event::Counter;

use super::Watch;
use super::arm::{Armed, NoWatch, arm, first_of, threads};
use super::glance::Glance;

/// Pieces at once.
const AT_ONCE: usize = 2;

/// How long a piece is watched: several slices of the scheduler.
const WINDOW: Duration = Duration::from_millis(10);

/// How long threads run between arming and watching.
const SETTLE: Duration = Duration::from_micros(200);

/// A thread that ran for so long while a piece was watched would have touched it, if it did at all.
const RAN: Duration = Duration::from_micros(500);

impl Watch {
    /// Watches all of it once.
    ///
    /// # Errors
    /// If the process has ended, or breakpoints cannot be had.
    ///
    /// # Cost
    /// 40 ms for a line of 64 bytes, 5 ms more for each piece that was halved, and some 20 ms where several threads use the
    /// same pieces. The threads that touch it are slowed down.
    pub fn round(&mut self) -> Result<(), NoWatch> {
        let pieces: Vec<(u64, u64)> = self
            .pieces
            .iter()
            .map(|(at, piece)| (*at, piece.len))
            .collect();
        let mut glances = Vec::new();
        for pieces in pieces.chunks(AT_ONCE) {
            glances.extend(self.window(pieces, WINDOW)?.0);
        }
        self.add(&glances);
        self.moments()
    }

    /// Watches a few pieces for so long, and returns how long that took.
    pub(super) fn window(
        &mut self,
        pieces: &[(u64, u64)],
        length: Duration,
    ) -> Result<(Vec<Glance>, Duration), NoWatch> {
        let mut armed: Vec<Armed> = Vec::new();
        let (threads, left_out) = first_of(threads(self.pid)?);
        self.left_out = self.left_out.max(left_out);
        for thread in threads {
            match arm(thread, pieces) {
                // It has ended since it was listed; others go on.
                Err(NoWatch::Ended) => {}
                other => armed.push(other?),
            }
        }
        // A thread that this one has taken the CPU from goes on with what it does by now.
        std::thread::sleep(SETTLE);
        let begun = Instant::now();
        for thread in &mut armed {
            // A thread that has ended in the meantime counts nothing.
            let _ = thread.group.enable();
        }
        std::thread::sleep(length);
        for thread in &mut armed {
            let _ = thread.group.disable();
        }
        let took = begun.elapsed();
        let mut glances = Vec::new();
        for Armed {
            thread,
            group,
            counters,
        } in &mut armed
        {
            let counts = group.read()?;
            // Of a thread that is the time that it was on a CPU.
            let ran = counts.time_running().is_some_and(|ran| ran >= RAN);
            for ((at, _), (writes, any)) in pieces.iter().zip(counters) {
                let of = |counter: &Counter| counts.get(counter).map_or(0, |entry| entry.value());
                let writes = of(writes);
                glances.push(Glance {
                    thread: *thread,
                    at: *at,
                    writes,
                    reads: of(any).saturating_sub(writes),
                    ran,
                });
            }
        }
        Ok((glances, took))
    }
}
