//! Reading and writing a file on purpose, and what that cost.
//!
//! The crate leads with counters: bytes read from devices for each useful byte, hits and misses, faults, refaults,
//! pressure. They repeat within a few per cent where the speed of the same runs varies by half. It is *not* a judge of
//! a single run: only [`matrix`] compares, by statistics over many.
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
//! assert_eq!(summary.figures.useful_bytes, 4 << 20, "so much was read");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Kernel
//! Linux 5.6 for io_uring, 4.14 for [`Engine::Nowait`], any for the rest. Both tell hits exactly from 6.5 on, by cachestat(2).
//!
//! # Layout
//! - `workload`: [`Workload`], [`Engine`], [`Fill`], [`Advice`], [`Bloat`]: what is to be done.
//! - `access`: [`Access`] and [`Places`]: where in the file; `random`: numbers by a seed.
//! - `run`: [`run()`], [`Event`]: doing it; `work`: what each thread does, in portions.
//! - `engine`: one file for each way to read or write.
//! - `tally`: what a thread counts; `counters`: what the kernel counts; `figures`: [`Figures`], [`Summary`]: both together.
//! - `prepare`: the file: made, filled, evicted; `bloat`: the process that takes memory.
//! - `rounds`: [`Rounds`], the programs of the case study.
//! - [`matrix`]: settings times workloads, and what statistics say of them.
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
