//! [`run()`]: one measurement, from the preparation of the file to the sums.

use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use cachewise_control::{Group, Limits};
use cachewise_kstat::Kernel;
use cachewise_units::Bytes;
use quanta::Clock;

use crate::bloat::Bloater;
use crate::counters::{Counted, Counters};
use crate::engine::{Copy, Map, Nowait, Pread, Touch, Uring, Write};
use crate::prepare::{fill, make, resident};
use crate::tally::Tally;
use crate::target::Target;
use crate::work::{Pace, Shared, drive, drive_ring};
use crate::{Engine, Error, Figures, Fill, HitSource, Made, Places, Summary, Workload};

/// Steps before a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preparation {
    /// A missing file is made.
    Making,
    /// The file's pages are brought into the requested state.
    Filling,
    /// The bloating process takes memory.
    Growing,
}

impl Preparation {
    /// Its name for people.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Preparation::Making => "writing the file",
            Preparation::Filling => "preparing the page cache",
            Preparation::Growing => "taking memory",
        }
    }
}

/// Events of a measurement.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A preparation step, with its progress. `total` is 0 if unknown.
    Preparing {
        /// The step.
        what: Preparation,
        /// Bytes, or milliseconds of a warm-up.
        done: Bytes,
        /// The same unit.
        total: Bytes,
    },
    /// The measurement starts.
    Started,
    /// An interval has ended: its figures, without latencies of the total.
    Interval {
        /// Figures of the interval.
        figures: &'a Figures,
        /// Useful bytes so far.
        bytes: Bytes,
        /// Time so far.
        elapsed: Duration,
    },
    /// Progress between intervals, a few times a second.
    Tick {
        /// Time so far.
        elapsed: Duration,
        /// Useful bytes so far.
        bytes: Bytes,
    },
}

/// Interval of checks for cancellation.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// Runs the workload, reports events, and sums up. When `cancel` becomes true it ends early with
/// the results so far. Run only one at a time: the counters are those of the process.
///
/// # Errors
/// A setting is invalid; the file cannot be made, read, or prepared; the control group cannot be
/// made. Files and groups made for it are removed.
pub fn run(
    workload: &Workload,
    watch: &mut dyn FnMut(&Event<'_>),
    cancel: &AtomicBool,
) -> Result<Summary, Error> {
    workload.check()?;
    let made = made(workload, watch, cancel)?;
    if workload.engine == Engine::Write && made.is_none() && !workload.overwrite {
        return Err(Error::Invalid {
            what: "engine",
            why: format!(
                "write would overwrite {}, which is there already: use a size and a new name, or set \
                 --overwrite",
                cachewise_units::escaped(&workload.file)
            ),
        });
    }
    if workload.fill == Fill::Write && made.is_none() && !workload.overwrite {
        return Err(Error::Invalid {
            what: "fill",
            why: "write would overwrite a file that is there already: use a size and a new name, or set \
                  say --overwrite"
                .to_owned(),
        });
    }
    if workload.engine == Engine::Write || workload.fill == Fill::Write {
        Target::is_free(&workload.file)?;
    }
    let target = Target::open(workload)?;
    buffers_fit(workload)?;
    // Made before any charge, and dropped last, after all charges.
    let group = group(workload)?;
    let summary = prepared(workload, &target, group.as_ref(), watch, cancel);
    drop(target);
    drop(made);
    match (summary, group.map(Group::remove)) {
        (Ok(mut summary), Some(Err(error))) => {
            summary
                .warnings
                .push(format!("the control group stayed: {error}"));
            Ok(summary)
        }
        (summary, _) => summary,
    }
}

/// Refuses buffers larger than available memory: all of them are touched.
fn buffers_fit(workload: &Workload) -> Result<(), Error> {
    let buffers = workload.buffers();
    match Kernel::new().meminfo()?.available {
        Some(available) if buffers.0 > available.0 / 2 => Err(Error::Invalid {
            what: "chunk",
            why: format!(
                "{} buffers of {} take {buffers}, but only {available} of memory are available: use fewer threads and \
                 requests, or smaller chunks",
                workload.threads as u64 * u64::from(workload.depth),
                workload.chunk
            ),
        }),
        _ => Ok(()),
    }
}

/// Makes a missing file if there is a size.
fn made(
    workload: &Workload,
    watch: &mut dyn FnMut(&Event<'_>),
    cancel: &AtomicBool,
) -> Result<Option<Made>, Error> {
    let path = &workload.file;
    let Some(size) = workload.size else {
        return Ok(None);
    };
    if size < workload.chunk {
        return Err(Error::TooSmall {
            path: path.clone(),
            size,
            chunk: workload.chunk,
        });
    }
    if let Ok(found) = std::fs::metadata(path) {
        // A file of another size must not be measured silently.
        if found.is_file() && found.len() != size.0 {
            return Err(Error::Invalid {
                what: "size",
                why: format!(
                    "{} is there already, with {}: remove it, or leave out the size",
                    cachewise_units::escaped(path),
                    Bytes(found.len())
                ),
            });
        }
        return Ok(None);
    }
    let mut tell = |done| {
        watch(&Event::Preparing {
            what: Preparation::Making,
            done,
            total: size,
        });
    };
    make(path, size, workload.compress_pct, &mut tell, cancel).map(Some)
}

/// Makes a group with limits, and moves this process into it.
fn group(workload: &Workload) -> Result<Option<Group>, Error> {
    let Some(max) = workload.memory_max else {
        return Ok(None);
    };
    let kernel = Kernel::new();
    // Groups of killed runs; those that cannot be removed now do no harm.
    let _ = cachewise_control::sweep(&kernel, &[]);
    let group = Group::create(&kernel, "bench")?;
    group.limit(&Limits {
        max: Some(max),
        swap_max: workload.swap_max,
        high: workload.memory_high,
        swappiness: workload.swappiness,
    })?;
    group.take_in(std::process::id())?;
    Ok(Some(group))
}

/// Warns if the workload needs swap and there is none free.
fn no_swap(workload: &Workload) -> Result<Option<String>, Error> {
    if workload.swap_max.is_none_or(Bytes::is_zero) {
        return Ok(None);
    }
    let memory = Kernel::new().meminfo()?;
    Ok(
        match (memory.swap_total.is_zero(), memory.swap_free.is_zero()) {
            (true, _) => Some(
                "this machine has no swap, so none is used, whatever its limit (swapon)".to_owned(),
            ),
            (false, true) => Some(format!(
                "swap is full, all {}: no more memory can be swapped, whatever its limit",
                memory.swap_total
            )),
            (false, false) => None,
        },
    )
}

/// All steps after the file exists.
fn prepared(
    workload: &Workload,
    target: &Target,
    group: Option<&Group>,
    watch: &mut dyn FnMut(&Event<'_>),
    cancel: &AtomicBool,
) -> Result<Summary, Error> {
    let mut filled = Bytes::ZERO;
    let total = target.size;
    let mut tell = |more| {
        filled += more;
        watch(&Event::Preparing {
            what: Preparation::Filling,
            done: filled,
            total,
        });
    };
    fill(workload, target.size, &mut tell, cancel)?;
    let counters = Counters::of_this_process(group)?;
    let before = resident(&target.file);
    let mut warnings: Vec<String> = counters.charged_elsewhere(before)?.into_iter().collect();
    warnings.extend(no_swap(workload)?);
    let mut bloater = match workload.bloat {
        Some(settings) => Some(Bloater::start(settings)?),
        None => None,
    };
    if let Some(bloater) = &mut bloater {
        bloater.ask(0);
        while bloater.is_growing_first() {
            if cancel.load(Ordering::Relaxed) {
                return Err(Error::Interrupted);
            }
            watch(&Event::Preparing {
                what: Preparation::Growing,
                done: Bytes(bloater.has()),
                total: workload.bloat.map_or(Bytes::ZERO, |bloat| bloat.size),
            });
            std::thread::sleep(CHECK_INTERVAL);
        }
    }
    let course = Measurement {
        workload,
        hit_source: hit_source(workload, target),
        counters: &counters,
        watch,
        cancel,
        bloater: &mut bloater,
    };
    let (figures, interrupted) = course.measured(target)?;
    let bloat = bloater.map(Bloater::end);
    if let Some((signal, after)) = bloat.as_ref().and_then(|bloat| bloat.killed) {
        let bytes = Bytes(bloat.as_ref().map_or(0, |bloat| bloat.bytes));
        let why = match signal {
            libc::SIGKILL => " (out of memory, if oom_kills counts it)",
            _ => "",
        };
        warnings.push(format!(
            "the bloating process was killed by signal {signal}{why} {after:.1} s after the start, when it had {bytes}; \
             the measurement went on without it"
        ));
    }
    Ok(Summary {
        workload: workload.clone(),
        figures,
        file_size_bytes: target.size.0,
        resident_before_pages: before.map(|pages| pages.0),
        resident_after_pages: resident(&target.file).map(|pages| pages.0),
        cgroup: counters.group.as_ref().map(|(_, path)| path.clone()),
        interrupted,
        bloat,
        warnings,
    })
}

/// A running measurement.
struct Measurement<'a> {
    workload: &'a Workload,
    hit_source: HitSource,
    counters: &'a Counters<'a>,
    watch: &'a mut dyn FnMut(&Event<'_>),
    cancel: &'a AtomicBool,
    bloater: &'a mut Option<Bloater>,
}

/// Outcome of a wait.
enum Waited {
    /// The time is up.
    Time,
    /// All threads have ended.
    Done,
    /// The caller cancelled.
    Cancelled,
}

impl Measurement<'_> {
    /// Runs the threads; returns the results, and whether they were interrupted.
    fn measured(mut self, target: &Target) -> Result<(Figures, bool), Error> {
        let workload = self.workload;
        let fail = |source: io::Error| failed(workload, source);
        let map = match workload.engine.is_mapped() {
            true => Some(Map::new(target.fd(), target.size.0, workload.advice).map_err(fail)?),
            false => None,
        };
        // Calibrating the clock takes a while: keep it out of the measurement.
        let clock = (!workload.no_latency).then(Clock::new);
        let shared = Shared::new();
        let slots: Vec<Mutex<Tally>> =
            std::iter::repeat_with(|| Mutex::new(Tally::new(!workload.no_latency)))
                .take(workload.threads)
                .collect();
        let (ended, ends) = channel();
        std::thread::scope(|scope| {
            // In every case, threads end before the scope.
            let _stop = StopOnDrop(&shared.stop);
            for (thread, slot) in slots.iter().enumerate() {
                let (ended, map, clock, shared) =
                    (ended.clone(), map.as_ref(), clock.as_ref(), &shared);
                let work = move || {
                    let result = thread_work(workload, target, map, thread, slot, shared, clock);
                    shared.ready.fetch_add(1, Ordering::Release);
                    // The receiver is gone only after another thread's failure.
                    let _ = ended.send(result);
                };
                let name = format!("bench-{thread}");
                cachewise_sys::start_thread_in(scope, &name, work).map_err(fail)?;
            }
            drop(ended);
            self.course(&shared, &slots, &ends)
        })
    }

    fn course(
        &mut self,
        shared: &Shared,
        slots: &[Mutex<Tally>],
        ends: &Receiver<io::Result<()>>,
    ) -> Result<(Figures, bool), Error> {
        let workload = self.workload;
        let mut total = Tally::new(!workload.no_latency);
        if !workload.warm_up.is_zero() {
            let began = shared.begin(slots, None, Instant::now);
            match self.wait(ends, began + workload.warm_up, None, 0)? {
                Waited::Time => {}
                Waited::Done | Waited::Cancelled => return Err(Error::Interrupted),
            }
        }
        if let Some(bloater) = self.bloater.as_mut() {
            bloater.begin();
        }
        let bytes = workload.bytes.map(|bytes| bytes.0);
        let look = || (self.counters.look_first(), Instant::now());
        let (first, began) = shared.begin(slots, bytes, look);
        let first = first?;
        (self.watch)(&Event::Started);
        let end = workload.seconds.map(|time| began + time);
        let (mut last, mut last_at) = (first.clone(), began);
        let mut interrupted = false;
        loop {
            let tick = last_at + workload.interval;
            let until = end.map_or(tick, |end| end.min(tick));
            let waited = self.wait(ends, until, Some((began, shared, slots)), total.bytes)?;
            let is_last = match waited {
                Waited::Time => end.is_some_and(|end| end <= until),
                Waited::Done => true,
                Waited::Cancelled => {
                    interrupted = true;
                    true
                }
            };
            if is_last {
                shared.stop.store(true, Ordering::Relaxed);
                // Running operations belong to the measurement: wait for them.
                while let Ok(result) = ends.recv() {
                    result.map_err(|source| failed(workload, source))?;
                }
            }
            let mut part = Tally::new(!workload.no_latency);
            shared.take(slots, &mut part);
            let (now, now_at) = (self.counters.look()?, Instant::now());
            let figures = self.figures(&now, &last, now_at - last_at, &part);
            total.take(&mut part);
            // An end just after an interval's end is no interval of its own.
            if figures.operations > 0 || !is_last {
                (self.watch)(&Event::Interval {
                    figures: &figures,
                    bytes: Bytes(total.bytes),
                    elapsed: now_at - began,
                });
            }
            if is_last {
                return Ok((
                    self.figures(&now, &first, now_at - began, &total),
                    interrupted,
                ));
            }
            (last, last_at) = (now, now_at);
        }
    }

    fn figures(&self, now: &Counted, then: &Counted, time: Duration, tally: &Tally) -> Figures {
        let bloat = self.bloater.as_ref().map(Bloater::has);
        now.since(then, time, tally, self.hit_source, bloat)
    }

    /// Waits until then, or until an earlier event.
    fn wait(
        &mut self,
        ends: &Receiver<io::Result<()>>,
        until: Instant,
        measured: Option<(Instant, &Shared, &[Mutex<Tally>])>,
        bytes: u64,
    ) -> Result<Waited, Error> {
        let mut ticked = Instant::now();
        loop {
            let now = Instant::now();
            if now >= until {
                return Ok(Waited::Time);
            }
            match ends.recv_timeout(CHECK_INTERVAL.min(until - now)) {
                Ok(Ok(())) | Err(RecvTimeoutError::Timeout) => {}
                Ok(Err(source)) => return Err(failed(self.workload, source)),
                Err(RecvTimeoutError::Disconnected) => return Ok(Waited::Done),
            }
            if self.cancel.load(Ordering::Relaxed) {
                return Ok(Waited::Cancelled);
            }
            let mut so_far = bytes;
            let is_due = ticked.elapsed() >= TICK;
            let asks = self.bloater.is_some() || is_due;
            if let (true, Some((began, shared, _))) = (asks, measured) {
                // From the remaining bytes, which needs no thread's attention.
                if let (Some(all), left) =
                    (self.workload.bytes, shared.left.load(Ordering::Relaxed))
                {
                    so_far = so_far.max(all.0.saturating_sub(left.max(0).cast_unsigned()));
                }
                if let Some(bloater) = self.bloater.as_mut() {
                    bloater.ask(so_far);
                    bloater.is_alive();
                }
                if is_due {
                    ticked = now;
                    (self.watch)(&Event::Tick {
                        elapsed: began.elapsed(),
                        bytes: Bytes(so_far),
                    });
                }
            }
        }
    }
}

/// Interval of progress events.
const TICK: Duration = Duration::from_millis(200);

/// Tells threads to stop on drop.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The work of one thread.
fn thread_work(
    workload: &Workload,
    target: &Target,
    map: Option<&Map>,
    thread: usize,
    slot: &Mutex<Tally>,
    shared: &Shared,
    clock: Option<&Clock>,
) -> io::Result<()> {
    let (chunk, size, fd) = (workload.chunk.0, target.size.0, target.fd());
    let places = Places::new(
        workload.access,
        size,
        chunk,
        !workload.unaligned,
        workload.seed,
        (thread, workload.threads),
    );
    let mut pace = Pace::new(shared, slot, places, chunk);
    let length = usize::try_from(chunk).map_err(|_| io::ErrorKind::InvalidInput)?;
    match (workload.engine, map) {
        (Engine::Pread, _) => drive(&mut Pread::<false>::new(fd, length)?, &mut pace, clock),
        (Engine::Direct, _) => drive(&mut Pread::<true>::new(fd, length)?, &mut pace, clock),
        (Engine::Nowait, _) => drive(&mut Nowait::new(target, length)?, &mut pace, clock),
        (Engine::Write, _) => drive(
            &mut Write::new(fd, length, size, workload.seed)?,
            &mut pace,
            clock,
        ),
        (Engine::IoUring, _) => drive_ring(
            &mut Uring::new(target, length, workload.depth)?,
            &mut pace,
            clock,
        ),
        (Engine::MmapCopy, Some(map)) => drive(&mut Copy::new(map, length)?, &mut pace, clock),
        (Engine::MmapTouch, Some(map)) => drive(&mut Touch::new(map, length), &mut pace, clock),
        (Engine::MmapCopy | Engine::MmapTouch, None) => {
            Err(io::Error::other("the mapping is gone"))
        }
    }
}

fn hit_source(workload: &Workload, target: &Target) -> HitSource {
    match workload.engine {
        Engine::Nowait | Engine::IoUring if target.is_told => HitSource::Exact,
        Engine::Nowait | Engine::IoUring => HitSource::Nowait,
        // Without latencies, an operation with several faults counts as several.
        Engine::MmapCopy | Engine::MmapTouch
            if !workload.no_latency
                || !workload.unaligned && workload.chunk.0 <= cachewise_sys::page_size().get() =>
        {
            HitSource::Faults
        }
        Engine::Pread if !workload.no_latency => HitSource::Device,
        _ => HitSource::None,
    }
}

/// The error for a thread's failure.
fn failed(workload: &Workload, source: io::Error) -> Error {
    let path = &workload.file;
    if source.kind() == io::ErrorKind::UnexpectedEof {
        return Error::Truncated { path: path.clone() };
    }
    let advised =
        |operation, advice| Error::advised(operation, path, io::Error::from(source.kind()), advice);
    match (workload.engine, source.raw_os_error()) {
        (Engine::Nowait, Some(libc::EOPNOTSUPP)) => advised(
            "preadv2 with RWF_NOWAIT",
            "; its file system does not support RWF_NOWAIT: use engine pread",
        ),
        (Engine::IoUring, Some(libc::ENOSYS | libc::EPERM)) => advised(
            "io_uring_setup",
            "; this kernel, or a container's seccomp profile, has no io_uring (sysctl kernel.io_uring_disabled): take \
             another engine",
        ),
        (Engine::Direct, Some(libc::EINVAL)) => advised(
            "pread with O_DIRECT",
            "; direct I/O needs whole blocks of the device: use an aligned chunk of a multiple of 4K",
        ),
        (Engine::Write, _) => Error::file("write", path, source),
        (Engine::MmapCopy | Engine::MmapTouch, _) => Error::file("mmap", path, source),
        _ => Error::file("read", path, source),
    }
}
