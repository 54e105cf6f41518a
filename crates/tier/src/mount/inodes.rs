//! Map of inode numbers to states of objects.
//!
//! A number always means one state of a file; a file that changed gets a new number. A
//! directory keeps its number, as only its names are cached. The kernel counts the lookups of each
//! number and returns them with FORGET.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;

use crate::{Entry, File};

/// The number that the kernel begins with.
pub(super) const ROOT: u64 = 1;

/// The object behind an inode number.
#[derive(Debug)]
pub(super) struct Inode {
    pub number: u64,
    pub content: Content,
}

#[derive(Debug)]
pub(super) enum Content {
    /// A state of a file, or something that cannot be read.
    File(File),
    /// A directory of the origin.
    Directory {
        path: PathBuf,
        known: Mutex<KnownDirectory>,
    },
    /// Objects of the mount itself: the report and its directory.
    Own { bytes: Bytes, is_directory: bool },
}

/// Cached facts about a directory, with their age.
#[derive(Debug)]
pub(super) struct KnownDirectory {
    pub file: File,
    pub looked: Instant,
    pub list: Option<(Arc<Vec<Entry>>, Instant)>,
}

impl Inode {
    /// Its path at the origin.
    pub(super) fn path(&self) -> Option<&Path> {
        match &self.content {
            Content::File(file) => Some(file.path()),
            Content::Directory { path, .. } => Some(path),
            Content::Own { .. } => None,
        }
    }
}

#[derive(Debug)]
struct KnownInode {
    inode: Arc<Inode>,
    /// The kernel's lookup count.
    lookups: u64,
}

#[derive(Debug)]
struct InodeTable {
    next: u64,
    held: HashMap<u64, KnownInode>,
    /// The newest state of each path, and the time of the last request to the origin.
    newest: HashMap<PathBuf, (u64, Instant)>,
}

#[derive(Debug)]
pub(super) struct Inodes(Mutex<InodeTable>);

impl Inodes {
    pub(super) fn new() -> Self {
        Self(Mutex::new(InodeTable {
            next: ROOT + 1,
            held: HashMap::new(),
            newest: HashMap::new(),
        }))
    }

    fn state(&self) -> MutexGuard<'_, InodeTable> {
        // Each change is whole before anything can panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns what a number stands for.
    pub(super) fn get(&self, number: u64) -> Option<Arc<Inode>> {
        let state = self.state();
        state.held.get(&number).map(|held| Arc::clone(&held.inode))
    }

    /// Returns the inode of an object found at the origin, and counts one lookup.
    pub(super) fn found(&self, file: File, at: Instant) -> Arc<Inode> {
        let mut state = self.state();
        // Written a moment ago: what is written next may look the same, so this state is for this one time.
        let keep_from = file.meta().keep_from;
        let is_settled = keep_from.is_none_or(|from| SystemTime::now() >= from);
        let is_settled = is_settled || file.meta().is_dir();
        let newest = state.newest.get(file.path()).map(|(number, _)| *number);
        let newest = newest.filter(|_| is_settled);
        let same = newest.and_then(|number| {
            let held = state.held.get_mut(&number)?;
            let is_same = match &held.inode.content {
                Content::File(known) => known.meta() == file.meta(),
                Content::Directory { known, .. } if file.meta().is_dir() => {
                    let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
                    // Another look at a directory that has changed: its old list is not its list.
                    if known.file.meta() != file.meta() {
                        known.list = None;
                        known.file = file.clone();
                    }
                    known.looked = at;
                    true
                }
                _ => false,
            };
            is_same.then(|| {
                held.lookups = held.lookups.saturating_add(1);
                Arc::clone(&held.inode)
            })
        });
        let path = file.path().to_owned();
        let inode = same.unwrap_or_else(|| {
            let content = match file.meta().is_dir() {
                false => Content::File(file),
                true => Content::Directory {
                    path: file.path().to_owned(),
                    known: Mutex::new(KnownDirectory {
                        file,
                        looked: at,
                        list: None,
                    }),
                },
            };
            let number = match path.as_os_str().is_empty() {
                true => ROOT,
                false => state.number(),
            };
            state.hold(number, content)
        });
        if is_settled {
            state.newest.insert(path, (inode.number, at));
        } else {
            state.newest.remove(&path);
        }
        inode
    }

    /// Makes an inode for an object of the mount itself, with one lookup.
    pub(super) fn own(&self, bytes: Bytes, is_directory: bool) -> Arc<Inode> {
        let mut state = self.state();
        let number = state.number();
        let content = Content::Own {
            bytes,
            is_directory,
        };
        state.hold(number, content)
    }

    /// Returns the newest state of a path and its remaining validity, if the origin was asked
    /// within `good_for`. Counts one lookup.
    pub(super) fn again(&self, path: &Path, good_for: Duration) -> Option<(Arc<Inode>, Duration)> {
        let mut state = self.state();
        let (number, asked) = *state.newest.get(path)?;
        let left = good_for.checked_sub(asked.elapsed())?;
        let held = state.held.get_mut(&number)?;
        held.lookups = held.lookups.saturating_add(1);
        Some((Arc::clone(&held.inode), left))
    }

    /// Returns the number of the newest state of a path, if the kernel knows it.
    pub(super) fn number_of(&self, path: &Path) -> Option<u64> {
        if path.as_os_str().is_empty() {
            return Some(ROOT);
        }
        self.state().newest.get(path).map(|(number, _)| *number)
    }

    /// Marks the state with this number as outdated, so that the next lookup of its path asks the
    /// origin. Returns `false` if a newer state is known already, as readers of an old state notice
    /// the change again and again.
    pub(super) fn outdated(&self, path: &Path, number: u64) -> bool {
        let mut state = self.state();
        let newest = state.newest.get(path).map(|(newest, _)| *newest);
        if newest == Some(number) {
            state.newest.remove(path);
        }
        newest.is_none_or(|newest| newest == number)
    }

    /// Handles FORGET: subtracts `times` lookups.
    pub(super) fn forget(&self, number: u64, times: u64) {
        let mut state = self.state();
        let Some(held) = state.held.get_mut(&number) else {
            return;
        };
        held.lookups = held.lookups.saturating_sub(times);
        if held.lookups > 0 || number == ROOT {
            return;
        }
        let Some(held) = state.held.remove(&number) else {
            return;
        };
        if let Some(path) = held.inode.path()
            && state
                .newest
                .get(path)
                .is_some_and(|(newest, _)| *newest == number)
        {
            state.newest.remove(path);
        }
    }

    /// Number of inodes that the kernel holds.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.state().held.len()
    }
}

impl InodeTable {
    fn number(&mut self) -> u64 {
        let number = self.next;
        // 2^64 states are not seen in any machine's life.
        self.next = self.next.saturating_add(1);
        number
    }

    fn hold(&mut self, number: u64, content: Content) -> Arc<Inode> {
        let inode = Arc::new(Inode { number, content });
        let held = KnownInode {
            inode: Arc::clone(&inode),
            lookups: 1,
        };
        self.held.insert(number, held);
        inode
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::{BlockCache, Directory, Kind, Meta, Settings, Version};

    use super::*;

    #[tokio::test]
    async fn a_state_has_a_number_of_its_own_until_nobody_holds_it() {
        let scratch = tempfile::tempdir().unwrap();
        let origin = Arc::new(Directory::open(scratch.path()).unwrap());
        let cache = BlockCache::open(Settings::default(), origin).await.unwrap();
        let inodes = Inodes::new();
        let name = Path::new("file");
        let look = |size, keep_from| {
            let meta = Meta {
                kind: Kind::File,
                size,
                version: Version::new("1"),
                device: 0,
                modified: None,
                mode: 0o444,
                owner: None,
                has_acl: false,
                is_readable: true,
                keep_from,
            };
            inodes.found(cache.file(name, meta), Instant::now()).number
        };
        let one = look(3, None);
        assert_eq!(look(3, None), one, "the same state");
        let another = look(7, None);
        assert_ne!(another, one, "another state");
        let old = inodes.get(one).expect("who has it open goes on reading it");
        assert!(matches!(&old.content, Content::File(file) if file.meta().size == 3));

        inodes.forget(one, 1);
        assert!(inodes.get(one).is_some(), "told twice");
        inodes.forget(one, 1);
        assert!(inodes.get(one).is_none(), "given back twice");
        let hour = Duration::from_secs(3600);
        let (again, left) = inodes.again(name, hour).expect("it is known");
        assert_eq!(again.number, another, "the newest");
        assert!(left <= hour, "{left:?}");
        assert!(inodes.again(name, Duration::ZERO).is_none(), "never good");
        assert!(!inodes.outdated(name, one), "of an old state");
        assert!(inodes.again(name, hour).is_some(), "which is no news");
        assert!(inodes.outdated(name, another), "of the newest");
        assert!(inodes.again(name, hour).is_none(), "asked again");
        inodes.forget(another, 3);
        assert_eq!(inodes.len(), 0, "nothing is kept of what nobody holds");

        let soon = SystemTime::now() + hour;
        let first = look(3, Some(soon));
        assert_ne!(
            look(3, Some(soon)),
            first,
            "the next write may look the same"
        );
        assert!(inodes.again(name, hour).is_none(), "not even for a moment");
    }
}
