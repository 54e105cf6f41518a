//! [`Workload`]: what is to be done to which file, in values that can be kept and compared.
//!
//! # Layout
//! - `words`: [`Engine`], [`Fill`], [`Advice`], each a list of words. `bloat`: [`Bloat`].
//! - `check`: what of it cannot be.
//! - `written`: sizes and times in files.

mod bloat;
mod check;
mod words;
mod written;

use std::path::PathBuf;
use std::time::Duration;

use cachewise_units::Bytes;
use serde::{Deserialize, Serialize};

use crate::Access;
use written::{maybe, one};

pub use bloat::Bloat;
pub use words::{Advice, Engine, Fill};

/// What is to be measured. [`run`](crate::run()) checks it as a whole.
///
/// Sizes are read as whole numbers of bytes or as text (`"64K"`), times as seconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Workload {
    /// The file, or block device, that is read or written.
    pub file: PathBuf,
    /// Makes the file, of this size, where it is not there; removed again by [`Made`](crate::Made) unless kept.
    #[serde(with = "maybe")]
    pub size: Option<Bytes>,
    /// By which system calls.
    pub engine: Engine,
    /// How much at a time.
    #[serde(with = "one")]
    pub chunk: Bytes,
    /// Which places.
    pub access: Access,
    /// Whether each operation begins at a multiple of the chunk, as with real programs' blocks; `false` begins it at
    /// any byte, as cache-bench does, so that 4 KiB are of two pages.
    pub aligned: bool,
    /// Decides the places: the same ones with the same seed.
    pub seed: u64,
    /// Ends after so many useful bytes, those of all threads together.
    #[serde(with = "maybe")]
    pub bytes: Option<Bytes>,
    /// Ends after so long.
    #[serde(with = "maybe")]
    pub time: Option<Duration>,
    /// Works for so long before it begins to count.
    #[serde(with = "one")]
    pub warm_up: Duration,
    /// How many threads.
    pub threads: usize,
    /// With io_uring: how many requests of a thread are under way at a time.
    pub depth: u32,
    /// What of the file is to be in the page cache when it begins, and how that came there.
    pub fill: Fill,
    /// What a file that is made holds: so much of it can be compressed away, in per cent.
    pub compress_pct: u8,
    /// What the kernel is told of the places.
    pub advice: Advice,
    /// Lets [`Engine::Write`] change a file that is there already, whose contents are lost.
    pub overwrite: bool,
    /// Runs in a control group of its own with this limit of memory.
    #[serde(with = "maybe")]
    pub memory_max: Option<Bytes>,
    /// And this limit of swap beside it.
    #[serde(with = "maybe")]
    pub swap_max: Option<Bytes>,
    /// And reclaims beyond this (`memory.high`; with version 1 a soft limit).
    #[serde(with = "maybe")]
    pub memory_high: Option<Bytes>,
    /// And swaps this readily, 0 to 200 (`memory.swappiness`, of version 1 only).
    pub swappiness: Option<u32>,
    /// A process beside it that takes memory.
    pub bloat: Option<Bloat>,
    /// From interval to interval.
    #[serde(with = "one")]
    pub interval: Duration,
    /// Whether the time of each operation is taken.
    pub latency: bool,
}

impl Default for Workload {
    fn default() -> Self {
        Workload {
            file: PathBuf::new(),
            size: None,
            engine: Engine::Pread,
            chunk: Bytes(64 << 10),
            access: Access::Uniform,
            aligned: true,
            seed: 1,
            bytes: None,
            time: None,
            warm_up: Duration::ZERO,
            threads: 1,
            depth: 1,
            fill: Fill::AsFound,
            compress_pct: 0,
            advice: Advice::Normal,
            overwrite: false,
            memory_max: None,
            swap_max: None,
            memory_high: None,
            swappiness: None,
            bloat: None,
            interval: Duration::from_secs(2),
            latency: true,
        }
    }
}
