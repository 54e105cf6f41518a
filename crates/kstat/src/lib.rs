//! Kernel state of a Linux machine: memory, pressure, mounts, control groups, processes.
//!
//! This crate neither measures nor judges: every call reads the current state and returns it in
//! distinct units. A value that this kernel does not offer is `None`, never 0. Nothing is cached
//! between calls, and nothing is written.
//!
//! The roots of `/proc` and `/sys` are parameters of [`Kernel`], so that a container can read its
//! host, and a test a captured machine.
//!
//! ```
//! use cachewise_kstat::Kernel;
//!
//! let kernel = Kernel::new();
//! let memory = kernel.meminfo()?;
//! println!("{} of {} hold files", memory.cached + memory.buffers, memory.total);
//! if let Some(pages) = kernel.vmstat()?.workingset_refault_file {
//!     println!("{pages} pages had to be read again");
//! }
//! # Ok::<(), cachewise_kstat::Error>(())
//! ```
//!
//! # Layout
//! - `kernel`: [`Kernel`], its roots, host name, release and settings.
//! - `memory`: [`MemInfo`] and [`VmStat`].
//! - `pressure`: [`Pressure`] of a [`Resource`].
//! - `process`: [`ProcessIo`], and other facts about a process.
//! - `process_files`: [`ProcessFiles`], the files that a process holds. `process_line`: its
//!   arguments. `process_memory`: its memory that belongs to no file.
//! - `device`: [`Device`] numbers and names of block devices; `disks`: [`DiskStat`], and their
//!   readahead.
//! - `reclaim`: [`Mglru`], [`Damon`], [`Swap`], [`Zswap`], [`Zram`], huge pages.
//! - `mountinfo`: [`Mount`], one line of `mountinfo`; `mounts`: [`Mounts`], from a file in a file
//!   system to its path.
//! - `hierarchy`: [`Hierarchy`], of control groups; `cgroup`: [`Cgroup`];
//!   `limit`: [`MemoryLimit`]; `quota`: [`CpuQuota`]; `cgroup_memory`: [`CgroupMemory`]; `cgroup_files`: [`CgroupFiles`].
//! - `bpf`: [`BpfMemory`], what this process holds in the kernel.
//! - `error`: [`Error`], [`ErrorKind`].

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]
#![forbid(unsafe_code)]

mod bpf;
mod cgroup;
mod cgroup_files;
mod cgroup_memory;
mod device;
mod disks;
mod error;
#[cfg(test)]
mod fixture;
mod hierarchy;
mod kernel;
mod limit;
mod mapping;
mod memory;
mod mountinfo;
mod mounts;
mod pressure;
mod process;
mod process_code;
mod process_files;
mod process_line;
mod process_memory;
mod quota;
mod reclaim;

pub use bpf::BpfMemory;
pub use cgroup::Cgroup;
pub use cgroup_files::{CgroupFiles, Descriptors};
pub use cgroup_memory::CgroupMemory;
pub use device::Device;
pub use disks::DiskStat;
pub use error::{Error, ErrorKind};
pub use hierarchy::Hierarchy;
pub use kernel::Kernel;
pub use limit::MemoryLimit;
pub use memory::{MemInfo, VmStat};
pub use mountinfo::Mount;
pub use mounts::Mounts;
pub use pressure::{Pressure, Resource, Stall};
pub use process::{OpenProcessIo, ProcessIo};
pub use process_code::CodeMapping;
pub use process_files::{Hold, ProcessFile, ProcessFiles};
pub use quota::CpuQuota;
pub use reclaim::{Damon, Mglru, Swap, Zram, Zswap};
