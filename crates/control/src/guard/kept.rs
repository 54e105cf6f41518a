//! The kind of memory that the guard keeps.

use std::fmt;

use serde::Serialize;

/// Kind of memory to keep above the mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kept {
    /// `MemAvailable`: memory that programs can get without swapping. Clean page cache counts, so
    /// dropping it changes nothing.
    Available,
    /// `MemFree`: memory that holds nothing; page cache does not count.
    Free,
}

impl fmt::Display for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Available => "available",
            Self::Free => "free",
        })
    }
}
