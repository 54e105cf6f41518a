//! [`LocalIndex`]: what a publisher knows of the files of its last version, so that unchanged ones are not read.
//!
//! The file has records of a fixed length, sorted, and is searched as it is read: loading it costs one read.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::path::Path;

use rustix::fs::{Statx, StatxTimestamp};

use super::address::{Content, Hash, PackId, Ref};
use super::attributes::Stored;
use crate::Version;

/// The first bytes. Another form gets another number; an index of another form is not used.
const MAGIC: [u8; 8] = *b"cwindex2";
const HEAD: usize = 64;
const FILE: usize = 56;
const BLOCK: usize = 56;

/// Number of records on each side of the last one that are searched first.
const NEAR: usize = 256;

/// The state of a file by which a change is noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
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

    fn write(&self, out: &mut [u8; 40]) {
        let words = [
            self.id.0.to_be_bytes(),
            self.id.1.to_be_bytes(),
            self.size.to_le_bytes(),
            self.version.0.to_le_bytes(),
            self.version.1.to_le_bytes(),
        ];
        for (to, word) in out.as_chunks_mut().0.iter_mut().zip(words) {
            *to = word;
        }
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
}

const ACL: u8 = 1 << 7;
const ATTRIBUTES: u8 = 1 << 6;

/// An index: empty, or of a version.
#[derive(Debug, Default)]
pub(super) struct LocalIndex {
    bytes: Vec<u8>,
    files: usize,
    blocks: usize,
    /// The record that was found last.
    last: Cell<usize>,
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
        Self::read(path, is_base).unwrap_or_default()
    }

    fn read(path: &Path, is_base: impl FnOnce(&Hash) -> bool) -> Option<Self> {
        let bytes = std::fs::read(path).ok()?;
        let root = Hash(*bytes.strip_prefix(&MAGIC)?.first_chunk()?);
        let files = usize::try_from(word(&bytes, 40)?).ok()?;
        let blocks = usize::try_from(word(&bytes, 48)?).ok()?;
        let sum = word(&bytes, 56)?;
        let body = bytes.get(HEAD..)?;
        let least = files
            .checked_mul(FILE)?
            .checked_add(blocks.checked_mul(BLOCK)?)?;
        let is_whole = body.len() >= least && twox_hash::XxHash3_64::oneshot(body) == sum;
        (is_whole && is_base(&root)).then_some(Self {
            bytes,
            files,
            blocks,
            last: Cell::new(0),
            avoided: HashSet::new(),
        })
    }

    /// Counts all that lies in these packs as unknown, so that it is written again to other packs.
    pub(super) fn avoid(&mut self, packs: impl IntoIterator<Item = PackId>) {
        self.avoided.extend(packs);
    }

    fn records(&self, start: usize, count: usize) -> &[[u8; 56]] {
        let bytes = self.bytes.get(start..).unwrap_or_default();
        bytes.as_chunks().0.get(..count).unwrap_or_default()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.files == 0 && self.blocks == 0
    }

    /// Returns what is stored of a file in this state.
    pub(super) fn file(&self, state: &FileState) -> Option<KnownFile> {
        let mut wanted = [0; 40];
        state.write(&mut wanted);
        let files = self.records(HEAD, self.files);
        let found = self.find(files, &wanted[..16])?;
        let record = files.get(found)?;
        if record[..40] != wanted {
            return None;
        }
        let at = usize::try_from(word(record, 40)?).ok()?;
        let mut from = super::wire::Reader(self.bytes.get(at..)?);
        let first = from.byte()?;
        let level = first & !(ACL | ATTRIBUTES);
        let count = from.byte()?;
        let refs: Option<Vec<Ref>> = (0..count).map(|_| take_ref(&mut from)).collect();
        let refs = refs?;
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
        let known = KnownFile {
            content: Content {
                level,
                refs: refs.into(),
            },
            packs,
            has_acl: first & ACL != 0,
            attributes,
        };
        let is_avoided = known.lies_in().any(|pack| self.avoided.contains(&pack));
        (!is_avoided).then_some(known)
    }

    /// Finds the record of a file, first near the last one that was found: files of a directory mostly have neighbouring
    /// inode numbers.
    fn find(&self, files: &[[u8; FILE]], id: &[u8]) -> Option<usize> {
        let order = |record: &[u8; FILE]| record[..16].cmp(id);
        let start = self.last.get().saturating_sub(NEAR).min(files.len());
        let near = files.get(start..)?;
        let near = near.get(..NEAR * 2).unwrap_or(near);
        let is_near = near.first().is_some_and(|first| order(first).is_le())
            && near.last().is_some_and(|last| order(last).is_ge());
        let found = match is_near {
            true => start.saturating_add(near.binary_search_by(order).ok()?),
            false => files.binary_search_by(order).ok()?,
        };
        self.last.set(found);
        Some(found)
    }

    /// Returns where a block or a chunk is.
    pub(super) fn block(&self, hash: &Hash) -> Option<Ref> {
        let blocks = self.block_records();
        let found = blocks
            .binary_search_by(|record| record[..32].cmp(&hash.0))
            .ok()?;
        let to = take_ref(&mut super::wire::Reader(blocks.get(found)?))?;
        (!self.avoided.contains(&to.pack)).then_some(to)
    }

    fn block_records(&self) -> &[[u8; 56]] {
        self.records(
            HEAD.saturating_add(self.files.saturating_mul(FILE)),
            self.blocks,
        )
    }

    /// Makes an index of blocks alone, of another publisher's version.
    pub(super) fn of_blocks(refs: impl IntoIterator<Item = Ref>) -> Self {
        let blocks = refs.into_iter().map(|to| (to.hash, to)).collect();
        let none = Self::default();
        let bytes = none.next(&Hash([0; 32]), Vec::new(), &blocks, None);
        Self {
            bytes,
            files: 0,
            blocks: blocks.len(),
            last: Cell::new(0),
            avoided: HashSet::new(),
        }
    }

    /// Returns the index of the next version: its files, its new blocks, and the known blocks in packs that it uses.
    pub(super) fn next(
        &self,
        root: &Hash,
        mut files: Vec<(FileState, KnownFile)>,
        new: &HashMap<Hash, Ref>,
        used: Option<&HashSet<PackId>>,
    ) -> Vec<u8> {
        files.sort_unstable_by_key(|(state, _)| *state);
        files.dedup_by_key(|(state, _)| state.id());
        let mut blocks: Vec<[u8; BLOCK]> = new.values().map(ref_bytes).collect();
        let is_used = |record: &&[u8; BLOCK]| {
            let pack = record.get(32..48).and_then(|pack| pack.first_chunk());
            let pack = pack.map(|pack| PackId(*pack));
            pack.is_some_and(|pack| used.is_some_and(|used| used.contains(&pack)))
        };
        blocks.extend(self.block_records().iter().filter(is_used));
        // Sorted but for the new ones: a stable sort merges them.
        blocks.sort();
        let room = HEAD + files.len() * (FILE + BLOCK + 2) + blocks.len() * BLOCK;
        let mut out = Vec::with_capacity(room);
        out.resize(HEAD, 0);
        out[..8].copy_from_slice(&MAGIC);
        out[8..40].copy_from_slice(&root.0);
        out[40..48].copy_from_slice(&(files.len() as u64).to_le_bytes());
        out[48..56].copy_from_slice(&(blocks.len() as u64).to_le_bytes());
        let mut at = HEAD + files.len() * FILE + blocks.len() * BLOCK;
        let mut contents = Vec::with_capacity(files.len() * (BLOCK + 2));
        for (state, file) in &files {
            let (content, packs) = (&file.content, &file.packs);
            let mut record = [0; 40];
            state.write(&mut record);
            out.extend_from_slice(&record);
            out.extend_from_slice(&(at as u64).to_le_bytes());
            out.extend_from_slice(&[0; 8]);
            let begin = contents.len();
            let has_attributes = file.attributes != Stored::None;
            let flags = [(file.has_acl, ACL), (has_attributes, ATTRIBUTES)];
            let flags = flags.iter().filter(|(is_set, _)| *is_set);
            contents.push(flags.fold(content.level, |all, (_, flag)| all | flag));
            contents.push(content.refs.len() as u8);
            for to in content.refs.iter() {
                contents.extend_from_slice(&ref_bytes(to));
            }
            if content.level > 0 {
                super::wire::put(&mut contents, packs.len() as u64);
                contents.extend(packs.iter().flat_map(|pack| pack.0));
            }
            if has_attributes {
                file.attributes.put(&mut contents, |out, piece| {
                    out.extend_from_slice(&ref_bytes(piece));
                });
            }
            at += contents.len() - begin;
        }
        out.extend(blocks.iter().flatten());
        out.extend_from_slice(&contents);
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

fn take_ref(from: &mut super::wire::Reader<'_>) -> Option<Ref> {
    Some(Ref {
        hash: Hash(from.array()?),
        pack: PackId(from.array()?),
        start: u32::from_le_bytes(from.array()?),
        len: u32::from_le_bytes(from.array()?),
    })
}
