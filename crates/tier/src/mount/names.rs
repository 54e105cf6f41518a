//! Names that the origin has shown: single objects, and lists of directories, within a bound of memory.
//!
//! They outlive the inodes, which end when the kernel forgets them.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::mem::size_of;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use cachewise_units::Bytes;
use foyer::{Cache, CacheBuilder, SieveConfig};
use tokio::sync::OnceCell;

use crate::origin::Subtree;
use crate::{Entry, Error, Meta, Version};

/// Maximum paths whose dropping is remembered; beyond it all names are forgotten.
const MOST_DROPPED: usize = 1_024;

/// The answer to a request for a subtree: the list of its directory, if the origin has such lists.
pub(super) type TreeAnswer = Result<Option<Arc<Listed>>, Error>;

/// A request for a subtree that is under way.
pub(super) type TreeFlight = Arc<OnceCell<TreeAnswer>>;

/// The list of a directory.
#[derive(Debug)]
pub(super) struct Listed {
    /// Sorted by name.
    pub entries: Arc<Vec<Entry>>,
    /// Time of the request.
    pub at: Instant,
    /// Whether the directory had no other entries.
    pub is_whole: bool,
    /// Whether one request had the whole directory, so that one more would refresh it.
    pub is_small: bool,
    /// Whether the origin refuses to list it.
    pub is_refused: bool,
    /// The state of the directory before it was listed, if that was known.
    pub of: Option<Version>,
}

impl Listed {
    /// Sorts the entries for look-ups by name.
    pub(super) fn sorted(mut entries: Vec<Entry>) -> Arc<Vec<Entry>> {
        entries.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        Arc::new(entries)
    }

    /// Finds an entry by its name.
    pub(super) fn find(&self, name: &OsStr) -> Option<&Entry> {
        let at = self
            .entries
            .binary_search_by(|entry| entry.name.as_os_str().cmp(name));
        self.entries.get(at.ok()?)
    }
}

/// The state of one object, by a request for it.
#[derive(Clone, Debug)]
pub(super) struct KnownObject {
    /// Its metadata; `None` if there is none of that name.
    pub meta: Option<Arc<Meta>>,
    /// Time of the request.
    pub at: Instant,
}

#[derive(Clone, Debug)]
enum Known {
    List(Arc<Listed>),
    Object(KnownObject),
}

/// The key of what is known: a path, and whether it is a list.
type Key = (PathBuf, bool);

/// Names within a bound of memory; those that are not used are evicted.
#[derive(Debug)]
pub(super) struct Names {
    known: Cache<Key, Known>,
    flights: Mutex<HashMap<PathBuf, TreeFlight>>,
    /// Paths that were dropped, and when: what was known of them before is not used.
    dropped: RwLock<HashMap<PathBuf, Instant>>,
}

impl Names {
    pub(super) fn new(most: Bytes) -> Self {
        let most = usize::try_from(most.0).unwrap_or(usize::MAX);
        Self {
            known: CacheBuilder::new(most)
                // One shard, so that one long list may take most of the memory.
                .with_shards(1)
                .with_eviction_config(SieveConfig {})
                .with_weighter(|key: &Key, known: &Known| weight(key, known))
                .build(),
            flights: Mutex::default(),
            dropped: RwLock::default(),
        }
    }

    /// Returns what is known of an object by a request for it alone.
    pub(super) fn object(&self, path: &Path) -> Option<KnownObject> {
        match self.known.get(&(path.to_owned(), false))?.value() {
            Known::Object(object) if !self.is_dropped(path, object.at) => Some(object.clone()),
            _ => None,
        }
    }

    pub(super) fn keep_object(&self, path: &Path, meta: Option<&Meta>, at: Instant) {
        let meta = meta.map(|meta| Arc::new(meta.clone()));
        let object = Known::Object(KnownObject { meta, at });
        self.known.insert((path.to_owned(), false), object);
    }

    /// Returns the list of a directory, if it is not older than this.
    pub(super) fn list(&self, directory: &Path, good_for: Duration) -> Option<Arc<Listed>> {
        match self.known.get(&(directory.to_owned(), true))?.value() {
            Known::List(list)
                if list.at.elapsed() < good_for && !self.is_dropped(directory, list.at) =>
            {
                Some(Arc::clone(list))
            }
            _ => None,
        }
    }

    pub(super) fn keep_list(&self, directory: &Path, list: Listed) -> Arc<Listed> {
        let list = Arc::new(list);
        let known = Known::List(Arc::clone(&list));
        self.known.insert((directory.to_owned(), true), known);
        list
    }

    /// Keeps the lists of a subtree and returns that of its top. A recent list stays if the new one has only a part.
    pub(super) fn keep_tree(
        &self,
        top: &Path,
        tree: Subtree,
        at: Instant,
        good_for: Duration,
        mut kept_list: impl FnMut(&Path, &Listed),
    ) -> Option<Arc<Listed>> {
        let mut of_top = None;
        for list in tree.lists {
            let is_better = list.is_whole
                || self
                    .list(&list.path, good_for)
                    .is_none_or(|known| !known.is_whole);
            if !is_better {
                continue;
            }
            let listed = Listed {
                entries: Listed::sorted(list.entries),
                at,
                is_whole: list.is_whole,
                is_small: list.is_whole,
                is_refused: false,
                of: None,
            };
            let kept = self.keep_list(&list.path, listed);
            kept_list(&list.path, &kept);
            if list.path == top {
                of_top = Some(kept);
            }
        }
        of_top.or_else(|| self.list(top, good_for))
    }

    /// Forgets an object and the list of its directory.
    pub(super) fn outdated(&self, path: &Path) {
        self.known.remove(&(path.to_owned(), false));
        if let Some(parent) = path.parent() {
            self.known.remove(&(parent.to_owned(), true));
        }
    }

    /// Forgets a path, all that is below it, and the list that shows it. Answers to requests from before this moment are not used.
    pub(super) fn drop_below(&self, path: &Path) {
        let mut dropped = self.dropped.write().unwrap_or_else(PoisonError::into_inner);
        if dropped.len() >= MOST_DROPPED {
            self.known.clear();
            dropped.clear();
            // Requests that are under way began before.
            dropped.insert(PathBuf::new(), Instant::now());
        }
        dropped.insert(path.to_owned(), Instant::now());
        drop(dropped);
        // A request that began before shows the state of before.
        let mut flights = self.flights.lock().unwrap_or_else(PoisonError::into_inner);
        flights.clear();
        drop(flights);
        self.outdated(path);
    }

    /// Notes that a path was dropped at this time, before the mount began.
    pub(super) fn was_dropped(&self, path: &Path, at: Instant) {
        let mut dropped = self.dropped.write().unwrap_or_else(PoisonError::into_inner);
        dropped.insert(path.to_owned(), at);
    }

    /// Whether a path was dropped after this time.
    pub(super) fn is_dropped(&self, path: &Path, asked: Instant) -> bool {
        let dropped = self.dropped.read().unwrap_or_else(PoisonError::into_inner);
        let is_later = |name: &Path| dropped.get(name).is_some_and(|at| *at >= asked);
        !dropped.is_empty() && path.ancestors().any(is_later)
    }

    /// Returns the request for a subtree that is under way, or begins one.
    pub(super) fn flight(&self, top: &Path) -> TreeFlight {
        let mut flights = self.flights.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(flights.entry(top.to_owned()).or_default())
    }

    /// Ends a request for a subtree.
    pub(super) fn landed(&self, top: &Path, flight: &TreeFlight) {
        let mut flights = self.flights.lock().unwrap_or_else(PoisonError::into_inner);
        if flights
            .get(top)
            .is_some_and(|known| Arc::ptr_eq(known, flight))
        {
            flights.remove(top);
        }
    }
}

/// Estimates the memory of what is known, in bytes.
fn weight(key: &Key, known: &Known) -> usize {
    /// The tables of the cache, for each of its keys.
    const FIXED: usize = 200;
    let of_meta = |meta: &Meta| size_of::<Meta>() + meta.version.as_bytes().len();
    let of_entry = |entry: &Entry| {
        let meta = entry.meta.as_deref().map_or(0, of_meta);
        size_of::<Entry>() + entry.name.len() + meta
    };
    let own = match known {
        Known::Object(object) => object.meta.as_deref().map_or(0, of_meta),
        Known::List(list) => list.entries.iter().map(of_entry).sum(),
    };
    FIXED + key.0.as_os_str().len() + own
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;

    const HOUR: Duration = Duration::from_secs(3600);

    fn list(names: &[&str]) -> Listed {
        let entries = names.iter().map(|name| Entry::new(*name, Kind::File));
        Listed {
            entries: Listed::sorted(entries.collect()),
            at: Instant::now(),
            is_whole: true,
            is_small: false,
            is_refused: false,
            of: None,
        }
    }

    #[test]
    fn memory_for_names_is_bounded() {
        let names = Names::new(Bytes(100_000));
        for number in 0..10_000 {
            names.keep_object(Path::new(&format!("f/{number}")), None, Instant::now());
        }
        assert!(names.known.usage() <= 100_000, "{}", names.known.usage());
        let long: Vec<String> = (0..10_000).map(|number| format!("{number}")).collect();
        let long: Vec<&str> = long.iter().map(String::as_str).collect();
        names.keep_list(Path::new("long"), list(&long));
        names.keep_object(Path::new("next"), None, Instant::now());
        assert!(names.known.usage() <= 100_000, "{}", names.known.usage());
    }

    #[test]
    fn a_part_of_a_list_does_not_replace_the_list() {
        let names = Names::new(Bytes(1 << 20));
        let top = Path::new("d");
        names.keep_list(top, list(&["a", "b"]));
        let part = Subtree {
            lists: vec![crate::origin::SubtreeList {
                path: top.to_owned(),
                entries: vec![Entry::new("a", Kind::File)],
                is_whole: false,
            }],
        };
        let kept = names.keep_tree(top, part.clone(), Instant::now(), HOUR, |_, _| {});
        assert_eq!(kept.expect("known").entries.len(), 2);
        names.outdated(Path::new("d/a"));
        let kept = names.keep_tree(top, part, Instant::now(), HOUR, |_, _| {});
        assert_eq!(kept.expect("new").entries.len(), 1);
    }
}
