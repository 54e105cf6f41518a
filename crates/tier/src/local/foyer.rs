//! [`Foyer`]: memory and disk by the crate `foyer`.

use std::io::{Read, Write};
use std::sync::Arc;

use bytes::Bytes;
use foyer::{
    BlockEngineConfig, Code, DeviceBuilder, FsDeviceBuilder, HybridCache, HybridCacheBuilder,
    HybridCachePolicy, PsyncIoEngineConfig, RecoverMode, S3FifoConfig, Source,
};
use futures_util::future::BoxFuture;

use super::LocalTier;
use super::drops::Drops;
use super::lock::DirectoryLock;
use crate::block::{Block, HEADER};
use crate::settings::{DiskSettings, Settings};
use crate::{BlockKey, Error};

/// Where blocks lie in the directory of the cache.
const BLOCKS: &str = "blocks";

/// What the disk is written, and its oldest blocks thrown away by.
const SEGMENT: usize = 16 << 20;

/// Memory and disk by the crate `foyer`.
pub(crate) struct Foyer {
    cache: HybridCache<BlockKey, Kept>,
    drops: Drops,
    on_disk: Option<OnDisk>,
}

#[derive(Debug)]
struct OnDisk {
    settings: DiskSettings,
    _lock: DirectoryLock,
}

/// A block as foyer has it.
#[derive(Clone, Debug)]
struct Kept(Block);

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
            // A scan of a large file passes by without putting out what is used again and again.
            .with_eviction_config(S3FifoConfig::default())
            .with_weighter(|_: &BlockKey, kept: &Kept| kept.0.sealed_len());
        let Some(disk) = &settings.disk else {
            let cache = builder.storage().build().await;
            return Ok(Self {
                cache: cache.map_err(|error| in_memory(&error))?,
                drops,
                on_disk: None,
            });
        };
        let lock = DirectoryLock::take(&disk.directory)?;
        let capacity = usize::try_from(disk.capacity.0).unwrap_or(usize::MAX);
        let queue = usize::try_from(disk.write_queue.0).unwrap_or(usize::MAX);
        let device = FsDeviceBuilder::new(disk.directory.join(BLOCKS))
            .with_capacity(capacity)
            .build()
            .map_err(|error| on_disk(disk, "make files", &error))?;
        let engine = BlockEngineConfig::new(device)
            .with_block_size(SEGMENT)
            .with_flushers(FLUSHERS)
            // By default what is above 16 MiB is dropped in silence: four blocks of five, in a burst.
            .with_buffer_pool_size(queue)
            .with_submit_queue_size_threshold(queue);
        let cache = builder
            .storage()
            .with_io_engine_config(PsyncIoEngineConfig::new())
            .with_engine_config(engine)
            // What a killed process left half written is passed over.
            .with_recover_mode(RecoverMode::Quiet)
            .build()
            .await
            .map_err(|error| on_disk(disk, "open", &error))?;
        Ok(Self {
            cache,
            drops,
            on_disk: Some(OnDisk {
                settings: disk.clone(),
                _lock: lock,
            }),
        })
    }
}

/// How many write side by side.
const FLUSHERS: usize = 2;

/// How many parts memory has, each with a lock: at least 64 blocks to one.
fn shards(settings: &Settings) -> usize {
    let blocks = settings.memory.0 / settings.block_size.0.max(1);
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
        source: Arc::new(std::io::Error::other(error.to_string())),
    }
}

impl LocalTier for Foyer {
    fn memory(&self, key: &BlockKey) -> Option<Block> {
        self.cache
            .memory()
            .get(key)
            .map(|entry| entry.value().0.clone())
    }

    fn has_disk(&self) -> bool {
        self.on_disk.is_some()
    }

    fn disk<'a>(&'a self, key: &'a BlockKey) -> BoxFuture<'a, Result<Option<Block>, String>> {
        Box::pin(async move {
            let Some(on_disk) = &self.on_disk else {
                return Ok(None);
            };
            match tokio::time::timeout(on_disk.settings.deadline, self.cache.get(key)).await {
                Ok(Ok(None)) => Ok(None),
                Ok(Ok(Some(entry))) => {
                    let block = entry.value().0.clone();
                    if entry.source() == Source::Disk && block.check(key).is_err() {
                        // It is in memory by now.
                        self.cache.remove(key);
                        return Err(CORRUPT.to_owned());
                    }
                    Ok(Some(block))
                }
                Ok(Err(error)) => Err(error.to_string()),
                Err(_) => Err("the disk did not answer in time".to_owned()),
            }
        })
    }

    fn keep(&self, key: BlockKey, block: Block) {
        self.cache.insert(key, Kept(block));
    }

    fn dropped(&self) -> u64 {
        self.drops.get()
    }

    fn close(&self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            let closed = self.cache.close().await;
            match &self.on_disk {
                Some(disk) => closed.map_err(|error| on_disk_close(disk, &error)),
                None => Ok(()),
            }
        })
    }
}

/// What [`Foyer::disk`] says of a block that is not what it was.
pub(crate) const CORRUPT: &str = "the block is corrupt";

fn on_disk_close(disk: &OnDisk, error: &foyer::Error) -> Error {
    on_disk(&disk.settings, "write what waits", error)
}

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
            .write_all(self.0.header())
            .and_then(|()| writer.write_all(self.0.bytes()))
            .map_err(foyer::Error::io_error)
    }

    fn decode(reader: &mut impl Read) -> foyer::Result<Self> {
        let mut sealed = Vec::with_capacity(HEADER);
        // foyer hands in a reader of this entry alone, which it has read and bounded already.
        reader
            .read_to_end(&mut sealed)
            .map_err(foyer::Error::io_error)?;
        Block::unchecked(&Bytes::from(sealed))
            .map(Self)
            .map_err(|corrupt| foyer::Error::io_error(std::io::Error::other(corrupt)))
    }

    fn estimated_size(&self) -> usize {
        self.0.sealed_len()
    }
}
