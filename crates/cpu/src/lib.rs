//! CPU caches: topology from sysfs, measured size and latency, and their cost to a program.
//!
//! The crate prints nothing and parses no arguments. Each number has a measure of its reliability,
//! which callers show with it.
//!
//! ```no_run
//! use cachewise_cpu::Topology;
//!
//! let topology = Topology::read("/sys".as_ref())?;
//! for cache in &topology.caches {
//!     println!("{} of CPUs {}", cache.name(), cache.cpus);
//! }
//! # Ok::<(), cachewise_cpu::Error>(())
//! ```
//!
//! # Layout
//! - [`program`]: cache use of a program, counted or simulated.
//! - `topology`: caches, cores, threads and NUMA nodes, from sysfs; the tree that they make.
//! - `hierarchy`: [`Hierarchy`], each level in sysfs and as measured.
//! - [`lab`]: experiments, each with a control and checks.
//! - [`measure`]: latency by size, its levels, address translation, on a machine with other load.
//! - [`sharing`]: false sharing in a program, with its proofs.
//! - `mapping`: mappings of a process, and the files behind them.
//! - `cpu_list`: [`CpuList`], as the kernel writes sets of CPUs.
//! - `error`: [`Error`].

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod cpu_list;
mod error;
mod hierarchy;
pub mod lab;
mod mapping;
pub mod measure;
pub mod program;
pub mod sharing;
mod topology;

pub use cpu_list::CpuList;
pub use error::Error;
pub use hierarchy::{Hierarchy, LatencySource, Level, TableOptions};
pub use topology::{Cache, CacheKind, Cpu, Node, Topology, TopologyPart, Tree};
