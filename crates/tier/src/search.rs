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

/// Looks for a block. After a miss, this client reads the origin, and owes the block to others. Counts a `corrupt` copy; the
/// first copy is looked for then.
pub(crate) async fn search(
    remote: &Remote,
    key: &BlockKey,
    corrupt: &Count,
) -> (EngineAnswer, Owed) {
    let begun = Instant::now();
    let mut copy = None;
    if let Some(wanted) = remote.copy(key) {
        let found = match remote.get(&wanted).await {
            EngineAnswer::Hit(block) => Some(block),
            EngineAnswer::Miss => match turn(remote, LeaseOf::Copy, &wanted, begun).await {
                Turn::Found(block) => Some(block),
                Turn::Read(lease) => {
                    copy = lease.map(|lease| {
                        remote.makes_copy();
                        Copy::new(wanted, Some(lease))
                    });
                    None
                }
            },
            EngineAnswer::Corrupt => {
                corrupt.one();
                copy = Some(Copy::new(wanted, None));
                None
            }
            EngineAnswer::Unknown => None,
        };
        if let Some(block) = found {
            remote.found_copy();
            return (EngineAnswer::Hit(block.of(key)), Owed::default());
        }
    }
    let mut answer = remote.get(key).await;
    if let EngineAnswer::Miss = answer {
        match turn(remote, LeaseOf::Block, key, begun).await {
            Turn::Found(block) => answer = EngineAnswer::Hit(block),
            Turn::Read(lease) => return (EngineAnswer::Miss, Owed { lease, copy }),
        }
    }
    if let (EngineAnswer::Hit(block), Some(copy)) = (&answer, copy) {
        copy.store(remote, block);
    }
    (answer, Owed::default())
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
    fn new(key: BlockKey, lease: Option<Lease>) -> Self {
        Self { key, lease }
    }

    fn store(self, remote: &Remote, block: &Block) {
        remote.fill_copy(self.key, block.of(&self.key), self.lease);
    }
}
