//! [`Attributes`]: the extended attributes of an object, and how a version stores them.
//!
//! Short sets lie in the chunk of their directory, once for all of its objects that have them. Long ones are cut into
//! pieces, which are stored as blocks are. An object without attributes has no byte for them.

use std::collections::BTreeMap;

use super::address::{Hash, PackId, Ref};
use super::wire::{Reader, put, put_bytes};

/// Length of a set in a chunk at most; a longer one is stored in pieces.
const SHORT: usize = 256;

/// Length of a piece at most: the smallest block.
const PIECE: usize = 16 << 10;

/// Pieces of a set at most.
const PIECES: usize = 16;

/// Length of a name, and of a value, at most; and of all names of an object with a zero after each. Linux has no more.
const LONGEST_NAME: usize = 255;
const LONGEST_VALUE: usize = 64 << 10;
const LONGEST_NAMES: usize = 64 << 10;

/// Returns whether a version has attributes of this name: those of users, and the capabilities of a program as data, which
/// a mount never grants. Others mean something to the origin's file system only, to root, or widen permissions.
pub(crate) fn is_data(name: &[u8]) -> bool {
    name.starts_with(b"user.") || name == b"security.capability"
}

/// Extended attributes: values by names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Attributes(BTreeMap<Vec<u8>, Vec<u8>>);

impl Attributes {
    pub(crate) fn insert(&mut self, name: &[u8], value: &[u8]) {
        self.0.insert(name.to_vec(), value.to_vec());
    }

    pub(crate) fn get(&self, name: &[u8]) -> Option<&[u8]> {
        self.0.get(name).map(Vec::as_slice)
    }

    /// Returns the names, each with a zero after it.
    pub(crate) fn names(&self) -> Vec<u8> {
        let mut names = Vec::new();
        for name in self.0.keys() {
            names.extend_from_slice(name);
            names.push(0);
        }
        names
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for (name, value) in &self.0 {
            put_bytes(&mut out, name);
            put_bytes(&mut out, value);
        }
        out
    }

    /// Reads a set. `None` where it is empty, cut, out of order, or has a name or a length that no object has.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut from = Reader(bytes);
        let mut all = BTreeMap::new();
        let mut names = 0_usize;
        while !from.0.is_empty() {
            let (name, value) = (from.bytes()?, from.bytes()?);
            names = names.checked_add(name.len())?.checked_add(1)?;
            let is_next = all
                .last_key_value()
                .is_none_or(|(last, _): (&Vec<u8>, _)| last.as_slice() < name);
            let is_name = is_data(name) && !name.contains(&0) && name.len() <= LONGEST_NAME;
            if !is_next || !is_name || value.len() > LONGEST_VALUE {
                return None;
            }
            all.insert(name.to_vec(), value.to_vec());
        }
        (!all.is_empty() && names <= LONGEST_NAMES).then_some(Self(all))
    }

    /// Returns it as it is stored in a chunk, if it is short enough.
    pub(crate) fn short(&self) -> Option<Stored> {
        if self.0.is_empty() {
            return Some(Stored::None);
        }
        let bytes = self.encode();
        (bytes.len() <= SHORT).then(|| Stored::Short(bytes.into()))
    }

    /// Returns the bytes of the pieces of a set that is not short; `None` where it is longer than a version can have.
    pub(super) fn pieces(&self) -> Option<Vec<Vec<u8>>> {
        let bytes = self.encode();
        let is_bounded = bytes.len() <= PIECE * PIECES;
        is_bounded.then(|| bytes.chunks(PIECE).map(<[u8]>::to_vec).collect())
    }
}

/// Where the attributes of an object are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Stored {
    /// It has none.
    #[default]
    None,
    /// In the chunk of its directory.
    Short(Box<[u8]>),
    /// In pieces.
    Pieces(Box<[Ref]>),
}

impl Stored {
    /// Returns its pieces.
    pub(crate) fn pieces(&self) -> &[Ref] {
        match self {
            Self::Pieces(pieces) => pieces,
            _ => &[],
        }
    }

    /// Returns the packs of its pieces.
    pub(super) fn packs(&self) -> impl Iterator<Item = PackId> {
        self.pieces().iter().map(|piece| piece.pack)
    }

    /// Returns bytes that are the same for the same attributes, wherever they are stored; none without attributes.
    pub(super) fn state(&self) -> Vec<u8> {
        match self {
            Self::None => Vec::new(),
            Self::Short(bytes) => Hash::of(bytes).0.to_vec(),
            Self::Pieces(pieces) => pieces.iter().flat_map(|piece| piece.hash.0).collect(),
        }
    }

    /// Appends it. `put_ref` appends a reference.
    pub(super) fn put(&self, out: &mut Vec<u8>, mut put_ref: impl FnMut(&mut Vec<u8>, &Ref)) {
        // Lossless: the number of pieces is small.
        put(out, self.pieces().len() as u64);
        match self {
            Self::None => put_bytes(out, &[]),
            Self::Short(bytes) => put_bytes(out, bytes),
            Self::Pieces(pieces) => pieces.iter().for_each(|piece| put_ref(out, piece)),
        }
    }

    /// Takes what [`Self::put`] has written, and checks it. `take_ref` takes a reference. `None` where it is cut, has no
    /// attributes, or is longer than any set.
    pub(super) fn take<'a>(
        from: &mut Reader<'a>,
        take_ref: impl Fn(&mut Reader<'a>) -> Option<Ref>,
    ) -> Option<Self> {
        let count = usize::try_from(from.number()?).ok()?;
        if count == 0 {
            let bytes = from.bytes()?;
            let is_set = bytes.len() <= SHORT && Attributes::decode(bytes).is_some();
            return is_set.then(|| Self::Short(bytes.into()));
        }
        if count > PIECES {
            return None;
        }
        let pieces: Option<Box<[Ref]>> = (0..count).map(|_| take_ref(from)).collect();
        let pieces = pieces?;
        let is_piece = |piece: &Ref| (1..=PIECE).contains(&(piece.len as usize));
        pieces.iter().all(is_piece).then_some(Self::Pieces(pieces))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    fn encoded(pairs: &[(&[u8], &[u8])]) -> Vec<u8> {
        let mut out = Vec::new();
        for (name, value) in pairs {
            put_bytes(&mut out, name);
            put_bytes(&mut out, value);
        }
        out
    }

    pub(crate) fn any_attributes(longest: usize) -> impl Strategy<Value = Attributes> {
        let name = prop::collection::vec(1_u8..=255, 1..40).prop_map(|rest| {
            let mut name = b"user.".to_vec();
            name.extend(rest);
            name
        });
        let value = prop::collection::vec(any::<u8>(), 0..longest);
        prop::collection::btree_map(name, value, 1..4).prop_map(Attributes)
    }

    proptest! {
        #[test]
        fn a_set_is_read_as_it_was_written(set in any_attributes(300)) {
            prop_assert_eq!(Attributes::decode(&set.encode()), Some(set));
        }

        #[test]
        fn any_bytes_are_a_set_or_none(bytes: Vec<u8>) {
            if let Some(set) = Attributes::decode(&bytes) {
                prop_assert!(set.names().len() > 1);
            }
        }
    }

    #[test]
    fn hostile_sets_are_refused() {
        let right = encoded(&[(b"user.a", b"1"), (b"user.b", b"2")]);
        assert!(Attributes::decode(&right).is_some(), "the control");
        for cut in 1..right.len() {
            // Cut behind the first pair it is a shorter set, which its hash or its chunk does not fit.
            let is_pair = cut == right.len() / 2;
            let read = Attributes::decode(right.get(..cut).unwrap_or_default());
            assert_eq!(read.is_some(), is_pair, "{cut}");
        }
        let long_name = [b"user.".as_slice(), &[b'x'; 251]].concat();
        let long_value = vec![0; LONGEST_VALUE + 1];
        for (pairs, why) in [
            (vec![], "empty"),
            (
                vec![(b"user.b".as_slice(), b"".as_slice()), (b"user.a", b"")],
                "not sorted",
            ),
            (vec![(b"user.a", b""), (b"user.a", b"")], "twice"),
            (vec![(long_name.as_slice(), b"")], "a name too long"),
            (vec![(b"user.a", long_value.as_slice())], "a value too long"),
            (vec![(b"user.a\0b", b"")], "a zero in a name"),
            (vec![(b"", b"")], "no name"),
            (
                vec![(b"system.posix_acl_access", b"")],
                "a list that would widen permissions",
            ),
            (vec![(b"trusted.a", b"")], "root's"),
        ] {
            assert_eq!(Attributes::decode(&encoded(&pairs)), None, "{why}");
        }
        let name = |number: usize| format!("user.{number:0249}").into_bytes();
        let many: Vec<Vec<u8>> = (0..258).map(name).collect();
        let pairs: Vec<(&[u8], &[u8])> =
            many.iter().map(|name| (name.as_slice(), &[][..])).collect();
        assert_eq!(
            Attributes::decode(&encoded(&pairs)),
            None,
            "names too long in all"
        );
        assert!(
            Attributes::decode(&encoded(&pairs[..256])).is_some(),
            "the control"
        );
    }

    #[test]
    fn a_set_of_up_to_256_kib_has_pieces_and_a_longer_one_has_none() {
        let of = |count: usize, last: usize| {
            let mut set = Attributes::default();
            for number in 0..count {
                set.insert(format!("user.{number}").as_bytes(), &vec![7; LONGEST_VALUE]);
            }
            set.insert(b"user.last", &vec![7; last]);
            set
        };
        // Names and lengths take 1 + 6 + 3 bytes of each, and 1 + 9 + 3 of the last.
        let fits = of(3, LONGEST_VALUE - 30 - 13);
        let pieces = fits.pieces().expect("256 KiB");
        assert_eq!(pieces.len(), PIECES);
        assert_eq!(Attributes::decode(&pieces.concat()), Some(fits));
        assert!(of(3, LONGEST_VALUE - 30 - 12).pieces().is_none());
        // Its length takes two bytes here.
        assert!(of(0, SHORT - 12).short().is_some());
        assert!(of(0, SHORT - 11).short().is_none());
    }

    #[test]
    fn pieces_are_bounded_in_number_and_length() {
        let to = |len| Ref {
            hash: Hash([1; 32]),
            pack: PackId([2; 16]),
            start: 0,
            len,
        };
        let read = |pieces: Vec<Ref>| {
            let mut out = Vec::new();
            Stored::Pieces(pieces.clone().into())
                .put(&mut out, |out, piece| put(out, piece.len.into()));
            Stored::take(&mut Reader(&out), |from| Some(to(from.small()?)))
        };
        let longest = u32::try_from(PIECE).expect("small");
        assert!(read(vec![to(longest); PIECES]).is_some(), "the control");
        for (pieces, why) in [
            (vec![to(longest); PIECES + 1], "too many"),
            (vec![to(longest + 1)], "a piece too long"),
            (vec![to(0)], "an empty piece"),
        ] {
            assert_eq!(read(pieces), None, "{why}");
        }
        let mut none = Vec::new();
        Stored::None.put(&mut none, |_, _| ());
        assert_eq!(
            Stored::take(&mut Reader(&none), |_| None),
            None,
            "an object without has no set"
        );
    }
}
