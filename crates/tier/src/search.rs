//! [`search`]: a block from the engine, or the turn to read it from the origin.
//!
//! While servers are busy since many clients read the same blocks, a client looks for a copy of the block first. A copy has
//! a key of its own, and so, mostly, another server. Of the clients that miss a copy one reads the first copy, as if
//! there were no others, and stores the copy for a short time; the others wait for it. So copies cost no reads of the
//! origin.

use tokio::time::Instant;

use crate::BlockKey;
use crate::block::Block;
use crate::counters::Count;
use crate::policy::{EngineAnswer, Lease, LeaseOf, Remote};
use crate::turn::{Turn, turn};

/// The outcome of a search.
#[derive(Debug)]
pub(crate) enum Found {
    /// The block.
    Block(Block),
    /// Nothing: this client reads the origin.
    Nothing(Owed),
    /// Bytes that are not the block.
    Corrupt,
    /// No node answered in time.
    Unknown,
}

/// Leases and copies of a client that reads the origin, to be stored with the block.
#[derive(Debug, Default)]
pub(crate) struct Owed {
    /// The lease of the block, if the engine gave one.
    lease: Option<Lease>,
    copy: Option<Copy>,
}

/// A copy that this client makes.
#[derive(Debug)]
struct Copy {
    key: BlockKey,
    lease: Option<Lease>,
}

/// Looks for a block. Counts a `corrupt` copy; the first copy is looked for then.
pub(crate) async fn search(remote: &Remote, key: &BlockKey, corrupt: &Count) -> Found {
    let begun = Instant::now();
    let Some(copy) = remote.copy(key) else {
        return first(remote, key, begun, None).await;
    };
    let lease = match remote.get(&copy).await {
        EngineAnswer::Hit(block) => {
            remote.found_copy();
            return Found::Block(block.of(key));
        }
        EngineAnswer::Miss => match turn(remote, LeaseOf::Copy, &copy, begun).await {
            Turn::Found(block) => {
                remote.found_copy();
                return Found::Block(block.of(key));
            }
            Turn::Read(Some(lease)) => {
                remote.makes_copy();
                Some(lease)
            }
            Turn::Read(None) => return first(remote, key, begun, None).await,
        },
        // It is stored again.
        EngineAnswer::Corrupt => {
            corrupt.one();
            None
        }
        EngineAnswer::Unknown => return first(remote, key, begun, None).await,
    };
    first(remote, key, begun, Some(Copy { key: copy, lease })).await
}

/// Looks for the first copy of a block, and stores another `copy` of it.
async fn first(remote: &Remote, key: &BlockKey, begun: Instant, copy: Option<Copy>) -> Found {
    let block = match remote.get(key).await {
        EngineAnswer::Hit(block) => block,
        EngineAnswer::Miss => match turn(remote, LeaseOf::Block, key, begun).await {
            Turn::Found(block) => block,
            Turn::Read(lease) => return Found::Nothing(Owed { lease, copy }),
        },
        EngineAnswer::Corrupt => return Found::Corrupt,
        EngineAnswer::Unknown => return Found::Unknown,
    };
    if let Some(copy) = copy {
        copy.store(remote, &block);
    }
    Found::Block(block)
}

impl Owed {
    /// Stores the block that was read.
    pub(crate) fn store(self, remote: &Remote, key: BlockKey, block: &Block) {
        if let Some(copy) = self.copy {
            copy.store(remote, block);
        }
        remote.fill(key, block.clone(), self.lease);
    }
}

impl Copy {
    fn store(self, remote: &Remote, block: &Block) {
        remote.fill_copy(self.key, block.of(&self.key), self.lease);
    }
}
