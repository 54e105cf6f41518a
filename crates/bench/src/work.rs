//! The loop of each thread: operations in portions. Between portions it checks for a stop and hands
//! over its counts.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use quanta::Clock;

use crate::Places;
use crate::engine::{Engine, Sign, Uring};
use crate::tally::{Outcome, Tally};

/// Length of a portion: a request for counts waits no longer than that, plus one operation.
const PORTION: Duration = Duration::from_millis(2);

/// Time between a waiting thread's checks.
const MOMENT: Duration = Duration::from_micros(50);

/// Maximum operations in a portion.
const MOST: usize = 1024;

/// State shared by all threads.
#[derive(Debug)]
pub(crate) struct Shared {
    pub stop: AtomicBool,
    /// Counts are requested: with a mutex alone, the thread that released it would take it again.
    pub counts_requested: AtomicBool,
    /// Bytes left to process.
    pub left: AtomicI64,
    /// Threads that are ready to start, or have ended.
    pub ready: AtomicUsize,
}

impl Shared {
    pub fn new() -> Shared {
        Shared {
            stop: AtomicBool::new(false),
            // Threads wait for the start.
            counts_requested: AtomicBool::new(true),
            left: AtomicI64::new(i64::MAX),
            ready: AtomicUsize::new(0),
        }
    }

    /// Waits until all threads are ready. Then, while all are idle, calls `look`, resets their
    /// counts, and lets them process this many bytes.
    pub fn begin<T>(
        &self,
        slots: &[Mutex<Tally>],
        left: Option<u64>,
        look: impl FnOnce() -> T,
    ) -> T {
        while self.ready.load(Ordering::Acquire) < slots.len() {
            std::thread::sleep(MOMENT);
        }
        self.counts_requested.store(true, Ordering::Relaxed);
        let mut held: Vec<_> = slots
            .iter()
            .map(|slot| slot.lock().unwrap_or_else(PoisonError::into_inner))
            .collect();
        for tally in &mut held {
            tally.clear();
        }
        let left = left.map_or(i64::MAX, |left| i64::try_from(left).unwrap_or(i64::MAX));
        self.left.store(left, Ordering::Relaxed);
        let looked = look();
        self.counts_requested.store(false, Ordering::Relaxed);
        looked
    }

    /// Collects the counts of all threads.
    pub fn take(&self, slots: &[Mutex<Tally>], into: &mut Tally) {
        self.counts_requested.store(true, Ordering::Relaxed);
        for slot in slots {
            into.take(&mut slot.lock().unwrap_or_else(PoisonError::into_inner));
        }
        self.counts_requested.store(false, Ordering::Relaxed);
    }
}

/// Portions of a thread.
pub(crate) struct Pace<'a> {
    pub shared: &'a Shared,
    pub slot: &'a Mutex<Tally>,
    pub places: Places,
    pub chunk: u64,
    offsets: Vec<u64>,
    portion: usize,
}

impl<'a> Pace<'a> {
    pub fn new(shared: &'a Shared, slot: &'a Mutex<Tally>, places: Places, chunk: u64) -> Pace<'a> {
        Pace {
            shared,
            slot,
            places,
            chunk,
            offsets: Vec::with_capacity(MOST),
            portion: 1,
        }
    }

    /// Makes `work` process portions until it is stopped, or no bytes are left.
    fn run(
        &mut self,
        mut work: impl FnMut(&[u64], &mut Tally) -> io::Result<()>,
    ) -> io::Result<()> {
        let chunk = self.chunk.cast_signed();
        self.shared.ready.fetch_add(1, Ordering::Release);
        while !self.shared.stop.load(Ordering::Relaxed) {
            while self.shared.counts_requested.load(Ordering::Relaxed)
                && !self.shared.stop.load(Ordering::Relaxed)
            {
                std::thread::sleep(MOMENT);
            }
            let mut tally = self.slot.lock().unwrap_or_else(PoisonError::into_inner);
            let left = self.shared.left.load(Ordering::Relaxed);
            if left <= 0 {
                break;
            }
            let most = usize::try_from(left.cast_unsigned().div_ceil(self.chunk)).unwrap_or(MOST);
            let count = self.portion.min(most);
            let claimed = chunk * count as i64;
            if self.shared.left.fetch_sub(claimed, Ordering::Relaxed) <= 0 {
                self.shared.left.fetch_add(claimed, Ordering::Relaxed);
                break;
            }
            // Before the latency clock starts: drawing an offset takes longer than some reads.
            self.offsets.clear();
            let places = &mut self.places;
            self.offsets
                .extend(std::iter::repeat_with(|| places.next_offset()).take(count));
            let before = tally.bytes;
            let began = Instant::now();
            let result = work(&self.offsets, &mut tally);
            // Bytes of a short read are requested again, at another offset.
            let short = claimed - (tally.bytes - before).cast_signed();
            drop(tally);
            self.shared.left.fetch_add(short, Ordering::Relaxed);
            result?;
            let taken = began.elapsed();
            if taken < PORTION / 2 {
                self.portion = (self.portion * 2).min(MOST);
            } else if taken > PORTION {
                self.portion = (self.portion / 2).max(1);
            }
        }
        Ok(())
    }
}

/// Works with an engine until stopped.
pub(crate) fn drive<E: Engine>(
    engine: &mut E,
    pace: &mut Pace<'_>,
    clock: Option<&Clock>,
) -> io::Result<()> {
    let mut signs = Signs::new(E::SIGN);
    pace.run(|offsets, tally| {
        signs.begin();
        match clock {
            Some(clock) => timed(engine, offsets, clock, &mut signs, tally)?,
            None => {
                for offset in offsets {
                    if E::LOOKS {
                        engine.look(*offset)?;
                    }
                    let mut done = engine.at(*offset)?;
                    if done.bytes == 0 {
                        return Err(short());
                    }
                    if E::SIGN == Sign::Device {
                        done.outcome = Outcome::Unknown;
                    }
                    tally.count(done);
                }
            }
        }
        // Misses that no slow operation revealed: of several faults in one operation, only one is
        // known until then.
        if E::SIGN == Sign::Faults {
            tally.were_misses(signs.more());
        }
        match engine.is_lost() {
            true => Err(short()),
            false => Ok(()),
        }
    })
}

/// The same, with the latency of each operation.
fn timed<E: Engine>(
    engine: &mut E,
    offsets: &[u64],
    clock: &Clock,
    signs: &mut Signs,
    tally: &mut Tally,
) -> io::Result<()> {
    let mut began = clock.raw();
    for offset in offsets {
        if E::LOOKS {
            engine.look(*offset)?;
            began = clock.raw();
        }
        let mut done = engine.at(*offset)?;
        let mut ended = clock.raw();
        if done.bytes == 0 {
            return Err(short());
        }
        let taken = clock.delta_as_nanos(began, ended);
        if E::SIGN != Sign::None {
            if taken > signs.slow {
                if signs.more() > 0 {
                    done.outcome = Outcome::Miss;
                }
                ended = clock.raw();
            }
            signs.learn(taken);
        }
        tally.count_timed(done, taken);
        began = ended;
    }
    Ok(())
}

/// Works with a ring until stopped.
pub(crate) fn drive_ring(
    ring: &mut Uring<'_>,
    pace: &mut Pace<'_>,
    clock: Option<&Clock>,
) -> io::Result<()> {
    pace.run(|offsets, tally| {
        let before = (tally.operations, tally.bytes);
        ring.read(offsets, clock, tally)?;
        match tally.operations > before.0 && tally.bytes == before.1 {
            true => Err(short()),
            false => Ok(()),
        }
    })
}

/// The file is shorter than when it was opened.
fn short() -> io::Error {
    io::ErrorKind::UnexpectedEof.into()
}

/// Reads the kernel's counters of this thread's waits, but only after slow operations: reading them
/// takes as long as a small read.
struct Signs {
    sign: Sign,
    last: u64,
    /// The shortest latency, and the threshold of a slow one, in nanoseconds.
    shortest: u64,
    slow: u64,
}

impl Signs {
    fn new(sign: Sign) -> Signs {
        Signs {
            sign,
            last: 0,
            shortest: u64::MAX,
            slow: 0,
        }
    }

    fn count(&self) -> u64 {
        match self.sign {
            Sign::None => 0,
            Sign::Faults => cachewise_sys::thread_usage().major_faults,
            Sign::Device => cachewise_sys::thread_usage().device_read.0,
        }
    }

    fn begin(&mut self) {
        if self.sign != Sign::None {
            self.last = self.count();
        }
    }

    /// Increase since the last call.
    fn more(&mut self) -> u64 {
        let count = self.count();
        count.saturating_sub(std::mem::replace(&mut self.last, count))
    }

    /// No device answers within four times the time of a hit plus a microsecond.
    #[inline]
    fn learn(&mut self, taken: u64) {
        if taken < self.shortest {
            self.shortest = taken;
            self.slow = taken.saturating_mul(4).saturating_add(1000);
        }
    }
}
