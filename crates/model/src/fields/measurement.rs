//! Numbers of a measurement as columns.

use crate::field::{Field, fields};
use crate::kind::Kind;
use crate::measured::{Count, Measured, NOT_APPLICABLE};
use crate::reason::Reason;
use crate::unit::Unit;
use crate::value::{Datum, Value};

/// A multiple of `whole`; 0 of 0 has no value.
fn factor(part: Count, whole: Count) -> Value {
    // The whole first: if it is missing, that is the reason.
    match whole.zip(part, |whole, part| {
        (whole > 0).then(|| part as f64 / whole as f64)
    }) {
        Measured::Exact(Some(factor)) => Measured::Exact(Datum::Factor(factor)),
        Measured::Estimated(Some(factor), how) => Measured::Estimated(Datum::Factor(factor), how),
        Measured::Exact(None) | Measured::Estimated(None, _) => {
            Measured::not_offered(Reason::NothingRequested)
        }
        Measured::Missing(missing) => Measured::Missing(missing),
    }
}

/// Bytes per second; not offered for a row without time.
fn per_second(bytes: Count, elapsed: std::time::Duration) -> Value {
    let seconds = elapsed.as_secs_f64();
    if seconds == 0.0 {
        return Measured::Missing(bytes.missing().unwrap_or(NOT_APPLICABLE));
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
        "System calls that read or write the file";
    "access", "ACCESS", ["distribution"], Text, Label,
        |row| row.measurement.access.clone().map(Datum::Text),
        "Distribution of the requested offsets in the file";
    "seed", "SEED", [], Id, Label,
        |row| row.measurement.seed.map(Datum::Id),
        "Seed of the offsets: the same seed gives the same offsets";
    "chunk_bytes", "CHUNK", [], Bytes, Gauge,
        |row| row.measurement.chunk_bytes.bytes(),
        "Bytes requested by one operation";
    "threads", "THREADS", [], Count, Gauge,
        |row| row.measurement.threads.count(),
        "Number of concurrent threads";
    "operations", "OPS", ["ops"], Count, Counter,
        |row| row.measurement.operations.count(),
        "Number of operations";
    "minor_faults", "MIN-FAULTS", [], Count, Counter,
        |row| row.measurement.minor_faults.count(),
        "Page faults of this process that did not wait for a device";
    "useful_bytes", "USEFUL", [], Bytes, Counter,
        |row| row.measurement.useful_bytes.bytes(),
        "Requested bytes that were delivered";
    "useful_per_second_bytes", "RATE/s", ["rate", "throughput"], Bytes, Gauge,
        |row| per_second(row.measurement.useful_bytes, row.elapsed),
        "Useful bytes per second";
    "hit_operations", "HIT-OPS", [], Count, Counter,
        |row| row.measurement.hit_operations.count(),
        "Hits: operations that found all requested bytes in the page cache";
    "miss_operations", "MISS-OPS", [], Count, Counter,
        |row| row.measurement.miss_operations.count(),
        "Misses: operations that waited for bytes that were not in the page cache";
    "hit_operations_ratio", "HIT-OPS%", [], Ratio, Gauge,
        |row| Value::ratio(row.measurement.hit_operations.ratio_of(row.measurement.operations)),
        "Share of operations that found all requested bytes in the page cache";
    "hit_bytes", "HIT-BYTES", [], Bytes, Counter,
        |row| row.measurement.hit_bytes.bytes(),
        "Bytes that were in the page cache when requested, those of partly served operations included";
    "hit_bytes_ratio", "HIT-B%", [], Ratio, Gauge,
        |row| Value::ratio(row.measurement.hit_bytes.ratio_of(row.measurement.useful_bytes)),
        "Share of the useful bytes that were in the page cache when requested";
    "amplification_factor", "AMP", ["amplification"], Factor, Gauge,
        |row| factor(row.subject.device_read_bytes, row.measurement.useful_bytes),
        "Bytes read from devices per useful byte: below 1 if the cache helps, above 1 if more is read than requested";
    "bloat_bytes", "BLOAT", [], Bytes, Gauge,
        |row| row.measurement.bloat_bytes.bytes(),
        "Memory that the memory hog holds";
    "latency_p50_seconds", "P50", [], Seconds, Gauge,
        |row| row.measurement.all.p50.map(Datum::Latency),
        "Median latency of operations";
    "latency_p90_seconds", "P90", [], Seconds, Gauge,
        |row| row.measurement.all.p90.map(Datum::Latency),
        "90th percentile of the latency of operations";
    "latency_p99_seconds", "P99", [], Seconds, Gauge,
        |row| row.measurement.all.p99.map(Datum::Latency),
        "99th percentile of the latency of operations";
    "latency_p999_seconds", "P99.9", [], Seconds, Gauge,
        |row| row.measurement.all.p999.map(Datum::Latency),
        "99.9th percentile of the latency of operations";
    "latency_max_seconds", "MAX", [], Seconds, Gauge,
        |row| row.measurement.all.max.map(Datum::Latency),
        "Maximum latency of operations";
    "hit_p50_seconds", "HIT-P50", [], Seconds, Gauge,
        |row| row.measurement.hits.p50.map(Datum::Latency),
        "Median latency of hits";
    "hit_p90_seconds", "HIT-P90", [], Seconds, Gauge,
        |row| row.measurement.hits.p90.map(Datum::Latency),
        "90th percentile of the latency of hits";
    "hit_p99_seconds", "HIT-P99", [], Seconds, Gauge,
        |row| row.measurement.hits.p99.map(Datum::Latency),
        "99th percentile of the latency of hits";
    "hit_p999_seconds", "HIT-P99.9", [], Seconds, Gauge,
        |row| row.measurement.hits.p999.map(Datum::Latency),
        "99.9th percentile of the latency of hits";
    "hit_max_seconds", "HIT-MAX", [], Seconds, Gauge,
        |row| row.measurement.hits.max.map(Datum::Latency),
        "Maximum latency of hits";
    "miss_p50_seconds", "MISS-P50", [], Seconds, Gauge,
        |row| row.measurement.misses.p50.map(Datum::Latency),
        "Median latency of misses";
    "miss_p90_seconds", "MISS-P90", [], Seconds, Gauge,
        |row| row.measurement.misses.p90.map(Datum::Latency),
        "90th percentile of the latency of misses";
    "miss_p99_seconds", "MISS-P99", [], Seconds, Gauge,
        |row| row.measurement.misses.p99.map(Datum::Latency),
        "99th percentile of the latency of misses";
    "miss_p999_seconds", "MISS-P99.9", [], Seconds, Gauge,
        |row| row.measurement.misses.p999.map(Datum::Latency),
        "99.9th percentile of the latency of misses";
    "miss_max_seconds", "MISS-MAX", [], Seconds, Gauge,
        |row| row.measurement.misses.max.map(Datum::Latency),
        "Maximum latency of misses";
};

#[cfg(test)]
mod tests {
    use super::*;

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
        let unknown = factor(Measured::unknown(Reason::LostEvents), Measured::Exact(10));
        assert_eq!(
            unknown.missing().map(crate::Missing::reason),
            Some(Reason::LostEvents),
            "the reason is handed on"
        );
    }
}
