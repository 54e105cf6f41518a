//! Caches, cores, threads and NUMA nodes, from sysfs.
//!
//! Facts that sysfs lacks stay unknown: containers and some virtual machines hide the caches, and
//! CPUID is no alternative, because hypervisors answer it with the host's numbers.
//!
//! # Layout
//! - this file: the items; `read`: from a directory with the layout of `/sys`; `tree`: nesting.

mod read;
mod tree;

use std::fmt;

use cachewise_units::Bytes;

use crate::CpuList;
pub use tree::{TopologyPart, Tree};

/// A machine's CPUs and what they share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topology {
    /// Those that are online.
    pub online: CpuList,
    /// One each.
    pub cpus: Vec<Cpu>,
    /// Each once, however many CPUs share it; by level.
    pub caches: Vec<Cache>,
    /// NUMA nodes; empty where the kernel knows none.
    pub nodes: Vec<Node>,
    /// Facts that could not be determined, and the consequences.
    pub notes: Vec<String>,
}

/// A CPU in the kernel's sense: a hardware thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cpu {
    /// Its number.
    pub id: u32,
    /// The package, or socket.
    pub package: Option<u32>,
    /// The threads of its core, itself included.
    pub core: CpuList,
    /// Where cores are of several kinds: which one.
    pub kind: Option<String>,
}

/// Content of a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CacheKind {
    /// Data only.
    Data,
    /// Instructions only.
    Instruction,
    /// Both.
    Unified,
}

impl CacheKind {
    /// The name in machine formats.
    #[must_use]
    pub const fn id(self) -> &'static str {
        match self {
            CacheKind::Data => "data",
            CacheKind::Instruction => "instruction",
            CacheKind::Unified => "unified",
        }
    }
}

/// One cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cache {
    /// 1 is nearest to the core.
    pub level: u32,
    /// Its content.
    pub kind: CacheKind,
    /// How much fits.
    pub size: Option<Bytes>,
    /// The size of a line.
    pub line: Option<Bytes>,
    /// In how many places of it a line may be.
    pub ways: Option<u32>,
    /// How many groups of such places there are.
    pub sets: Option<u32>,
    /// The CPUs that use it.
    pub cpus: CpuList,
}

impl Cache {
    /// `L1d`, `L1i`, `L2`.
    #[must_use]
    pub fn name(&self) -> String {
        let letter = match self.kind {
            CacheKind::Data => "d",
            CacheKind::Instruction => "i",
            CacheKind::Unified => "",
        };
        format!("L{}{letter}", self.level)
    }
}

impl fmt::Display for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())?;
        match self.size {
            Some(size) => write!(f, " {size}")?,
            None => f.write_str(" ?")?,
        }
        if let Some(ways) = self.ways {
            write!(f, ", {ways} ways")?;
        }
        if let Some(line) = self.line {
            write!(f, ", lines of {line}")?;
        }
        Ok(())
    }
}

/// A NUMA node: memory, and the CPUs that are near to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Its number.
    pub id: u32,
    /// None if it is memory only.
    pub cpus: CpuList,
    /// How much there is.
    pub memory: Option<Bytes>,
}

impl Topology {
    /// How many cores these CPUs are.
    #[must_use]
    pub fn cores_of(&self, cpus: &CpuList) -> usize {
        let mut cores: Vec<&CpuList> = self
            .cpus
            .iter()
            .filter(|cpu| cpus.has(cpu.id))
            .map(|cpu| &cpu.core)
            .collect();
        cores.sort_unstable_by_key(|core| core.first());
        cores.dedup();
        cores.len()
    }

    /// The caches that data of this CPU go through, nearest first.
    #[must_use]
    pub fn data_path(&self, cpu: u32) -> Vec<&Cache> {
        let caches = self.caches.iter();
        caches
            .filter(|cache| cache.kind != CacheKind::Instruction && cache.cpus.has(cpu))
            .collect()
    }
}
