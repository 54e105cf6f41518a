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
