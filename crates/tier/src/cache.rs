//! [`BlockCache`]: the way of a block from the origin to a reader.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant, SystemTime};

use bytes::{Bytes, BytesMut};
use cachewise_units::ByteRange;
use futures_util::{StreamExt, stream};

use crate::block::Block;
use crate::block_name::BlockName;
use crate::bulkhead::Bulkhead;
use crate::counters::{Counters, Table, Tier};
use crate::deadline;
use crate::drops::DropMessages;
use crate::flight::Flights;
use crate::key::ObjectKey;
use crate::local::{CORRUPT, Foyer, LocalTier};
use crate::origin::{Entry, Kind, Meta, Origin, Room, Subtree};
use crate::origin_breaker::OriginBreaker;
use crate::origin_limit::OriginLimit;
use crate::policy::{EngineAnswer, Lease, Remote};
use crate::published::leaf::Leaves;
use crate::settings::LONGEST_READ;
use crate::turn::{Turn, turn};
use crate::{BlockKey, EngineKey, Error, Settings};

/// Maximum wait for a file that was written a moment ago, until its timestamp distinguishes the
/// next write from the last.
const SETTLES_WITHIN: Duration = Duration::from_secs(3);

/// Maximum blocks of one read that are fetched concurrently.
const BLOCKS_AT_ONCE: usize = 16;

/// Returns how many worker threads the runtime of a cache should have: one for two CPUs.
///
/// A read waits for others nearly all of the time, and one worker brings some 10,000 blocks of 256 KiB a second. A worker
/// more than has work is woken all the same, to look for it, on a CPU that a reader or a server could have. On two CPUs, by
/// `make bench-tier`'s programs in turn, the median of paced reads was 4 and 9 % higher with two; as fast as can be, two
/// brought 5 to 15 % more.
#[must_use]
pub fn worker_threads() -> usize {
    std::thread::available_parallelism().map_or(1, |cpus| (cpus.get() / 2).max(1))
}

/// An object of the origin in one state: what [`BlockCache::get`] reads.
#[derive(Clone, Debug)]
pub struct File {
    path: PathBuf,
    meta: Meta,
    key: ObjectKey,
    /// Whether the origin has given bytes of it to this process.
    was_read: Arc<AtomicBool>,
}

impl File {
    /// Returns its path, relative to the origin.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns its metadata at the origin.
    #[must_use]
    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// Returns whether the origin itself has given bytes of it, to this value or a clone: this process may read it.
    pub(crate) fn was_read(&self) -> bool {
        self.was_read.load(Ordering::Relaxed)
    }

    /// Says whether its version tells this state from all others by now; see [`Meta::keep_from`].
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.meta
            .keep_from
            .is_none_or(|from| SystemTime::now() >= from)
    }
}

/// A cache of an origin's blocks: memory, then the local disk, then the engine that machines
/// share, then the origin; filled on the way back. Cheap to clone.
///
/// Belongs to the tokio runtime in which it was opened.
#[derive(Clone, Debug)]
pub struct BlockCache {
    inner: Arc<CacheInner>,
}

/// A cache that is there as long as another handle of it is: for an origin that reads through the cache that it is the
/// origin of.
#[derive(Clone, Debug)]
pub(crate) struct WeakCache(Weak<CacheInner>);

impl WeakCache {
    pub(crate) fn upgrade(&self) -> Option<BlockCache> {
        self.0.upgrade().map(|inner| BlockCache { inner })
    }
}

/// Blocks of a file that were forgotten.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Forgotten {
    /// In memory and on the disk.
    pub blocks: u64,
    /// In the engine, of those that it may have had.
    pub engine_blocks: u64,
    /// Blocks that the engine did not remove in time.
    pub engine_failed: u64,
}

#[derive(Debug)]
struct CacheInner {
    settings: Settings,
    origin: Arc<dyn Origin>,
    local: Box<dyn LocalTier>,
    remote: Option<Remote>,
    flights: Flights,
    reads: Bulkhead,
    looks: Bulkhead,
    breaker: OriginBreaker,
    limit: Arc<OriginLimit>,
    counters: Counters,
}

impl BlockCache {
    /// Opens a cache of this origin. An engine that does not answer is no error: the cache works
    /// without it, and [`Self::warnings`] says so.
    ///
    /// # Errors
    /// [`Error::Setting`], [`Error::Locked`], [`Error::Directory`], and [`Error::Engine`] where an
    /// engine can never work as it is set up.
    pub async fn open(mut settings: Settings, origin: Arc<dyn Origin>) -> Result<Self, Error> {
        settings.check()?;
        if let (None, Some(file)) = (&settings.engine_key, &settings.engine_key_file) {
            settings.engine_key = Some(EngineKey::from_file(file)?);
        }
        let local = Foyer::open(&settings).await?;
        let remote = match &settings.engine {
            Some(engine) => Some(Remote::open(engine, &settings).await?),
            None => None,
        };
        // Half of what a reader waits for, so that the next one has its error before it waits as long.
        let patience = settings.read_deadline / 2;
        let breaker = OriginBreaker::new(&settings);
        let limit = Arc::new(OriginLimit::new(settings.origin_reads));
        Ok(Self {
            inner: Arc::new(CacheInner {
                reads: Bulkhead::for_reads(settings.origin_reads, patience, &breaker, &limit),
                looks: Bulkhead::for_looks(settings.origin_reads, patience, &breaker),
                breaker,
                limit,
                settings,
                origin,
                local: Box::new(local),
                remote,
                flights: Flights::new(),
                counters: Counters::new(),
            }),
        })
    }

    /// Keeps bytes that are not those of this hash, as who can write to the disk of a cache does.
    #[cfg(test)]
    pub(crate) fn plant(&self, hash: &crate::published::address::Hash, forged: Bytes) {
        let key = BlockKey::of_content(&hash.0);
        self.inner.local.keep(key, Block::seal(&key, forged));
    }

    pub(crate) fn downgrade(&self) -> WeakCache {
        WeakCache(Arc::downgrade(&self.inner))
    }

    /// Returns how it is set up.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.inner.settings
    }

    /// Returns what is set up in a way that will hurt, and what to do about it.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = self.inner.local.warnings().to_vec();
        if let Some(remote) = &self.inner.remote {
            warnings.extend(remote.warnings());
        }
        warnings
    }

    /// Returns the metadata of an object, of what a link leads to. Always asks the origin.
    ///
    /// # Errors
    /// As [`Origin::stat`], and [`Error::Deadline`].
    pub async fn stat(&self, path: &Path) -> Result<File, Error> {
        let owned = path.to_owned();
        let origin = Arc::clone(&self.inner.origin);
        let meta = self
            .looked(path, async move { origin.stat(&owned).await })
            .await?;
        Ok(self.file(path, meta))
    }

    /// Returns the metadata of an object, of a link itself. Always asks the origin.
    ///
    /// # Errors
    /// The errors of [`Self::stat`].
    pub async fn look(&self, path: &Path) -> Result<File, Error> {
        let owned = path.to_owned();
        let origin = Arc::clone(&self.inner.origin);
        let meta = self
            .looked(path, async move { origin.look(&owned).await })
            .await?;
        Ok(self.file(path, meta))
    }

    /// Returns the room of the origin's file system, if the origin tells. Always asks the origin.
    ///
    /// # Errors
    /// The errors of [`Origin::room`], and [`Error::Deadline`].
    pub async fn room(&self) -> Result<Option<Room>, Error> {
        let origin = Arc::clone(&self.inner.origin);
        self.looked(Path::new(""), async move { origin.room().await })
            .await
    }

    /// Waits until a file that was written a moment ago can be cached, 3 s at most, and returns its
    /// present state.
    ///
    /// # Errors
    /// As [`Self::stat`].
    pub async fn settled(&self, file: File) -> Result<File, Error> {
        if file.is_settled() {
            return Ok(file);
        }
        let from = file.meta.keep_from;
        let left = from.and_then(|from| from.duration_since(SystemTime::now()).ok());
        tokio::time::sleep(left.unwrap_or_default().min(SETTLES_WITHIN)).await;
        self.stat(&file.path).await
    }

    /// Lists a directory. Always asks the origin.
    ///
    /// # Errors
    /// As [`Origin::list`], and [`Error::Deadline`].
    pub async fn list(&self, path: &Path) -> Result<Vec<Entry>, Error> {
        let owned = path.to_owned();
        let origin = Arc::clone(&self.inner.origin);
        self.looked(path, async move { origin.list(&owned).await })
            .await
    }

    /// Whether one request to the origin shows more than one directory; see [`Origin::has_trees`].
    pub(crate) fn has_trees(&self) -> bool {
        self.inner.origin.has_trees()
    }

    /// Lists a directory and those below it; see [`Origin::tree`]. Always asks the origin.
    pub(crate) async fn tree(&self, path: &Path) -> Result<Option<Subtree>, Error> {
        let owned = path.to_owned();
        let origin = Arc::clone(&self.inner.origin);
        self.looked(path, async move { origin.tree(&owned).await })
            .await
    }

    /// Looks at an object, and lists what is below it; see [`Origin::find`]. Always asks the origin.
    pub(crate) async fn find(&self, path: &Path) -> Result<(File, Option<Subtree>), Error> {
        let owned = path.to_owned();
        let origin = Arc::clone(&self.inner.origin);
        let look = async move { origin.find(&owned).await };
        let (meta, tree) = self.looked(path, look).await?;
        Ok((self.file(path, meta), tree))
    }

    /// Returns the trees of published versions, if the origin is one.
    pub(crate) fn leaves(&self) -> Option<&dyn Leaves> {
        self.inner.origin.leaves()
    }

    /// Whether objects of the origin have extended attributes.
    pub(crate) fn has_attributes(&self) -> bool {
        self.inner.origin.has_attributes()
    }

    /// Returns the value of an extended attribute; see [`Origin::attribute`]. Always asks the origin.
    pub(crate) async fn attribute(&self, of: &File, name: &OsStr) -> Result<Option<Bytes>, Error> {
        let (file, name) = (of.clone(), name.to_owned());
        let origin = Arc::clone(&self.inner.origin);
        let look = async move { origin.attribute(&file.path, &file.meta, &name).await };
        self.looked(&of.path, look).await
    }

    /// Returns the names of extended attributes; see [`Origin::attributes`]. Always asks the origin.
    pub(crate) async fn attributes(&self, of: &File) -> Result<Vec<OsString>, Error> {
        let file = of.clone();
        let origin = Arc::clone(&self.inner.origin);
        let look = async move { origin.attributes(&file.path, &file.meta).await };
        self.looked(&of.path, look).await
    }

    /// Makes a file from metadata of an earlier look, without a request to the origin.
    #[must_use]
    pub fn file(&self, path: &Path, meta: Meta) -> File {
        let key = match &meta.content {
            Some(_) => ObjectKey::NONE,
            None => BlockKey::of_object(
                self.inner.origin.identity(),
                path,
                meta.size,
                &meta.version,
                self.inner.settings.block.0,
            ),
        };
        File {
            path: path.to_owned(),
            meta,
            key,
            was_read: Arc::default(),
        }
    }

    /// Reads a range of an object, up to the object's end; no bytes if the range begins after it.
    /// Ends within [`Settings::read_deadline`], with bytes or an error.
    ///
    /// # Errors
    /// [`Error::Denied`] where the origin does not let this process open the object, cached or not;
    /// [`Error::Changed`] where the object is not in that state any more and the bytes are not in
    /// the cache; [`Error::Range`] above [`LONGEST_READ`]; [`Error::Deadline`]; as [`Origin::read`].
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
                .fetch_from_origin(file, number, name, None)
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

    /// Runs a look at the origin, bounded in time and number.
    async fn looked<T: Send + 'static>(
        &self,
        path: &Path,
        look: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> Result<T, Error> {
        let looked = self.inner.looks.run(path, look);
        match tokio::time::timeout(self.inner.settings.read_deadline, looked).await {
            Ok(looked) => looked,
            Err(_) => Err(self.inner.late(path, "the origin")),
        }
    }

    /// Returns what it did since it was opened.
    #[must_use]
    pub fn table(&self) -> Table {
        let inner = &self.inner;
        let tiers = inner.counters.rows(|tier| match tier {
            Tier::Memory | Tier::Origin => true,
            Tier::Disk => inner.local.has_disk(),
            Tier::Remote => inner.remote.is_some(),
        });
        let mut totals = inner.counters.totals();
        totals.dropped_disk_writes = inner.local.dropped();
        inner.breaker.add_to(&mut totals);
        totals.origin_limit = u64::try_from(inner.limit.get()).unwrap_or(u64::MAX);
        let mut nodes = Vec::new();
        if let Some(remote) = &inner.remote {
            remote.add_to(&mut totals);
            nodes = remote.rows();
        }
        Table {
            tiers,
            nodes,
            totals,
        }
    }

    /// Reads the blocks of a range from the origin, even if a tier has them already, and stores
    /// them in the local tiers and in the engine.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub async fn refill(&self, file: &File, range: ByteRange) -> Result<(), Error> {
        let Some((_, first, last)) = self.blocks(file, range)? else {
            return Ok(());
        };
        let mut blocks = stream::iter(first..=last)
            .map(|number| {
                let fetch = async move {
                    let name = self.inner.name(file, number).await?;
                    self.inner.fetch_from_origin(file, number, name, None).await
                };
                tokio::time::timeout(self.inner.settings.read_deadline, fetch)
            })
            .buffered(BLOCKS_AT_ONCE);
        while let Some(fetched) = blocks.next().await {
            fetched.map_err(|_| self.inner.late(&file.path, "the origin"))??;
        }
        Ok(())
    }

    /// Returns the messages about paths to forget; see [`DropMessages::open`].
    pub(crate) fn drop_messages(&self) -> Result<Option<DropMessages>, Error> {
        DropMessages::open(&self.inner.settings, self.inner.origin.identity())
    }

    /// Whether names can be shared: through an engine, sealed with a key.
    pub(crate) fn shares_names(&self) -> bool {
        self.inner.remote.is_some() && self.inner.settings.engine_key.is_some()
    }

    fn shared_key(&self, kind: &str, path: &Path) -> BlockKey {
        let identity = self.inner.origin.identity().as_bytes();
        BlockKey::named(kind, &[identity, path.as_os_str().as_encoded_bytes()])
    }

    /// Returns a record about a path that some machine has shared.
    pub(crate) async fn shared(&self, kind: &str, path: &Path) -> Option<Bytes> {
        let remote = self.inner.remote.as_ref()?;
        let key = self.shared_key(kind, path);
        match remote.get(&key).await {
            EngineAnswer::Hit(block) => {
                self.inner.counters.names_shared.one();
                Some(block.bytes().clone())
            }
            _ => None,
        }
    }

    /// Shares a record about a path, if it is not longer than a block.
    pub(crate) fn share(&self, kind: &str, path: &Path, record: Bytes) {
        let Some(remote) = &self.inner.remote else {
            return;
        };
        if length(&record) <= self.inner.settings.block.0 {
            let key = self.shared_key(kind, path);
            remote.fill(key, Block::seal(&key, record), None);
        }
    }

    /// Removes a record about a path.
    pub(crate) async fn unshare(&self, kind: &str, path: &Path) {
        if let Some(remote) = &self.inner.remote {
            remote.remove(&self.shared_key(kind, path)).await;
        }
    }

    /// Forgets the blocks of a file in this state, in memory and on the disk, and also in the engine if `in_engine`. Blocks
    /// of a published file are verified by their hashes, and stay.
    pub(crate) async fn forget(&self, file: &File, in_engine: bool) -> Forgotten {
        let mut forgotten = Forgotten::default();
        if file.meta.kind != Kind::File || file.meta.content.is_some() {
            return forgotten;
        }
        let count = file.meta.size.div_ceil(self.inner.settings.block.0);
        let keys = (0..count).map(|number| file.key.block(number));
        for key in keys.clone() {
            forgotten.blocks += u64::from(self.inner.local.remove(&key));
        }
        if let Some(remote) = self.inner.remote.as_ref().filter(|_| in_engine) {
            let mut removed = stream::iter(keys)
                .map(|key| async move { remote.remove(&key).await })
                .buffer_unordered(BLOCKS_AT_ONCE);
            while let Some(is_removed) = removed.next().await {
                forgotten.engine_blocks += u64::from(is_removed);
                forgotten.engine_failed += u64::from(!is_removed);
            }
        }
        forgotten
    }

    /// Waits until what is on its way to the engine and to the local disk is there, or counted as dropped.
    ///
    /// # Errors
    /// [`Error::Directory`] where the disk did not take it in time; it is on its way still.
    pub async fn filled(&self) -> Result<(), Error> {
        if let Some(remote) = &self.inner.remote {
            remote.finish_fills().await;
        }
        self.inner.local.written().await
    }

    /// Writes all queued blocks to the disk. A cache that is not closed loses its queued blocks,
    /// and nothing else.
    ///
    /// # Errors
    /// [`Error::Directory`].
    pub async fn close(&self) -> Result<(), Error> {
        self.filled().await
    }
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
        if self.local.has_disk() {
            let begun = Instant::now();
            let found = self.local.disk(&key).await;
            let (counters, took) = (&self.counters.disk, begun.elapsed());
            match found {
                Ok(Some(block)) if name.is_of(&block) => {
                    counters.hit(block.bytes().len(), took);
                    return Ok(block);
                }
                Ok(Some(_)) => {
                    counters.corrupt.one();
                    counters.error(took);
                }
                Ok(None) => counters.miss(took),
                Err(why) => {
                    if why == CORRUPT {
                        counters.corrupt.one();
                    }
                    counters.error(took);
                }
            }
        }
        let mut lease = None;
        if let Some(remote) = &self.remote {
            let begun = Instant::now();
            let mut found = remote.get(&key).await;
            if let EngineAnswer::Miss = found {
                match turn(remote, &key, begun.into()).await {
                    Turn::Read(taken) => lease = taken,
                    Turn::Found(block) => found = EngineAnswer::Hit(block),
                }
            }
            // A process that can write to an engine of plain blocks can also forge a checksum.
            if let EngineAnswer::Hit(block) = &found
                && (length(block.bytes()) != self.range(file, number).len || !name.is_of(block))
            {
                found = EngineAnswer::Corrupt;
            }
            let (counters, took) = (&self.counters.remote, begun.elapsed());
            match found {
                EngineAnswer::Hit(block) => {
                    counters.hit(block.bytes().len(), took);
                    self.local.keep(key, block.clone());
                    return Ok(block);
                }
                EngineAnswer::Miss => counters.miss(took),
                EngineAnswer::Corrupt => {
                    counters.corrupt.one();
                    counters.error(took);
                }
                EngineAnswer::Unknown => counters.error(took),
            }
        }
        self.fetch_from_origin(file, number, name, lease).await
    }

    async fn fetch_from_origin(
        &self,
        file: &File,
        number: u64,
        name: BlockName,
        lease: Option<Lease>,
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
                remote.fill(key, block.clone(), lease);
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

    fn late(&self, path: &Path, waiting_for: &'static str) -> Error {
        Error::Deadline {
            path: path.to_owned(),
            after: self.settings.read_deadline,
            waiting_for,
        }
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

fn length(bytes: &Bytes) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}
