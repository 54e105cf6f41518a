//! The tree of a version: directories as chunks, and a walk over them in a store of this machine.

use std::io;
use std::path::Path;

use bytes::Bytes;
use twox_hash::XxHash3_64;

use super::address::{Content, FAN_OUT, Hash, INLINE, Ref};
use super::attributes::{Attributes, Stored};
use super::chunk::{Body, Chunk, Item, LONGEST_ITEM};
use super::error::PublishError;
use super::pack::{PackWriter, Part};
use super::store::Store;

/// Length of a chunk at most, in a version with blocks of this size: a chunk is read as one block.
fn longest_chunk(block: u64) -> usize {
    usize::try_from(block.min(64 << 10)).unwrap_or(usize::MAX)
}

/// Length of an item, with each pack that it refers to.
fn length(item: &Item) -> usize {
    let (refs, more) = match &item.body {
        Body::File(content) => (content.refs.len(), 2),
        Body::Directory(_) => (1, 0),
        Body::Link(target) => (0, target.len() + 2),
        Body::Other => (0, 0),
    };
    let attributes = match &item.attributes {
        Stored::None => 0,
        Stored::Short(bytes) => bytes.len() + 6,
        Stored::Pieces(pieces) => pieces.len() * 60 + 4,
    };
    item.name.len() + 64 + refs * 60 + more + attributes
}

/// Whether a chunk ends behind a name: one in 256, by its hash, so that the chunks behind an added name stay the same.
fn ends(name: &[u8]) -> bool {
    XxHash3_64::oneshot(name).is_multiple_of(256)
}

/// Stores a directory, and returns its topmost chunk.
pub(super) fn write_directory(
    packs: &mut PackWriter<'_>,
    mut items: Vec<Item>,
    block: u64,
) -> Result<Ref, PublishError> {
    items.sort_unstable_by(|one, other| one.name.cmp(&other.name));
    let room = longest_chunk(block).saturating_sub(LONGEST_ITEM);
    let mut level: Vec<(Vec<u8>, Ref)> = Vec::new();
    let mut part = Vec::new();
    let mut taken = 0;
    let mut left = items.into_iter().peekable();
    while let Some(item) = left.next() {
        taken += length(&item);
        let is_end = taken >= room || ends(&item.name);
        part.push(item);
        if is_end && left.peek().is_some() {
            level.push(write_leaf(packs, std::mem::take(&mut part))?);
            taken = 0;
        }
    }
    if !part.is_empty() || level.is_empty() {
        level.push(write_leaf(packs, part)?);
    }
    while level.len() > 1 {
        let mut above = Vec::new();
        let mut part: Vec<(Vec<u8>, Ref)> = Vec::new();
        let mut taken = 0;
        for entry in level {
            taken += entry.0.len() + 64;
            part.push(entry);
            // At least two, so that each level is shorter than the one below.
            if taken >= room && part.len() > 1 {
                above.push(write_index(packs, std::mem::take(&mut part))?);
                taken = 0;
            }
        }
        if !part.is_empty() {
            above.push(write_index(packs, part)?);
        }
        level = above;
    }
    let top = level.pop().map(|(_, to)| to);
    Ok(top.unwrap_or_else(|| unreachable!("a directory has one chunk at least")))
}

fn write_leaf(
    packs: &mut PackWriter<'_>,
    items: Vec<Item>,
) -> Result<(Vec<u8>, Ref), PublishError> {
    let first = items.first().map(|item| item.name.clone());
    let to = packs.add(&Chunk::Leaf(items).encode(), Part::Tree)?;
    Ok((first.unwrap_or_default(), to))
}

fn write_index(
    packs: &mut PackWriter<'_>,
    entries: Vec<(Vec<u8>, Ref)>,
) -> Result<(Vec<u8>, Ref), PublishError> {
    let first = entries.first().map(|(name, _)| name.clone());
    let to = packs.add(&Chunk::Index(entries).encode(), Part::Tree)?;
    Ok((first.unwrap_or_default(), to))
}

/// Stores the list of a file's blocks, where it is too long for the file's entry.
pub(super) fn write_content(
    packs: &mut PackWriter<'_>,
    mut refs: Vec<Ref>,
) -> Result<Content, PublishError> {
    let fan_out = usize::try_from(FAN_OUT).unwrap_or(usize::MAX);
    let mut level = 0;
    while refs.len() > INLINE {
        let mut above = Vec::with_capacity(refs.len().div_ceil(fan_out));
        for part in refs.chunks(fan_out) {
            let chunk = Chunk::Refs(part.to_vec()).encode();
            above.push(packs.add(&chunk, Part::Tree)?);
        }
        refs = above;
        level += 1;
    }
    Ok(Content {
        level,
        refs: refs.into(),
    })
}

/// Stores extended attributes; `None` where a version cannot have that many.
pub(super) fn write_attributes(
    packs: &mut PackWriter<'_>,
    attributes: &Attributes,
) -> Result<Option<Stored>, PublishError> {
    if let Some(short) = attributes.short() {
        return Ok(Some(short));
    }
    let Some(pieces) = attributes.pieces() else {
        return Ok(None);
    };
    let refs: Result<Box<[Ref]>, PublishError> = pieces
        .iter()
        .map(|piece| packs.add(piece, Part::Tree))
        .collect();
    Ok(Some(Stored::Pieces(refs?)))
}

/// Reads bytes of a store, and verifies them.
fn read_ref(store: &Store, to: &Ref) -> Result<Bytes, PublishError> {
    let name = to.pack.path();
    let bytes = store.part(&name, to.start.into(), to.len as usize)?;
    let bytes = bytes.ok_or_else(|| PublishError::MissingPack {
        pack: to.pack.to_string(),
    })?;
    match Hash::of(&bytes) == to.hash {
        true => Ok(bytes),
        false => Err(PublishError::io("read", &store.path(&name), damaged())),
    }
}

fn read_chunk(store: &Store, to: &Ref) -> Result<Chunk, PublishError> {
    let bytes = read_ref(store, to)?;
    let path = store.path(&to.pack.path());
    Chunk::decode(&bytes).ok_or_else(|| PublishError::io("read", &path, damaged()))
}

fn damaged() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        "its bytes are not those that were published (the hash differs); restore the store from a copy",
    )
}

/// Returns the objects of a directory. `chunks` is called with each of its chunks.
pub(super) fn read_directory(
    store: &Store,
    top: &Ref,
    chunks: &mut dyn FnMut(&Ref),
) -> Result<Vec<Item>, PublishError> {
    chunks(top);
    match read_chunk(store, top)? {
        Chunk::Leaf(items) => Ok(items),
        Chunk::Index(entries) => {
            let mut all = Vec::new();
            for (_, to) in entries {
                all.append(&mut read_directory(store, &to, chunks)?);
            }
            Ok(all)
        }
        Chunk::Refs(_) => Err(PublishError::io(
            "read",
            &store.path(&top.pack.path()),
            damaged(),
        )),
    }
}

/// Returns all blocks and chunks below a directory.
pub(super) fn all_refs(store: &Store, top: &Ref, found: &mut Vec<Ref>) -> Result<(), PublishError> {
    let items = read_directory(store, top, &mut |chunk| found.push(*chunk))?;
    for item in items {
        found.extend_from_slice(item.attributes.pieces());
        match item.body {
            Body::Directory(to) => all_refs(store, &to, found)?,
            Body::File(content) => content_refs(store, content.level, &content.refs, found)?,
            _ => {}
        }
    }
    Ok(())
}

fn content_refs(
    store: &Store,
    level: u8,
    refs: &[Ref],
    found: &mut Vec<Ref>,
) -> Result<(), PublishError> {
    found.extend_from_slice(refs);
    if level == 0 {
        return Ok(());
    }
    for to in refs {
        if let Chunk::Refs(below) = read_chunk(store, to)? {
            content_refs(store, level - 1, &below, found)?;
        }
    }
    Ok(())
}

/// Returns a path that a message can show of names that are any bytes.
pub(super) fn joined(path: &Path, name: &[u8]) -> std::path::PathBuf {
    use std::os::unix::ffi::OsStrExt;
    path.join(std::ffi::OsStr::from_bytes(name))
}
