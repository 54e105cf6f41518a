//! Numbers of a measurement beside the machine's counters, and their fields.

use crate::field::{Field, Kind, fields};
use crate::measured::{Count, Measured};
use crate::row::NOT_HERE;
use crate::seldom::Group;
use crate::unit::Unit;
use crate::value::{Datum, Value};

/// Numbers counted by a program that reads or writes on purpose.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "the table of fields describes each")]
pub struct Measurement {
    pub part: Measured<String>,
    pub engine: Measured<String>,
    pub access: Measured<String>,
    pub seed: Measured<u64>,
    pub chunk_bytes: Count,
    pub threads: Count,
    pub operations: Count,
    /// Faults that did not wait for a device; the others are the machine's major faults.
    pub minor_faults: Count,
    pub useful_bytes: Count,
    pub hit_operations: Count,
    pub miss_operations: Count,
    pub hit_bytes: Count,
    pub bloat_bytes: Count,
    /// All operations.
    pub all: Latencies,
    /// Operations that found all pages in the cache.
    pub hits: Latencies,
    /// Operations that waited for missing pages.
    pub misses: Latencies,
}

/// Latencies of operations, in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
#[expect(missing_docs, reason = "the table of fields describes each")]
pub struct Latencies {
    pub p50: Measured<f64>,
    pub p90: Measured<f64>,
    pub p99: Measured<f64>,
    pub p999: Measured<f64>,
    pub max: Measured<f64>,
}

impl Latencies {
    /// The same value for each.
    #[must_use]
    pub const fn all(latency: Measured<f64>) -> Latencies {
        Latencies {
            p50: latency,
            p90: latency,
            p99: latency,
            p999: latency,
            max: latency,
        }
    }
}

impl Measurement {
    /// The same missing value for every number and name.
    #[must_use]
    pub const fn all_missing(missing: crate::Missing) -> Measurement {
        Measurement {
            part: Measured::Missing(missing),
            engine: Measured::Missing(missing),
            access: Measured::Missing(missing),
            seed: Measured::Missing(missing),
            chunk_bytes: Measured::Missing(missing),
            threads: Measured::Missing(missing),
            operations: Measured::Missing(missing),
            minor_faults: Measured::Missing(missing),
            useful_bytes: Measured::Missing(missing),
            hit_operations: Measured::Missing(missing),
            miss_operations: Measured::Missing(missing),
            hit_bytes: Measured::Missing(missing),
            bloat_bytes: Measured::Missing(missing),
            all: Latencies::all(Measured::Missing(missing)),
            hits: Latencies::all(Measured::Missing(missing)),
            misses: Latencies::all(Measured::Missing(missing)),
        }
    }
}

static ABSENT: Measurement = Measurement::all_missing(NOT_HERE);

impl Group for Measurement {
    fn absent() -> &'static Self {
        &ABSENT
    }
}

impl Default for Measurement {
    fn default() -> Self {
        ABSENT.clone()
    }
}

/// Default columns of a measurement with a row per interval.
pub const INTERVAL_COLUMNS: [&str; 12] = [
    "elapsed_seconds",
    "useful_per_second_bytes",
    "hit_operations_ratio",
    "device_read_bytes",
    "amplification_factor",
    "major_faults",
    "file_refault_pages",
    "anon_refault_pages",
    "swap_out_pages",
    "memory_used_bytes",
    "psi_memory_full_ratio",
    "psi_io_full_ratio",
];

/// Columns of a measurement's sums: the workload and its cost. The most repeatable ones come first.
pub const TOTAL_COLUMNS: [&str; 16] = [
    "engine",
    "chunk_bytes",
    "useful_bytes",
    "hit_operations_ratio",
    "device_read_bytes",
    "amplification_factor",
    "major_faults",
    "minor_faults",
    "file_refault_pages",
    "anon_refault_pages",
    "swap_in_pages",
    "swap_out_pages",
    "memory_used_bytes",
    "cpu_seconds",
    "elapsed_seconds",
    "useful_per_second_bytes",
];

/// Columns of latencies.
pub const LATENCY_COLUMNS: [&str; 18] = [
    "engine",
    "chunk_bytes",
    "operations",
    "latency_p50_seconds",
    "latency_p90_seconds",
    "latency_p99_seconds",
    "latency_p999_seconds",
    "latency_max_seconds",
    "hit_p50_seconds",
    "hit_p90_seconds",
    "hit_p99_seconds",
    "hit_p999_seconds",
    "hit_max_seconds",
    "miss_p50_seconds",
    "miss_p90_seconds",
    "miss_p99_seconds",
    "miss_p999_seconds",
    "miss_max_seconds",
];

/// A multiple of `whole`; 0 of 0 has no value.
fn factor(part: Count, whole: Count) -> Value {
    // The whole first: if it is missing, that is the reason.
    match whole.zip(part, |whole, part| {
        (whole > 0).then(|| part as f64 / whole as f64)
    }) {
        Measured::Exact(Some(factor)) => Measured::Exact(Datum::Factor(factor)),
        Measured::Estimated(Some(factor), how) => Measured::Estimated(Datum::Factor(factor), how),
        Measured::Exact(None) | Measured::Estimated(None, _) => {
            Measured::not_offered("nothing was asked for")
        }
        Measured::Missing(missing) => Measured::Missing(missing),
    }
}

/// Bytes per second; not offered for a row without time.
fn per_second(bytes: Count, elapsed: std::time::Duration) -> Value {
    let seconds = elapsed.as_secs_f64();
    if seconds == 0.0 {
        return Measured::Missing(bytes.missing().unwrap_or(NOT_HERE));
    }
    bytes
        .map(|bytes| (bytes as f64 / seconds).round() as u64)
        .bytes()
}

pub(crate) const MEASUREMENT_FIELDS: [Field; 32] = fields! {
    "part", "PART", [], Text, Label,
        |row| row.measurement.part.clone().map(Datum::Text),
        "Whether the row is of an interval or of a whole measurement: interval, total";
    "engine", "ENGINE", [], Text, Label,
        |row| row.measurement.engine.clone().map(Datum::Text),
        "How the file is read or written: by which system calls";
    "access", "ACCESS", ["distribution"], Text, Label,
        |row| row.measurement.access.clone().map(Datum::Text),
        "Which places of the file are asked for";
    "seed", "SEED", [], Id, Label,
        |row| row.measurement.seed.map(Datum::Id),
        "The number that decides the order of the places: with the same one, the same places are asked for";
    "chunk_bytes", "CHUNK", [], Bytes, Gauge,
        |row| row.measurement.chunk_bytes.bytes(),
        "Bytes asked for at a time";
    "threads", "THREADS", [], Count, Gauge,
        |row| row.measurement.threads.count(),
        "How many threads ask at the same time";
    "operations", "OPS", ["ops"], Count, Counter,
        |row| row.measurement.operations.count(),
        "How many times something was asked for";
    "minor_faults", "MIN-FAULTS", [], Count, Counter,
        |row| row.measurement.minor_faults.count(),
        "Page faults of this process that waited for no device";
    "useful_bytes", "USEFUL", [], Bytes, Counter,
        |row| row.measurement.useful_bytes.bytes(),
        "Bytes that were asked for and that came";
    "useful_per_second_bytes", "RATE/s", ["rate", "throughput"], Bytes, Gauge,
        |row| per_second(row.measurement.useful_bytes, row.elapsed),
        "Useful bytes a second";
    "hit_operations", "HIT-OPS", [], Count, Counter,
        |row| row.measurement.hit_operations.count(),
        "Operations that found all that they asked for in the page cache";
    "miss_operations", "MISS-OPS", [], Count, Counter,
        |row| row.measurement.miss_operations.count(),
        "Operations that had to wait for something that was not in the page cache";
    "hit_operations_ratio", "HIT-OPS%", [], Ratio, Gauge,
        |row| Value::ratio(row.measurement.hit_operations.ratio_of(row.measurement.operations)),
        "Part of the operations that found all in the page cache";
    "hit_bytes", "HIT-BYTES", [], Bytes, Counter,
        |row| row.measurement.hit_bytes.bytes(),
        "Bytes that were in the page cache when they were asked for, those of operations that found a part of it included";
    "hit_bytes_ratio", "HIT-B%", [], Ratio, Gauge,
        |row| Value::ratio(row.measurement.hit_bytes.ratio_of(row.measurement.useful_bytes)),
        "Part of the useful bytes that were in the page cache when they were asked for";
    "amplification_factor", "AMP", ["amplification"], Factor, Gauge,
        |row| factor(row.subject.device_read_bytes, row.measurement.useful_bytes),
        "Bytes read from devices for each useful byte: below 1 where the cache helps, above it where more is read than is asked for";
    "bloat_bytes", "BLOAT", [], Bytes, Gauge,
        |row| row.measurement.bloat_bytes.bytes(),
        "Memory that the process holds whose work is to take it";
    "latency_p50_seconds", "P50", [], Seconds, Gauge,
        |row| row.measurement.all.p50.map(Datum::Latency),
        "Half of the operations took no longer";
    "latency_p90_seconds", "P90", [], Seconds, Gauge,
        |row| row.measurement.all.p90.map(Datum::Latency),
        "9 of 10 operations took no longer";
    "latency_p99_seconds", "P99", [], Seconds, Gauge,
        |row| row.measurement.all.p99.map(Datum::Latency),
        "99 of 100 operations took no longer";
    "latency_p999_seconds", "P99.9", [], Seconds, Gauge,
        |row| row.measurement.all.p999.map(Datum::Latency),
        "999 of 1,000 operations took no longer";
    "latency_max_seconds", "MAX", [], Seconds, Gauge,
        |row| row.measurement.all.max.map(Datum::Latency),
        "The longest that an operation took";
    "hit_p50_seconds", "HIT-P50", [], Seconds, Gauge,
        |row| row.measurement.hits.p50.map(Datum::Latency),
        "Half of the operations that found all in the page cache took no longer";
    "hit_p90_seconds", "HIT-P90", [], Seconds, Gauge,
        |row| row.measurement.hits.p90.map(Datum::Latency),
        "9 of 10 operations that found all in the page cache took no longer";
    "hit_p99_seconds", "HIT-P99", [], Seconds, Gauge,
        |row| row.measurement.hits.p99.map(Datum::Latency),
        "99 of 100 operations that found all in the page cache took no longer";
    "hit_p999_seconds", "HIT-P99.9", [], Seconds, Gauge,
        |row| row.measurement.hits.p999.map(Datum::Latency),
        "999 of 1,000 operations that found all in the page cache took no longer";
    "hit_max_seconds", "HIT-MAX", [], Seconds, Gauge,
        |row| row.measurement.hits.max.map(Datum::Latency),
        "The longest that an operation took that found all in the page cache";
    "miss_p50_seconds", "MISS-P50", [], Seconds, Gauge,
        |row| row.measurement.misses.p50.map(Datum::Latency),
        "Half of the operations that had to wait for something took no longer";
    "miss_p90_seconds", "MISS-P90", [], Seconds, Gauge,
        |row| row.measurement.misses.p90.map(Datum::Latency),
        "9 of 10 operations that had to wait for something took no longer";
    "miss_p99_seconds", "MISS-P99", [], Seconds, Gauge,
        |row| row.measurement.misses.p99.map(Datum::Latency),
        "99 of 100 operations that had to wait for something took no longer";
    "miss_p999_seconds", "MISS-P99.9", [], Seconds, Gauge,
        |row| row.measurement.misses.p999.map(Datum::Latency),
        "999 of 1,000 operations that had to wait for something took no longer";
    "miss_max_seconds", "MISS-MAX", [], Seconds, Gauge,
        |row| row.measurement.misses.max.map(Datum::Latency),
        "The longest that an operation took that had to wait for something";
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_columns_are_fields_of_measurements() {
        let row = crate::Row::of_measurement();
        for id in INTERVAL_COLUMNS
            .iter()
            .chain(&TOTAL_COLUMNS)
            .chain(&LATENCY_COLUMNS)
        {
            let field = crate::field(id);
            assert!(
                field.is_some_and(|field| field.is_of(&row)),
                "{id} is a field of such rows"
            );
        }
    }

    #[test]
    fn amplification_may_exceed_one() {
        let value = factor(Measured::Exact(1000), Measured::Exact(10));
        assert_eq!(
            value,
            Measured::Exact(Datum::Factor(100.0)),
            "a hundred bytes read for one that is wanted"
        );
        let none = factor(Measured::Exact(1000), Measured::Exact(0));
        assert!(
            none.missing().is_some(),
            "what nobody asked for has no factor"
        );
        let unknown = factor(Measured::unknown("lost"), Measured::Exact(10));
        assert_eq!(
            unknown.missing().map(crate::Missing::reason),
            Some("lost"),
            "the reason is handed on"
        );
    }
}
