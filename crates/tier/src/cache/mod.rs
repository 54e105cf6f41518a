//! [`BlockCache`]: the way of a block from the origin to a reader.

mod reading;
mod sharing;

pub use reading::Held;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::bulkhead::Bulkhead;
use crate::counters::{Counters, Table, Tier};
use crate::flight::Flights;
use crate::key::ObjectKey;
use crate::local::{Foyer, LocalTier};
use crate::origin::{Entry, Meta, Origin, Room, Subtree};
use crate::origin_breaker::OriginBreaker;
use crate::origin_limit::OriginLimit;
use crate::policy::Remote;
use crate::published::leaf::Leaves;
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

/// How many bytes [`BlockCache::warm`] reads before what was read is waited for at the engine and the disk: more under way than the cache
/// allows would be dropped.
pub(crate) const STEP: u64 = 8 << 20;

/// How many steps may be under way at once, of all files that are warmed.
fn steps_at_once(settings: &Settings) -> usize {
    let steps = settings.fills_in_flight.0 / STEP;
    usize::try_from(steps).unwrap_or(usize::MAX).clamp(1, 64)
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
    /// One permit for each step of [`BlockCache::warm`] whose blocks may be on their way at once.
    steps: Semaphore,
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
                steps: Semaphore::new(steps_at_once(&settings)),
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
        self.inner.local.keep(key, crate::Block::seal(&key, forged));
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
    /// The errors of [`Origin::stat`]; [`Error::Deadline`].
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
    /// The errors of [`Self::stat`].
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
    /// The errors of [`Origin::list`]; [`Error::Deadline`].
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

    /// Waits until the blocks of one more step may be on their way.
    pub(crate) async fn step(&self) -> Option<SemaphorePermit<'_>> {
        // Never closed.
        self.inner.steps.acquire().await.ok()
    }

    /// Returns the last server that did not take a block, and the reason.
    pub(crate) fn refusal(&self) -> Option<String> {
        self.inner.remote.as_ref()?.refusal()
    }

    /// Returns the last server that did not answer a request for a block, and the reason; `None` if all answered.
    #[must_use]
    pub fn engine_failure(&self) -> Option<String> {
        self.inner.remote.as_ref()?.failure()
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
