//! Counters of each tier and node, as `tier stat` shows them: [`Counters`].

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Sources of a block, nearest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    /// This process's memory.
    Memory,
    /// The local disk.
    Disk,
    /// The engine that machines share.
    Remote,
    /// The origin.
    Origin,
}

impl Tier {
    /// All tiers, in the order in which reads query them.
    pub const ALL: [Self; 4] = [Self::Memory, Self::Disk, Self::Remote, Self::Origin];

    /// Returns its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Disk => "disk",
            Self::Remote => "remote",
            Self::Origin => "origin",
        }
    }
}

/// Latency of calls; absent if there was no call.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// The arithmetic mean.
    pub mean_seconds: f64,
    /// The median, to three digits.
    pub p50_seconds: f64,
    /// The 99th percentile.
    pub p99_seconds: f64,
    /// The maximum.
    pub max_seconds: f64,
}

/// The counters of one tier. Serialized names are those of `tier stat --json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TierRow {
    /// The tier.
    #[serde(rename = "name")]
    pub tier: Tier,
    /// Requests for a block.
    #[serde(rename = "calls_total")]
    pub calls: u64,
    /// Requests for which it had the block.
    #[serde(rename = "hits_total")]
    pub hits: u64,
    /// Requests for which it did not have the block.
    #[serde(rename = "misses_total")]
    pub misses: u64,
    /// Requests without an answer, late answers included.
    #[serde(rename = "errors_total")]
    pub errors: u64,
    /// Damaged blocks, which were discarded.
    #[serde(rename = "corrupt_total")]
    pub corrupt: u64,
    /// Bytes that it returned.
    #[serde(rename = "read_bytes_total")]
    pub bytes: u64,
    /// Latencies, of all outcomes.
    pub latency: Option<Latency>,
}

/// State of a node's circuit breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BreakerState {
    /// Requests pass.
    Closed,
    /// Requests are refused for some time.
    Open,
    /// One probe is under way.
    Probing,
}

/// The counters of one node of the engine. Serialized names are those of `tier stat --json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeRow {
    /// Its address.
    #[serde(rename = "name")]
    pub node: String,
    /// Requests for a block, with hedges and probes.
    #[serde(rename = "calls_total")]
    pub calls: u64,
    /// Requests for which it had the block.
    #[serde(rename = "hits_total")]
    pub hits: u64,
    /// Requests for which it did not have the block.
    #[serde(rename = "misses_total")]
    pub misses: u64,
    /// Requests that it answered with an error, or that could not reach it.
    #[serde(rename = "errors_total")]
    pub errors: u64,
    /// Requests that exceeded the deadline.
    #[serde(rename = "deadline_misses_total")]
    pub deadline_misses: u64,
    /// Hedged requests to it, because another node was slow.
    #[serde(rename = "hedges_total")]
    pub hedges: u64,
    /// Requests that tested whether it responds again.
    #[serde(rename = "probes_total")]
    pub probes: u64,
    /// Number of times its breaker opened.
    #[serde(rename = "breaker_opened_total")]
    pub opened: u64,
    /// Blocks that it stored for this process.
    #[serde(rename = "writes_total", default)]
    pub writes: u64,
    /// Its breaker now.
    pub breaker: BreakerState,
    /// Open connections to it.
    pub connections: u64,
    /// Time to the first byte of its answers; requests without an answer are left out.
    pub latency: Option<Latency>,
}

/// The counters over all tiers. All but the last three are monotonic. Serialized names
/// are those of `tier stat --json`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Totals {
    /// Requested reads.
    #[serde(rename = "reads_total")]
    pub reads: u64,
    /// Reads that ended with an error.
    #[serde(rename = "failed_reads_total")]
    pub failed_reads: u64,
    /// The bytes that reads returned.
    #[serde(rename = "read_bytes_total")]
    pub bytes: u64,
    /// Reads of a block that was already being fetched, which waited for that.
    #[serde(rename = "joined_reads_total")]
    pub joined: u64,
    /// Hedged requests: sent to a second node because the first was slow.
    #[serde(rename = "hedges_total")]
    pub hedges: u64,
    /// Hedged requests that returned the block first.
    #[serde(rename = "hedges_won_total")]
    pub hedges_won: u64,
    /// Hedged requests not sent, because their budget was used up.
    #[serde(rename = "hedges_refused_total")]
    pub hedges_refused: u64,
    /// Blocks that no node returned in time, so that the origin was read.
    #[serde(rename = "deadline_misses_total")]
    pub deadline_misses: u64,
    /// Blocks that were not requested from a node: all breakers were open, no node serves them, or all nodes
    /// had the maximum in flight.
    #[serde(rename = "breaker_skips_total")]
    pub breaker_skips: u64,
    /// Blocks written to the engine.
    #[serde(rename = "fills_total")]
    pub fills: u64,
    /// Blocks not written to the engine: too many were in flight, or it refused.
    #[serde(rename = "dropped_fills_total")]
    pub dropped_fills: u64,
    /// Blocks not written to the local disk: its queue or the disk was full.
    #[serde(rename = "dropped_disk_writes_total")]
    pub dropped_disk_writes: u64,
    /// Leases taken: blocks that this process read from the origin while other machines waited for them.
    #[serde(rename = "leases_total", default)]
    pub leases: u64,
    /// Blocks that another machine was reading from the origin, and that were waited for.
    #[serde(rename = "lease_waits_total", default)]
    pub lease_waits: u64,
    /// Waits that ended without the block, so that the origin was read.
    #[serde(rename = "lease_waits_in_vain_total", default)]
    pub lease_waits_in_vain: u64,
    /// Copies of blocks made in the engine, as servers were busy because many machines read the same blocks.
    #[serde(rename = "copies_total", default)]
    pub copies: u64,
    /// Blocks that a copy returned.
    #[serde(rename = "copy_hits_total", default)]
    pub copy_hits: u64,
    /// Blocks that a node outside of the zone of this machine returned; 0 without a zone.
    #[serde(rename = "other_zone_hits_total", default)]
    pub other_zone_hits: u64,
    /// Lists and objects that other machines had asked the origin, taken from the engine.
    #[serde(rename = "shared_names_total", default)]
    pub names_shared: u64,
    /// Number of times that an object, a directory or the whole origin was found to answer nothing but errors.
    #[serde(rename = "origin_breaker_opened_total", default)]
    pub origin_breaker_opened: u64,
    /// Requests to the origin that failed at once for that.
    #[serde(rename = "origin_refused_total", default)]
    pub origin_refused: u64,
    /// Requests that tested whether it answers again.
    #[serde(rename = "origin_probes_total", default)]
    pub origin_probes: u64,
    /// Present maximum of concurrent reads of the origin, by its response times.
    #[serde(rename = "origin_limit_reads", default)]
    pub origin_limit: u64,
    /// Present delay before a hedged request; `None` is never.
    pub hedge_after_seconds: Option<f64>,
    /// Present deadline for the first byte from a node; `None` without an engine.
    pub deadline_seconds: Option<f64>,
}

/// The counters of a cache since it was opened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// One row per configured tier.
    pub tiers: Vec<TierRow>,
    /// One row per node of the engine.
    pub nodes: Vec<NodeRow>,
    /// The counters over all tiers.
    pub totals: Totals,
}

/// A number that only grows.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    pub(crate) fn one(&self) {
        self.add(1);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Histogram of latencies: three digits, up to an hour, in bounded memory.
#[derive(Debug)]
pub(crate) struct Latencies(Mutex<Recorded>);

/// Latencies in microseconds. A histogram takes 190 KB: for each of a thousand nodes, of which a client asks most a few
/// times, that is more than the blocks in memory.
#[derive(Debug)]
enum Recorded {
    Few(Vec<u32>),
    Many(Histogram<u64>),
}

/// Number of latencies from which on they are in a histogram.
const MANY: usize = 64;

/// Longest latency in microseconds: an hour.
const LONGEST: u32 = 3_600_000_000;

fn histogram_of(few: &[u32]) -> Histogram<u64> {
    let mut histogram = Histogram::new_with_bounds(1, u64::from(LONGEST), 3)
        .or_else(|_| Histogram::new(3))
        .unwrap_or_else(|_| unreachable!("three digits are allowed"));
    for microseconds in few {
        histogram.saturating_record(u64::from(*microseconds));
    }
    histogram
}

impl Latencies {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Recorded::Few(Vec::new())))
    }

    pub(crate) fn record(&self, took: Duration) {
        let microseconds = u32::try_from(took.as_micros())
            .unwrap_or(LONGEST)
            .clamp(1, LONGEST);
        let mut recorded = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *recorded {
            Recorded::Few(few) if few.len() < MANY => few.push(microseconds),
            Recorded::Few(few) => {
                let mut histogram = histogram_of(few);
                histogram.saturating_record(u64::from(microseconds));
                *recorded = Recorded::Many(histogram);
            }
            Recorded::Many(histogram) => histogram.saturating_record(u64::from(microseconds)),
        }
    }

    pub(crate) fn get(&self) -> Option<Latency> {
        let recorded = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &*recorded {
            Recorded::Few(few) if few.is_empty() => None,
            Recorded::Few(few) => Some(latency_of(&histogram_of(few))),
            Recorded::Many(histogram) => Some(latency_of(histogram)),
        }
    }
}

fn latency_of(histogram: &Histogram<u64>) -> Latency {
    let seconds = |microseconds: u64| Duration::from_micros(microseconds).as_secs_f64();
    Latency {
        mean_seconds: histogram.mean() / 1e6,
        p50_seconds: seconds(histogram.value_at_quantile(0.5)),
        p99_seconds: seconds(histogram.value_at_quantile(0.99)),
        max_seconds: seconds(histogram.max()),
    }
}

/// The live counters of one tier.
#[derive(Debug)]
pub(crate) struct TierCounters {
    tier: Tier,
    pub(crate) hits: Count,
    pub(crate) misses: Count,
    pub(crate) errors: Count,
    pub(crate) corrupt: Count,
    pub(crate) bytes: Count,
    pub(crate) latency: Latencies,
}

impl TierCounters {
    fn new(tier: Tier) -> Self {
        Self {
            tier,
            hits: Count::default(),
            misses: Count::default(),
            errors: Count::default(),
            corrupt: Count::default(),
            bytes: Count::default(),
            latency: Latencies::new(),
        }
    }

    /// Notes that it had the block.
    pub(crate) fn hit(&self, bytes: usize, took: Duration) {
        self.hits.one();
        self.bytes.add(u64::try_from(bytes).unwrap_or(u64::MAX));
        self.latency.record(took);
    }

    /// Notes that it had not.
    pub(crate) fn miss(&self, took: Duration) {
        self.misses.one();
        self.latency.record(took);
    }

    /// Notes that it did not answer.
    pub(crate) fn error(&self, took: Duration) {
        self.errors.one();
        self.latency.record(took);
    }

    fn row(&self) -> TierRow {
        let (hits, misses, errors) = (self.hits.get(), self.misses.get(), self.errors.get());
        TierRow {
            tier: self.tier,
            calls: hits + misses + errors,
            hits,
            misses,
            errors,
            corrupt: self.corrupt.get(),
            bytes: self.bytes.get(),
            latency: self.latency.get(),
        }
    }
}

/// The live counters of a cache.
#[derive(Debug)]
pub(crate) struct Counters {
    pub(crate) memory: TierCounters,
    pub(crate) disk: TierCounters,
    pub(crate) remote: TierCounters,
    pub(crate) origin: TierCounters,
    pub(crate) reads: Count,
    pub(crate) failed_reads: Count,
    pub(crate) bytes: Count,
    pub(crate) joined: Count,
    pub(crate) names_shared: Count,
}

impl Counters {
    pub(crate) fn new() -> Self {
        Self {
            memory: TierCounters::new(Tier::Memory),
            disk: TierCounters::new(Tier::Disk),
            remote: TierCounters::new(Tier::Remote),
            origin: TierCounters::new(Tier::Origin),
            reads: Count::default(),
            failed_reads: Count::default(),
            bytes: Count::default(),
            joined: Count::default(),
            names_shared: Count::default(),
        }
    }

    /// Returns the rows of the tiers that there are.
    pub(crate) fn rows(&self, has: impl Fn(Tier) -> bool) -> Vec<TierRow> {
        [&self.memory, &self.disk, &self.remote, &self.origin]
            .into_iter()
            .filter(|counters| has(counters.tier))
            .map(TierCounters::row)
            .collect()
    }

    /// Returns what goes over all tiers, without what others count.
    pub(crate) fn totals(&self) -> Totals {
        Totals {
            reads: self.reads.get(),
            failed_reads: self.failed_reads.get(),
            bytes: self.bytes.get(),
            joined: self.joined.get(),
            names_shared: self.names_shared.get(),
            ..Totals::default()
        }
    }
}
