//! The state that all threads of a mount share: inodes, counters, open lists.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use fuser::{FileAttr, INodeNo, Notifier};
use tokio::runtime::Handle;

use super::MountOptions;
use super::attributes::Owner;
use super::inodes::{Content, Inode, Inodes, ROOT};
use super::operations::{Operation, Operations};
use super::report::{MountReport, REPORT};
use crate::{BlockCache, Entry, Error, File, Kind, Meta, Version};

/// The state that all threads share.
pub(super) struct MountShared {
    pub(super) cache: BlockCache,
    pub(super) runtime: Handle,
    pub(super) inodes: Inodes,
    pub(super) operations: Operations,
    pub(super) owner: Owner,
    /// Whether names come from the origin: those of a published version come from its tree.
    asks_origin: bool,
    name: String,
    directory: PathBuf,
    began: Instant,
    pub(super) revalidate: Duration,
    /// Lists of directories that are open.
    lists: Mutex<HashMap<u64, Arc<Vec<Entry>>>>,
    pub(super) next_handle: AtomicU64,
    /// Whether the kernel may open files without a request.
    pub(super) opens_unasked: AtomicBool,
    notifier: OnceLock<Notifier>,
}

impl MountShared {
    pub(super) fn new(
        cache: BlockCache,
        runtime: Handle,
        directory: &Path,
        options: &MountOptions,
    ) -> Self {
        let block_size = cache.settings().block.0;
        Self {
            cache,
            runtime,
            inodes: Inodes::new(options.root.clone()),
            operations: Operations::new(),
            owner: Owner::this(block_size, options.allow_other),
            asks_origin: options.root.as_os_str().is_empty(),
            name: options.name.clone(),
            directory: directory.to_owned(),
            began: Instant::now(),
            revalidate: options.revalidate,
            lists: Mutex::new(HashMap::new()),
            next_handle: AtomicU64::new(1),
            opens_unasked: AtomicBool::new(false),
            notifier: OnceLock::new(),
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
            cache: self.cache.table(),
        }
    }

    pub(super) fn attributes(&self, inode: &Inode) -> FileAttr {
        match &inode.content {
            Content::File(file) => self.owner.attributes(inode.number, file.meta()),
            Content::Directory { known, .. } => {
                let known = known.lock().unwrap_or_else(PoisonError::into_inner);
                self.owner.attributes(inode.number, known.file.meta())
            }
            Content::Own {
                bytes,
                is_directory,
            } => self
                .owner
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
            _ => None,
        }
    }

    /// The object has changed, and this number is outdated: makes the next lookup of its name ask
    /// the origin.
    pub(super) fn outdated(self: &Arc<Self>, path: &Path, number: u64) {
        if !self.inodes.outdated(path, number) {
            return;
        }
        let name = path.file_name().map(OsStr::to_owned);
        let parent = path.parent().and_then(|path| self.inodes.number_of(path));
        let listed = parent.and_then(|parent| self.inodes.get(parent));
        if let Some(Content::Directory { known, .. }) = listed.as_ref().map(|inode| &inode.content)
        {
            known.lock().unwrap_or_else(PoisonError::into_inner).list = None;
        }
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

    /// The state that an object has by the list of its directory, and the time of that list, if it is recent and has
    /// metadata.
    pub(super) fn listed(&self, parent: u64, path: &Path, name: &OsStr) -> Option<(File, Instant)> {
        let parent = self.inodes.get(parent)?;
        let Content::Directory { known, .. } = &parent.content else {
            return None;
        };
        let known = known.lock().unwrap_or_else(PoisonError::into_inner);
        let (list, looked) = known.list.as_ref()?;
        if looked.elapsed() >= self.revalidate {
            return None;
        }
        let at = list.binary_search_by(|entry| entry.name.as_os_str().cmp(name));
        let meta = list.get(at.ok()?)?.meta.as_deref()?.clone();
        Some((self.cache.file(path, meta), *looked))
    }

    /// Asks the origin whether this process may read a file that only a list has shown.
    pub(super) async fn check(&self, inode: &Inode, file: &File) -> Result<(), Error> {
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

    pub(super) async fn stat(&self, operation: Operation, path: &Path) -> Result<File, Error> {
        if self.asks_origin {
            self.operations.asks_origin(operation);
        }
        self.cache.look(path).await
    }

    /// Returns the list of a directory, from the origin if the cached one has expired.
    pub(super) async fn list(&self, number: u64, path: &Path) -> Result<Arc<Vec<Entry>>, Error> {
        let inode = self.inodes.get(number);
        if let Some(Content::Directory { known, .. }) = inode.as_ref().map(|inode| &inode.content) {
            let known = known.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some((list, looked)) = &known.list
                && looked.elapsed() < self.revalidate
            {
                return Ok(Arc::clone(list));
            }
        }
        if self.asks_origin {
            self.operations.asks_origin(Operation::Opendir);
        }
        let looked = Instant::now();
        let mut list = self.cache.list(path).await?;
        // Looked up by name.
        list.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        let list = Arc::new(list);
        if let Some(Content::Directory { known, .. }) = inode.as_ref().map(|inode| &inode.content) {
            let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
            known.list = Some((Arc::clone(&list), looked));
        }
        Ok(list)
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
