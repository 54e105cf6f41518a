//! [`run()`]: one measurement, from the file's preparation to the sum.

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

/// What comes before a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preparation {
    /// A file that is not there is made.
    Making,
    /// Pages of the file are brought into the state that is asked for.
    Filling,
    /// The process beside it takes memory.
    Growing,
}

impl Preparation {
    /// In words.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Preparation::Making => "writing the file",
            Preparation::Filling => "bringing the file's pages into place",
            Preparation::Growing => "taking memory",
        }
    }
}

/// What happens while it runs.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// Something is prepared: what, and how much of how much is done. `total` is 0 where nobody knows.
    Preparing {
        /// What.
        what: Preparation,
        /// Bytes, or milliseconds of a warm-up.
        done: Bytes,
        /// Likewise.
        total: Bytes,
    },
    /// It is measured from now on.
    Started,
    /// An interval is over: its figures, and those of all so far but for latencies.
    Interval {
        /// Of the interval.
        figures: &'a Figures,
        /// Useful bytes so far.
        bytes: Bytes,
        /// Time so far.
        elapsed: Duration,
    },
    /// Between intervals, a few times a second.
    Tick {
        /// Time so far.
        elapsed: Duration,
        /// Useful bytes so far.
        bytes: Bytes,
    },
}

/// How often it is looked whether somebody wants it to end.
const LOOK: Duration = Duration::from_millis(20);

/// Does what the workload says, tells what happens, and sums up. Ends early, with what was measured so far, when
/// `cancel` becomes true. Only one at a time makes sense: counters are those of the process.
///
/// # Errors
/// A setting makes no sense; the file cannot be made, read, or brought into the state asked for; the control group
/// cannot be had. Nothing is left behind: files and groups that were made for it are gone.
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
                "write would overwrite {}, which is there already: give a size and a name that is not there, or say \
                 --overwrite",
                cachewise_units::escaped(&workload.file)
            ),
        });
    }
    if workload.fill == Fill::Write && made.is_none() && !workload.overwrite {
        return Err(Error::Invalid {
            what: "fill",
            why: "write would overwrite a file that is there already: give a size and a name that is not there, or \
                  say --overwrite"
                .to_owned(),
        });
    }
    if workload.engine == Engine::Write || workload.fill == Fill::Write {
        Target::is_free(&workload.file)?;
    }
    let target = Target::open(workload)?;
    buffers_fit(workload)?;
    // Before anything is charged to it; it goes last, with what is charged to it.
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

/// Refuses buffers that would take what the machine needs itself: they are all touched.
fn buffers_fit(workload: &Workload) -> Result<(), Error> {
    let buffers = workload.buffers();
    match Kernel::new().meminfo()?.available {
        Some(available) if buffers.0 > available.0 / 2 => Err(Error::Invalid {
            what: "chunk",
            why: format!(
                "{} buffers of {} take {buffers}, and {available} of memory are to be had: take fewer threads and \
                 requests, or smaller chunks",
                workload.threads as u64 * u64::from(workload.depth),
                workload.chunk
            ),
        }),
        _ => Ok(()),
    }
}

/// Makes the file where a size is given and it is not there.
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
        // Another size than the one asked for would be measured without a word.
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

/// A group of this process's own, with limits, and this process in it.
fn group(workload: &Workload) -> Result<Option<Group>, Error> {
    let Some(max) = workload.memory_max else {
        return Ok(None);
    };
    let kernel = Kernel::new();
    // What runs left that were killed; what cannot be removed now is in nobody's way.
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

/// Says where swap is limited, or memory taken that should be swapped, and there is none to be had.
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
                "swap is full, all {} of it: nothing more can be swapped, whatever its limit",
                memory.swap_total
            )),
            (false, false) => None,
        },
    )
}

/// All that comes after the file is there.
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
            std::thread::sleep(LOOK);
        }
    }
    let course = Course {
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
            libc::SIGKILL => " (for want of memory, where oom_kills says so)",
            _ => "",
        };
        warnings.push(format!(
            "the process that takes memory was killed by signal {signal}{why} {after:.1} s after the start, when it had {bytes}; \
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

/// A measurement under way.
struct Course<'a> {
    workload: &'a Workload,
    hit_source: HitSource,
    counters: &'a Counters<'a>,
    watch: &'a mut dyn FnMut(&Event<'_>),
    cancel: &'a AtomicBool,
    bloater: &'a mut Option<Bloater>,
}

/// How a wait ended.
enum Waited {
    /// The time is up.
    Time,
    /// All threads have ended.
    Done,
    /// Somebody wants it to end.
    Cancelled,
}

impl Course<'_> {
    /// Runs the threads, and returns what they did, and whether they were interrupted.
    fn measured(mut self, target: &Target) -> Result<(Figures, bool), Error> {
        let workload = self.workload;
        let fail = |source: io::Error| failed(workload, source);
        let map = match workload.engine.is_mapped() {
            true => Some(Map::new(target.fd(), target.size.0, workload.advice).map_err(fail)?),
            false => None,
        };
        // Finding out how fast the clock runs takes a while: not within the measurement.
        let clock = workload.latency.then(Clock::new);
        let shared = Shared::new();
        let slots: Vec<Mutex<Tally>> =
            std::iter::repeat_with(|| Mutex::new(Tally::new(workload.latency)))
                .take(workload.threads)
                .collect();
        let (ended, ends) = channel();
        std::thread::scope(|scope| {
            // Whatever comes, threads end before the scope can.
            let _stop = StopOnDrop(&shared.stop);
            for (thread, slot) in slots.iter().enumerate() {
                let (ended, map, clock, shared) =
                    (ended.clone(), map.as_ref(), clock.as_ref(), &shared);
                let work = move || {
                    let result = thread_work(workload, target, map, thread, slot, shared, clock);
                    shared.ready.fetch_add(1, Ordering::Release);
                    // The receiver goes only where another thread has failed.
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
        let mut total = Tally::new(workload.latency);
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
        let end = workload.time.map(|time| began + time);
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
                // Operations under way belong to it: they are waited for.
                while let Ok(result) = ends.recv() {
                    result.map_err(|source| failed(workload, source))?;
                }
            }
            let mut part = Tally::new(workload.latency);
            shared.take(slots, &mut part);
            let (now, now_at) = (self.counters.look()?, Instant::now());
            let figures = self.figures(&now, &last, now_at - last_at, &part);
            total.take(&mut part);
            // An end just after an interval's is no interval of its own.
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

    /// Waits until then, or until something happens before.
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
            match ends.recv_timeout(LOOK.min(until - now)) {
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
                // By what is left, as that needs no thread's attention.
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

/// How often somebody who watches is told.
const TICK: Duration = Duration::from_millis(200);

/// Tells threads to stop when it goes.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// What one thread does.
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
        workload.aligned,
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
        // Without times an operation with several faults passes for several.
        Engine::MmapCopy | Engine::MmapTouch
            if workload.latency
                || workload.aligned && workload.chunk.0 <= cachewise_sys::page_size().get() =>
        {
            HitSource::Faults
        }
        Engine::Pread if workload.latency => HitSource::Device,
        _ => HitSource::None,
    }
}

/// What a thread's failure means.
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
            "; its file system does not tell without waiting: take engine pread",
        ),
        (Engine::IoUring, Some(libc::ENOSYS | libc::EPERM)) => advised(
            "io_uring_setup",
            "; this kernel, or a container's seccomp profile, has no io_uring (sysctl kernel.io_uring_disabled): take \
             another engine",
        ),
        (Engine::Direct, Some(libc::EINVAL)) => advised(
            "pread with O_DIRECT",
            "; direct I/O goes by the device's blocks: a chunk of a multiple of 4K, and aligned",
        ),
        (Engine::Write, _) => Error::file("write", path, source),
        (Engine::MmapCopy | Engine::MmapTouch, _) => Error::file("mmap", path, source),
        _ => Error::file("read", path, source),
    }
}
