//! [`Hash`], [`Ref`] and [`Content`]: what bytes of a published version are, and where the store has them.

use std::fmt;
use std::sync::Arc;

/// The BLAKE3 hash of a block or a chunk.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Hash(pub [u8; 32]);

impl Hash {
    /// Returns the hash of some bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }

    /// Reads 64 hexadecimal digits.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Some(Self(*blake3::Hash::from_hex(text).ok()?.as_bytes()))
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&blake3::Hash::from_bytes(self.0).to_hex())
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hash({self})")
    }
}

/// The name of a pack, a file of the store that holds many blocks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PackId(pub [u8; 16]);

impl PackId {
    /// Reads 32 hexadecimal digits.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let is_hex = text.len() == 32 && text.bytes().all(|digit| digit.is_ascii_hexdigit());
        let number = is_hex.then(|| u128::from_str_radix(text, 16).ok())??;
        Some(Self(number.to_be_bytes()))
    }

    /// Returns its name in the store.
    #[must_use]
    pub fn path(&self) -> String {
        let name = self.to_string();
        format!("packs/{}/{name}", name.get(..2).unwrap_or_default())
    }
}

impl fmt::Display for PackId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Debug for PackId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PackId({self})")
    }
}

/// A block or a chunk: its hash, and its place in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ref {
    /// The hash of its bytes.
    pub hash: Hash,
    /// The pack that has it.
    pub pack: PackId,
    /// Its first byte in the pack.
    pub start: u32,
    /// Its length in bytes.
    pub len: u32,
}

/// Maximum references in the entry of a file.
pub(crate) const INLINE: usize = 8;

/// Maximum references in a chunk of them: 200 fit in the smallest block.
pub(crate) const FAN_OUT: u64 = 200;

/// The blocks of a file: references to the blocks themselves at level 0, else to chunks with the references of the level
/// below. An entry of a directory so has a bounded length, however long the file is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    /// Levels of chunks above the blocks.
    pub level: u8,
    /// References: `INLINE` at most.
    pub refs: Arc<[Ref]>,
}

impl Content {
    /// Returns the blocks of a file that has these and no chunks above them.
    pub(crate) fn of_blocks(refs: &[Ref]) -> Self {
        Self {
            level: 0,
            refs: refs.into(),
        }
    }

    /// Blocks below one reference of a level.
    pub(crate) fn span(level: u8) -> u64 {
        FAN_OUT.saturating_pow(u32::from(level))
    }
}
