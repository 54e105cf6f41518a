//! [`Chunk`]: a piece of the tree of a version, as it is stored.
//!
//! A chunk begins with `cwm1` and its kind, then the packs that it refers to, so that a reference has the number of its
//! pack in that list. Its bytes do not depend on the version: directories that stay the same are stored once.

use super::address::{Content, FAN_OUT, PackId, Ref};
use super::leaf::{ACL, ItemKind, ItemView, Leaf, MAGIC, take_ref};
use super::wire::{Reader, put, put_bytes, put_signed};

/// An object in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Its name: any bytes but `/` and 0.
    pub name: Vec<u8>,
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
    /// Whether an access control list extended its permissions at the origin.
    pub has_acl: bool,
    /// Its kind.
    pub body: Body,
}

/// The kind of an object, and what belongs to that kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// A file.
    File(Content),
    /// A directory: its topmost chunk.
    Directory(Ref),
    /// A symbolic link: its target, any bytes.
    Link(Vec<u8>),
    /// A device, a socket or a FIFO, which is listed and never read.
    Other,
}

/// A piece of the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Chunk {
    /// Objects of a directory, sorted by the bytes of their names.
    Leaf(Vec<Item>),
    /// Chunks of a directory, each with the name that it begins with.
    Index(Vec<(Vec<u8>, Ref)>),
    /// References of a long file.
    Refs(Vec<Ref>),
}

/// The numbers of packs in a chunk.
#[derive(Debug, Default)]
struct Packs(Vec<PackId>);

impl Packs {
    fn put(&mut self, out: &mut Vec<u8>, to: &Ref) {
        let known = self.0.iter().position(|pack| *pack == to.pack);
        let number = known.unwrap_or_else(|| {
            self.0.push(to.pack);
            self.0.len().saturating_sub(1)
        });
        out.extend_from_slice(&to.hash.0);
        // Lossless: the numbers of a chunk's references are small.
        put(out, number as u64);
        put(out, to.start.into());
        put(out, to.len.into());
    }
}

/// Bytes of an item at most, with the packs that it refers to: a name, the target of a link, references.
pub(crate) const LONGEST_ITEM: usize = 5_200;

impl Chunk {
    /// Returns it as it is stored.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut packs = Packs::default();
        let mut body = Vec::new();
        let kind = match self {
            Self::Leaf(items) => {
                put(&mut body, items.len() as u64);
                for item in items {
                    put_item(&mut body, &mut packs, item);
                }
                0
            }
            Self::Index(entries) => {
                put(&mut body, entries.len() as u64);
                for (first, to) in entries {
                    put_bytes(&mut body, first);
                    packs.put(&mut body, to);
                }
                1
            }
            Self::Refs(refs) => {
                put(&mut body, refs.len() as u64);
                for to in refs {
                    packs.put(&mut body, to);
                }
                2
            }
        };
        let mut out = Vec::with_capacity(body.len() + 16 * packs.0.len() + 16);
        out.extend_from_slice(&MAGIC);
        out.push(kind);
        put(&mut out, packs.0.len() as u64);
        for pack in &packs.0 {
            out.extend_from_slice(&pack.0);
        }
        out.extend_from_slice(&body);
        out
    }

    /// Reads it. `None` where the bytes are no chunk: another form, cut, or names out of order.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut from = Reader(bytes.strip_prefix(&MAGIC)?);
        let kind = from.byte()?;
        if kind == 0 {
            let leaf = Leaf::decode(bytes::Bytes::copy_from_slice(bytes))?;
            let items: Option<Vec<Item>> = leaf.views(0).map(|view| item_of(&view)).collect();
            return items.map(Self::Leaf);
        }
        let packs = from.number()?.checked_mul(16)?;
        let packs = from.take(usize::try_from(packs).ok()?)?;
        let count = from.number()?;
        let chunk = match kind {
            1 => {
                let mut entries: Vec<(Vec<u8>, Ref)> = Vec::new();
                for _ in 0..count {
                    let first = from.bytes()?.to_vec();
                    if entries.last().is_some_and(|(last, _)| *last >= first) {
                        return None;
                    }
                    entries.push((first, take_ref(&mut from, packs)?));
                }
                Self::Index(entries)
            }
            2 if count <= FAN_OUT => {
                let refs: Option<Vec<Ref>> =
                    (0..count).map(|_| take_ref(&mut from, packs)).collect();
                Self::Refs(refs?)
            }
            _ => return None,
        };
        from.0.is_empty().then_some(chunk)
    }
}

fn put_item(out: &mut Vec<u8>, packs: &mut Packs, item: &Item) {
    put_bytes(out, &item.name);
    let kind = match item.body {
        Body::File(_) => 0,
        Body::Directory(_) => 1,
        Body::Link(_) => 2,
        Body::Other => 3,
    };
    out.push(kind | if item.has_acl { ACL } else { 0 });
    put(out, item.mode.into());
    put(out, item.owner.0.into());
    put(out, item.owner.1.into());
    put_signed(out, item.modified.0);
    put(out, item.modified.1.into());
    put(out, item.size);
    put(out, item.links.into());
    put(out, item.blocks);
    out.extend_from_slice(&item.inode.to_le_bytes());
    match &item.body {
        Body::File(content) => {
            out.push(content.level);
            put(out, content.refs.len() as u64);
            for to in content.refs.iter() {
                packs.put(out, to);
            }
        }
        Body::Directory(to) => packs.put(out, to),
        Body::Link(target) => put_bytes(out, target),
        Body::Other => {}
    }
}

/// Returns an object with all that it has.
pub(crate) fn item_of(view: &ItemView<'_>) -> Option<Item> {
    let body = match view.kind {
        ItemKind::File => Body::File(view.content()?),
        ItemKind::Directory => Body::Directory(view.directory()?),
        ItemKind::Link => Body::Link(view.target()?.to_vec()),
        ItemKind::Other => Body::Other,
    };
    Some(Item {
        name: view.name.to_vec(),
        mode: view.mode,
        owner: view.owner,
        modified: view.modified,
        size: view.size,
        links: view.links,
        blocks: view.blocks,
        inode: view.inode,
        has_acl: view.has_acl,
        body,
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::published::address::{Hash, INLINE};

    fn any_ref() -> impl Strategy<Value = Ref> {
        (any::<[u8; 32]>(), 0_u8..4, any::<u32>(), any::<u32>()).prop_map(
            |(hash, pack, start, len)| Ref {
                hash: Hash(hash),
                pack: PackId([pack; 16]),
                start,
                len,
            },
        )
    }

    fn any_item() -> impl Strategy<Value = Item> {
        let body = prop_oneof![
            (0_u8..3, prop::collection::vec(any_ref(), 0..INLINE)).prop_map(|(level, refs)| {
                Body::File(Content {
                    level,
                    refs: refs.into(),
                })
            }),
            any_ref().prop_map(Body::Directory),
            prop::collection::vec(any::<u8>(), 1..80).prop_map(Body::Link),
            Just(Body::Other),
        ];
        let name = prop::collection::vec(1_u8..=255, 3..40)
            .prop_filter("a name has no slash", |name| !name.contains(&b'/'));
        let numbers = (
            any::<u32>(),
            any::<u32>(),
            any::<i64>(),
            any::<u64>(),
            any::<bool>(),
        );
        (name, body, numbers).prop_map(|(name, body, (one, two, signed, long, has_acl))| Item {
            name,
            mode: one & 0o7777,
            owner: (one, two),
            modified: (signed, two),
            size: long,
            links: one,
            blocks: long,
            inode: long,
            has_acl,
            body,
        })
    }

    proptest! {
        #[test]
        fn a_chunk_is_read_as_it_was_written_and_not_if_it_is_cut(
            items in prop::collection::vec(any_item(), 0..12), cut: prop::sample::Index
        ) {
            let mut items = items;
            items.sort_by(|one, other| one.name.cmp(&other.name));
            items.dedup_by(|one, other| one.name == other.name);
            let chunk = Chunk::Leaf(items);
            let bytes = chunk.encode();
            prop_assert_eq!(Chunk::decode(&bytes), Some(chunk));
            prop_assert_eq!(Chunk::decode(&bytes[..cut.index(bytes.len())]), None);
        }

        #[test]
        fn any_bytes_are_a_chunk_or_none(bytes: Vec<u8>) {
            let mut whole = MAGIC.to_vec();
            whole.extend(bytes);
            let _ = Chunk::decode(&whole);
        }
    }

    #[test]
    fn names_that_lead_elsewhere_are_no_chunk() {
        for name in ["", ".", "..", "a/b", "a\0"] {
            let item = Item {
                name: name.into(),
                mode: 0,
                owner: (0, 0),
                modified: (0, 0),
                size: 0,
                links: 1,
                blocks: 0,
                inode: 2,
                has_acl: false,
                body: Body::Other,
            };
            let bytes = Chunk::Leaf(vec![item]).encode();
            assert_eq!(Chunk::decode(&bytes), None, "{name:?}");
        }
    }

    /// Makes a list of devices with these names and numbers.
    pub(crate) fn leaf_of(objects: &[(&str, u64)]) -> Leaf {
        let item = |(name, inode): &(&str, u64)| Item {
            name: (*name).into(),
            mode: 0o644,
            owner: (1, 2),
            modified: (-3, 4),
            size: name.len() as u64,
            links: 1,
            blocks: 0,
            inode: *inode,
            has_acl: false,
            body: Body::Other,
        };
        let chunk = Chunk::Leaf(objects.iter().map(item).collect());
        Leaf::decode(bytes::Bytes::from(chunk.encode())).expect("it is whole")
    }

    #[test]
    fn names_are_found_and_others_are_not() {
        let leaf = leaf_of(&[("a", 1), ("bb", 2), ("c", 3)]);
        assert_eq!(leaf.find(b"bb"), Some(1));
        assert_eq!(leaf.find(b"b"), None);
        assert_eq!(leaf.view(1).expect("it is there").inode, 2);
        assert!(leaf.view(3).is_none());
        assert_eq!(leaf.views(1).count(), 2);
    }
}
