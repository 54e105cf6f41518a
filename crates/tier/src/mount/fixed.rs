//! [`Fixed`]: the objects of published trees that the kernel knows.
//!
//! An object is known by its place in the list of its directory, which is kept as it is stored: some 150 bytes for each
//! name that the kernel knows, its attributes and the hashes of its blocks included.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fuser::FileAttr;

use super::attributes::Owner;
use super::inodes::ROOT;
use crate::published::address::Ref;
use crate::published::leaf::{ItemView, Leaf, Leaves};
use crate::published::meta::{kind, meta};
use crate::{BlockCache, Error, File, Meta, Version};

/// The first of the numbers for objects that have none of their own. [`super::inodes::Inodes`] has those below, from
/// 2^62 on.
const MADE: u64 = 3 << 61;

/// The numbers that a version gives to its objects have this bit.
const PUBLISHED: u64 = 1 << 63;

/// An object: its place in a list.
#[derive(Clone, Debug)]
pub(super) struct Place {
    leaf: Arc<Leaf>,
    at: u32,
}

impl Place {
    pub(super) fn new(leaf: Arc<Leaf>, at: usize) -> Option<Self> {
        let at = u32::try_from(at).ok()?;
        Some(Self { leaf, at })
    }

    pub(super) fn view(&self) -> Option<ItemView<'_>> {
        self.leaf.view(usize::try_from(self.at).ok()?)
    }
}

#[derive(Debug)]
struct Node {
    place: Place,
    /// The kernel's lookup count. One that has reached the maximum stays.
    lookups: u32,
    /// The number of a directory that has it.
    parent: u64,
}

/// Objects by their inode numbers.
#[derive(Debug)]
pub(super) struct Nodes {
    next: u64,
    held: HashMap<u64, Node>,
}

impl Nodes {
    /// Returns the number of an object: that of the version, unless another object has it.
    pub(super) fn number(&mut self, place: &Place, view: &ItemView<'_>) -> u64 {
        let is_free = match self.held.get(&view.inode) {
            None => true,
            Some(node) if Arc::ptr_eq(&node.place.leaf, &place.leaf) => node.place.at == place.at,
            Some(_) => false,
        };
        let is_same = || {
            let node = self.held.get(&view.inode);
            let known = node.and_then(|node| node.place.view());
            known.is_some_and(|known| known.is_same(view))
        };
        if view.inode & PUBLISHED != 0 && (is_free || is_same()) {
            return view.inode;
        }
        self.next = self.next.saturating_add(1);
        self.next
    }

    /// Counts one lookup of an object, which has this number.
    pub(super) fn hold(&mut self, number: u64, place: &Place, parent: u64) {
        let node = self.held.entry(number).or_insert_with(|| Node {
            place: place.clone(),
            lookups: 0,
            parent,
        });
        node.lookups = node.lookups.saturating_add(1);
    }

    fn forget(&mut self, number: u64, times: u64) -> bool {
        let Some(node) = self.held.get_mut(&number) else {
            return false;
        };
        if node.lookups < u32::MAX {
            let times = u32::try_from(times).unwrap_or(u32::MAX);
            node.lookups = node.lookups.saturating_sub(times);
        }
        if node.lookups == 0 {
            self.held.remove(&number);
        }
        true
    }
}

/// The objects of published trees that the kernel knows, and the root.
#[derive(Debug)]
pub(super) struct Fixed {
    nodes: Mutex<Nodes>,
    /// The root of the version that is mounted, once it was read.
    root: Mutex<Option<(PathBuf, Place)>>,
    /// The version of all metadata.
    none: Version,
}

impl Fixed {
    pub(super) fn new() -> Self {
        Self {
            nodes: Mutex::new(Nodes {
                next: MADE,
                held: HashMap::new(),
            }),
            root: Mutex::default(),
            none: Version::new(""),
        }
    }

    pub(super) fn nodes(&self) -> MutexGuard<'_, Nodes> {
        // Each change is whole before anything can panic.
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns what a number stands for; not the root.
    pub(super) fn get(&self, number: u64) -> Option<Place> {
        let nodes = self.nodes();
        nodes.held.get(&number).map(|node| node.place.clone())
    }

    /// Returns the number of the directory that has an object.
    pub(super) fn parent(&self, number: u64) -> Option<u64> {
        self.nodes().held.get(&number).map(|node| node.parent)
    }

    /// Handles FORGET: subtracts `times` lookups. Returns whether it knows the number.
    pub(super) fn forget(&self, number: u64, times: u64) -> bool {
        self.nodes().forget(number, times)
    }

    /// Returns the root of the version that is mounted now, at this path.
    ///
    /// # Errors
    /// Those of [`Leaves::top`].
    pub(super) async fn root(&self, trees: &dyn Leaves, path: &Path) -> Result<Place, Error> {
        let known = || self.root.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, root)) = known().as_ref().filter(|(known, _)| known == path) {
            return Ok(root.clone());
        }
        let root = Place {
            leaf: trees.top(path).await?,
            at: 0,
        };
        *known() = Some((path.to_owned(), root.clone()));
        Ok(root)
    }

    /// Returns the topmost chunk of a directory; `None` for another object.
    ///
    /// # Errors
    /// Those of [`Self::root`].
    pub(super) async fn directory(
        &self,
        trees: &dyn Leaves,
        root: &Path,
        number: u64,
    ) -> Result<Option<Ref>, Error> {
        let place = self.place(trees, root, number).await?;
        Ok(place.and_then(|place| place.view()?.directory()))
    }

    /// Returns what a number stands for; `None` for an object of the mount itself.
    ///
    /// # Errors
    /// Those of [`Self::root`].
    pub(super) async fn place(
        &self,
        trees: &dyn Leaves,
        root: &Path,
        number: u64,
    ) -> Result<Option<Place>, Error> {
        match number {
            ROOT => self.root(trees, root).await.map(Some),
            _ => Ok(self.get(number)),
        }
    }

    /// Returns the metadata of an object, without its blocks.
    fn meta(&self, view: &ItemView<'_>) -> Meta {
        let none = self.none.clone();
        meta(kind(view.kind), &view.stat, view.inode, view.has_acl, none)
    }

    pub(super) fn attributes(&self, owner: Owner, number: u64, view: &ItemView<'_>) -> FileAttr {
        owner.attributes(number, &self.meta(view))
    }

    /// Returns a file to read.
    pub(super) fn file(&self, cache: &BlockCache, number: u64, place: &Place) -> Option<File> {
        let view = place.view()?;
        let meta = Meta {
            content: view.content(),
            ..self.meta(&view)
        };
        Some(cache.file(&self.path(number), meta))
    }

    /// Returns the path of an object below the root, as far as it is known.
    fn path(&self, number: u64) -> PathBuf {
        let nodes = self.nodes();
        let mut names = Vec::new();
        let mut at = number;
        while let Some(node) = nodes.held.get(&at) {
            names.extend(node.place.view().map(|view| OsStr::from_bytes(view.name)));
            at = node.parent;
        }
        names.into_iter().rev().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::published::chunk::tests::leaf_of;

    #[test]
    fn an_object_is_known_until_the_kernel_has_forgotten_all_its_lookups() {
        let fixed = Fixed::new();
        let leaf = Arc::new(leaf_of(&[("a", PUBLISHED | 7), ("b", PUBLISHED | 8)]));
        let place = |at| Place::new(Arc::clone(&leaf), at).expect("it is there");
        let hold = |at| {
            let place = place(at);
            let view = place.view().expect("it is there");
            let mut nodes = fixed.nodes();
            let number = nodes.number(&place, &view);
            nodes.hold(number, &place, ROOT);
            number
        };
        let one = hold(0);
        assert_eq!(one, PUBLISHED | 7);
        assert_eq!(hold(0), one, "the same object");
        assert_eq!(hold(1), PUBLISHED | 8);
        assert_eq!(fixed.path(one), PathBuf::from("a"));
        assert!(fixed.forget(one, 1));
        assert!(fixed.get(one).is_some(), "it was looked up twice");
        assert!(fixed.forget(one, 1));
        assert!(fixed.get(one).is_none());
        assert!(!fixed.forget(one, 1), "it is not known");
    }

    #[test]
    fn another_object_with_the_same_number_gets_a_number_of_its_own() {
        let fixed = Fixed::new();
        let leaf = Arc::new(leaf_of(&[
            ("a", PUBLISHED | 7),
            ("bb", PUBLISHED | 7),
            ("c", 1),
        ]));
        let mut numbers = Vec::new();
        for at in 0..3 {
            let place = Place::new(Arc::clone(&leaf), at).expect("it is there");
            let view = place.view().expect("it is there");
            let mut nodes = fixed.nodes();
            let number = nodes.number(&place, &view);
            nodes.hold(number, &place, ROOT);
            numbers.push(number);
        }
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), 3);
        assert!(!numbers.contains(&ROOT), "{numbers:?}");
    }
}
