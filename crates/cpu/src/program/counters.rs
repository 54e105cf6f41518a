//! The hardware's counters. That the kernel lists one proves nothing, in virtual machines least of all: each is tried
//! by opening it.

use std::io;

use perf_event::events::{Cache, CacheId, CacheOp, CacheResult, Event, Hardware};
use perf_event::{Builder, Counter};

use super::Rate;

/// Accesses and misses of one kind.
#[derive(Debug)]
struct Pair {
    name: &'static str,
    counters: Result<(Counter, Counter), NoCounter>,
}

/// Why there is no such counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoCounter {
    /// This machine does not have it.
    NotHere,
    /// It may not be used.
    NotAllowed,
    /// The buffers of its samples may not be locked into memory.
    NotLocked,
    /// All of them are in use, or something else.
    Failed(i32),
}

impl From<io::Error> for NoCounter {
    fn from(error: io::Error) -> NoCounter {
        use rustix::io::Errno;
        match Errno::from_io_error(&error) {
            Some(Errno::NOENT | Errno::OPNOTSUPP | Errno::NODEV | Errno::NOSYS | Errno::INVAL) => {
                NoCounter::NotHere
            }
            Some(Errno::ACCESS | Errno::PERM) => NoCounter::NotAllowed,
            other => NoCounter::Failed(other.map_or(0, Errno::raw_os_error)),
        }
    }
}

impl NoCounter {
    /// Whether no thread was left to count.
    #[must_use]
    pub fn has_ended(self) -> bool {
        self == NoCounter::Failed(rustix::io::Errno::SRCH.raw_os_error())
    }
}

impl std::fmt::Display for NoCounter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            NoCounter::NotHere => f.write_str("this machine offers no such counter"),
            NoCounter::NotAllowed => {
                let path = "/proc/sys/kernel/perf_event_paranoid";
                let level = std::fs::read_to_string(path).unwrap_or_else(|_| "?".into());
                f.write_str(&not_allowed(level.trim()))
            }
            NoCounter::NotLocked => f.write_str(
                "its buffers exceed the limit of locked memory: raise it with ulimit -l, or as root with sysctl \
                 kernel.perf_event_mlock_kb",
            ),
            NoCounter::Failed(errno) => write!(
                f,
                "perf_event_open failed: {}",
                io::Error::from_raw_os_error(*errno)
            ),
        }
    }
}

/// Returns the restriction of this kernel.perf_event_paranoid value, and the fix.
fn not_allowed(level: &str) -> String {
    // Up to this one, users may look at what their own programs do in user space, which is all that is counted here.
    let is_own_allowed = level.parse::<i32>().is_ok_and(|level| level <= 2);
    match is_own_allowed {
        true => format!(
            "not allowed, though kernel.perf_event_paranoid is {level}, which permits a user's own programs: the program \
             may belong to another user, or a seccomp filter may forbid perf_event_open(2); run as root or with CAP_PERFMON"
        ),
        false => format!(
            "not allowed: kernel.perf_event_paranoid is {level}; as root: sysctl kernel.perf_event_paranoid=2, or \
             run with CAP_PERFMON"
        ),
    }
}

/// Counters of a program's caches.
#[derive(Debug)]
pub struct Counters {
    pairs: Vec<Pair>,
    counted_ratio: Option<f64>,
}

const fn cache(which: CacheId, result: CacheResult) -> Cache {
    Cache {
        which,
        operation: CacheOp::READ,
        result,
    }
}

/// Counts in what this thread starts from here on, and nothing before it has become another program.
fn of_children<E: Event>(event: E) -> Result<Counter, NoCounter> {
    let mut builder = Builder::new(event);
    builder.inherit(true).enable_on_exec(true);
    Ok(builder.build()?)
}

/// Counts in this thread of another process, from now on.
fn of_thread<E: Event>(event: E, thread: i32) -> Result<Counter, NoCounter> {
    let mut builder = Builder::new(event);
    builder.observe_pid(thread).inherit(true).enabled(true);
    Ok(builder.build()?)
}

impl Counters {
    /// Opens those for the programs that this thread starts next.
    #[must_use]
    pub fn for_children() -> Counters {
        Counters::with(|event| match event {
            CounterEvent::Cache(cache) => of_children(cache),
            CounterEvent::Hardware(hardware) => of_children(hardware),
        })
    }

    /// Opens those for a thread that runs already.
    #[must_use]
    pub fn of_thread(thread: u32) -> Counters {
        let thread = i32::try_from(thread).unwrap_or(i32::MAX);
        Counters::with(|event| match event {
            CounterEvent::Cache(cache) => of_thread(cache, thread),
            CounterEvent::Hardware(hardware) => of_thread(hardware, thread),
        })
    }

    fn with(open: impl Fn(CounterEvent) -> Result<Counter, NoCounter>) -> Counters {
        let caches = [
            ("L1d reads", CacheId::L1D),
            ("L1i", CacheId::L1I),
            ("LLC reads", CacheId::LL),
            ("dTLB reads", CacheId::DTLB),
        ];
        let mut pairs: Vec<Pair> = caches
            .into_iter()
            .map(|(name, which)| Pair {
                name,
                counters: pair(
                    open(CounterEvent::Cache(cache(which, CacheResult::ACCESS))),
                    || open(CounterEvent::Cache(cache(which, CacheResult::MISS))),
                ),
            })
            .collect();
        pairs.push(Pair {
            name: "branches",
            counters: pair(
                open(CounterEvent::Hardware(Hardware::BRANCH_INSTRUCTIONS)),
                || open(CounterEvent::Hardware(Hardware::BRANCH_MISSES)),
            ),
        });
        Counters {
            pairs,
            counted_ratio: None,
        }
    }

    /// Why there is none at all; nothing if there is one.
    #[must_use]
    pub fn none(&self) -> Option<NoCounter> {
        let reasons: Option<Vec<NoCounter>> = self
            .pairs
            .iter()
            .map(|pair| pair.counters.as_ref().err().copied())
            .collect();
        // A forbidden counter can be allowed; a missing one cannot.
        let reasons = reasons?;
        let forbidden = reasons.contains(&NoCounter::NotAllowed);
        Some(if forbidden {
            NoCounter::NotAllowed
        } else {
            reasons[0]
        })
    }

    /// The smallest part of the time in which one of them had a place in the hardware when they were read last, 0 to 1:
    /// what it counted then is scaled. Nothing if none was ever enabled.
    #[must_use]
    pub const fn counted_ratio(&self) -> Option<f64> {
        self.counted_ratio
    }

    /// Reads the counters.
    pub fn read(&mut self) -> Vec<Rate> {
        let mut least: Option<f64> = None;
        let mut rates: Vec<Rate> = self
            .pairs
            .iter_mut()
            .map(|pair| Rate {
                name: pair.name,
                counts: match &mut pair.counters {
                    Err(reason) => Err(reason.to_string()),
                    Ok((accesses, misses)) => both(accesses, misses, &mut least),
                },
            })
            .collect();
        self.counted_ratio = least;
        rates.insert(
            2,
            Rate {
                name: "L2",
                counts: Err("the kernel has no generic event for this counter; `perf list` may have one of the machine".into()),
            },
        );
        rates
    }
}

/// An event, whichever table it is from.
enum CounterEvent {
    Cache(Cache),
    Hardware(Hardware),
}

fn pair(
    first: Result<Counter, NoCounter>,
    second: impl FnOnce() -> Result<Counter, NoCounter>,
) -> Result<(Counter, Counter), NoCounter> {
    Ok((first?, second()?))
}

/// Adds up what threads have counted; and how many of them lack a figure that others have.
#[must_use]
pub fn sum(threads: &[Vec<Rate>]) -> (Vec<Rate>, usize) {
    let mut sums: Vec<Rate> = Vec::new();
    for rate in threads.iter().flatten() {
        let Some(sum) = sums.iter_mut().find(|sum| sum.name == rate.name) else {
            sums.push(rate.clone());
            continue;
        };
        match (&mut sum.counts, &rate.counts) {
            (Ok(sum), Ok(more)) => {
                *sum = (sum.0.saturating_add(more.0), sum.1.saturating_add(more.1));
            }
            (sum @ Err(_), Ok(_)) => sum.clone_from(&rate.counts),
            (_, Err(_)) => {}
        }
    }
    let is_known = |name| {
        let found = sums.iter().find(|sum| sum.name == name);
        found.is_some_and(|sum| sum.counts.is_ok())
    };
    let lacks = |rate: &Rate| rate.counts.is_err() && is_known(rate.name);
    let without = threads.iter().filter(|rates| rates.iter().any(lacks));
    let without = without.count();
    (sums, without)
}

fn both(
    accesses: &mut Counter,
    misses: &mut Counter,
    least: &mut Option<f64>,
) -> Result<(u64, u64), String> {
    Ok((count(accesses, least)?, count(misses, least)?))
}

fn count(counter: &mut Counter, least: &mut Option<f64>) -> Result<u64, String> {
    let read = counter.read_count_and_time();
    let read = read.map_err(|error| format!("the counter cannot be read: {error}"))?;
    let counted = scaled(read.count, read.time_enabled, read.time_running)?;
    if read.time_enabled > 0 {
        let ratio = read.time_running as f64 / read.time_enabled as f64;
        *least = Some(least.map_or(ratio, |least| least.min(ratio)));
    }
    Ok(counted)
}

/// A counter that had to share its place in the hardware counted a part of the time: what it counted is scaled.
fn scaled(count: u64, enabled: u64, running: u64) -> Result<u64, String> {
    match (enabled, running) {
        // A thread that slept all the time did nothing.
        (0, _) => Ok(0),
        (_, 0) => Err("the counter was never scheduled on the hardware".into()),
        (enabled, running) if enabled == running => Ok(count),
        (enabled, running) => Ok((count as f64 * enabled as f64 / running as f64) as u64),
    }
}

#[cfg(test)]
mod tests {
    use perf_event::events::Software;

    use super::*;

    #[test]
    fn counter_of_children_counts_only_children() {
        // Software counters go the same way, and are everywhere.
        let mut faults = match of_children(Software::PAGE_FAULTS) {
            Ok(counter) => counter,
            Err(reason) => {
                println!("skipped: counters: {reason}");
                return;
            }
        };
        let touched = vec![1u8; 8 << 20];
        assert_eq!(
            std::hint::black_box(touched).len(),
            8 << 20,
            "faults of our own"
        );
        assert_eq!(faults.read().unwrap(), 0, "ours do not count");
        let done = std::process::Command::new("true").status().unwrap();
        assert!(done.success(), "`true` is true");
        let counted = faults.read().unwrap();
        assert!((1..2000).contains(&counted), "the child's do: {counted}");
    }

    #[test]
    fn refusal_names_the_restriction_and_the_fix() {
        for level in ["3", "4", "?"] {
            let text = not_allowed(level);
            assert!(
                text.contains(&format!("is {level};")) && text.contains("sysctl"),
                "{text}"
            );
        }
        for level in ["2", "-1"] {
            let text = not_allowed(level);
            assert!(!text.contains("sysctl"), "that would not help: {text}");
            assert!(text.contains("CAP_PERFMON"), "this would: {text}");
        }
    }

    #[test]
    fn a_counter_that_shared_its_place_is_scaled() {
        assert_eq!(scaled(7, 10, 10), Ok(7), "it had it all the time");
        assert_eq!(scaled(7, 10, 5), Ok(14), "half of the time");
        assert_eq!(scaled(0, 0, 0), Ok(0), "who slept did nothing");
        assert!(scaled(0, 10, 0).is_err(), "never had one");
    }

    #[test]
    fn threads_with_a_figure_are_added_up_and_the_others_counted() {
        let rate = |name, counts: Result<(u64, u64), &str>| Rate {
            name,
            counts: counts.map_err(str::to_owned),
        };
        let threads = [
            vec![rate("a", Err("no place")), rate("b", Err("not here"))],
            vec![rate("a", Ok((10, 1))), rate("b", Err("not here"))],
            vec![rate("a", Err("too many files")), rate("b", Err("x"))],
            vec![rate("a", Ok((u64::MAX, 2))), rate("b", Err("not here"))],
        ];
        let expected = vec![rate("a", Ok((u64::MAX, 3))), rate("b", Err("not here"))];
        assert_eq!(sum(&threads), (expected, 2), "whoever is the first");
        assert_eq!(sum(&[]), (Vec::new(), 0), "nobody");
        let none = &threads[..1];
        assert_eq!(sum(none), (threads[0].clone(), 0), "nobody has one");
    }

    #[test]
    fn a_thread_that_is_gone_has_ended() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id();
        child.wait().unwrap();
        let gone = of_thread(Software::PAGE_FAULTS, i32::try_from(pid).unwrap()).unwrap_err();
        assert!(
            gone.has_ended() || gone == NoCounter::NotAllowed,
            "it is gone: {gone}"
        );
        assert!(!NoCounter::NotHere.has_ended(), "that is another reason");
    }

    #[test]
    fn every_counter_has_a_figure_or_a_reason() {
        let mut counters = Counters::for_children();
        let none = counters.none();
        let done = std::process::Command::new("true").status().unwrap();
        assert!(done.success(), "`true` is true");
        for rate in counters.read() {
            match rate.counts {
                Ok((accesses, misses)) => assert!(misses <= accesses, "{}", rate.name),
                Err(reason) => assert!(reason.len() > 10, "{}: {reason}", rate.name),
            }
        }
        if let Some(reason) = none {
            println!("skipped: hardware counters: {reason}");
        }
    }
}
