//! [`Block`]: bytes with the check sum that tells whether they still are those.

use std::time::Duration;

use bytes::Bytes;
use twox_hash::XxHash3_64;

use crate::BlockKey;

/// Length of the header of a stored block, on disk and in an engine: `cwb1`, the length, the
/// checksum.
pub(crate) const HEADER: usize = 16;

/// Maximum length of what precedes and follows the bytes of a block in an engine, in all forms.
pub(crate) const LONGEST_ENVELOPE: usize = 44;

const MAGIC: [u8; 4] = *b"cwb1";

/// The bytes of one block, with what they are checked by.
#[derive(Clone, Debug)]
pub struct Block {
    /// The header that came with the bytes, or was made of them; `None` until it is needed.
    header: Option<[u8; HEADER]>,
    seed: u64,
    bytes: Bytes,
}

impl PartialEq for Block {
    fn eq(&self, other: &Self) -> bool {
        self.header() == other.header() && self.bytes == other.bytes
    }
}

impl Eq for Block {}

/// The form in which an engine stores a block: a short head and the bytes behind it.
#[derive(Clone, Debug)]
pub struct StoredBlock {
    head: Bytes,
    body: Bytes,
    kept_for: Option<Duration>,
}

/// The bytes stored under a block's key are not that block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not this block, or not whole")]
pub(crate) struct Corrupt;

impl Block {
    /// Seals bytes that came from the origin. The check sum depends on the key too, so that a
    /// whole block in the wrong place is not taken for the right one.
    pub(crate) fn seal(key: &BlockKey, bytes: Bytes) -> Self {
        let seed = key.seed();
        Self {
            header: Some(header_of(seed, &bytes)),
            seed,
            bytes,
        }
    }

    /// Takes bytes that were authenticated. Their checksum is computed when they are stored.
    pub(crate) fn authentic(key: &BlockKey, bytes: Bytes) -> Self {
        Self {
            header: None,
            seed: key.seed(),
            bytes,
        }
    }

    /// Returns the same bytes as the block of another key: of a copy, or of the block of a copy.
    pub(crate) fn of(&self, key: &BlockKey) -> Self {
        Self::authentic(key, self.bytes.clone())
    }

    /// Takes a sealed block apart, and checks it: it came from a disk or a network.
    pub(crate) fn open(key: &BlockKey, sealed: &Bytes) -> Result<Self, Corrupt> {
        let block = Self::unchecked(sealed)?;
        block.check(key)?;
        Ok(block)
    }

    /// Takes a sealed block apart. [`Self::check`] has to follow.
    pub(crate) fn unchecked(sealed: &Bytes) -> Result<Self, Corrupt> {
        let header = *sealed.first_chunk::<HEADER>().ok_or(Corrupt)?;
        Ok(Self {
            header: Some(header),
            seed: 0,
            bytes: sealed.slice(HEADER..),
        })
    }

    /// Says whether it is the block of this key, as it was sealed.
    pub(crate) fn check(&self, key: &BlockKey) -> Result<(), Corrupt> {
        if *self == Self::seal(key, self.bytes.clone()) {
            Ok(())
        } else {
            Err(Corrupt)
        }
    }

    /// Returns what it starts with where it is kept.
    pub(crate) fn header(&self) -> [u8; HEADER] {
        self.header
            .unwrap_or_else(|| header_of(self.seed, &self.bytes))
    }

    /// Returns its bytes.
    #[must_use]
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Returns what an engine stores in the plain form: the header and the bytes.
    pub(crate) fn stored(&self) -> StoredBlock {
        StoredBlock::new(&self.header(), self.bytes.clone())
    }

    /// Returns its length where it is kept.
    pub(crate) fn sealed_len(&self) -> usize {
        HEADER.saturating_add(self.bytes.len())
    }
}

impl StoredBlock {
    pub(crate) fn new(head: &[u8], body: Bytes) -> Self {
        Self {
            head: Bytes::copy_from_slice(head),
            body,
            kept_for: None,
        }
    }

    /// Has the engine forget the block after this time.
    #[must_use]
    pub(crate) fn for_time(mut self, time: Duration) -> Self {
        self.kept_for = Some(time);
        self
    }

    /// Returns the time after which the engine is to forget the block; `None` where it stays.
    #[must_use]
    pub fn kept_for(&self) -> Option<Duration> {
        self.kept_for
    }

    /// Returns the bytes to store first.
    #[must_use]
    pub fn head(&self) -> &Bytes {
        &self.head
    }

    /// Returns the bytes to store behind the head.
    #[must_use]
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// Returns the number of bytes to store.
    #[must_use]
    pub fn total_len(&self) -> usize {
        self.head.len().saturating_add(self.body.len())
    }
}

fn header_of(seed: u64, bytes: &[u8]) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    // A block is at most 1 MiB long (`Settings::check`); one that were longer would not be
    // accepted again, as its length did not fit.
    let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    let sum = XxHash3_64::oneshot_with_seed(seed, bytes);
    header[..4].copy_from_slice(&MAGIC);
    header[4..8].copy_from_slice(&len.to_le_bytes());
    header[8..].copy_from_slice(&sum.to_le_bytes());
    header
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sealed(block: &Block) -> Vec<u8> {
        [block.header().as_slice(), block.bytes()].concat()
    }

    proptest! {
        #[test]
        fn one_flipped_bit_anywhere_is_noticed(
            bytes in prop::collection::vec(any::<u8>(), 0..600), key: [u8; 16], at: prop::sample::Index, bit in 0..8
        ) {
            let key = BlockKey::from_bytes(key);
            let mut kept = sealed(&Block::seal(&key, Bytes::from(bytes.clone())));
            let whole = Block::open(&key, &Bytes::from(kept.clone())).expect("it is as it was sealed");
            prop_assert_eq!(whole.bytes().as_ref(), bytes.as_slice());
            let at = at.index(kept.len());
            kept[at] ^= 1_u8 << bit;
            prop_assert_eq!(Block::open(&key, &Bytes::from(kept)), Err(Corrupt));
        }

        #[test]
        fn what_is_cut_or_longer_is_no_block(bytes in prop::collection::vec(any::<u8>(), 0..300), cut: prop::sample::Index) {
            let key = BlockKey::from_bytes([7; 16]);
            let mut kept = sealed(&Block::seal(&key, Bytes::from(bytes)));
            let cut = cut.index(kept.len());
            prop_assert_eq!(Block::open(&key, &Bytes::from(kept[..cut].to_vec())), Err(Corrupt));
            kept.push(0);
            prop_assert_eq!(Block::open(&key, &Bytes::from(kept)), Err(Corrupt));
        }
    }

    /// Blocks on disks and in engines stay readable: with another form, change the magic bytes, the form of keys
    /// (`key.rs`) and the format of disks (`local/format.rs`).
    #[test]
    fn form_of_plain_blocks_is_stable() {
        let key = BlockKey::from_bytes([1; 16]);
        let kept = b"cwb1\x05\0\0\0\xb9314\x01\xe6\xf1\xd2bytes";
        assert_eq!(
            sealed(&Block::seal(&key, Bytes::from_static(b"bytes")))
                .escape_ascii()
                .to_string(),
            kept.escape_ascii().to_string()
        );
    }

    #[test]
    fn a_whole_block_under_another_key_is_not_that_block() {
        let bytes = Bytes::from_static(b"bytes");
        let kept = sealed(&Block::seal(&BlockKey::from_bytes([1; 16]), bytes));
        assert_eq!(
            Block::open(&BlockKey::from_bytes([2; 16]), &Bytes::from(kept)),
            Err(Corrupt),
            "an engine or a disk that mixes keys up is found out"
        );
    }
}
