//! Collectors: where series come from.

use std::fmt;
use std::str::FromStr;

/// Where series come from, and what they can be switched on and off by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Collector {
    /// Requests to the page cache, of the whole machine.
    PageCache,
    /// The use of memory.
    Memory,
    /// Faults, reclaim, swap, as the kernel counts them by itself.
    Vmstat,
    /// Time lost to waiting.
    Pressure,
    /// By storage device.
    Devices,
    /// By control group: the busiest, and `other`.
    Cgroups,
    /// Sets of files.
    Filesets,
}

/// A collector that does not exist.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is no collector; there are: {names}", names = Collector::ALL.map(Collector::id).join(", "))]
pub struct UnknownCollector(String);

impl Collector {
    /// All of them.
    pub const ALL: [Collector; 7] = [
        Collector::PageCache,
        Collector::Memory,
        Collector::Vmstat,
        Collector::Pressure,
        Collector::Devices,
        Collector::Cgroups,
        Collector::Filesets,
    ];

    /// The default collectors: those whose labels do not depend on the programs that run on the
    /// machine.
    pub const DEFAULT: [Collector; 5] = [
        Collector::PageCache,
        Collector::Memory,
        Collector::Vmstat,
        Collector::Pressure,
        Collector::Devices,
    ];

    /// Its name.
    #[must_use]
    pub const fn id(self) -> &'static str {
        match self {
            Collector::PageCache => "page_cache",
            Collector::Memory => "memory",
            Collector::Vmstat => "vmstat",
            Collector::Pressure => "pressure",
            Collector::Devices => "devices",
            Collector::Cgroups => "cgroups",
            Collector::Filesets => "filesets",
        }
    }
}

impl fmt::Display for Collector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id())
    }
}

impl FromStr for Collector {
    type Err = UnknownCollector;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Collector::ALL
            .into_iter()
            .find(|collector| collector.id() == name)
            .ok_or_else(|| UnknownCollector(name.to_owned()))
    }
}
