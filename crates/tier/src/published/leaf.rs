//! [`Leaf`]: the objects of a directory, as they are stored. They are decoded when they are requested, so that a directory
//! takes no more memory than in the store.

use std::collections::HashSet;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;

use super::address::{Content, Hash, INLINE, PackId, Ref};
use super::attributes::{Attributes, Stored};
use super::stat::Stat;
use super::wire::Reader;
use crate::Error;

/// The first bytes of a chunk.
pub(super) const MAGIC: [u8; 4] = *b"cwm1";

/// The first bytes of a list of objects of which some have extended attributes. Behind the packs it has the sets of
/// attributes; an object has the number of its set.
pub(super) const MAGIC_ATTRIBUTES: [u8; 4] = *b"cwm2";

/// The bit of a kind for an object with an access control list.
pub(super) const ACL: u8 = 1 << 7;

/// The bit of a kind for an object with extended attributes.
pub(super) const ATTRIBUTES: u8 = 1 << 6;

/// The kind of a stored object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ItemKind {
    /// A file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A device, a socket or a FIFO.
    Other,
}

/// An object in a directory, as it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ItemView<'a> {
    pub name: &'a [u8],
    pub kind: ItemKind,
    pub has_acl: bool,
    pub stat: Stat,
    /// Inode number in mounts.
    pub inode: u64,
    /// The target of a link, or references.
    body: &'a [u8],
    /// The set of its attributes, if it has any.
    set: Option<&'a [u8]>,
    packs: &'a [u8],
}

/// Tables of a chunk that its objects refer to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tables<'a, 's> {
    bytes: &'a [u8],
    packs: &'a [u8],
    sets: &'s [Range<u32>],
}

impl<'a> Tables<'a, '_> {
    fn set(&self, number: u64) -> Option<&'a [u8]> {
        let set = self.sets.get(usize::try_from(number).ok()?)?;
        let (start, end) = (usize::try_from(set.start), usize::try_from(set.end));
        self.bytes.get(start.ok()?..end.ok()?)
    }
}

/// Returns whether an object can have this name, which then leads nowhere else.
pub(super) fn is_name(name: &[u8]) -> bool {
    !matches!(name, b"" | b"." | b"..")
        && !name.contains(&b'/')
        && !name.contains(&0)
        && name.len() <= 255
}

/// Takes a reference. `packs` are those of the chunk.
pub(super) fn take_ref(from: &mut Reader<'_>, packs: &[u8]) -> Option<Ref> {
    let hash = Hash(from.array()?);
    let (known, _) = packs.as_chunks();
    let number = usize::try_from(from.number()?).ok()?;
    Some(Ref {
        hash,
        pack: PackId(*known.get(number)?),
        start: from.small()?,
        len: from.small()?,
    })
}

impl<'a> ItemView<'a> {
    /// Takes an object, and checks it: its name is one that leads nowhere else.
    fn take(from: &mut Reader<'a>, tables: Tables<'a, '_>) -> Option<Self> {
        let name = from.bytes()?;
        if !is_name(name) {
            return None;
        }
        let mut view = Self::numbers(name, from, tables)?;
        let (body, packs) = (from.0, tables.packs);
        match view.kind {
            ItemKind::File => {
                let level = from.byte()?;
                let count = from.number()?;
                if level > 8 || count > INLINE as u64 {
                    return None;
                }
                for _ in 0..count {
                    take_ref(from, packs)?;
                }
            }
            ItemKind::Directory => drop(take_ref(from, packs)?),
            ItemKind::Link => drop(from.bytes()?),
            ItemKind::Other => {}
        }
        view.body = body.get(..body.len().checked_sub(from.0.len())?)?;
        Some(view)
    }

    /// Takes what is between the name and the body.
    fn numbers(name: &'a [u8], from: &mut Reader<'a>, tables: Tables<'a, '_>) -> Option<Self> {
        let kind = from.byte()?;
        let set = match kind & ATTRIBUTES {
            0 => None,
            _ => Some(tables.set(from.number()?)?),
        };
        Some(Self {
            name,
            kind: match kind & !(ACL | ATTRIBUTES) {
                0 => ItemKind::File,
                1 => ItemKind::Directory,
                2 => ItemKind::Link,
                3 => ItemKind::Other,
                _ => return None,
            },
            has_acl: kind & ACL != 0,
            stat: Stat::take(from)?,
            inode: u64::from_le_bytes(from.array()?),
            body: &[],
            set,
            packs: tables.packs,
        })
    }

    /// Returns the blocks of a file.
    pub(crate) fn content(&self) -> Option<Content> {
        let mut from = Reader(self.body);
        if self.kind != ItemKind::File {
            return None;
        }
        let level = from.byte()?;
        let count = from.number()?;
        let refs: Option<Vec<Ref>> = (0..count)
            .map(|_| take_ref(&mut from, self.packs))
            .collect();
        let refs = refs?.into();
        Some(Content { level, refs })
    }

    /// Returns the topmost chunk of a directory.
    pub(crate) fn directory(&self) -> Option<Ref> {
        let is_directory = self.kind == ItemKind::Directory;
        is_directory.then(|| take_ref(&mut Reader(self.body), self.packs))?
    }

    /// Returns the target of a link.
    pub(crate) fn target(&self) -> Option<&'a [u8]> {
        let is_link = self.kind == ItemKind::Link;
        is_link.then(|| Reader(self.body).bytes())?
    }

    /// Returns where its extended attributes are.
    pub(crate) fn attributes(&self) -> Option<Stored> {
        match self.set {
            None => Some(Stored::None),
            Some(set) => take_set(&mut Reader(set), self.packs),
        }
    }

    /// Returns whether both are the same object, by whichever name.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let named = |view: &Self| Self {
            name: &[],
            body: &[],
            set: None,
            packs: &[],
            ..*view
        };
        named(self) == named(other)
            && self.content() == other.content()
            && self.directory() == other.directory()
            && self.target() == other.target()
            && self.attributes() == other.attributes()
    }
}

/// Takes a set of attributes.
fn take_set(from: &mut Reader<'_>, packs: &[u8]) -> Option<Stored> {
    Stored::take(from, |from| take_ref(from, packs))
}

/// Takes the sets of attributes of a chunk with these bytes. There is at least one, and none is there twice.
fn take_sets(from: &mut Reader<'_>, whole: &[u8], packs: &[u8]) -> Option<Vec<Range<u32>>> {
    let mut sets: Vec<Range<u32>> = Vec::new();
    let mut known = HashSet::new();
    for _ in 0..from.number()? {
        let place = |from: &Reader<'_>| u32::try_from(whole.len().checked_sub(from.0.len())?).ok();
        let start = place(from)?;
        let stored = take_set(from, packs)?;
        if !known.insert(stored.state()) {
            return None;
        }
        sets.push(start..place(from)?);
    }
    (!sets.is_empty()).then_some(sets)
}

/// The objects of a directory, or of a part of a long one, sorted by the bytes of their names.
#[derive(Debug)]
pub(crate) struct Leaf {
    bytes: Bytes,
    packs: Range<usize>,
    /// The sets of attributes.
    sets: Box<[Range<u32>]>,
    /// The first byte of each object.
    starts: Box<[u32]>,
}

impl Leaf {
    /// Takes a chunk with objects, and checks all of it. `None` where the bytes are none, or names are out of order.
    pub(super) fn decode(bytes: Bytes) -> Option<Self> {
        let (magic, rest) = bytes.split_first_chunk()?;
        let has_attributes = *magic == MAGIC_ATTRIBUTES;
        if !has_attributes && *magic != MAGIC {
            return None;
        }
        let mut from = Reader(rest);
        if from.byte()? != 0 {
            return None;
        }
        let packs = from.number()?.checked_mul(16)?;
        let first = bytes.len().checked_sub(from.0.len())?;
        let packs = first..first.checked_add(usize::try_from(packs).ok()?)?;
        let of_packs = from.take(packs.len())?;
        let sets = match has_attributes {
            true => take_sets(&mut from, &bytes, of_packs)?,
            false => Vec::new(),
        };
        let tables = Tables {
            bytes: &bytes,
            packs: of_packs,
            sets: &sets,
        };
        let count = from.number()?;
        let mut starts = Vec::new();
        let mut last: Option<&[u8]> = None;
        for _ in 0..count {
            starts.push(u32::try_from(bytes.len().checked_sub(from.0.len())?).ok()?);
            let name = ItemView::take(&mut from, tables)?.name;
            if last.is_some_and(|last| last >= name) {
                return None;
            }
            last = Some(name);
        }
        let is_whole = from.0.is_empty();
        is_whole.then_some(Self {
            packs,
            sets: sets.into(),
            starts: starts.into(),
            bytes,
        })
    }

    /// Returns it as it is stored.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> Bytes {
        self.bytes.clone()
    }

    /// Number of objects.
    pub(crate) fn len(&self) -> usize {
        self.starts.len()
    }

    /// Returns an object.
    pub(crate) fn view(&self, at: usize) -> Option<ItemView<'_>> {
        let start = usize::try_from(*self.starts.get(at)?).ok()?;
        let end = match self.starts.get(at.checked_add(1)?) {
            Some(next) => usize::try_from(*next).ok()?,
            None => self.bytes.len(),
        };
        let tables = Tables {
            bytes: &self.bytes,
            packs: self.bytes.get(self.packs.clone())?,
            sets: &self.sets,
        };
        let mut from = Reader(self.bytes.get(start..end)?);
        let name = from.bytes()?;
        let mut view = ItemView::numbers(name, &mut from, tables)?;
        view.body = from.0;
        Some(view)
    }

    /// Returns the objects from this one on.
    pub(crate) fn views(&self, from: usize) -> impl Iterator<Item = ItemView<'_>> {
        (from..self.len()).map_while(|at| self.view(at))
    }

    /// Finds an object by its name.
    pub(crate) fn find(&self, name: &[u8]) -> Option<usize> {
        let name_at = |start: &u32| {
            let bytes = self.bytes.get(usize::try_from(*start).ok()?..)?;
            Reader(bytes).bytes()
        };
        let found = self
            .starts
            .binary_search_by(|start| name_at(start).cmp(&Some(name)));
        found.ok()
    }
}

/// The trees of published versions. A directory is known by the reference of its topmost chunk.
pub(crate) trait Leaves: Send + Sync {
    /// Returns the parts of a directory, in the order of names.
    fn leaves<'a>(&'a self, top: &'a Ref) -> BoxFuture<'a, Result<Vec<Ref>, Error>>;

    /// Returns a part.
    fn leaf<'a>(&'a self, at: &'a Ref) -> BoxFuture<'a, Result<Arc<Leaf>, Error>>;

    /// Returns a list of which the first object is the root of the tree at this path.
    fn top<'a>(&'a self, root: &'a Path) -> BoxFuture<'a, Result<Arc<Leaf>, Error>>;

    /// Whether the root may become that of another version.
    fn is_followed(&self) -> bool;

    /// Whether objects have extended attributes, or may have at a later time.
    fn has_attributes(&self) -> bool;

    /// Returns extended attributes.
    fn attributes<'a>(&'a self, stored: &'a Stored) -> BoxFuture<'a, Result<Attributes, Error>>;

    /// Returns the part of a directory in which a name is, if it is in any.
    fn leaf_of<'a>(
        &'a self,
        top: &'a Ref,
        name: &'a [u8],
    ) -> BoxFuture<'a, Result<Option<Arc<Leaf>>, Error>>;
}
