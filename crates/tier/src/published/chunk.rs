//! [`Chunk`]: a piece of the tree of a version, as it is stored.
//!
//! A chunk begins with `cwm1`, or `cwm2` where its objects have extended attributes, and its kind; then come the packs that
//! it refers to, so that a reference has the number of its pack in that list, and the sets of attributes. Its bytes do not
//! depend on the version: directories that stay the same are stored once.

use std::collections::HashMap;

use super::address::{Content, FAN_OUT, PackId, Ref};
use super::attributes::Stored;
use super::leaf::{ACL, ATTRIBUTES, ItemKind, ItemView, Leaf, MAGIC, MAGIC_ATTRIBUTES, take_ref};
use super::stat::Stat;
use super::wire::{Reader, put, put_bytes};

/// An object in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Its name: any bytes but `/` and 0.
    pub name: Vec<u8>,
    /// Its numbers.
    pub stat: Stat,
    /// Inode number in mounts.
    pub inode: u64,
    /// Whether an access control list extended its permissions at the origin.
    pub has_acl: bool,
    /// Its extended attributes.
    pub attributes: Stored,
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

/// The sets of attributes of a chunk, each once.
#[derive(Debug, Default)]
struct Sets {
    known: HashMap<Vec<u8>, u64>,
    bytes: Vec<u8>,
}

impl Sets {
    /// Returns the number of a set.
    fn number(&mut self, packs: &mut Packs, set: &Stored) -> u64 {
        let next = self.known.len() as u64;
        let number = *self.known.entry(set.state()).or_insert(next);
        if number == next {
            set.put(&mut self.bytes, |out, piece| packs.put(out, piece));
        }
        number
    }
}

/// Bytes of an item at most, with the packs that it refers to: a name, the target of a link, references.
pub(crate) const LONGEST_ITEM: usize = 5_200;

impl Chunk {
    /// Returns it as it is stored.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut packs = Packs::default();
        let mut sets = Sets::default();
        let mut body = Vec::new();
        let kind = match self {
            Self::Leaf(items) => {
                put(&mut body, items.len() as u64);
                for item in items {
                    put_item(&mut body, &mut packs, &mut sets, item);
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
        let has_attributes = !sets.known.is_empty();
        out.extend_from_slice(match has_attributes {
            true => &MAGIC_ATTRIBUTES,
            false => &MAGIC,
        });
        out.push(kind);
        put(&mut out, packs.0.len() as u64);
        for pack in &packs.0 {
            out.extend_from_slice(&pack.0);
        }
        if has_attributes {
            put(&mut out, sets.known.len() as u64);
            out.extend_from_slice(&sets.bytes);
        }
        out.extend_from_slice(&body);
        out
    }

    /// Reads it. `None` where the bytes are no chunk: another form, cut, or names out of order.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        if bytes.get(MAGIC.len()) == Some(&0) {
            let leaf = Leaf::decode(bytes::Bytes::copy_from_slice(bytes))?;
            let items: Option<Vec<Item>> = leaf.views(0).map(|view| item_of(&view)).collect();
            return items.map(Self::Leaf);
        }
        let mut from = Reader(bytes.strip_prefix(&MAGIC)?);
        let kind = from.byte()?;
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

fn put_item(out: &mut Vec<u8>, packs: &mut Packs, sets: &mut Sets, item: &Item) {
    put_bytes(out, &item.name);
    let kind = match item.body {
        Body::File(_) => 0,
        Body::Directory(_) => 1,
        Body::Link(_) => 2,
        Body::Other => 3,
    };
    let has_attributes = item.attributes != Stored::None;
    let flags = [(item.has_acl, ACL), (has_attributes, ATTRIBUTES)];
    let flags = flags.iter().filter(|(is_set, _)| *is_set);
    out.push(flags.fold(kind, |all, (_, flag)| all | flag));
    if has_attributes {
        put(out, sets.number(packs, &item.attributes));
    }
    item.stat.put(out);
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
        stat: view.stat,
        inode: view.inode,
        has_acl: view.has_acl,
        attributes: view.attributes()?,
        body,
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::published::address::{Hash, INLINE};
    use crate::published::attributes::tests::any_attributes;

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
        let attributes = prop_oneof![
            Just(Stored::None),
            any_attributes(20).prop_filter_map("short sets are in the chunk", |set| set.short()),
            prop::collection::vec((any_ref(), 1_u32..=16 << 10), 1..=16).prop_map(|pieces| {
                let pieces = pieces.into_iter().map(|(to, len)| Ref { len, ..to });
                Stored::Pieces(pieces.collect())
            }),
        ];
        (name, body, attributes, numbers).prop_map(|(name, body, attributes, numbers)| {
            let (one, two, signed, long, has_acl) = numbers;
            Item {
                attributes,
                name,
                stat: Stat {
                    mode: one & 0o7777,
                    owner: (one, two),
                    modified: (signed, two),
                    size: long,
                    links: one,
                    blocks: long,
                },
                inode: long,
                has_acl,
                body,
            }
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
        fn a_chunk_with_a_changed_byte_is_a_chunk_or_none(
            items in prop::collection::vec(any_item(), 1..6), at: prop::sample::Index, byte: u8
        ) {
            let mut items = items;
            items.sort_by(|one, other| one.name.cmp(&other.name));
            items.dedup_by(|one, other| one.name == other.name);
            let mut bytes = Chunk::Leaf(items).encode();
            let at = at.index(bytes.len());
            bytes[at] = byte;
            if let Some(Chunk::Leaf(items)) = Chunk::decode(&bytes) {
                let names: Vec<_> = items.iter().map(|item| &item.name).collect();
                prop_assert!(names.is_sorted(), "{names:?}");
            }
        }

        #[test]
        fn any_bytes_are_a_chunk_or_none(bytes: Vec<u8>) {
            for magic in [MAGIC, MAGIC_ATTRIBUTES] {
                let mut whole = magic.to_vec();
                whole.extend(&bytes);
                let _ = Chunk::decode(&whole);
            }
        }
    }

    #[test]
    fn names_that_lead_elsewhere_are_no_chunk() {
        for name in ["", ".", "..", "a/b", "a\0"] {
            let bytes = Chunk::Leaf(vec![device(name, 2)]).encode();
            assert_eq!(Chunk::decode(&bytes), None, "{name:?}");
        }
    }

    fn device(name: &str, inode: u64) -> Item {
        Item {
            name: name.into(),
            stat: Stat {
                mode: 0o644,
                owner: (1, 2),
                modified: (-3, 4),
                size: name.len() as u64,
                links: 1,
                blocks: 0,
            },
            inode,
            has_acl: false,
            attributes: Stored::None,
            body: Body::Other,
        }
    }

    /// Makes a list of devices with these names and numbers.
    pub(crate) fn leaf_of(objects: &[(&str, u64)]) -> Leaf {
        let items = objects.iter().map(|(name, inode)| device(name, *inode));
        let chunk = Chunk::Leaf(items.collect());
        Leaf::decode(bytes::Bytes::from(chunk.encode())).expect("it is whole")
    }

    #[test]
    fn objects_without_attributes_are_stored_as_older_programs_store_them() {
        let written = Chunk::decode(&leaf_of(&[("a", 1)]).bytes()).map(|chunk| chunk.encode());
        let older: [&[u8]; 3] = [
            b"cwm1\0\0\x01\x01a\x03",
            b"\xa4\x03\x01\x02\x05\x04\x01\x01\0",
            b"\x01\0\0\0\0\0\0\0",
        ];
        assert_eq!(written, Some(older.concat()));
    }

    #[test]
    fn hostile_sets_of_attributes_are_no_chunk() {
        // Sets of a chunk, and the number in its object.
        let chunk = |magic: &[u8], sets: &[&[u8]], number: u64| {
            let object = leaf_of(&[("a", 1)]).bytes();
            // Behind the magic, the kind, no packs, one object, and its name.
            let (head, rest) = object.split_at(9);
            let mut out = magic.to_vec();
            out.extend_from_slice(&[0, 0]);
            if magic == MAGIC_ATTRIBUTES {
                put(&mut out, sets.len() as u64);
                out.extend(sets.concat());
            }
            out.extend_from_slice(&head[6..]);
            out.push(3 | ATTRIBUTES);
            put(&mut out, number);
            out.extend_from_slice(&rest[1..]);
            Chunk::decode(&out)
        };
        let one: &[u8] = b"\0\x08\x06user.a\0";
        let two: &[u8] = b"\0\x08\x06user.b\0";
        assert!(
            chunk(&MAGIC_ATTRIBUTES, &[one, two], 1).is_some(),
            "the control"
        );
        for (magic, sets, number, why) in [
            (MAGIC_ATTRIBUTES, [one, two].as_slice(), 2, "no such set"),
            (MAGIC_ATTRIBUTES, &[one, one], 1, "a set twice"),
            (MAGIC_ATTRIBUTES, &[], 0, "no sets"),
            (MAGIC_ATTRIBUTES, &[b"\0\0"], 0, "an empty set"),
            (MAGIC_ATTRIBUTES, &[b"\0\x07\x06user.a"], 0, "a cut set"),
            (
                MAGIC_ATTRIBUTES,
                &[b"\0\x09\x06user.a\0\0"],
                0,
                "a name cut behind a set",
            ),
            (MAGIC_ATTRIBUTES, &[b"\x11"], 0, "too many pieces"),
            (MAGIC_ATTRIBUTES, &[b"\x01"], 0, "a piece that is not there"),
            (MAGIC, &[], 0, "the older form"),
        ] {
            assert_eq!(chunk(&magic, sets, number), None, "{why}");
        }
        let long: Vec<u8> = [b"\0\x81\x02\x06user.a\xf8\x01".as_slice(), &[0; 248]].concat();
        assert_eq!(
            chunk(&MAGIC_ATTRIBUTES, &[&long], 0),
            None,
            "too long for a chunk"
        );
        let longest: Vec<u8> = [b"\0\x80\x02\x06user.a\xf7\x01".as_slice(), &[0; 247]].concat();
        assert!(
            chunk(&MAGIC_ATTRIBUTES, &[&longest], 0).is_some(),
            "the control"
        );
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
