//! [`BlockName`]: what a block is called, and what its bytes must be.

use crate::BlockKey;
use crate::block::Block;
use crate::published::address::Hash;

/// The key of a block, and the hash of its bytes where the origin knows it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockName {
    pub key: BlockKey,
    pub hash: Option<Hash>,
}

impl BlockName {
    /// Says whether a block has the bytes that the origin has named, as far as it has.
    pub fn is_of(&self, block: &Block) -> bool {
        self.hash.is_none_or(|hash| Hash::of(block.bytes()) == hash)
    }
}
