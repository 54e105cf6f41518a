//! The CPU's own caches: what this machine says that they are, what they measure, and what they cost a program.
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
//! - [`program`]: how a program uses the caches, counted or simulated.
//! - `topology`: caches, cores, threads and NUMA nodes, from sysfs; the tree that they make.
//! - `hierarchy`: [`Hierarchy`], what sysfs says beside what was measured.
//! - [`lab`]: experiments, each with a control and checks.
//! - [`measure`]: latency by size, its levels, address translation, on a machine that others use too.
//! - [`sharing`]: false sharing in a program, with its proofs.
//! - `mapping`: what a process has mapped, and the files behind it.
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
