//! [`PackWriter`]: blocks and chunks of a version on their way to the store, each stored once.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use super::address::{Hash, PackId, Ref};
use super::claims::random;
use super::error::PublishError;
use super::index::LocalIndex;
use super::place::StoredFile;
use super::store::Store;

/// Length of a pack of blocks at most, without its last block.
const DATA: usize = 16 << 20;

/// Length of a pack of chunks at most, without its last chunk.
const TREE: usize = 4 << 20;

/// The list of packs of which versions use a small part, so that the next ones do not use them at all.
pub(super) const SPARSE: &str = "sparse";

/// The purpose of bytes: chunks lie together, so that they can be read together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// Blocks of files.
    Data,
    /// Chunks.
    Tree,
}

#[derive(Debug)]
struct OpenPack {
    id: PackId,
    bytes: Vec<u8>,
    limit: usize,
}

/// Writes packs.
#[derive(Debug)]
pub(super) struct PackWriter<'a> {
    store: &'a Store,
    /// Blocks and chunks of the version before.
    base: &'a LocalIndex,
    new: HashMap<Hash, Ref>,
    data: OpenPack,
    tree: OpenPack,
    /// Packs that the version refers to.
    used: HashSet<PackId>,
    /// The pack that was noted last.
    last_used: Option<PackId>,
    pub(super) written_bytes: u64,
    pub(super) written_packs: u64,
}

fn fresh(limit: usize, store: &Store) -> Result<OpenPack, PublishError> {
    Ok(OpenPack {
        id: PackId(random(store)?),
        bytes: Vec::new(),
        limit,
    })
}

impl<'a> PackWriter<'a> {
    pub(super) fn new(store: &'a Store, base: &'a LocalIndex) -> Result<Self, PublishError> {
        Ok(Self {
            store,
            base,
            new: HashMap::new(),
            data: fresh(DATA, store)?,
            tree: fresh(TREE, store)?,
            used: HashSet::new(),
            last_used: None,
            written_bytes: 0,
            written_packs: 0,
        })
    }

    /// Stores bytes, unless the store has them, and returns where they are.
    pub(super) fn add(&mut self, bytes: &[u8], part: Part) -> Result<Ref, PublishError> {
        let hash = Hash::of(bytes);
        if let Some(known) = self.new.get(&hash) {
            return Ok(*known);
        }
        if let Some(known) = self.base.block(&hash) {
            self.used.insert(known.pack);
            return Ok(known);
        }
        let pack = match part {
            Part::Data => &mut self.data,
            Part::Tree => &mut self.tree,
        };
        let place = |len: usize| u32::try_from(len).unwrap_or(u32::MAX);
        let to = Ref {
            hash,
            pack: pack.id,
            // Packs are far shorter than 4 GiB.
            start: place(pack.bytes.len()),
            len: place(bytes.len()),
        };
        pack.bytes.extend_from_slice(bytes);
        self.new.insert(hash, to);
        self.used.insert(to.pack);
        if pack.bytes.len() >= pack.limit {
            self.end(part)?;
        }
        Ok(to)
    }

    /// Notes packs that a file refers to which was not read again.
    pub(super) fn uses(&mut self, packs: impl IntoIterator<Item = PackId>) {
        for pack in packs {
            // Files of a directory mostly are in one pack.
            if self.last_used != Some(pack) {
                self.used.insert(pack);
                self.last_used = Some(pack);
            }
        }
    }

    fn end(&mut self, part: Part) -> Result<(), PublishError> {
        let pack = match part {
            Part::Data => &mut self.data,
            Part::Tree => &mut self.tree,
        };
        if pack.bytes.is_empty() {
            return Ok(());
        }
        self.written_bytes = self.written_bytes.saturating_add(pack.bytes.len() as u64);
        self.written_packs = self.written_packs.saturating_add(1);
        let next = fresh(pack.limit, self.store)?;
        let full = std::mem::replace(pack, next);
        self.store.put_later(&full.id.path(), full.bytes)
    }

    /// Writes what is left, and checks that the store has all packs of the version. Returns them, sorted, and the new
    /// blocks.
    pub(super) fn finish(mut self) -> Result<(Vec<PackId>, HashMap<Hash, Ref>), PublishError> {
        self.flush()?;
        self.store.settle()?;
        let mut used: Vec<PackId> = self.used.into_iter().collect();
        used.sort_unstable();
        let there: HashSet<PackId> = packs_in(self.store)?.map(|(pack, _)| pack).collect();
        match used.iter().find(|pack| !there.contains(pack)) {
            Some(pack) => Err(PublishError::MissingPack {
                pack: pack.to_string(),
            }),
            None => Ok((used, self.new)),
        }
    }

    /// Writes what is left.
    pub(super) fn flush(&mut self) -> Result<(), PublishError> {
        self.end(Part::Data)?;
        self.end(Part::Tree)
    }
}

/// Returns the packs of a store.
pub(super) fn packs_in(
    store: &Store,
) -> Result<impl Iterator<Item = (PackId, StoredFile)>, PublishError> {
    let packs = store.packs()?.into_iter();
    Ok(packs.filter_map(|file| {
        let pack = PackId::parse(file.name.split_once('/')?.1)?;
        Some((pack, file))
    }))
}

/// Returns the list of packs as it is stored.
pub(super) fn encode_list(packs: &[PackId]) -> Vec<u8> {
    packs.iter().flat_map(|pack| pack.0).collect()
}

/// Reads a list of packs.
pub(super) fn decode_list(bytes: &[u8], path: &Path) -> Result<Vec<PackId>, PublishError> {
    let (packs, rest) = bytes.as_chunks();
    if rest.is_empty() {
        return Ok(packs.iter().map(|pack| PackId(*pack)).collect());
    }
    let error = std::io::Error::new(std::io::ErrorKind::InvalidData, "it is cut off");
    Err(PublishError::io("read", path, error))
}
