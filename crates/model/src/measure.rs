//! Numbers of a measurement beside the machine's counters, and their fields.

use crate::measured::{Count, Measured, NOT_APPLICABLE};
use crate::sparse::FieldGroup;

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

static ABSENT: Measurement = Measurement::all_missing(NOT_APPLICABLE);

impl FieldGroup for Measurement {
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
}
