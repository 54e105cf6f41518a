//! [`Foyer`]: memory and disk by the crate `foyer`.

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use cachewise_sys::{allow_open_files, start_thread};
use foyer::{
    BlockEngineConfig, Code, DeviceBuilder, FsDeviceBuilder, HybridCache, HybridCacheBuilder,
    HybridCachePolicy, HybridCacheProperties, Location, PsyncIoEngineConfig, RecoverMode,
    S3FifoConfig,
};
use futures_util::future::BoxFuture;
use tokio::sync::{Mutex, Semaphore};
use tokio::time::timeout;

use super::LocalTier;
use super::blocks::Blocks;
use super::drops::Drops;
use super::room::Room;
use super::segments::Segments;
use super::threads::DiskThreads;
use super::waiting::Waiting;
use crate::block::{Block, Corrupt, HEADER};
use crate::settings::{DiskSettings, Settings};
use crate::{BlockKey, Error};

/// Memory and disk by the crate `foyer`.
pub(crate) struct Foyer {
    cache: HybridCache<BlockKey, Kept>,
    drops: Drops,
    on_disk: Option<OnDisk>,
}

#[derive(Debug)]
struct OnDisk {
    settings: DiskSettings,
    warnings: Vec<String>,
    room: Arc<Room>,
    waiting: Waiting,
    one_waits: Mutex<()>,
    /// One permit for each read that is under way.
    reads: Arc<Semaphore>,
    threads: DiskThreads,
    /// Dropped last: it keeps other processes out of the directory.
    _blocks: Blocks,
}

/// Maximum concurrent reads of the disk. Further reads wait until their deadline. A disk that hangs
/// blocks at most this number of threads.
const READS_AT_ONCE: usize = 64;

/// Maximum wait for queued writes: enough for 256 MiB on a working disk.
const CLOSES_WITHIN: Duration = Duration::from_secs(120);

/// Reserve of file descriptors for everything but segments, such as connections.
const OTHER_FILES: u64 = 512;

/// A block in foyer. foyer inserts a block read from the disk into memory before its checksum can
/// be verified.
#[derive(Debug)]
struct Kept {
    block: Block,
    /// Whether its checksum was verified.
    is_checked: AtomicBool,
}

impl Kept {
    fn new(block: Block, is_checked: bool) -> Self {
        Self {
            block,
            is_checked: AtomicBool::new(is_checked),
        }
    }

    /// Returns the block and verifies its checksum the first time.
    fn checked(&self, key: &BlockKey) -> Result<Block, Corrupt> {
        // Relaxed suffices: the flag guards no other memory, as the bytes never change.
        if !self.is_checked.load(Ordering::Relaxed) {
            self.block.check(key)?;
            self.is_checked.store(true, Ordering::Relaxed);
        }
        Ok(self.block.clone())
    }
}

impl Foyer {
    /// Opens the directory, if there is to be a disk, and finds what is in it.
    pub(crate) async fn open(settings: &Settings) -> Result<Self, Error> {
        let drops = Drops::default();
        let memory = usize::try_from(settings.memory.0).unwrap_or(usize::MAX);
        let builder = HybridCacheBuilder::new()
            .with_name("cachewise")
            .with_metrics_registry(Box::new(drops.clone()))
            // A block is on its way to the disk from the start: what waited for its eviction would
            // be lost to kill -9.
            .with_policy(HybridCachePolicy::WriteOnInsertion)
            .with_flush_on_close(false)
            .memory(memory)
            // Few blocks to a shard would mean that some are full while others are empty.
            .with_shards(shards(settings))
            // A scan of a large file does not evict frequently used blocks.
            .with_eviction_config(S3FifoConfig::default())
            .with_weighter(|_: &BlockKey, kept: &Kept| kept.block.sealed_len());
        let Some(disk) = settings.on_disk() else {
            let cache = builder.storage().build().await;
            return Ok(Self {
                cache: cache.map_err(|error| in_memory(&error))?,
                drops,
                on_disk: None,
            });
        };
        let capacity = usize::try_from(disk.capacity.0).unwrap_or(usize::MAX);
        let queue = usize::try_from(disk.write_queue.0).unwrap_or(usize::MAX);
        let directory = &disk.directory;
        let failed = |operation| {
            move |source| Error::Directory {
                path: directory.clone(),
                operation,
                source: Arc::new(source),
            }
        };
        let segments = Segments::for_capacity(disk.capacity.0, settings.block.0);
        let files = segments.count();
        let most = allow_open_files(files.saturating_add(OTHER_FILES));
        if most <= files {
            return Err(Error::Setting {
                setting: "disk_size",
                why: format!(
                    "that is {files} open files, and this process may have {most}: raise its hard limit (ulimit -Hn), or \
                     name a smaller size"
                ),
            });
        }
        let blocks = Blocks::open(directory, segments)?;
        let room = Room::for_directory(blocks.path().to_owned(), segments, disk.write_queue.0);
        let warnings = room.warning().into_iter().collect();
        let device = FsDeviceBuilder::new(blocks.steady_path())
            .with_capacity(capacity)
            .build()
            .map_err(|error| on_disk(&disk, "make files", &error))?;
        let engine = BlockEngineConfig::new(device)
            .with_block_size(usize::try_from(segments.size).unwrap_or(usize::MAX))
            .with_flushers(segments.flushers)
            // By default what is above 16 MiB is dropped in silence: four blocks of five, in a burst.
            .with_buffer_pool_size(queue)
            .with_submit_queue_size_threshold(queue);
        let threads = DiskThreads::start(segments.flushers)
            .map_err(failed("start the threads of the disk"))?;
        let cache = builder
            .storage()
            .with_spawner(threads.spawner())
            .with_io_engine_config(PsyncIoEngineConfig::new())
            .with_engine_config(engine)
            // Skips blocks that a killed process left half written.
            .with_recover_mode(RecoverMode::Quiet)
            .build()
            .await
            .map_err(|error| on_disk(&disk, "open", &error))?;
        Ok(Self {
            cache,
            drops,
            on_disk: Some(OnDisk {
                waiting: Waiting::new(disk.capacity.0, settings.block.0),
                settings: disk,
                warnings,
                room: Arc::new(room),
                one_waits: Mutex::new(()),
                reads: Arc::new(Semaphore::new(READS_AT_ONCE)),
                threads,
                _blocks: blocks,
            }),
        })
    }
}

impl Foyer {
    /// Waits until what waits to be written is. Nothing comes of a cache that is in memory alone.
    async fn write(&self) -> foyer::Result<()> {
        let Some(disk) = &self.on_disk else {
            return Ok(());
        };
        timeout(CLOSES_WITHIN, async {
            // A concurrent call waits too, as its blocks may not be written yet.
            let _one = disk.one_waits.lock().await;
            if let Some(taken) = disk.waiting.take() {
                let cache = self.cache.clone();
                // In a task: foyer panics after a write that the disk refused.
                let wait = async move { cache.storage().wait().await };
                disk.threads.spawner().spawn(wait).await?;
                let storage = self.cache.storage();
                let refused = taken.seen(self.drops.get(), |key| storage.may_contains(key));
                self.drops.add(refused);
            }
            Ok(())
        })
        .await
        .unwrap_or_else(|_| {
            let late = io::Error::from(io::ErrorKind::TimedOut);
            Err(foyer::Error::io_error(late))
        })
    }
}

impl Drop for Foyer {
    /// Lets go of the directory when nothing is on its way there any more.
    fn drop(&mut self) {
        let Some(disk) = self.on_disk.take() else {
            return;
        };
        if disk.waiting.is_empty() {
            return;
        }
        let cache = self.cache.clone();
        // Without a thread what waits is lost, as to kill -9.
        let _ = start_thread("cache-disk-end", move || {
            let wait = async move { cache.storage().wait().await };
            // In a task, as above.
            let _ = disk.threads.block_on(disk.threads.spawner().spawn(wait));
            drop(disk);
        });
    }
}

/// Number of shards of the memory tier, each with a lock and at least 64 blocks.
fn shards(settings: &Settings) -> usize {
    let blocks = settings.memory.0 / settings.block.0.max(1);
    usize::try_from(blocks / 64).unwrap_or(1).clamp(1, 16)
}

fn in_memory(error: &foyer::Error) -> Error {
    Error::Setting {
        setting: "memory",
        why: error.to_string(),
    }
}

fn on_disk(disk: &DiskSettings, operation: &'static str, error: &foyer::Error) -> Error {
    Error::Directory {
        path: disk.directory.clone(),
        operation,
        source: Arc::new(io::Error::other(error.to_string())),
    }
}

impl LocalTier for Foyer {
    fn memory(&self, key: &BlockKey) -> Result<Option<Block>, String> {
        let Some(entry) = self.cache.memory().get(key) else {
            return Ok(None);
        };
        let checked = entry.value().checked(key);
        if checked.is_err() {
            self.cache.remove(key);
        }
        checked.map(Some).map_err(|_| CORRUPT.to_owned())
    }

    fn has_disk(&self) -> bool {
        self.on_disk.is_some()
    }

    fn disk<'a>(&'a self, key: &'a BlockKey) -> BoxFuture<'a, Result<Option<Block>, String>> {
        Box::pin(async move {
            let Some(on_disk) = &self.on_disk else {
                return Ok(None);
            };
            let read = async {
                // Never closed.
                let permit = Arc::clone(&on_disk.reads).acquire_owned().await.ok();
                let get = self.cache.get(key);
                let read = on_disk.threads.spawner().spawn(async move {
                    let read = get.await;
                    // Not when the reader gives up: the call continues until the disk answers.
                    drop(permit);
                    read
                });
                read.await
            };
            match timeout(on_disk.settings.deadline, read).await {
                Ok(Ok(Ok(None))) => Ok(None),
                Ok(Ok(Ok(Some(entry)))) => entry.value().checked(key).map(Some).map_err(|_| {
                    // It is in memory by now.
                    self.cache.remove(key);
                    CORRUPT.to_owned()
                }),
                Ok(Ok(Err(error)) | Err(error)) => Err(error.to_string()),
                Err(_) => Err("the disk did not answer in time".to_owned()),
            }
        })
    }

    fn keep(&self, key: BlockKey, block: Block) {
        let len = block.sealed_len();
        let kept = Kept::new(block, true);
        let Some(disk) = &self.on_disk else {
            self.cache.insert(key, kept);
            return;
        };
        if let Some(look) = disk.room.check_due(u64::try_from(len).unwrap_or(u64::MAX)) {
            disk.threads.spawner().spawn_blocking(look);
        }
        if disk.room.is_full() {
            let in_memory = HybridCacheProperties::default().with_location(Location::InMem);
            self.cache.insert_with_properties(key, kept, in_memory);
            self.drops.one();
        } else {
            disk.waiting.give(key, self.drops.get(), || {
                self.cache.insert(key, kept);
            });
        }
    }

    fn remove(&self, key: &BlockKey) -> bool {
        let had = self.cache.memory().contains(key)
            || self.on_disk.is_some() && self.cache.storage().may_contains(key);
        self.cache.remove(key);
        had
    }

    fn dropped(&self) -> u64 {
        self.drops.get()
    }

    fn warnings(&self) -> &[String] {
        match &self.on_disk {
            Some(disk) => &disk.warnings,
            None => &[],
        }
    }

    fn written(&self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            let Some(disk) = &self.on_disk else {
                return Ok(());
            };
            self.write()
                .await
                .map_err(|error| on_disk(&disk.settings, "write what waits", &error))
        })
    }
}

/// The error text of [`Foyer::disk`] for a block whose checksum does not match.
pub(crate) const CORRUPT: &str = "the block is corrupt";

impl std::fmt::Debug for Foyer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Foyer")
            .field("on_disk", &self.on_disk)
            .finish_non_exhaustive()
    }
}

impl Code for BlockKey {
    fn encode(&self, writer: &mut impl Write) -> foyer::Result<()> {
        writer
            .write_all(self.as_bytes())
            .map_err(foyer::Error::io_error)
    }

    fn decode(reader: &mut impl Read) -> foyer::Result<Self> {
        let mut bytes = [0; 16];
        reader
            .read_exact(&mut bytes)
            .map_err(foyer::Error::io_error)?;
        Ok(Self::from_bytes(bytes))
    }

    fn estimated_size(&self) -> usize {
        16
    }
}

impl Code for Kept {
    fn encode(&self, writer: &mut impl Write) -> foyer::Result<()> {
        writer
            .write_all(&self.block.header())
            .and_then(|()| writer.write_all(self.block.bytes()))
            .map_err(foyer::Error::io_error)
    }

    fn decode(reader: &mut impl Read) -> foyer::Result<Self> {
        let mut sealed = Vec::with_capacity(HEADER);
        // foyer hands in a reader of this entry alone, which it has read and bounded already.
        reader
            .read_to_end(&mut sealed)
            .map_err(foyer::Error::io_error)?;
        Block::unchecked(&Bytes::from(sealed))
            .map(|block| Self::new(block, false))
            .map_err(|corrupt| foyer::Error::io_error(io::Error::other(corrupt)))
    }

    fn estimated_size(&self) -> usize {
        self.block.sealed_len()
    }
}

#[cfg(test)]
mod tests;
