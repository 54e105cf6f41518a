//! [`Settings`]: how a cache is set up, and within which bounds.

use std::path::PathBuf;
use std::time::Duration;

use cachewise_units::Bytes;

use crate::Error;
use crate::remote::EngineSettings;

/// How a cache is set up. The default is a cache in memory, without any server.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The size of a block: what is fetched, kept and checked as one. A power of two from
    /// 16 KiB to 1 MiB. Small ones bring the first byte sooner, large ones more bytes a second.
    pub block_size: Bytes,
    /// How much memory blocks may take.
    pub memory: Bytes,
    /// The tier on the local disk, if there is one.
    pub disk: Option<DiskSettings>,
    /// The engine that machines share, if there is one.
    pub engine: Option<EngineSettings>,
    /// How a slow node is dealt with.
    pub policy: PolicySettings,
    /// How many reads of the origin run at once; the others wait, within their deadline.
    pub origin_reads: usize,
    /// Within what time a read ends, with bytes or with an error, whatever happens.
    pub deadline: Duration,
}

/// The tier on the local disk.
#[derive(Clone, Debug)]
pub struct DiskSettings {
    /// The directory: made if it is not there, and one process's at a time.
    pub directory: PathBuf,
    /// How much of the disk blocks may take. At least 64 MiB.
    pub capacity: Bytes,
    /// Maximum bytes that wait to be written. Blocks beyond it are not kept on disk, and are
    /// counted as dropped. In a burst it takes up to three times this memory. A queue beyond
    /// [`Settings::memory`] is limited to 64 MiB.
    pub write_queue: Bytes,
    /// Within what time the disk answers; then the block is looked for further on.
    pub deadline: Duration,
}

/// How a slow node is dealt with. The defaults are what `make bench-tier` measures.
#[derive(Clone, Debug)]
pub struct PolicySettings {
    /// Within what time a connection stands, the look-up of its name included.
    pub connect: Duration,
    /// Within what time the first byte of an answer is there; then the node has missed it. Where
    /// all nodes are slow it is twice their live 99th percentile, up to [`Self::whole`].
    pub first_byte: Duration,
    /// Within what time the whole answer is there.
    pub whole: Duration,
    /// When a second node is asked: after the live 99th percentile, but not before this...
    pub hedge_min: Duration,
    /// ...and not later than this. Zero is: never.
    pub hedge_max: Duration,
    /// How many hedges there are for each request, on the average.
    pub hedge_share: f64,
    /// How many hedges may come at once, after a quiet time.
    pub hedge_burst: u32,
    /// How many misses within [`Self::breaker_window`] open a node's breaker.
    pub breaker_misses: u32,
    /// See [`Self::breaker_misses`].
    pub breaker_window: Duration,
    /// For how long a breaker opens first; each probe that fails doubles it.
    pub breaker_open: Duration,
    /// For how long at most.
    pub breaker_open_max: Duration,
    /// How many bytes are under way from one node at once. Each request has a connection of its
    /// own while it lasts, so this bounds connections too.
    pub in_flight: Bytes,
    /// Maximum bytes in flight to the engine. Blocks beyond it are not written, and are counted as
    /// dropped.
    pub fills_in_flight: Bytes,
}

impl Default for PolicySettings {
    fn default() -> Self {
        Self {
            connect: Duration::from_millis(10),
            first_byte: Duration::from_millis(20),
            whole: Duration::from_millis(100),
            hedge_min: Duration::from_millis(3),
            hedge_max: Duration::from_millis(10),
            hedge_share: 0.05,
            hedge_burst: 32,
            breaker_misses: 3,
            breaker_window: Duration::from_secs(1),
            breaker_open: Duration::from_millis(500),
            breaker_open_max: Duration::from_secs(5),
            in_flight: Bytes(8 << 20),
            fills_in_flight: Bytes(32 << 20),
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            block_size: Bytes(128 << 10),
            memory: Bytes(256 << 20),
            disk: None,
            engine: None,
            policy: PolicySettings::default(),
            origin_reads: 32,
            deadline: Duration::from_secs(10),
        }
    }
}

impl DiskSettings {
    /// Makes the settings of a directory that may take this much.
    #[must_use]
    pub fn new(directory: PathBuf, capacity: Bytes) -> Self {
        Self {
            directory,
            capacity,
            write_queue: Bytes((capacity.0 / 4).clamp(SMALL_QUEUE, 256 << 20)),
            deadline: Duration::from_millis(200),
        }
    }
}

/// The write queue that is always permitted, however small disk and memory: the bytes of the
/// longest read.
const SMALL_QUEUE: u64 = 64 << 20;

/// Permitted block sizes, in bytes.
const BLOCK_SIZES: std::ops::RangeInclusive<u64> = 16 << 10..=1 << 20;

impl Settings {
    /// Returns the maximum bytes that wait for this disk. It does not exceed the memory for blocks,
    /// so that a small memory setting is respected.
    pub(crate) fn write_queue(&self, disk: &DiskSettings) -> Bytes {
        Bytes(disk.write_queue.0.min(self.memory.0.max(SMALL_QUEUE)))
    }

    /// Checks all bounds.
    ///
    /// # Errors
    /// [`Error::Setting`], of the first that is not kept.
    pub fn check(&self) -> Result<(), Error> {
        let Bytes(block) = self.block_size;
        require(
            block.is_power_of_two() && BLOCK_SIZES.contains(&block),
            "block size",
            || {
                format!(
                    "{} is no power of two from 16 KiB to 1 MiB",
                    self.block_size
                )
            },
        )?;
        require(self.memory.0 >= 4 * block, "memory", || {
            format!(
                "{} has no room for four blocks of {}",
                self.memory, self.block_size
            )
        })?;
        require(self.origin_reads > 0, "reads of the origin", || {
            "none at once is none at all; 1 is the least".to_owned()
        })?;
        require(
            self.deadline >= Duration::from_millis(1),
            "deadline of reads",
            || "below 1 ms nothing can be read".to_owned(),
        )?;
        if let Some(disk) = &self.disk {
            require(disk.capacity.0 >= 64 << 20, "capacity on disk", || {
                format!("{} is below 64 MiB, the least that pays", disk.capacity)
            })?;
            require(disk.write_queue.0 >= 4 * block, "queue to the disk", || {
                format!("{} has no room for four blocks", disk.write_queue)
            })?;
        }
        self.policy.check(self.block_size)
    }
}

impl PolicySettings {
    fn check(&self, block: Bytes) -> Result<(), Error> {
        require(
            self.first_byte <= self.whole,
            "deadline of a whole answer",
            || "is before that of its first byte".to_owned(),
        )?;
        require(
            self.hedge_max.is_zero() || self.hedge_min <= self.hedge_max,
            "time of the hedge",
            || "its lower bound is above its upper one".to_owned(),
        )?;
        require(
            self.hedge_share.is_finite() && (0.0..=1.0).contains(&self.hedge_share),
            "share of hedges",
            || format!("{} is not from 0 to 1", self.hedge_share),
        )?;
        require(
            self.breaker_misses > 0,
            "misses that open a breaker",
            || "0 would never let a node be asked".to_owned(),
        )?;
        require(
            self.breaker_open <= self.breaker_open_max,
            "time of an open breaker",
            || "its first length is above its greatest".to_owned(),
        )?;
        require(
            self.in_flight >= block && self.fills_in_flight >= block,
            "bytes under way",
            || format!("there is no room for one block of {block}"),
        )
    }
}

fn require(kept: bool, setting: &'static str, why: impl FnOnce() -> String) -> Result<(), Error> {
    if kept {
        Ok(())
    } else {
        Err(Error::Setting {
            setting,
            why: why(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_for_the_disk_is_bounded_by_it_and_by_memory() {
        const MIB: u64 = 1 << 20;
        for (memory, capacity, queue) in [
            (256, 10 << 10, 256),
            (8 << 10, 10 << 10, 256),
            (100, 10 << 10, 100),
            (16, 10 << 10, 64),
            (256, 512, 128),
            (256, 64, 64),
        ] {
            let settings = Settings {
                memory: Bytes(memory * MIB),
                ..Settings::default()
            };
            let mut disk = DiskSettings::new(PathBuf::new(), Bytes(capacity * MIB));
            assert_eq!(settings.write_queue(&disk), Bytes(queue * MIB), "{disk:?}");
            disk.write_queue = Bytes(MIB);
            assert_eq!(settings.write_queue(&disk), Bytes(MIB), "less can be said");
        }
    }
}
