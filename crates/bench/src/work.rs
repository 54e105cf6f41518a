//! What each thread does: operations in portions, between which it is told to stop and asked what it has counted.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use quanta::Clock;

use crate::Places;
use crate::engine::{Engine, Sign, Uring};
use crate::tally::{Found, Tally};

/// How long a portion is to take: whoever asks for counts waits no longer than that, but for one operation.
const PORTION: Duration = Duration::from_millis(2);

/// How long a thread waits before it looks again whether it may go on.
const MOMENT: Duration = Duration::from_micros(50);

/// A portion has no more operations than this.
const MOST: usize = 1024;

/// What all threads share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub stop: AtomicBool,
    /// Somebody wants the counts: a mutex alone would be taken again by the thread that gave it back.
    pub wanted: AtomicBool,
    /// Bytes that are left to do.
    pub left: AtomicI64,
    /// Threads that are ready to begin, or that have ended.
    pub ready: AtomicUsize,
}

impl Shared {
    pub fn new() -> Shared {
        Shared {
            stop: AtomicBool::new(false),
            // Nobody begins before it is said.
            wanted: AtomicBool::new(true),
            left: AtomicI64::new(i64::MAX),
            ready: AtomicUsize::new(0),
        }
    }

    /// Waits until all threads are ready; then, while none of them does anything, calls `look`, forgets what they
    /// have counted, and lets them do so many bytes.
    pub fn begin<T>(
        &self,
        slots: &[Mutex<Tally>],
        left: Option<u64>,
        look: impl FnOnce() -> T,
    ) -> T {
        while self.ready.load(Ordering::Acquire) < slots.len() {
            std::thread::sleep(MOMENT);
        }
        self.wanted.store(true, Ordering::Relaxed);
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
        self.wanted.store(false, Ordering::Relaxed);
        looked
    }

    /// Takes what a thread has counted so far.
    pub fn take(&self, slots: &[Mutex<Tally>], into: &mut Tally) {
        self.wanted.store(true, Ordering::Relaxed);
        for slot in slots {
            into.take(&mut slot.lock().unwrap_or_else(PoisonError::into_inner));
        }
        self.wanted.store(false, Ordering::Relaxed);
    }
}

/// How a thread's portions are made.
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

    /// Has `work` do portions until it is told to stop, or nothing is left.
    fn run(
        &mut self,
        mut work: impl FnMut(&[u64], &mut Tally) -> io::Result<()>,
    ) -> io::Result<()> {
        let chunk = self.chunk.cast_signed();
        self.shared.ready.fetch_add(1, Ordering::Release);
        while !self.shared.stop.load(Ordering::Relaxed) {
            while self.shared.wanted.load(Ordering::Relaxed)
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
            // Before the clock runs: drawing a place takes longer than some reads.
            self.offsets.clear();
            let places = &mut self.places;
            self.offsets
                .extend(std::iter::repeat_with(|| places.next_offset()).take(count));
            let before = tally.bytes;
            let began = Instant::now();
            let result = work(&self.offsets, &mut tally);
            // What came short is done again, elsewhere.
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

/// Works with an engine until it is told to stop.
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
                        done.found = Found::Unknown;
                    }
                    tally.count(done);
                }
            }
        }
        // What no slow operation showed: of several faults in one operation only one is known by then.
        if E::SIGN == Sign::Faults {
            tally.were_misses(signs.more());
        }
        match engine.is_lost() {
            true => Err(short()),
            false => Ok(()),
        }
    })
}

/// The same with the time of each operation.
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
                    done.found = Found::Miss;
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

/// Works with a ring until it is told to stop.
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

/// The file ended where it did not when it was opened.
fn short() -> io::Error {
    io::ErrorKind::UnexpectedEof.into()
}

/// Asks the kernel what this thread waited for, but only after operations that took long: asking takes as long as a
/// small read.
struct Signs {
    sign: Sign,
    last: u64,
    /// The shortest that an operation took, and from what on one is slow: both in nanoseconds.
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

    /// What came since it was last asked.
    fn more(&mut self) -> u64 {
        let count = self.count();
        count.saturating_sub(std::mem::replace(&mut self.last, count))
    }

    /// No device answers in four times the time that a hit takes and a microsecond.
    #[inline]
    fn learn(&mut self, taken: u64) {
        if taken < self.shortest {
            self.shortest = taken;
            self.slow = taken.saturating_mul(4).saturating_add(1000);
        }
    }
}
