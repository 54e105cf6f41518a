//! [`BlockKey`]: the name of a block, everywhere but at the origin.

use std::fmt;
use std::path::Path;

use crate::origin::Version;

/// The name of a block: a hash of all that decides its bytes, so that a block never changes.
///
/// Origin, path, size and version of the object, size of blocks and number of the block go into it,
/// each preceded by its length, so that different fields cannot yield the same input. The hash is
/// BLAKE3, truncated to 128 bits, as an attacker may choose paths to make two keys collide.
///
/// Engines derive slots and ranks from this hash, as the names themselves spread badly: the CRC16
/// of Redis Cluster gave one of five nodes 31 % of the keys like `file7/block3.bin`, and another 8
/// %.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlockKey([u8; 16]);

/// The version of the block and key format. It is part of each key, so that a new format never
/// reads old blocks.
const FORM: &str = "cachewise block 1";

/// The same for blocks that are named by the hash of their bytes alone.
const CONTENT: &[u8] = b"cachewise content 1";

/// The same for copies of blocks.
const COPY: &str = "cachewise copy 1";

impl BlockKey {
    /// Makes the key of a block that is known by the hash of its bytes: all files, versions and machines share it.
    pub(crate) fn of_content(hash: &[u8; 32]) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(CONTENT);
        hasher.update(hash);
        let mut key = [0; 16];
        for (to, from) in key.iter_mut().zip(hasher.finalize().as_bytes()) {
            *to = *from;
        }
        Self(key)
    }

    /// Makes the keys of an object's blocks; [`Self::block`] is cheap from there.
    pub(crate) fn of_object(
        origin: &str,
        path: &Path,
        size: u64,
        version: &Version,
        block_size: u64,
    ) -> ObjectKey {
        let mut hasher = blake3::Hasher::new();
        let parts: [&[u8]; 6] = [
            FORM.as_bytes(),
            origin.as_bytes(),
            path.as_os_str().as_encoded_bytes(),
            &size.to_le_bytes(),
            version.as_bytes(),
            &block_size.to_le_bytes(),
        ];
        for part in parts {
            // Lossless: no slice is longer.
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        ObjectKey(*hasher.finalize().as_bytes())
    }

    /// Makes the key of something else than a block: of a purpose and its parts.
    pub(crate) fn named(purpose: &str, parts: &[&[u8]]) -> Self {
        let mut hasher = blake3::Hasher::new();
        for part in std::iter::once(purpose.as_bytes()).chain(parts.iter().copied()) {
            // Lossless: no slice is longer.
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        let mut key = [0; 16];
        for (to, from) in key.iter_mut().zip(hasher.finalize().as_bytes()) {
            *to = *from;
        }
        Self(key)
    }

    /// Makes the key of a copy of this block: of no other block and no other number.
    pub(crate) fn copy(&self, number: usize) -> Self {
        // Lossless: no more than 64 bits.
        Self::named(COPY, &[&self.0, &(number as u64).to_le_bytes()])
    }

    /// Returns its 16 bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// Takes a key from its bytes.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Returns half of it as a number: a seed for what must differ from key to key.
    pub(crate) fn seed(&self) -> u64 {
        // Lossless shift of the half that is wanted.
        (u128::from_le_bytes(self.0) >> 64) as u64
    }
}

/// The part of the key that all blocks of an object share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ObjectKey([u8; 32]);

impl ObjectKey {
    /// The key of an object whose blocks have keys of their own.
    pub(crate) const NONE: Self = Self([0; 32]);

    /// Returns the key of the block with this number.
    pub(crate) fn block(&self, number: u64) -> BlockKey {
        let hash = blake3::keyed_hash(&self.0, &number.to_le_bytes());
        let mut key = [0; 16];
        for (to, from) in key.iter_mut().zip(hash.as_bytes()) {
            *to = *from;
        }
        BlockKey(key)
    }
}

impl fmt::Display for BlockKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Debug for BlockKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BlockKey({self})")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn key(origin: &str, path: &str, size: u64, version: &str, number: u64) -> BlockKey {
        let version = Version::new(version);
        BlockKey::of_object(origin, Path::new(path), size, &version, 65_536).block(number)
    }

    #[test]
    fn whatever_differs_is_another_block() {
        let keys = [
            key("dir:/a", "b/c", 10, "1", 0),
            key("dir:/a", "b/c", 10, "1", 1),
            key("dir:/a", "b/c", 10, "2", 0),
            key("dir:/a", "b/c", 11, "1", 0),
            key("dir:/a", "b/d", 10, "1", 0),
            key("dir:/b", "b/c", 10, "1", 0),
            // The same letters, cut at another place.
            key("dir:/a/b", "c", 10, "1", 0),
            BlockKey::of_object("dir:/a", Path::new("b/c"), 10, &Version::new("1"), 131_072)
                .block(0),
        ];
        let distinct: HashSet<BlockKey> = keys.into_iter().collect();
        assert_eq!(distinct.len(), keys.len(), "no two of them meet");
    }

    #[test]
    fn each_copy_of_a_block_has_a_key_of_its_own() {
        let blocks = [key("a", "b", 1, "1", 0), key("a", "b", 1, "1", 1)];
        let copies = blocks.map(|block| [1, 2].map(|number| block.copy(number)));
        let keys = blocks.into_iter().chain(copies.into_iter().flatten());
        assert_eq!(keys.collect::<HashSet<_>>().len(), 6, "no two of them meet");
    }

    #[test]
    fn a_key_is_the_same_in_every_process() {
        assert_eq!(
            key("dir:/a", "b/c", 10, "1", 3).to_string(),
            "a3e96c23ee4966e408fbb3b9bb4e06fc",
            "blocks on disks and engines stay reachable: with another form, change FORM"
        );
    }
}
