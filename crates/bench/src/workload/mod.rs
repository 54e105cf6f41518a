//! [`Workload`]: settings of a measurement, as values that can be stored and compared.
//!
//! # Layout
//! - `words`: [`Engine`], [`Fill`], [`Advice`], each a list of words. `bloat`: [`Bloat`].
//! - `check`: invalid combinations.
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

/// A workload. [`run`](crate::run()) checks it as a whole.
///
/// In files, sizes are whole numbers of bytes or text (`"64K"`), times are seconds. Fields are keys, named like the options
/// of `cachewise bench` with `_` for `-`; keys of older versions are aliases.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Workload {
    /// The file, or block device, to read or write.
    pub file: PathBuf,
    /// Makes the file with this size if it is missing; [`Made`](crate::Made) removes it unless
    /// kept.
    #[serde(with = "maybe")]
    pub size: Option<Bytes>,
    /// The system calls.
    pub engine: Engine,
    /// Bytes per operation.
    #[serde(with = "one")]
    pub chunk: Bytes,
    /// The distribution of offsets.
    pub access: Access,
    /// Whether operations start at any byte, as in cache-bench, so that 4 KiB touch two pages; with `false` each starts at
    /// a multiple of the chunk, like real programs' blocks.
    pub unaligned: bool,
    /// Seed of the offsets.
    pub seed: u64,
    /// Stops after this many useful bytes, over all threads.
    #[serde(with = "maybe")]
    pub bytes: Option<Bytes>,
    /// Stops after this time.
    #[serde(with = "maybe", alias = "time")]
    pub seconds: Option<Duration>,
    /// Runs this long before counting starts.
    #[serde(with = "one", alias = "warm-up")]
    pub warm_up: Duration,
    /// Number of threads.
    pub threads: usize,
    /// Requests in flight per thread, with io_uring.
    pub depth: u32,
    /// The state of the page cache at the start, and the way to reach it.
    pub fill: Fill,
    /// Compressible share of the data of a new file, in per cent.
    #[serde(alias = "compress-pct")]
    pub compress_pct: u8,
    /// Access advice for the kernel.
    pub advice: Advice,
    /// Lets [`Engine::Write`] overwrite an existing file; its contents are lost.
    pub overwrite: bool,
    /// Runs in a temporary control group with this memory limit.
    #[serde(with = "maybe", alias = "memory-max")]
    pub memory_max: Option<Bytes>,
    /// Swap limit of that group.
    #[serde(with = "maybe", alias = "swap-max")]
    pub swap_max: Option<Bytes>,
    /// Memory beyond which that group is reclaimed (`memory.high`; with version 1 a soft limit).
    #[serde(with = "maybe", alias = "memory-high")]
    pub memory_high: Option<Bytes>,
    /// Swappiness of that group, 0 to 200 (`memory.swappiness`, only version 1).
    pub swappiness: Option<u32>,
    /// A separate process that takes memory.
    pub bloat: Option<Bloat>,
    /// Time between intervals.
    #[serde(with = "one")]
    pub interval: Duration,
    /// Whether latencies are not recorded.
    pub no_latency: bool,
    /// `aligned` and `latency`, the opposites that files of older versions have: `upgrade` reads them.
    #[doc(hidden)]
    #[serde(skip_serializing)]
    pub aligned: Option<bool>,
    #[doc(hidden)]
    #[serde(skip_serializing)]
    pub latency: Option<bool>,
}

impl Workload {
    /// Turns the keys of older versions that have no alias into those of this one.
    pub(crate) fn upgrade(&mut self) {
        self.unaligned |= self.aligned.take() == Some(false);
        self.no_latency |= self.latency.take() == Some(false);
    }
}

impl Default for Workload {
    fn default() -> Self {
        Workload {
            file: PathBuf::new(),
            size: None,
            engine: Engine::Pread,
            chunk: Bytes(64 << 10),
            access: Access::Uniform,
            unaligned: false,
            seed: 1,
            bytes: None,
            seconds: None,
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
            no_latency: false,
            aligned: None,
            latency: None,
        }
    }
}
