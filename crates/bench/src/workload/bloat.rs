//! [`Bloat`]: settings of the process that takes memory.

use cachewise_units::Bytes;
use serde::{Deserialize, Serialize};

use super::written::{maybe, one};
use crate::Error;

/// A process that takes memory away from the page cache.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bloat {
    /// Its final size.
    #[serde(with = "one")]
    pub size: Bytes,
    /// Growth per second; without it, all at once before the measurement.
    #[serde(with = "maybe", default)]
    pub rate: Option<Bytes>,
    /// Grows with the bytes read, up to its size, as cache-bench does, which keeps the data it
    /// reads.
    #[serde(default, alias = "as-read")]
    pub as_read: bool,
    /// Share of the memory, from its start, to touch again each second, in per cent.
    #[serde(default, alias = "touch-pct")]
    pub touch: u8,
    /// Its oom_score_adj.
    #[serde(default = "first_to_go", alias = "oom-score-adj")]
    pub oom_score_adj: i16,
}

const fn first_to_go() -> i16 {
    1000
}

impl Bloat {
    /// This much at once, never touched again, and the first OOM victim.
    #[must_use]
    pub const fn of_size(size: Bytes) -> Bloat {
        Bloat {
            size,
            rate: None,
            as_read: false,
            touch: 0,
            oom_score_adj: first_to_go(),
        }
    }

    pub(super) fn check(&self) -> Result<(), Error> {
        let wrong = |what, why: &str| {
            let why = why.to_owned();
            Err(Error::Invalid { what, why })
        };
        if self.size.is_zero() {
            return wrong("bloat", "it is 0: leave it out instead");
        }
        if usize::try_from(self.size.0).is_err() || self.size.0 > 1 << 46 {
            return wrong("bloat", "no process can have that much memory");
        }
        if self.rate == Some(Bytes::ZERO) {
            return wrong("bloat-rate", "at 0 a second it never begins");
        }
        if self.touch > 100 {
            return wrong("bloat-touch", "at most 100 % of it can be touched");
        }
        if !(-1000..=1000).contains(&self.oom_score_adj) {
            return wrong("bloat-oom-score-adj", "the kernel takes -1000 to 1000");
        }
        Ok(())
    }
}
