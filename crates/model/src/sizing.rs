//! Numbers of a memory size that was simulated.

use crate::measured::{Count, Measured, NOT_APPLICABLE};
use crate::sparse::FieldGroup;

/// Cost of a load with an amount of memory.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "the table of fields describes each")]
pub struct Sizing {
    pub policy: Measured<String>,
    pub memory_bytes: Count,
    pub page_cache_bytes: Count,
    pub requested_pages: Count,
    pub missed_pages: Count,
    pub fetched_pages: Count,
    /// The least and the most missed pages of sizes nearby, where a few pages of room decide.
    pub missed_range: [Count; 2],
    /// The same of fetched pages.
    pub fetched_range: [Count; 2],
    /// Fetched pages under exact LRU.
    pub lru_fetched_pages: Count,
    /// Waits for pages of files, at the price of the measured ones.
    pub lost_seconds: Measured<f64>,
}

impl Sizing {
    /// The same missing value for every number.
    #[must_use]
    pub const fn all_missing(missing: crate::Missing) -> Sizing {
        Sizing {
            policy: Measured::Missing(missing),
            memory_bytes: Measured::Missing(missing),
            page_cache_bytes: Measured::Missing(missing),
            requested_pages: Measured::Missing(missing),
            missed_pages: Measured::Missing(missing),
            fetched_pages: Measured::Missing(missing),
            missed_range: [Measured::Missing(missing); 2],
            fetched_range: [Measured::Missing(missing); 2],
            lru_fetched_pages: Measured::Missing(missing),
            lost_seconds: Measured::Missing(missing),
        }
    }
}

static ABSENT: Sizing = Sizing::all_missing(NOT_APPLICABLE);

impl FieldGroup for Sizing {
    fn absent() -> &'static Self {
        &ABSENT
    }
}

/// Default columns of `size`.
pub const SIZE_COLUMNS: [&str; 8] = [
    "size_memory_bytes",
    "size_page_cache_bytes",
    "size_miss_ratio",
    "size_fetched_ratio",
    "size_fetched_per_second_bytes",
    "size_lost_seconds",
    "size_lru_miss_ratio",
    "note",
];
