//! [`Leaf`]: the objects of a directory, as they are stored. They are decoded when they are requested, so that a directory
//! takes no more memory than in the store.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures_util::future::BoxFuture;

use super::address::{Content, Hash, INLINE, PackId, Ref};
use super::wire::Reader;
use crate::Error;

/// The first bytes of a chunk.
pub(super) const MAGIC: [u8; 4] = *b"cwm1";

/// The bit of a kind for an object with an access control list.
pub(super) const ACL: u8 = 1 << 7;

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
    /// Permission bits.
    pub mode: u32,
    /// User and group.
    pub owner: (u32, u32),
    /// Time of the last write: seconds since 1970 and nanoseconds.
    pub modified: (i64, u32),
    /// Length in bytes.
    pub size: u64,
    /// Number of names.
    pub links: u32,
    /// Room at the origin, in units of 512 bytes.
    pub blocks: u64,
    /// Inode number in mounts.
    pub inode: u64,
    /// The target of a link, or references.
    body: &'a [u8],
    packs: &'a [u8],
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
    pub(super) fn take(from: &mut Reader<'a>, packs: &'a [u8]) -> Option<Self> {
        let name = from.bytes()?;
        let is_name = !matches!(name, b"" | b"." | b"..")
            && !name.contains(&b'/')
            && !name.contains(&0)
            && name.len() <= 255;
        if !is_name {
            return None;
        }
        let mut view = Self::numbers(name, from, packs)?;
        let body = from.0;
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
    fn numbers(name: &'a [u8], from: &mut Reader<'a>, packs: &'a [u8]) -> Option<Self> {
        let kind = from.byte()?;
        Some(Self {
            name,
            kind: match kind & !ACL {
                0 => ItemKind::File,
                1 => ItemKind::Directory,
                2 => ItemKind::Link,
                3 => ItemKind::Other,
                _ => return None,
            },
            has_acl: kind & ACL != 0,
            mode: from.small()? & 0o7777,
            owner: (from.small()?, from.small()?),
            modified: (from.signed()?, from.small()?),
            size: from.number()?,
            links: from.small()?,
            blocks: from.number()?,
            inode: u64::from_le_bytes(from.array()?),
            body: &[],
            packs,
        })
    }

    /// Returns the time of the last write, if this machine can express it.
    pub(crate) fn modified(&self) -> Option<SystemTime> {
        time(self.modified)
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

    /// Returns whether both are the same object, by whichever name.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let named = |view: &Self| Self {
            name: &[],
            body: &[],
            packs: &[],
            ..*view
        };
        named(self) == named(other)
            && self.content() == other.content()
            && self.directory() == other.directory()
            && self.target() == other.target()
    }
}

/// Returns a time of seconds since 1970 and nanoseconds.
pub(super) fn time((seconds, nanos): (i64, u32)) -> Option<SystemTime> {
    let whole = Duration::from_secs(seconds.unsigned_abs());
    let second = match seconds {
        0.. => SystemTime::UNIX_EPOCH.checked_add(whole),
        _ => SystemTime::UNIX_EPOCH.checked_sub(whole),
    };
    second?.checked_add(Duration::from_nanos(nanos.into()))
}

/// The objects of a directory, or of a part of a long one, sorted by the bytes of their names.
#[derive(Debug)]
pub(crate) struct Leaf {
    bytes: Bytes,
    packs: Range<usize>,
    /// The first byte of each object.
    starts: Box<[u32]>,
}

impl Leaf {
    /// Takes a chunk with objects, and checks all of it. `None` where the bytes are none, or names are out of order.
    pub(super) fn decode(bytes: Bytes) -> Option<Self> {
        let mut from = Reader(bytes.strip_prefix(&MAGIC)?);
        if from.byte()? != 0 {
            return None;
        }
        let packs = from.number()?.checked_mul(16)?;
        let first = bytes.len().checked_sub(from.0.len())?;
        let packs = first..first.checked_add(usize::try_from(packs).ok()?)?;
        let of_packs = from.take(packs.len())?;
        let count = from.number()?;
        let mut starts = Vec::new();
        let mut last: Option<&[u8]> = None;
        for _ in 0..count {
            starts.push(u32::try_from(bytes.len().checked_sub(from.0.len())?).ok()?);
            let name = ItemView::take(&mut from, of_packs)?.name;
            if last.is_some_and(|last| last >= name) {
                return None;
            }
            last = Some(name);
        }
        let is_whole = from.0.is_empty();
        is_whole.then_some(Self {
            packs,
            starts: starts.into(),
            bytes,
        })
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
        let packs = self.bytes.get(self.packs.clone())?;
        let mut from = Reader(self.bytes.get(start..end)?);
        let name = from.bytes()?;
        let mut view = ItemView::numbers(name, &mut from, packs)?;
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

    /// Returns the part of a directory in which a name is, if it is in any.
    fn leaf_of<'a>(
        &'a self,
        top: &'a Ref,
        name: &'a [u8],
    ) -> BoxFuture<'a, Result<Option<Arc<Leaf>>, Error>>;
}
