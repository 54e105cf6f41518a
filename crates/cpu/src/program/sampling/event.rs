//! Events that can be sampled.

use perf_event::Builder;
use perf_event::events::{Cache, CacheId, CacheOp, CacheResult, Hardware, Software};

/// An event that has a place in a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// Its name on the command line.
    pub name: &'static str,
    /// Its meaning at an address.
    pub what: &'static str,
    /// The unit of its number.
    pub unit: Unit,
    /// The default number of events per sample.
    pub period: u64,
    /// The shortest period that the kernel supports.
    pub(super) shortest: u64,
    source: Source,
}

/// Unit of an event's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// How often it happened.
    Times,
    /// Nanoseconds.
    Nanoseconds,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    Misses(CacheId),
    BranchMisses,
    PageFaults,
    CpuClock,
}

/// All events, those of data first: the first one that a machine offers is the default.
///
/// Periods are primes, so that a loop does not step in time with them. A busy core misses its first level some
/// hundred million times a second: that gives less samples than the kernel allows.
pub const EVENTS: [Event; 7] = [
    Event::misses("L1d", "reads that L1d did not have", CacheId::L1D, 10_007),
    Event::misses(
        "LLC",
        "reads that the last cache did not have",
        CacheId::LL,
        1_009,
    ),
    Event::misses(
        "dTLB",
        "reads whose address the dTLB did not have",
        CacheId::DTLB,
        1_009,
    ),
    Event::misses(
        "L1i",
        "fetches of code that L1i did not have",
        CacheId::L1I,
        1_009,
    ),
    Event {
        name: "branches",
        what: "branches that were guessed wrong",
        unit: Unit::Times,
        period: 10_007,
        shortest: 1,
        source: Source::BranchMisses,
    },
    Event {
        name: "page-faults",
        what: "page faults",
        unit: Unit::Times,
        period: 1,
        shortest: 1,
        source: Source::PageFaults,
    },
    Event {
        name: "cpu-clock",
        what: "CPU time",
        unit: Unit::Nanoseconds,
        period: 1_000_003,
        shortest: 10_000,
        source: Source::CpuClock,
    },
];

impl Event {
    const fn misses(name: &'static str, what: &'static str, cache: CacheId, period: u64) -> Event {
        Event {
            name,
            what,
            unit: Unit::Times,
            period,
            shortest: 1,
            source: Source::Misses(cache),
        }
    }

    /// The one of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Event> {
        EVENTS.iter().find(|event| event.name == name)
    }

    /// Those that tell where data is missed, the nearest level first.
    pub fn of_data() -> impl Iterator<Item = &'static Event> {
        EVENTS
            .iter()
            .filter(|event| matches!(event.source, Source::Misses(CacheId::L1D | CacheId::LL)))
    }

    /// Whether the kernel itself counts it, so that every machine has it and the place is exact.
    #[must_use]
    pub const fn is_software(&self) -> bool {
        matches!(self.source, Source::PageFaults | Source::CpuClock)
    }

    pub(super) fn builder<'a>(&self) -> Builder<'a> {
        match self.source {
            Source::Misses(which) => Builder::new(Cache {
                which,
                operation: CacheOp::READ,
                result: CacheResult::MISS,
            }),
            Source::BranchMisses => Builder::new(Hardware::BRANCH_MISSES),
            Source::PageFaults => Builder::new(Software::PAGE_FAULTS),
            Source::CpuClock => Builder::new(Software::CPU_CLOCK),
        }
    }
}
