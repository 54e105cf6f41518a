//! Reading: blocks from memory, the disk, the engine and the origin, each filled on the way back.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use cachewise_units::ByteRange;
use futures_util::{StreamExt, stream};

use super::{BLOCKS_AT_ONCE, BlockCache, CacheInner, File};
use crate::block::Block;
use crate::block_name::BlockName;
use crate::counters::TierCounters;
use crate::deadline;
use crate::local::CORRUPT;
use crate::origin::Kind;
use crate::policy::{EngineAnswer, Remote};
use crate::search::{Owed, search};
use crate::settings::LONGEST_READ;
use crate::{BlockKey, Error};

impl BlockCache {
    /// Reads a range of an object, up to the object's end; no bytes if the range begins after it.
    /// Ends within [`crate::Settings::read_deadline`], with bytes or an error.
    ///
    /// # Errors
    /// [`Error::Denied`] where the origin does not let this process open the object, cached or not;
    /// [`Error::Changed`] where the object is not in that state any more and the bytes are not in
    /// the cache; [`Error::Range`] above [`LONGEST_READ`]; [`Error::Deadline`]; as [`crate::Origin::read`].
    ///
    /// # Cost
    /// For blocks in memory: a lookup in a table, no system call, no copy within one block.
    pub async fn get(&self, file: &File, range: ByteRange) -> Result<Bytes, Error> {
        let inner = &self.inner;
        inner.counters.reads.one();
        let end = deadline::after(inner.settings.read_deadline);
        let read = deadline::by(end, self.read(file, range)).await;
        let read = read.unwrap_or_else(|| Err(inner.late(&file.path, "the bytes")));
        match &read {
            Ok(bytes) => inner.counters.bytes.add(length(bytes)),
            Err(_) => inner.counters.failed_reads.one(),
        }
        read
    }

    async fn read(&self, file: &File, range: ByteRange) -> Result<Bytes, Error> {
        let refused = |why| refused(file, range, why);
        let Some((range, first, last)) = self.blocks(file, range)? else {
            return Ok(Bytes::new());
        };
        if range.len > LONGEST_READ {
            return Err(refused("64 MiB are the most at once"));
        }
        let size = self.inner.settings.block.0;
        if first == last {
            let block = self.block(file, first).await?;
            return cut(&block, first * size, size, range).ok_or_else(|| refused(SHORT));
        }
        let mut blocks = stream::iter(first..=last)
            .map(|number| async move { (number, self.block(file, number).await) })
            .buffered(BLOCKS_AT_ONCE);
        let mut bytes = BytesMut::with_capacity(usize::try_from(range.len).unwrap_or(0));
        while let Some((number, block)) = blocks.next().await {
            let block = block?;
            let part = cut(&block, number * size, size, range);
            bytes.extend_from_slice(&part.ok_or_else(|| refused(SHORT))?);
        }
        Ok(bytes.freeze())
    }

    /// Returns the part of a range before the object's end, with its first and last block; `None`
    /// if the range begins after the end.
    fn blocks(
        &self,
        file: &File,
        range: ByteRange,
    ) -> Result<Option<(ByteRange, u64, u64)>, Error> {
        if file.meta.kind != Kind::File {
            return Err(refused(file, range, "only files have bytes"));
        }
        if !file.meta.is_readable {
            return Err(Error::of_origin(
                &file.path,
                "open",
                io::ErrorKind::PermissionDenied.into(),
            ));
        }
        let whole = ByteRange {
            start: 0,
            len: file.meta.size,
        };
        let size = self.inner.settings.block.0;
        let within = whole.intersection(range);
        Ok(within.map(|range| (range, range.start / size, (range.end() - 1) / size)))
    }

    /// Returns one block, from the nearest that has it.
    async fn block(&self, file: &File, number: u64) -> Result<Bytes, Error> {
        let name = self.inner.name(file, number).await?;
        let key = name.key;
        if !file.is_settled() {
            // Two states may share this key, so only bytes read now are certain.
            let block = self
                .inner
                .fetch_from_origin(file, number, name, Owed::default())
                .await?;
            return Ok(block.bytes().clone());
        }
        let begun = Instant::now();
        let counters = &self.inner.counters;
        match self.inner.local.memory(&key) {
            // A block from the disk is in memory before it was compared with its hash.
            Ok(Some(block)) if !self.inner.local.has_disk() || name.is_of(&block) => {
                counters.memory.hit(block.bytes().len(), begun.elapsed());
                return Ok(block.bytes().clone());
            }
            Ok(Some(_)) => {
                counters.memory.corrupt.one();
                counters.memory.error(begun.elapsed());
            }
            Ok(None) => counters.memory.miss(begun.elapsed()),
            Err(_) => {
                counters.memory.corrupt.one();
                counters.memory.error(begun.elapsed());
            }
        }
        let (flight, joined) = self.inner.flights.join(key, || {
            let inner = Arc::clone(&self.inner);
            let file = file.clone();
            async move {
                let end = deadline::after(inner.settings.read_deadline);
                let fetched = deadline::by(end, inner.fetch(&file, number, name)).await;
                fetched.unwrap_or_else(|| Err(inner.late(&file.path, "the block")))
            }
        });
        if joined {
            counters.joined.one();
        }
        match flight.land().await {
            Some(Ok(block)) => Ok(block.bytes().clone()),
            Some(Err(error)) => Err(error),
            None => Err(Error::Worker {
                path: file.path.clone(),
            }),
        }
    }

    /// Reads the blocks of a range from the origin, even if a tier has them already, and stores
    /// them in the local tiers and in the engine.
    ///
    /// # Errors
    /// The errors of [`Self::get`].
    pub async fn refill(&self, file: &File, range: ByteRange) -> Result<(), Error> {
        let Some((_, first, last)) = self.blocks(file, range)? else {
            return Ok(());
        };
        let mut blocks = stream::iter(first..=last)
            .map(|number| {
                let fetch = async move {
                    let name = self.inner.name(file, number).await?;
                    self.inner
                        .fetch_from_origin(file, number, name, Owed::default())
                        .await
                };
                tokio::time::timeout(self.inner.settings.read_deadline, fetch)
            })
            .buffered(BLOCKS_AT_ONCE);
        while let Some(fetched) = blocks.next().await {
            fetched.map_err(|_| self.inner.late(&file.path, "the origin"))??;
        }
        Ok(())
    }

    /// Reads a block from the origin for a comparison, and stores it nowhere.
    ///
    /// # Errors
    /// The errors of [`crate::Origin::read`], and [`Error::Deadline`].
    pub async fn at_origin(&self, file: &File, number: u64) -> Result<Bytes, Error> {
        let inner = &self.inner;
        let range = inner.range(file, number);
        let (origin, of) = (Arc::clone(&inner.origin), file.clone());
        let begun = Instant::now();
        let read = inner.reads.run(&file.path, async move {
            origin.read(&of.path, &of.meta, range).await
        });
        let read = tokio::time::timeout(inner.settings.read_deadline, read).await;
        let read = read.unwrap_or_else(|_| Err(inner.late(&file.path, "the origin")));
        match &read {
            Ok(bytes) => inner.counters.origin.hit(bytes.len(), begun.elapsed()),
            Err(_) => inner.counters.origin.error(begun.elapsed()),
        }
        read
    }

    /// Looks for a block on the disk and in the engine, and changes no block there. The disk does not know a damaged block after
    /// it was opened again: it is missing then.
    ///
    /// # Errors
    /// The errors of the origin where a published version names its blocks.
    pub async fn held(&self, file: &File, number: u64) -> Result<Held, Error> {
        let inner = &self.inner;
        let mut held = Held::default();
        if file.meta.kind != Kind::File || !file.is_settled() {
            return Ok(held);
        }
        let name = inner.name(file, number).await?;
        let mut found = Vec::new();
        if inner.local.has_disk() {
            found.push(inner.on_disk(&name).await);
        }
        if let Some(remote) = &inner.remote {
            found.push(inner.in_engine(remote, file, number, &name).await);
        }
        for found in found {
            match found {
                EngineAnswer::Hit(block) => held.copies.push(block.bytes().clone()),
                EngineAnswer::Miss => {}
                EngineAnswer::Corrupt => held.damaged += 1,
                EngineAnswer::Unknown => held.unknown += 1,
            }
        }
        Ok(held)
    }
}

/// Copies of a block on the disk and in the engine.
#[derive(Clone, Debug, Default)]
pub struct Held {
    /// The bytes of each whole copy.
    pub copies: Vec<Bytes>,
    /// Copies that are damaged or forged.
    pub damaged: u64,
    /// Places that did not answer in time.
    pub unknown: u64,
}

impl CacheInner {
    /// Returns the name of a block: of the hash of its bytes, where the origin knows that.
    async fn name(&self, file: &File, number: u64) -> Result<BlockName, Error> {
        let Some(content) = &file.meta.content else {
            return Ok(BlockName {
                key: file.key.block(number),
                hash: None,
            });
        };
        let inline = usize::try_from(number)
            .ok()
            .and_then(|number| content.refs.get(number));
        let hash = match inline.filter(|_| content.level == 0) {
            Some(block) => block.hash,
            None => self.origin.block(&file.path, content, number).await?.hash,
        };
        Ok(BlockName {
            key: BlockKey::of_content(&hash.0),
            hash: Some(hash),
        })
    }

    /// Looks for a block where memory has none.
    async fn fetch(&self, file: &File, number: u64, name: BlockName) -> Result<Block, Error> {
        let key = name.key;
        // Another fetch may have ended between the reader's look and this one's begin.
        if let Ok(Some(block)) = self.local.memory(&key)
            && name.is_of(&block)
        {
            return Ok(block);
        }
        if self.local.has_disk()
            && let EngineAnswer::Hit(block) = self.on_disk(&name).await
        {
            return Ok(block);
        }
        let mut owed = Owed::default();
        if let Some(remote) = &self.remote {
            let (begun, counters) = (Instant::now(), &self.counters.remote);
            let (answer, owes) = search(remote, &key, &counters.corrupt).await;
            let answer = self.checked(file, number, &name, answer);
            count(counters, &answer, begun.elapsed());
            if let EngineAnswer::Hit(block) = answer {
                self.local.keep(key, block.clone());
                return Ok(block);
            }
            owed = owes;
        }
        self.fetch_from_origin(file, number, name, owed).await
    }

    /// Looks for a block on the disk.
    async fn on_disk(&self, name: &BlockName) -> EngineAnswer {
        let begun = Instant::now();
        let answer = match self.local.disk(&name.key).await {
            Ok(Some(block)) if name.is_of(&block) => EngineAnswer::Hit(block),
            Ok(None) => EngineAnswer::Miss,
            Err(why) if why != CORRUPT => EngineAnswer::Unknown,
            Ok(Some(_)) | Err(_) => EngineAnswer::Corrupt,
        };
        count(&self.counters.disk, &answer, begun.elapsed());
        answer
    }

    /// Looks for a block in the engine, and for nothing else.
    async fn in_engine(
        &self,
        remote: &Remote,
        file: &File,
        number: u64,
        name: &BlockName,
    ) -> EngineAnswer {
        let begun = Instant::now();
        let answer = self.checked(file, number, name, remote.get(&name.key).await);
        count(&self.counters.remote, &answer, begun.elapsed());
        answer
    }

    /// Returns the engine's answer, if a block in it is the one of this name. A process that can write to an engine of plain
    /// blocks can also forge a checksum.
    fn checked(
        &self,
        file: &File,
        number: u64,
        name: &BlockName,
        answer: EngineAnswer,
    ) -> EngineAnswer {
        let is_whole = |block: &Block| {
            length(block.bytes()) == self.range(file, number).len && name.is_of(block)
        };
        match answer {
            EngineAnswer::Hit(block) if !is_whole(&block) => EngineAnswer::Corrupt,
            answer => answer,
        }
    }

    async fn fetch_from_origin(
        &self,
        file: &File,
        number: u64,
        name: BlockName,
        owed: Owed,
    ) -> Result<Block, Error> {
        let key = name.key;
        let range = self.range(file, number);
        let begun = Instant::now();
        // Looked at before the read: the clock goes on meanwhile.
        let keep = file.is_settled();
        let origin = Arc::clone(&self.origin);
        let of = file.clone();
        let read = self.reads.run(&file.path, async move {
            origin.read(&of.path, &of.meta, range).await
        });
        let read = read.await;
        let (counters, took) = (&self.counters.origin, begun.elapsed());
        let bytes = match read {
            Ok(bytes) if length(&bytes) == range.len => {
                file.was_read.store(true, Ordering::Relaxed);
                bytes
            }
            Ok(_) => {
                counters.error(took);
                return Err(Error::Changed {
                    path: file.path.clone(),
                    what: "the read was short",
                });
            }
            Err(error) => {
                counters.error(took);
                return Err(error);
            }
        };
        if let Some(remote) = &self.remote {
            remote.leases().origin_took(took);
        }
        let block = Block::seal(&key, bytes);
        if !name.is_of(&block) {
            counters.corrupt.one();
            counters.error(took);
            return Err(Error::Published {
                path: file.path.clone(),
                why: "the store has other bytes than were published (the hash differs): they are not used; restore the store \
                      from a copy, or publish again",
            });
        }
        counters.hit(block.bytes().len(), took);
        if keep {
            self.local.keep(key, block.clone());
            if let Some(remote) = &self.remote {
                owed.store(remote, key, &block);
            }
        }
        Ok(block)
    }

    /// Byte range of an object's block of this number.
    fn range(&self, file: &File, number: u64) -> ByteRange {
        let size = self.settings.block.0;
        let start = number.saturating_mul(size);
        ByteRange {
            start,
            len: size.min(file.meta.size.saturating_sub(start)),
        }
    }

    pub(super) fn late(&self, path: &Path, waiting_for: &'static str) -> Error {
        Error::Deadline {
            path: path.to_owned(),
            after: self.settings.read_deadline,
            waiting_for,
        }
    }
}

fn count(counters: &TierCounters, answer: &EngineAnswer, took: Duration) {
    match answer {
        EngineAnswer::Hit(block) => counters.hit(block.bytes().len(), took),
        EngineAnswer::Miss => counters.miss(took),
        EngineAnswer::Corrupt => {
            counters.corrupt.one();
            counters.error(took);
        }
        EngineAnswer::Unknown => counters.error(took),
    }
}

fn refused(file: &File, range: ByteRange, why: &'static str) -> Error {
    Error::Range {
        path: file.path.clone(),
        range,
        why,
    }
}

/// Why a range cannot be read where a block is not as long as its place in the object says.
const SHORT: &str = "the block is short";

/// Returns the part of a range in a block that starts at `start`, or `None` if the block is shorter
/// than the object's `size` requires.
fn cut(block: &Bytes, start: u64, size: u64, range: ByteRange) -> Option<Bytes> {
    let from = range.start.saturating_sub(start);
    let to = range.end().saturating_sub(start).min(size);
    let (from, to) = (usize::try_from(from).ok()?, usize::try_from(to).ok()?);
    (from < to && to <= block.len()).then(|| block.slice(from..to))
}

pub(super) fn length(bytes: &Bytes) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}
