//! The state that all threads of a mount share: inodes, counters, open lists.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use cachewise_units::ByteRange;
use fuser::{FileAttr, INodeNo, Notifier};
use tokio::runtime::Handle;
use tokio::sync::OnceCell;

use super::MountOptions;
use super::attributes::Owner;
use super::fixed::Fixed;
use super::inodes::{Content, Inode, Inodes, ROOT};
use super::names::Names;
use super::operations::{Operation, Operations};
use super::pins::Pins;
use super::report::{DROP, DROP_FILE, MountReport, REPORT};
use crate::counters::Count;
use crate::drops::DropMessages;
use crate::{BlockCache, Entry, Error, ErrorKind, File, Kind, Meta, Version};

/// The state that all threads share.
pub(super) struct MountShared {
    pub(super) cache: BlockCache,
    pub(super) runtime: Handle,
    pub(super) inodes: Inodes,
    pub(super) names: Names,
    /// Names and objects, where those of published versions are served.
    pub(super) fixed: Option<Fixed>,
    pub(super) pins: Arc<Pins>,
    pub(super) operations: Operations,
    pub(super) owner: Owner,
    /// Whether names come from the origin: those of a published version come from its tree.
    asks_origin: bool,
    /// Whether the kernel checks access control lists.
    pub(super) checks_acls: AtomicBool,
    name: String,
    directory: PathBuf,
    began: Instant,
    pub(super) revalidate: Duration,
    /// Age up to which names of other machines are used; 0 is never.
    pub(super) share_names: Duration,
    /// Time for which a name is taken for missing.
    pub(super) missing: Duration,
    /// Lists of directories that are open.
    lists: Mutex<HashMap<u64, Arc<Vec<Entry>>>>,
    pub(super) next_handle: AtomicU64,
    /// Whether the kernel may open files without a request.
    pub(super) opens_unasked: AtomicBool,
    notifier: OnceLock<Notifier>,
    pub(super) drops: Drops,
    /// Set when the mount knows what was dropped before it began.
    pub(super) knows_drops: OnceCell<()>,
}

/// Messages about paths to forget.
#[derive(Debug, Default)]
pub(super) struct Drops {
    /// `None` without an engine that has messages.
    pub(super) messages: OnceLock<Arc<DropMessages>>,
    /// Times that a node of the engine accepted the subscription.
    pub(super) listening: Count,
    pub(super) heard: Count,
    pub(super) forged: Count,
    /// Names in the root that the kernel takes for missing. It forgets those in other directories with the directory.
    missing: Mutex<HashSet<OsString>>,
}

/// Maximum names in the root that the kernel takes for missing at a time.
const MOST_MISSING: usize = 4_096;

impl Drops {
    /// Notes that the kernel is about to take a name for missing. Returns whether it may do so for a time.
    pub(super) fn notes_missing(&self, path: &Path, root: &Path) -> bool {
        let Some(name) = path.file_name().filter(|_| path.parent() == Some(root)) else {
            return true;
        };
        let mut missing = self.missing.lock().unwrap_or_else(PoisonError::into_inner);
        missing.contains(name) || missing.len() < MOST_MISSING && missing.insert(name.to_owned())
    }

    /// Returns the names in the root that the kernel takes for missing, and forgets them.
    pub(super) fn takes_missing(&self) -> HashSet<OsString> {
        let mut missing = self.missing.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *missing)
    }
}

impl MountShared {
    pub(super) fn new(
        cache: BlockCache,
        runtime: Handle,
        directory: &Path,
        options: &MountOptions,
    ) -> Self {
        let block_size = cache.settings().block.0;
        let memory = cache.settings().memory.0;
        Self {
            fixed: cache.leaves().is_some().then(Fixed::new),
            cache,
            runtime,
            inodes: Inodes::new(options.root.clone()),
            names: Names::new(options.names),
            pins: Pins::new(options.pin.0, memory),
            operations: Operations::new(),
            owner: Owner::this(block_size, options.allow_other),
            asks_origin: options.root.as_os_str().is_empty(),
            checks_acls: AtomicBool::new(false),
            name: options.name.clone(),
            directory: directory.to_owned(),
            began: Instant::now(),
            revalidate: options.revalidate,
            share_names: options.share_names,
            missing: options.revalidate_missing.min(options.revalidate),
            lists: Mutex::new(HashMap::new()),
            next_handle: AtomicU64::new(1),
            opens_unasked: AtomicBool::new(false),
            notifier: OnceLock::new(),
            drops: Drops::default(),
            knows_drops: OnceCell::new(),
        }
    }

    pub(super) fn notify_by(&self, notifier: Notifier) {
        // Set once, when the mount begins.
        let _ = self.notifier.set(notifier);
    }

    /// Makes another path of the origin the root. Returns when the kernel has dropped the names in the root before.
    pub(super) fn switch(&self, root: PathBuf) -> Result<(), Error> {
        let before = self.inodes.root();
        if before == root {
            return Ok(());
        }
        let mut names = Vec::new();
        for path in [&before, &root] {
            let list = self.runtime.block_on(self.cache.list(path))?;
            names.extend(list.into_iter().map(|entry| entry.name));
        }
        self.inodes.set_root(root);
        let Some(notifier) = self.notifier.get() else {
            return Ok(());
        };
        names.sort_unstable();
        names.dedup();
        for name in names {
            // Where the kernel does not know the name, all is well. It waits for lookups under way, which may have
            // begun in the root before.
            let _ = notifier.inval_entry(INodeNo(ROOT), &name);
        }
        let _ = notifier.inval_inode(INodeNo(ROOT), -1, 0);
        Ok(())
    }

    pub(super) fn report(&self) -> MountReport {
        MountReport {
            origin: self.name.clone(),
            directory: self.directory.clone(),
            pid: std::process::id(),
            uptime_seconds: self.began.elapsed().as_secs_f64(),
            operations: self.operations.rows(),
            drops_heard: self.drops.heard.get(),
            drops_forged: self.drops.forged.get(),
            drops_listening: self.drops.listening.get(),
            cache: self.cache.table(),
        }
    }

    /// Whether other users than the mounting one have access.
    pub(super) const fn is_shared(&self) -> bool {
        self.owner.is_shared()
    }

    /// Returns what decides the attributes of all objects.
    pub(super) fn owner(&self) -> Owner {
        match self.checks_acls.load(Ordering::Relaxed) {
            true => self.owner.with_acls(),
            false => self.owner,
        }
    }

    pub(super) fn attributes(&self, inode: &Inode) -> FileAttr {
        match &inode.content {
            Content::File(file) => self.owner().attributes(inode.number, file.meta()),
            Content::Directory { known, .. } => {
                let known = known.lock().unwrap_or_else(PoisonError::into_inner);
                self.owner().attributes(inode.number, known.file.meta())
            }
            Content::Drop { .. } => {
                let meta = own_meta(&Bytes::new(), true);
                self.owner().attributes(inode.number, &meta)
            }
            Content::Own {
                bytes,
                is_directory,
            } => self
                .owner()
                .attributes(inode.number, &own_meta(bytes, *is_directory)),
        }
    }

    pub(super) fn lists(&self) -> MutexGuard<'_, HashMap<u64, Arc<Vec<Entry>>>> {
        self.lists.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The path of a directory of the origin.
    pub(super) fn directory(&self, number: u64) -> Option<PathBuf> {
        if number == ROOT {
            return Some(self.inodes.root());
        }
        match &self.inodes.get(number)?.content {
            Content::Directory { path, .. } => Some(path.clone()),
            _ => None,
        }
    }

    /// Returns an object of the mount itself: `.cachewise` in the root, or the report in it.
    pub(super) fn own(&self, parent: u64, name: &OsStr) -> Option<Arc<Inode>> {
        let (directory, file) = REPORT.split_once('/')?;
        if parent == ROOT && name == directory {
            return Some(self.inodes.own(Bytes::new(), true));
        }
        let inode = self.inodes.get(parent)?;
        match &inode.content {
            Content::Own {
                is_directory: true, ..
            } if name == file => {
                // A report that cannot be written is empty, which is no JSON either.
                let report = serde_json::to_vec_pretty(&self.report()).unwrap_or_default();
                Some(self.inodes.own(Bytes::from(report), false))
            }
            Content::Own {
                is_directory: true, ..
            } if name == DROP => Some(self.inodes.dropping(PathBuf::new())),
            Content::Drop { path } => Some(self.inodes.dropping(path.join(name))),
            _ => None,
        }
    }

    /// The path that a lookup is to drop.
    pub(super) fn dropped_by(&self, parent: u64, name: &OsStr) -> Option<PathBuf> {
        if name != DROP_FILE {
            return None;
        }
        match &self.inodes.get(parent)?.content {
            Content::Drop { path } => Some(path.clone()),
            _ => None,
        }
    }

    /// Whether a user may drop paths: the one who mounted, and root.
    pub(super) fn may_drop(&self, user: u32) -> bool {
        user == 0 || user == rustix::process::geteuid().as_raw()
    }

    pub(super) fn notifier(&self) -> Option<&Notifier> {
        self.notifier.get()
    }

    /// Notes an error of a read: names of a state that is gone are looked up again.
    pub(super) fn failed(self: &Arc<Self>, file: &File, number: u64, error: &Error) {
        if matches!(error.kind(), ErrorKind::Changed | ErrorKind::NotFound) {
            self.outdated(file.path(), number);
        }
    }

    /// The object has changed, and this number is outdated: makes the next lookup of its name ask
    /// the origin.
    pub(super) fn outdated(self: &Arc<Self>, path: &Path, number: u64) {
        if !self.inodes.outdated(path, number) {
            return;
        }
        self.names.outdated(path);
        let name = path.file_name().map(OsStr::to_owned);
        let parent = path.parent().and_then(|path| self.inodes.number_of(path));
        let (Some(name), Some(parent)) = (name, parent) else {
            return;
        };
        let shared = Arc::clone(self);
        // The kernel may wait for an answer of ours before it takes this: not on a thread that gives answers.
        self.runtime.spawn_blocking(move || {
            if let Some(notifier) = shared.notifier.get() {
                // Where the kernel does not know the name, all is well.
                let _ = notifier.inval_entry(INodeNo(parent), &name);
            }
        });
    }

    /// Reads from a file. Of one that only a list has shown, the origin has to let this process read it, cached or not.
    pub(super) async fn read(
        &self,
        inode: &Inode,
        file: &File,
        range: ByteRange,
    ) -> Result<Bytes, Error> {
        let bytes = self.cache.get(file, range).await?;
        if inode.checked.get().is_none() && file.was_read() {
            // Set meanwhile is as good.
            let _ = inode.checked.set(());
        }
        self.check(inode, file).await?;
        Ok(bytes)
    }

    /// Asks the origin whether this process may read a file that only a list has shown.
    async fn check(&self, inode: &Inode, file: &File) -> Result<(), Error> {
        let checked = inode.checked.get_or_try_init(|| async {
            let found = self.stat(Operation::Read, file.path()).await?;
            let (now, then) = (found.meta(), file.meta());
            if (&now.version, now.size) != (&then.version, then.size) {
                return Err(Error::Changed {
                    path: file.path().to_owned(),
                    what: "it was written or replaced since its directory was listed",
                });
            }
            Ok(())
        });
        checked.await.copied()
    }

    /// Reads a small file and holds its bytes until `Pin::release`. Returns whether it does.
    ///
    /// # Errors
    /// The errors of a read.
    pub(super) async fn pin(&self, inode: &Inode, file: &File) -> Result<bool, Error> {
        if inode.pin.again() {
            return Ok(true);
        }
        let whole = ByteRange {
            start: 0,
            len: file.meta().size,
        };
        let bytes = self.read(inode, file, whole).await?;
        Ok(inode.pin.hold(bytes, &self.pins))
    }

    /// Whether names come from an origin, by requests.
    pub(super) fn has_origin(&self) -> bool {
        self.asks_origin
    }

    /// Counts a request for a name, if it goes to the origin.
    pub(super) fn asks_origin(&self, operation: Operation) {
        if self.asks_origin {
            self.operations.asks_origin(operation);
        }
    }

    pub(super) async fn stat(&self, operation: Operation, path: &Path) -> Result<File, Error> {
        self.asks_origin(operation);
        self.cache.look(path).await
    }
}

/// Returns the attributes of an object of the mount itself.
pub(super) fn own_meta(bytes: &Bytes, is_directory: bool) -> Meta {
    let kind = match is_directory {
        true => Kind::Directory,
        false => Kind::File,
    };
    let size = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    Meta::plain(kind, size, Version::new(""))
}
