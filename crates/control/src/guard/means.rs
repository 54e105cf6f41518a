//! [`Means`]: means of reclaim of a group.

use std::fmt;

use serde::Serialize;

/// Means of reclaim of a group's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Means {
    /// Reclaims the requested amount.
    #[serde(rename = "memory.reclaim")]
    Reclaim,
    /// Lowers `memory.high`, which reclaims, and restores it later.
    #[serde(rename = "memory.high")]
    High,
    /// Reclaims everything, stopped at the target.
    #[serde(rename = "memory.force_empty")]
    ForceEmpty,
    /// Lowers `memory.soft_limit_in_bytes`: the group is the first to be reclaimed when the machine
    /// runs out of memory.
    #[serde(rename = "memory.soft_limit_in_bytes")]
    SoftLimit,
}

impl Means {
    /// Returns its file.
    #[must_use]
    pub const fn file(self) -> &'static str {
        match self {
            Self::Reclaim => "memory.reclaim",
            Self::High => "memory.high",
            Self::ForceEmpty => "memory.force_empty",
            Self::SoftLimit => "memory.soft_limit_in_bytes",
        }
    }

    /// Whether it is a limit, which must be restored.
    #[must_use]
    pub const fn is_limit(self) -> bool {
        matches!(self, Self::High | Self::SoftLimit)
    }
}

impl fmt::Display for Means {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.file())
    }
}
