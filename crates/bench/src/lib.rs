//! Measures reads and writes of a file, and their cost.
//!
//! The crate leads with counters: bytes read from devices per useful byte, hits and misses, faults,
//! refaults, pressure. They repeat within a few per cent, while the speed of the same runs varies
//! by half. The crate does not judge a single run: only [`matrix`] compares, with statistics over
//! many.
//!
//! ```
//! use std::sync::atomic::AtomicBool;
//!
//! use cachewise_bench::{Engine, Workload, run};
//! use cachewise_units::Bytes;
//!
//! # let directory = tempfile::tempdir()?;
//! let workload = Workload {
//!     file: directory.path().join("data"),
//!     size: Some(Bytes(1 << 20)),
//!     engine: Engine::Pread,
//!     chunk: Bytes(4 << 10),
//!     bytes: Some(Bytes(4 << 20)),
//!     ..Workload::default()
//! };
//! let summary = run(&workload, &mut |_| {}, &AtomicBool::new(false))?;
//! assert_eq!(summary.figures.useful_bytes, 4 << 20, "that much was read");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Kernel
//! Linux 5.6 for io_uring, 4.14 for [`Engine::Nowait`], any for the rest. Both report exact hits
//! from 6.5 on, by cachestat(2).
//!
//! # Layout
//! - `workload`: [`Workload`], [`Engine`], [`Fill`], [`Advice`], [`Bloat`]: settings of a
//!   measurement.
//! - `access`: [`Access`] and [`Places`]: offsets in the file; `random`: numbers from a seed.
//! - `run`: [`run()`], [`Event`]: the measurement; `work`: the loop of each thread, in portions.
//! - `engine`: one file per kind of read or write.
//! - `tally`: counters of a thread; `counters`: counters of the kernel; `figures`: [`Figures`],
//!   [`Summary`]: both together.
//! - `prepare`: the file: made, filled, evicted; `bloat`: the process that takes memory.
//! - `rounds`: [`Rounds`], the programs of the case study.
//! - [`matrix`]: settings times workloads, and statistics.
//! - `error`: [`Error`].

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod access;
mod bloat;
mod counters;
mod engine;
mod error;
mod figures;
pub mod matrix;
mod prepare;
mod random;
mod rounds;
mod run;
mod tally;
mod target;
mod work;
mod workload;

pub use access::{Access, Places};
pub use error::Error;
pub use figures::{BloatEnd, Figures, HitSource, Latency, Percentiles, Summary};
pub use prepare::{Made, evict_all, make};
pub use rounds::Rounds;
pub use run::{Event, Preparation, run};
pub use workload::{Advice, Bloat, Engine, Fill, Workload};
