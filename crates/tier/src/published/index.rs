//! [`LocalIndex`]: what a publisher knows of the files of its last version, so that unchanged ones are not read.
//!
//! The file has a record for each file, in the order of the walk: the next walk mostly needs the next record, and copies it.
//! Behind them are the blocks and chunks that no record has, sorted.

use std::cell::{Cell, OnceCell};
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{Statx, StatxTimestamp};

use super::address::{Content, Hash, PackId, Ref};
use super::attributes::Stored;
use super::wire::Reader;
use crate::Version;

/// The first bytes. Another form gets another number; an index of another form is not used.
const MAGIC: [u8; 8] = *b"cwindex3";
const HEAD: usize = 64;
const STATE: usize = 40;
const BLOCK: usize = 56;

/// The state of a file by which a change is noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileState {
    /// Device and inode number, the same for all names of a file; or the hash of a path.
    id: (u64, u64),
    size: u64,
    /// The times of the last write and the last change, or the version of an object.
    version: (u64, u64),
}

impl FileState {
    pub(super) fn of(found: &Statx) -> Self {
        // One number, which fits until the year 2262.
        let time = |at: StatxTimestamp| {
            let seconds = at.tv_sec.wrapping_mul(1_000_000_000);
            seconds.wrapping_add(at.tv_nsec.into()).cast_unsigned()
        };
        let device = rustix::fs::makedev(found.stx_dev_major, found.stx_dev_minor);
        Self {
            id: (device, found.stx_ino),
            size: found.stx_size,
            version: (time(found.stx_mtime), time(found.stx_ctime)),
        }
    }

    /// Returns the state of an object of an origin without inode numbers.
    pub(super) fn of_object(path: &Path, size: u64, version: &Version) -> Self {
        Self {
            id: pair(path.as_os_str().as_encoded_bytes()),
            size,
            version: pair(version.as_bytes()),
        }
    }

    /// Returns what all names of a file share.
    pub(super) fn id(&self) -> (u64, u64) {
        self.id
    }

    fn bytes(&self) -> [u8; STATE] {
        let words = [
            self.id.0,
            self.id.1,
            self.size,
            self.version.0,
            self.version.1,
        ];
        let mut bytes = [0; STATE];
        for (to, word) in bytes.as_chunks_mut().0.iter_mut().zip(words) {
            *to = word.to_le_bytes();
        }
        bytes
    }
}

/// Returns half of the hash of some bytes.
fn pair(bytes: &[u8]) -> (u64, u64) {
    let hash = Hash::of(bytes).0;
    let word = |at| word(&hash, at).unwrap_or(0);
    (word(0), word(8))
}

/// The stored content of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KnownFile {
    pub content: Content,
    /// The packs of its blocks, where `content` refers to chunks.
    pub packs: Vec<PackId>,
    pub has_acl: bool,
    pub attributes: Stored,
}

impl KnownFile {
    /// Returns the packs that it refers to.
    pub(super) fn lies_in(&self) -> impl Iterator<Item = PackId> {
        let refs = self.content.refs.iter().map(|to| to.pack);
        refs.chain(self.packs.iter().copied())
            .chain(self.attributes.packs())
    }

    fn put(&self, out: &mut Vec<u8>) {
        let has_attributes = self.attributes != Stored::None;
        let flags = [(self.has_acl, ACL), (has_attributes, ATTRIBUTES)];
        let flags = flags.iter().filter(|(is_set, _)| *is_set);
        out.push(flags.fold(self.content.level, |all, (_, flag)| all | flag));
        // Lossless: it is `INLINE` at most.
        out.push(self.content.refs.len() as u8);
        for to in self.content.refs.iter() {
            out.extend_from_slice(&ref_bytes(to));
        }
        if self.content.level > 0 {
            super::wire::put(out, self.packs.len() as u64);
            out.extend(self.packs.iter().flat_map(|pack| pack.0));
        }
        if has_attributes {
            let put_ref = |out: &mut Vec<u8>, to: &Ref| out.extend_from_slice(&ref_bytes(to));
            self.attributes.put(out, put_ref);
        }
    }

    fn take(bytes: &[u8]) -> Option<Self> {
        let mut from = Reader(bytes);
        let first = from.byte()?;
        let level = first & !(ACL | ATTRIBUTES);
        let count = from.byte()?;
        let refs: Arc<[Ref]> = match count {
            // Most files: without a list of its own.
            1 => Arc::new([take_ref(&mut from)?]),
            _ => (0..count)
                .map(|_| take_ref(&mut from))
                .collect::<Option<_>>()?,
        };
        let mut packs: Vec<PackId> = Vec::new();
        if level > 0 {
            for _ in 0..from.number()? {
                packs.push(PackId(from.array()?));
            }
        }
        let attributes = match first & ATTRIBUTES {
            0 => Stored::None,
            _ => Stored::take(&mut from, take_ref)?,
        };
        Some(Self {
            content: Content { level, refs },
            packs,
            has_acl: first & ACL != 0,
            attributes,
        })
    }
}

/// The bits of a level for a file with an access control list, and for one with extended attributes.
const ACL: u8 = 1 << 7;
const ATTRIBUTES: u8 = 1 << 6;

/// An index: empty, or of a version.
#[derive(Debug, Default)]
pub(super) struct LocalIndex {
    bytes: Vec<u8>,
    /// Number of records of files.
    files: usize,
    /// Number of blocks and chunks behind them.
    blocks: usize,
    /// The record that is expected next.
    next: Cell<usize>,
    /// The records by the identity of their file, for a file that is not the next one.
    places: OnceCell<HashMap<[u8; 16], usize>>,
    /// The references in records by the first bytes of their hash, for a block that may be known.
    inline: OnceCell<HashMap<u64, usize>>,
    /// Packs that are not used any more: what lies in them counts as unknown.
    avoided: HashSet<PackId>,
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    let word = bytes.get(at..)?.first_chunk()?;
    Some(u64::from_le_bytes(*word))
}

impl LocalIndex {
    /// Reads the index of the version with this root; another one, or none, is empty.
    pub(super) fn load(path: &Path, is_base: impl FnOnce(&Hash) -> bool) -> Self {
        let bytes = std::fs::read(path).unwrap_or_default();
        Self::decode(bytes, is_base).unwrap_or_default()
    }

    fn decode(bytes: Vec<u8>, is_base: impl FnOnce(&Hash) -> bool) -> Option<Self> {
        let root = Hash(*bytes.strip_prefix(&MAGIC)?.first_chunk()?);
        let files = usize::try_from(word(&bytes, 40)?).ok()?;
        let blocks = usize::try_from(word(&bytes, 48)?).ok()?;
        let sum = word(&bytes, 56)?;
        let body = bytes.get(HEAD..)?;
        let is_whole =
            body.len() >= blocks.checked_mul(BLOCK)? && twox_hash::XxHash3_64::oneshot(body) == sum;
        (is_whole && is_base(&root)).then_some(Self {
            bytes,
            files,
            blocks,
            next: Cell::new(HEAD),
            ..Self::default()
        })
    }

    /// Makes an index of blocks alone, of another publisher's version.
    pub(super) fn of_blocks(refs: impl IntoIterator<Item = Ref>) -> Self {
        let blocks = refs.into_iter().map(|to| (to.hash, to)).collect();
        let none = Self::default();
        let bytes = NextIndex::after(&none).finish(&Hash([0; 32]), &blocks, &HashSet::new());
        Self::decode(bytes, |_| true).unwrap_or_default()
    }

    /// Counts all that lies in these packs as unknown, so that it is written again to other packs.
    pub(super) fn avoid(&mut self, packs: impl IntoIterator<Item = PackId>) {
        self.avoided.extend(packs);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.files == 0 && self.blocks == 0
    }

    /// Returns the record of a file at this place, with its length before it.
    fn record(&self, at: usize) -> Option<&[u8]> {
        let bytes = self.bytes.get(at..)?;
        let len = u32::from_le_bytes(*bytes.first_chunk()?);
        bytes.get(..usize::try_from(len).ok()?.checked_add(4)?)
    }

    /// Returns the places of all records.
    fn records(&self) -> impl Iterator<Item = (usize, &[u8])> {
        let mut at = HEAD;
        (0..self.files).map_while(move |_| {
            let record = self.record(at)?;
            let place = at;
            at = at.saturating_add(record.len());
            Some((place, record))
        })
    }

    /// Returns the stored content of a file in this state, and the place of its record.
    pub(super) fn file(&self, state: &FileState) -> Option<(KnownFile, usize)> {
        let wanted = state.bytes();
        let at = self.find(wanted.first_chunk()?)?;
        let record = self.record(at)?;
        self.next.set(at.saturating_add(record.len()));
        let known = KnownFile::take(record.get(4..)?.strip_prefix(&wanted)?)?;
        let is_avoided =
            !self.avoided.is_empty() && known.lies_in().any(|pack| self.avoided.contains(&pack));
        (!is_avoided).then_some((known, at))
    }

    /// Finds the record of a file.
    fn find(&self, id: &[u8; 16]) -> Option<usize> {
        if self.files == 0 {
            return None;
        }
        let id_of = |record: &[u8]| -> Option<[u8; 16]> { record.get(4..)?.first_chunk().copied() };
        let next = self.next.get();
        if self.record(next).and_then(id_of) == Some(*id) {
            return Some(next);
        }
        let places = self.places.get_or_init(|| {
            let records = self.records();
            let places = records.filter_map(|(at, record)| Some((id_of(record)?, at)));
            places.collect()
        });
        places.get(id).copied()
    }

    /// Returns where a block or a chunk is.
    pub(super) fn block(&self, hash: &Hash) -> Option<Ref> {
        let blocks = self.block_records();
        let to = match blocks.binary_search_by(|record| record[..32].cmp(&hash.0)) {
            Ok(found) => take_ref(&mut Reader(blocks.get(found)?))?,
            Err(_) => self.inline(hash)?,
        };
        (!self.avoided.contains(&to.pack)).then_some(to)
    }

    /// Returns where a block of a record is.
    fn inline(&self, hash: &Hash) -> Option<Ref> {
        let inline = self.inline.get_or_init(|| {
            let mut inline = HashMap::with_capacity(self.files);
            for (at, record) in self.records() {
                for number in 0..inline_refs(record).len() {
                    let at = at + 4 + STATE + 2 + number * BLOCK;
                    inline.extend(word(&self.bytes, at).map(|first| (first, at)));
                }
            }
            inline
        });
        let at = *inline.get(&word(&hash.0, 0)?)?;
        let to = take_ref(&mut Reader(self.bytes.get(at..)?))?;
        (to.hash == *hash).then_some(to)
    }

    fn block_records(&self) -> &[[u8; BLOCK]] {
        let (_, records) = self.bytes.as_rchunks();
        let first = records.len().saturating_sub(self.blocks);
        records.get(first..).unwrap_or_default()
    }
}

/// Returns the references of a record, with its length before it, to the blocks of its file: none where they are below
/// chunks.
fn inline_refs(record: &[u8]) -> &[[u8; BLOCK]] {
    match record.get(4 + STATE..) {
        Some([first, count, refs @ ..]) if first & !(ACL | ATTRIBUTES) == 0 => {
            let refs = refs.as_chunks().0;
            refs.get(..usize::from(*count)).unwrap_or_default()
        }
        _ => &[],
    }
}

/// The index of the next version, file by file.
#[derive(Debug)]
pub(super) struct NextIndex<'a> {
    base: &'a LocalIndex,
    bytes: Vec<u8>,
    files: usize,
    /// The places of the records of the base that it has too.
    carried: Vec<usize>,
    /// Blocks in records that were added.
    inline: HashSet<Hash>,
}

impl<'a> NextIndex<'a> {
    pub(super) fn after(base: &'a LocalIndex) -> Self {
        let mut bytes = Vec::with_capacity(base.bytes.len().max(HEAD));
        bytes.resize(HEAD, 0);
        Self {
            base,
            bytes,
            files: 0,
            carried: Vec::with_capacity(base.files),
            inline: HashSet::new(),
        }
    }

    /// Adds a file that the base has at this place.
    pub(super) fn carry(&mut self, at: usize) {
        if let Some(record) = self.base.record(at) {
            self.bytes.extend_from_slice(record);
            self.carried.push(at);
            self.files += 1;
        }
    }

    /// Adds a file.
    pub(super) fn add(&mut self, state: &FileState, file: &KnownFile) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 4]);
        self.bytes.extend_from_slice(&state.bytes());
        file.put(&mut self.bytes);
        // Lossless: a record has few references and short attributes.
        let len = (self.bytes.len() - start - 4) as u32;
        if let Some(to) = self.bytes.get_mut(start..start + 4) {
            to.copy_from_slice(&len.to_le_bytes());
        }
        if file.content.level == 0 {
            self.inline
                .extend(file.content.refs.iter().map(|to| to.hash));
        }
        self.files += 1;
    }

    /// Returns the whole index: also the new blocks, and the known blocks in packs that it uses.
    pub(super) fn finish(
        mut self,
        root: &Hash,
        new: &HashMap<Hash, Ref>,
        used: &HashSet<PackId>,
    ) -> Vec<u8> {
        let base = self.base;
        let is_used = |record: &&[u8; BLOCK]| {
            let pack = record.get(32..48).and_then(|pack| pack.first_chunk());
            pack.is_some_and(|pack| used.contains(&PackId(*pack)))
        };
        let loose = new.values().filter(|to| !self.inline.contains(&to.hash));
        let mut blocks: Vec<[u8; BLOCK]> = loose.map(ref_bytes).collect();
        blocks.extend(base.block_records().iter().filter(is_used));
        if self.carried.len() < base.files {
            self.carried.sort_unstable();
            let is_left = |at: &usize| self.carried.binary_search(at).is_err();
            let left = base.records().filter(|(at, _)| is_left(at));
            blocks.extend(
                left.flat_map(|(_, record)| inline_refs(record))
                    .filter(is_used),
            );
        }
        // Sorted but for a few: a stable sort merges them.
        blocks.sort();
        blocks.dedup_by(|one, other| one[..32] == other[..32]);
        let mut out = self.bytes;
        out.extend(blocks.iter().flatten());
        out[..8].copy_from_slice(&MAGIC);
        out[8..40].copy_from_slice(&root.0);
        out[40..48].copy_from_slice(&(self.files as u64).to_le_bytes());
        out[48..56].copy_from_slice(&(blocks.len() as u64).to_le_bytes());
        let sum = twox_hash::XxHash3_64::oneshot(&out[HEAD..]);
        out[56..HEAD].copy_from_slice(&sum.to_le_bytes());
        out
    }
}

fn ref_bytes(to: &Ref) -> [u8; BLOCK] {
    let mut bytes = [0; BLOCK];
    bytes[..32].copy_from_slice(&to.hash.0);
    bytes[32..48].copy_from_slice(&to.pack.0);
    bytes[48..52].copy_from_slice(&to.start.to_le_bytes());
    bytes[52..].copy_from_slice(&to.len.to_le_bytes());
    bytes
}

fn take_ref(from: &mut Reader<'_>) -> Option<Ref> {
    Some(Ref {
        hash: Hash(from.array()?),
        pack: PackId(from.array()?),
        start: u32::from_le_bytes(from.array()?),
        len: u32::from_le_bytes(from.array()?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: Hash = Hash([9; 32]);

    fn state(name: &str, size: u64) -> FileState {
        FileState::of_object(Path::new(name), size, &Version::new("1"))
    }

    fn block(number: u8) -> Ref {
        Ref {
            hash: Hash::of(&[number]),
            pack: PackId([number; 16]),
            start: number.into(),
            len: 1,
        }
    }

    /// A file of these blocks, each in a pack of its own number.
    fn stored(level: u8, blocks: &[u8]) -> KnownFile {
        KnownFile {
            content: Content {
                level,
                refs: blocks.iter().map(|number| block(*number)).collect(),
            },
            packs: vec![PackId([7; 16]); usize::from(level)],
            has_acl: level > 0,
            attributes: Stored::Short(b"\x06user.a\0".as_slice().into()),
        }
    }

    fn finished(next: NextIndex<'_>, new: &[u8], used: &[u8]) -> LocalIndex {
        let new = new.iter().map(|number| block(*number));
        let new = new.map(|to| (to.hash, to)).collect();
        let used = used.iter().map(|number| PackId([*number; 16])).collect();
        let bytes = next.finish(&ROOT, &new, &used);
        LocalIndex::decode(bytes, |root| *root == ROOT).expect("it is whole")
    }

    fn index() -> LocalIndex {
        let none = LocalIndex::default();
        let mut next = NextIndex::after(&none);
        next.add(&state("empty", 0), &stored(0, &[]));
        next.add(&state("one", 1), &stored(0, &[1]));
        next.add(&state("two", 2), &stored(0, &[2, 3]));
        next.add(&state("long", 3), &stored(1, &[4]));
        // The block below the chunk of `long` is 5.
        finished(next, &[1, 2, 3, 4, 5], &[])
    }

    #[test]
    fn files_and_blocks_are_found_in_any_order() {
        let names = [("empty", 0), ("one", 1), ("two", 2), ("long", 3)];
        let wanted = [
            stored(0, &[]),
            stored(0, &[1]),
            stored(0, &[2, 3]),
            stored(1, &[4]),
        ];
        for order in [[0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2], [0, 0, 3, 3]] {
            let index = index();
            for at in order {
                let (name, size) = names[at];
                let (known, _) = index.file(&state(name, size)).expect(name);
                assert_eq!(known, wanted[at], "{name}");
                assert!(index.file(&state(name, 100)).is_none(), "another size");
                assert!(index.file(&state("none", size)).is_none(), "no such file");
            }
        }
        let index = index();
        for number in 1..=5 {
            assert_eq!(index.block(&Hash::of(&[number])), Some(block(number)));
        }
        assert_eq!(index.block(&Hash::of(&[6])), None);
        assert_eq!(index.blocks, 2, "blocks in records are not there twice");
    }

    #[test]
    fn blocks_of_changed_and_removed_files_stay_known_while_their_pack_is_used() {
        let base = index();
        let mut next = NextIndex::after(&base);
        let (_, at) = base.file(&state("empty", 0)).expect("it is there");
        next.carry(at);
        // `one` is removed, `long` is not read yet, `two` has another block.
        next.add(&state("two", 20), &stored(0, &[6]));
        let used = finished(next, &[6], &[1, 3, 5, 6]);
        assert!(used.file(&state("empty", 0)).is_some());
        assert!(used.file(&state("one", 1)).is_none());
        assert!(used.file(&state("two", 2)).is_none());
        assert!(used.file(&state("two", 20)).is_some());
        for (number, is_known) in [
            (1, true),
            (2, false),
            (3, true),
            (4, false),
            (5, true),
            (6, true),
        ] {
            let found = used.block(&Hash::of(&[number])).is_some();
            assert_eq!(found, is_known, "{number}");
        }
    }

    #[test]
    fn files_and_blocks_in_avoided_packs_are_unknown() {
        let mut index = index();
        index.avoid([PackId([3; 16]), PackId([7; 16])]);
        assert!(index.file(&state("one", 1)).is_some());
        assert!(index.file(&state("two", 2)).is_none());
        assert!(index.file(&state("long", 3)).is_none());
        assert!(index.block(&Hash::of(&[2])).is_some());
        assert!(index.block(&Hash::of(&[3])).is_none());
    }

    #[test]
    fn a_damaged_index_is_empty() {
        let bytes = index().bytes;
        let read = |bytes: &[u8]| LocalIndex::decode(bytes.to_vec(), |_| true).is_some();
        assert!(read(&bytes), "the control");
        for cut in 0..bytes.len() {
            assert!(!read(bytes.get(..cut).unwrap_or_default()), "{cut}");
        }
        for at in (0..8).chain(HEAD..bytes.len()) {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            assert!(!read(&changed), "{at}");
        }
    }
}
