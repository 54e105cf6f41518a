//! Map of inode numbers to states of objects.
//!
//! A number always means one state of a file. It is that of the origin, so that it is the same after the kernel has
//! forgotten it, and the same for all names of a file; a file that changed while a program has its old state open gets
//! another one. A directory keeps its number, as only its names are cached. The kernel counts the lookups of each
//! number and returns them with FORGET.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use tokio::sync::OnceCell;
use twox_hash::XxHash3_64;

use super::pins::Pin;
use crate::{Entry, File, Kind};

/// The first of the numbers that no origin gives: file systems count from 1, and [`crate::Directory`] makes its own
/// with the highest bit.
const MADE: u64 = 1 << 62;

/// The number that the kernel begins with.
pub(super) const ROOT: u64 = 1;

/// The object behind an inode number.
#[derive(Debug)]
pub(super) struct Inode {
    pub number: u64,
    pub content: Content,
    /// Set once the origin has answered for this object itself: a list does not show who may read it.
    pub checked: OnceCell<()>,
    /// Its bytes, while it is open and small.
    pub pin: Pin,
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
    /// A directory of the mount itself, in which lookups drop a path of the origin.
    Drop { path: PathBuf },
}

/// Cached facts about a directory, with their age.
#[derive(Debug)]
pub(super) struct KnownDirectory {
    pub file: File,
    pub looked: Instant,
    /// Whether it was dropped since.
    pub is_dropped: bool,
}

/// A path that the kernel knows.
#[derive(Debug)]
pub(super) struct KnownPath {
    pub path: PathBuf,
    pub number: u64,
    /// The file, in the state that this number stands for.
    pub file: Option<File>,
}

#[derive(Debug)]
struct KnownInode {
    inode: Arc<Inode>,
    /// The kernel's lookup count.
    lookups: u64,
    /// Its names in `newest`.
    paths: Vec<PathBuf>,
}

#[derive(Debug)]
struct InodeTable {
    next: u64,
    /// Path of the mount's root in the origin.
    root: PathBuf,
    held: HashMap<u64, KnownInode>,
    /// The newest state of each path, and the time of the last request to the origin.
    newest: HashMap<PathBuf, (u64, Instant)>,
}

#[derive(Debug)]
pub(super) struct Inodes(Mutex<InodeTable>);

impl Inodes {
    pub(super) fn new(root: PathBuf) -> Self {
        Self(Mutex::new(InodeTable {
            next: MADE,
            root,
            held: HashMap::new(),
            newest: HashMap::new(),
        }))
    }

    fn state(&self) -> MutexGuard<'_, InodeTable> {
        // Each change is whole before anything can panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the path of the mount's root in the origin.
    pub(super) fn root(&self) -> PathBuf {
        self.state().root.clone()
    }

    /// Sets another root. Directories that are known already stay those of the root before.
    pub(super) fn set_root(&self, root: PathBuf) {
        let mut state = self.state();
        state.forget_names(ROOT);
        state.held.remove(&ROOT);
        state.root = root;
    }

    /// Returns what a number stands for.
    pub(super) fn get(&self, number: u64) -> Option<Arc<Inode>> {
        let state = self.state();
        state.held.get(&number).map(|held| Arc::clone(&held.inode))
    }

    /// Returns the inode of an object found at the origin, by a request of its own or in a list, and counts one lookup.
    pub(super) fn found(&self, file: File, at: Instant, is_checked: bool) -> Arc<Inode> {
        let mut state = self.state();
        // Written a moment ago: what is written next may look the same, so this state is for this one time.
        let keep_from = file.meta().keep_from;
        let is_settled = keep_from.is_none_or(|from| SystemTime::now() >= from);
        let is_settled = is_settled || file.meta().kind != Kind::File;
        let newest = state.newest.get(file.path()).map(|(number, _)| *number);
        let wanted = wanted(&file);
        let same = newest.into_iter().chain([wanted]).find_map(|number| {
            let held = state.held.get_mut(&number).filter(|_| is_settled)?;
            let is_same = match &held.inode.content {
                Content::File(known) => known.meta() == file.meta(),
                Content::Directory { path, known }
                    if file.meta().is_dir()
                        && (path == file.path() || is_same_tree(known, &file)) =>
                {
                    let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
                    known.file = file.clone();
                    known.looked = at;
                    known.is_dropped = false;
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
        // The list of a published version says all that there is to say.
        let is_checked = is_checked || file.meta().content.is_some();
        let inode = same.unwrap_or_else(|| {
            let content = match file.meta().is_dir() {
                false => Content::File(file),
                true => Content::Directory {
                    path: file.path().to_owned(),
                    known: Mutex::new(KnownDirectory {
                        file,
                        looked: at,
                        is_dropped: false,
                    }),
                },
            };
            let number = match path == state.root {
                true => ROOT,
                // Bytes of an unsettled state may be of the next one: no other look gets its number.
                false if !is_settled || state.held.contains_key(&wanted) => state.number(),
                false => wanted,
            };
            state.hold(number, content)
        });
        if is_checked {
            // Set by now, or set before: the same.
            let _ = inode.checked.set(());
        }
        if is_settled {
            state.name(path, inode.number, at);
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

    /// Makes an inode for a directory in which lookups drop a path, with one lookup.
    pub(super) fn dropping(&self, path: PathBuf) -> Arc<Inode> {
        let mut state = self.state();
        let number = state.number();
        state.hold(number, Content::Drop { path })
    }

    /// Marks the directories at a path and below it as dropped, so that their attributes are asked anew. Returns what the kernel
    /// knows there.
    pub(super) fn drop_below(&self, top: &Path) -> Vec<KnownPath> {
        let state = self.state();
        let mut known = Vec::new();
        for (number, held) in &state.held {
            let (paths, file) = match &held.inode.content {
                Content::File(file) => (held.paths.clone(), Some(file.clone())),
                Content::Directory { path, known } => {
                    if path.starts_with(top) {
                        let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
                        known.is_dropped = true;
                    }
                    (vec![path.clone()], None)
                }
                Content::Own { .. } | Content::Drop { .. } => continue,
            };
            let below = paths.into_iter().filter(|path| path.starts_with(top));
            known.extend(below.map(|path| KnownPath {
                path,
                number: *number,
                file: file.clone(),
            }));
        }
        known
    }

    /// Returns the newest state of a path and its remaining validity, if the origin was asked
    /// within `good_for`, and the path was not dropped since. Counts one lookup.
    pub(super) fn again(
        &self,
        path: &Path,
        good_for: Duration,
        is_dropped: impl FnOnce(Instant) -> bool,
    ) -> Option<(Arc<Inode>, Duration)> {
        let mut state = self.state();
        let (number, asked) = *state.newest.get(path)?;
        if is_dropped(asked) {
            return None;
        }
        let left = good_for.checked_sub(asked.elapsed())?;
        let held = state.held.get_mut(&number)?;
        held.lookups = held.lookups.saturating_add(1);
        Some((Arc::clone(&held.inode), left))
    }

    /// Returns the number of the newest state of a path, if the kernel knows it.
    pub(super) fn number_of(&self, path: &Path) -> Option<u64> {
        let state = self.state();
        if path == state.root {
            return Some(ROOT);
        }
        state.newest.get(path).map(|(number, _)| *number)
    }

    /// Returns the number that an entry of a directory has, or will get by its lookup.
    pub(super) fn entry_number(&self, directory: &Path, entry: &Entry) -> u64 {
        let path = directory.join(&entry.name);
        self.number_of(&path)
            .unwrap_or_else(|| number_of(&path, entry.inode))
    }

    /// Marks the state with this number as outdated, so that the next lookup of its names asks the
    /// origin. Returns `false` if a newer state is known already, as readers of an old state notice
    /// the change again and again.
    pub(super) fn outdated(&self, path: &Path, number: u64) -> bool {
        let mut state = self.state();
        let newest = state.newest.get(path).map(|(newest, _)| *newest);
        if newest == Some(number) {
            state.forget_names(number);
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
        state.forget_names(number);
        state.held.remove(&number);
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
        // 2^62 states are not seen in any machine's life.
        self.next = self.next.saturating_add(1);
        number
    }

    /// Notes which state a path has, by the origin's word of this moment.
    fn name(&mut self, path: PathBuf, number: u64, at: Instant) {
        let before = self.newest.insert(path.clone(), (number, at));
        if before.is_some_and(|(before, _)| before == number) {
            return;
        }
        if let Some(held) = self.held.get_mut(&number) {
            held.paths.push(path);
        }
    }

    /// Takes the names of a number away; those of newer states stay.
    fn forget_names(&mut self, number: u64) {
        let held = self.held.get_mut(&number);
        for path in held
            .map(|held| std::mem::take(&mut held.paths))
            .unwrap_or_default()
        {
            if self
                .newest
                .get(&path)
                .is_some_and(|(newest, _)| *newest == number)
            {
                self.newest.remove(&path);
            }
        }
    }

    fn hold(&mut self, number: u64, content: Content) -> Arc<Inode> {
        let inode = Arc::new(Inode {
            number,
            content,
            checked: OnceCell::new(),
            pin: Pin::default(),
        });
        let held = KnownInode {
            inode: Arc::clone(&inode),
            lookups: 1,
            paths: Vec::new(),
        };
        self.held.insert(number, held);
        inode
    }
}

/// Returns whether a directory of another version of a published tree has the same tree below it.
fn is_same_tree(known: &Mutex<KnownDirectory>, file: &File) -> bool {
    let known = known.lock().unwrap_or_else(PoisonError::into_inner);
    file.meta().content.is_some() && known.file.meta() == file.meta()
}

/// The number that an object should have: its own at the origin, else one made of its path.
fn wanted(file: &File) -> u64 {
    number_of(file.path(), file.meta().inode)
}

/// The number for an entry of a list, the same as [`wanted`] gives.
pub(super) fn number_of(path: &Path, inode: u64) -> u64 {
    match inode {
        0 | ROOT => (1 << 63) | XxHash3_64::oneshot(path.as_os_str().as_encoded_bytes()),
        inode => inode,
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
        let inodes = Inodes::new(PathBuf::new());
        let name = Path::new("file");
        let look = |size, keep_from| {
            let meta = Meta {
                keep_from,
                ..Meta::plain(Kind::File, size, Version::new("1"))
            };
            inodes
                .found(cache.file(name, meta), Instant::now(), true)
                .number
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
        let (again, left) = inodes.again(name, hour, |_| false).expect("it is known");
        assert_eq!(again.number, another, "the newest");
        assert!(left <= hour, "{left:?}");
        assert!(
            inodes.again(name, Duration::ZERO, |_| false).is_none(),
            "never good"
        );
        assert!(!inodes.outdated(name, one), "of an old state");
        assert!(
            inodes.again(name, hour, |_| false).is_some(),
            "which is no news"
        );
        assert!(inodes.outdated(name, another), "of the newest");
        assert!(inodes.again(name, hour, |_| false).is_none(), "asked again");
        inodes.forget(another, 3);
        assert_eq!(inodes.len(), 0, "nothing is kept of what nobody holds");

        let names = ["one name", "another name"].map(|name| {
            let meta = Meta {
                inode: 77,
                ..Meta::plain(Kind::File, 3, Version::new("1"))
            };
            cache.file(Path::new(name), meta)
        });
        let numbers = names
            .clone()
            .map(|file| inodes.found(file, Instant::now(), true).number);
        assert_eq!(numbers, [77, 77], "the origin's, of both names");
        inodes.outdated(names[0].path(), 77);
        assert!(
            inodes.again(names[1].path(), hour, |_| false).is_none(),
            "outdated too"
        );
        let mut meta = names[0].meta().clone();
        meta.version = Version::new("2");
        let newer = cache.file(names[0].path(), meta);
        let newer = inodes.found(newer, Instant::now(), true).number;
        assert_ne!(newer, 77, "the old state is held");
        inodes.forget(newer, 1);
        inodes.forget(77, 2);
        assert_eq!(inodes.len(), 0);

        let soon = SystemTime::now() + hour;
        let first = look(3, Some(soon));
        assert_ne!(
            look(3, Some(soon)),
            first,
            "the next write may look the same"
        );
        assert!(
            inodes.again(name, hour, |_| false).is_none(),
            "not even for a moment"
        );
    }
}
