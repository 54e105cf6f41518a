//! Opening a sampled event: on each CPU, as the kernel gives a buffer to none that is inherited and on all CPUs; and
//! with as much as this kernel and this hardware can do.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use perf_event::{Builder, Counter, ReadFormat, SampleFlag, SampleSkid, Sampler};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use rustix::ioctl::{IntegerSetter, Opcode, ioctl, opcode};
use rustix::process::{Resource, getrlimit};

use super::event::Event;
use super::object::MOST_OPEN;
use crate::measure::pin::allowed;
use crate::program::NoCounter;
use crate::{CpuList, Error};

/// Maximum size of the buffer of a CPU, in bytes: with its head, the memory that users may lock per CPU by default
/// (`kernel.perf_event_mlock_kb`).
const LARGEST_RING: usize = 512 << 10;

/// Less than this holds no burst.
const SMALLEST_RING: usize = 32 << 10;

/// Descriptors that threads are not to take: for the files that samples are in, and what follows.
const SPARE: u64 = MOST_OPEN as u64 + 64;

/// The threads whose events are sampled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Whose {
    /// Of the programs that this thread starts next, from when they are executed.
    Children,
    /// Of these threads, from now on.
    Threads(Vec<u32>),
}

/// How far the address of a sample may be from where the event happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Skid {
    /// The instruction itself, by the hardware or as an event of the kernel.
    None,
    /// Requested from the hardware, without a guarantee.
    Asked,
    /// Always the same distance, some instructions.
    Constant,
    /// Some instructions, by chance.
    Any,
}

impl Skid {
    /// From the best to what every hardware has.
    const HARDWARE: [(Skid, SampleSkid); 4] = [
        (Skid::None, SampleSkid::RequireZero),
        (Skid::Asked, SampleSkid::RequestZero),
        (Skid::Constant, SampleSkid::Constant),
        (Skid::Any, SampleSkid::Arbitrary),
    ];

    /// The level of the kernel's `precise_ip`, 0 to 3.
    #[must_use]
    pub const fn level(self) -> u8 {
        match self {
            Skid::None => 3,
            Skid::Asked => 2,
            Skid::Constant => 1,
            Skid::Any => 0,
        }
    }
}

/// Features by kernel version: 6.0 counts lost records, 5.12 identifies files by build ID.
const KNOWN: [(bool, bool); 3] = [(true, true), (false, true), (false, false)];

/// Events that are open, with their buffers.
pub(super) struct Opened {
    /// One for each CPU.
    pub(super) rings: Vec<Sampler>,
    /// Those of other threads, which write into the buffers of the first one.
    pub(super) others: Vec<Counter>,
    pub(super) skid: Skid,
    /// Whether the kernel counts by itself what was lost.
    pub(super) counts_lost: bool,
    /// Threads for which there was no place.
    pub(super) left_out: usize,
    /// CPUs that have no such counter, as some cores of machines with several kinds.
    pub(super) without: CpuList,
}

/// A way to open it that works.
#[derive(Clone, Copy)]
struct OpenMethod {
    skid: (Skid, SampleSkid),
    counts_lost: bool,
    build_id: bool,
}

fn builder<'a>(event: &Event, period: u64, way: OpenMethod) -> Builder<'a> {
    let mut builder = event.builder();
    builder
        .inherit(true)
        .mmap(true)
        .mmap2(true)
        .comm(true)
        .comm_exec(true)
        .task(true)
        .sample_id_all(true)
        // Without the period: if it is requested, the kernel samples each of its own events.
        .sample(SampleFlag::IP | SampleFlag::TID | SampleFlag::TIME)
        .sample_period(period)
        .wakeup_watermark(SMALLEST_RING / 2)
        .build_id(way.build_id);
    if !event.is_software() {
        builder.precise_ip(way.skid.1);
    }
    let mut format = ReadFormat::TOTAL_TIME_ENABLED | ReadFormat::TOTAL_TIME_RUNNING;
    format.set(ReadFormat::LOST, way.counts_lost);
    builder.read_format(format);
    builder
}

fn counter(
    event: &Event,
    period: u64,
    way: OpenMethod,
    thread: Option<u32>,
    cpu: u32,
) -> io::Result<Counter> {
    let mut builder = builder(event, period, way);
    builder.one_cpu(cpu as usize);
    match thread {
        // `all` enables it once it has a buffer: the kernel counts a sample without one neither as taken nor as lost.
        Some(thread) => builder.observe_pid(i32::try_from(thread).unwrap_or(i32::MAX)),
        None => builder.enable_on_exec(true),
    };
    builder.build()
}

/// The CPUs that programs may run on; those of this process where sysfs does not tell.
fn online() -> Result<CpuList, Error> {
    let told = std::fs::read_to_string("/sys/devices/system/cpu/online");
    match told.ok().and_then(|text| text.trim().parse().ok()) {
        Some(cpus) => Ok(cpus),
        None => allowed(),
    }
}

/// Why it is not open.
enum Failed {
    /// For another reason than its buffers.
    Open(NoCounter),
    /// There is not so much memory for them, or it may not be locked.
    Ring(io::Error),
}

impl From<io::Error> for Failed {
    fn from(error: io::Error) -> Failed {
        Failed::Open(error.into())
    }
}

/// Holds descriptors that others will need, a quarter of what there may be at most.
fn spare() -> Vec<OwnedFd> {
    let most = getrlimit(Resource::Nofile).current;
    let count = most.map_or(SPARE, |most| SPARE.min(most / 4));
    (0..count)
        .map_while(|_| eventfd(0, EventfdFlags::CLOEXEC).ok())
        .collect()
}

fn is(error: &io::Error, errno: Errno) -> bool {
    Errno::from_io_error(error) == Some(errno)
}

/// Opens it for all CPUs.
pub(super) fn open(event: &Event, period: u64, whose: &Whose) -> Result<Opened, NoCounter> {
    let cpus = online().map_err(|_| NoCounter::Failed(Errno::NODEV.raw_os_error()))?;
    let threads: Vec<Option<u32>> = match whose {
        Whose::Children => vec![None],
        Whose::Threads(threads) => threads.iter().copied().map(Some).collect(),
    };
    let way = way(event, period, &threads, &cpus)?;
    let _spare = match whose {
        Whose::Children => Vec::new(),
        Whose::Threads(_) => spare(),
    };
    let mut ring = LARGEST_RING;
    loop {
        match all(event, period, way, &threads, &cpus, ring) {
            Ok(opened) => return Ok(opened),
            Err(Failed::Open(reason)) => return Err(reason),
            Err(Failed::Ring(_)) if ring > SMALLEST_RING => ring /= 2,
            Err(Failed::Ring(error)) if is(&error, Errno::PERM) => {
                return Err(NoCounter::NotLocked);
            }
            Err(Failed::Ring(error)) => return Err(error.into()),
        }
    }
}

/// The best way that works, tried on the first thread and CPU that there are.
fn way(
    event: &Event,
    period: u64,
    threads: &[Option<u32>],
    cpus: &CpuList,
) -> Result<OpenMethod, NoCounter> {
    // The kernel was there itself.
    let skids = match event.is_software() {
        true => &Skid::HARDWARE[..1],
        false => &Skid::HARDWARE,
    };
    let mut last = NoCounter::Failed(Errno::SRCH.raw_os_error());
    for thread in threads {
        for cpu in cpus.iter() {
            let mut is_elsewhere = false;
            for skid in skids {
                for (counts_lost, build_id) in KNOWN {
                    let way = OpenMethod {
                        skid: *skid,
                        counts_lost,
                        build_id,
                    };
                    match counter(event, period, way, *thread, cpu) {
                        Ok(_) => return Ok(way),
                        Err(error) => {
                            is_elsewhere |= [Errno::SRCH, Errno::NODEV, Errno::NOENT]
                                .iter()
                                .any(|errno| is(&error, *errno));
                            last = error.into();
                        }
                    }
                }
            }
            if !is_elsewhere {
                return Err(last);
            }
        }
    }
    Err(last)
}

fn all(
    event: &Event,
    period: u64,
    way: OpenMethod,
    threads: &[Option<u32>],
    cpus: &CpuList,
    ring: usize,
) -> Result<Opened, Failed> {
    let mut opened = Opened {
        rings: Vec::new(),
        others: Vec::new(),
        skid: way.skid.0,
        counts_lost: way.counts_lost,
        left_out: 0,
        without: CpuList::default(),
    };
    let mut without = BTreeSet::new();
    let mut ring_of: Vec<Option<usize>> = vec![None; cpus.len()];
    for thread in threads {
        let counters: io::Result<Vec<_>> = cpus
            .iter()
            .map(|cpu| match counter(event, period, way, *thread, cpu) {
                Ok(counter) => Ok(Some(counter)),
                // It was taken offline.
                Err(error) if is(&error, Errno::NODEV) => Ok(None),
                Err(error) if is(&error, Errno::NOENT) => {
                    without.insert(cpu);
                    Ok(None)
                }
                Err(error) => Err(error),
            })
            .collect();
        let counters = match counters {
            Ok(counters) => counters,
            // It has ended.
            Err(error) if is(&error, Errno::SRCH) => continue,
            Err(error) if is(&error, Errno::MFILE) && !opened.rings.is_empty() => {
                opened.left_out += 1;
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        for (counter, place) in counters.into_iter().zip(&mut ring_of) {
            let Some(mut counter) = counter else { continue };
            match place.and_then(|place| opened.rings.get(place)) {
                Some(ring) => {
                    write_into(&counter, ring)?;
                    if thread.is_some() {
                        counter.enable()?;
                    }
                    opened.others.push(counter);
                }
                None => {
                    *place = Some(opened.rings.len());
                    let mut ring = counter.sampled(ring).map_err(Failed::Ring)?;
                    if thread.is_some() {
                        ring.as_counter_mut().enable()?;
                    }
                    opened.rings.push(ring);
                }
            }
        }
    }
    opened.without = CpuList::new(without);
    match opened.rings.is_empty() {
        true => Err(Failed::Open(NoCounter::Failed(Errno::SRCH.raw_os_error()))),
        false => Ok(opened),
    }
}

/// Has a counter write into the buffer of another one on the same CPU.
fn write_into(counter: &Counter, ring: &Sampler) -> io::Result<()> {
    /// `PERF_EVENT_IOC_SET_OUTPUT`.
    const SET_OUTPUT: Opcode = opcode::none(b'$', 5);
    let (counter, ring) = (counter.as_raw_fd(), ring.as_raw_fd());
    // SAFETY: both descriptors are those of counters that are borrowed here, and so open; this request of theirs takes
    // a descriptor, as an integer, and touches no memory of ours.
    unsafe {
        let request = IntegerSetter::<SET_OUTPUT>::new_usize(ring as usize);
        ioctl(BorrowedFd::borrow_raw(counter), request)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_of_a_process_share_the_buffers() {
        let own = std::process::id();
        let (stop, wait) = std::sync::mpsc::channel::<()>();
        let (say, said) = std::sync::mpsc::channel();
        let id = || u32::try_from(rustix::thread::gettid().as_raw_nonzero().get()).unwrap();
        let other = std::thread::spawn(move || {
            say.send(id()).unwrap();
            wait.recv()
        });
        // Not those of other tests: with many CPUs, all of them are more than may be open.
        let threads = [id(), said.recv().unwrap()];
        let event = Event::named("page-faults").unwrap();
        match open(event, 1, &Whose::Threads(threads.to_vec())) {
            Ok(opened) => {
                assert_eq!(opened.skid, Skid::None, "the kernel was there");
                assert!(opened.rings.len() <= online().unwrap().len(), "one a CPU");
                assert!(
                    opened.others.len() >= opened.rings.len(),
                    "the others of {own} write into the same"
                );
            }
            Err(reason) => println!("skipped: sampling: {reason}"),
        }
        drop(stop);
        let _ = other.join();
    }

    #[test]
    fn ended_process_is_not_sampled() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id();
        child.wait().unwrap();
        let event = Event::named("page-faults").unwrap();
        assert!(
            open(event, 1, &Whose::Threads(vec![pid])).is_err(),
            "it is gone"
        );
    }
}
