//! Blocks on their way to the engine, and out of it.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::timeout;

use super::{Lease, LeaseOf, Remote};
use crate::BlockKey;
use crate::block::Block;
use crate::remote::RemoteError;

/// Within what time a block is brought to a node, in deadlines of a whole answer.
const FILL_DEADLINES: u32 = 5;

/// For how long the engine keeps a copy: longer than a start of many machines takes.
const COPY_LIVES: Duration = Duration::from_secs(60);

/// How long is waited, at the end, for blocks on their way to the engine beyond the time that one
/// has: each then is there, or counted as dropped.
const FINISHES_WITHIN: Duration = Duration::from_secs(2);

impl Remote {
    /// Writes a block to the engine in the background, to the node that gave the lease. The lease ends if the engine does not
    /// take the block.
    pub(crate) fn fill(&self, key: BlockKey, block: Block, lease: Option<Lease>) {
        self.write(LeaseOf::Block, key, block, lease);
    }

    /// Writes a copy of a block to the engine in the same way, for some time.
    pub(crate) fn fill_copy(&self, key: BlockKey, block: Block, lease: Option<Lease>) {
        self.write(LeaseOf::Copy, key, block, lease);
    }

    fn write(&self, of: LeaseOf, key: BlockKey, block: Block, lease: Option<Lease>) {
        // Others wait for the block there, even if its breaker has opened here since.
        let node = match &lease {
            Some(lease) => Some(self.node(lease.node())),
            None => self.taker(&key),
        };
        let Some(node) = node else {
            self.counts.dropped_fills.one();
            // Mostly reads have failed before, which named the node.
            self.asker.no_node();
            if let Some(why) = self.asker.failure.get() {
                self.fills.refusal().set_first(|| why);
            }
            return;
        };
        let Some(on_its_way) = self.fills.begin() else {
            self.counts.dropped_fills.one();
            return;
        };
        let (asker, counts) = (Arc::clone(&self.asker), Arc::clone(&self.counts));
        let (leases, refusal) = (Arc::clone(&self.leases), self.fills.refusal());
        let within = self.fills_within();
        tokio::spawn(async move {
            let name = asker.form.name(&key);
            let Some(mut stored) = asker.form.store(&key, &block) else {
                counts.dropped_fills.one();
                return;
            };
            if of == LeaseOf::Copy {
                stored = stored.for_time(COPY_LIVES);
            }
            match timeout(within, asker.engine.put(node.id, &name, &stored)).await {
                Ok(Ok(())) => {
                    node.stored();
                    match of {
                        LeaseOf::Block => counts.fills.one(),
                        LeaseOf::Copy => counts.copies.one(),
                    }
                    if let Some(lease) = lease {
                        lease.keep();
                    }
                }
                Ok(Err(why)) => {
                    counts.dropped_fills.one();
                    if matches!(why, RemoteError::Refused(_)) {
                        leases.turn_off();
                    }
                    refusal.set(format!("{}: {why}", asker.engine.name(node.id)));
                }
                Err(_) => {
                    counts.dropped_fills.one();
                    let name = asker.engine.name(node.id);
                    refusal.set(format!(
                        "{name}: no answer within {} ms",
                        within.as_millis()
                    ));
                    // Else a node that hangs would be waited for with each block, where blocks are
                    // only brought.
                    if node.took_nothing() {
                        asker.engine.refresh();
                    }
                }
            }
            drop(on_its_way);
        });
    }

    /// Returns the last node that did not take a block, and the reason.
    pub(crate) fn refusal(&self) -> Option<String> {
        self.fills.refusal().get()
    }

    /// Removes a block and its copies, and their leases: the next reader does not wait for an earlier one. Returns whether one
    /// of them was there; `None` where not all nodes answered.
    pub(crate) async fn remove_all(&self, key: &BlockKey) -> Option<bool> {
        let removed = std::iter::once(*key)
            .chain(self.copies.all(*key))
            .map(|key| async move { tokio::join!(self.remove(&key), self.end_lease(&key)).0 });
        let removed = join_all(removed).await;
        removed
            .into_iter()
            .try_fold(false, |any, was| Some(any | was?))
    }

    /// Removes a block from all nodes that a reader would ask for it. Returns whether it was there; `None` where not all nodes
    /// answered.
    pub(crate) async fn remove(&self, key: &BlockKey) -> Option<bool> {
        let name = self.asker.form.name(key);
        let within = self.fills_within();
        let (mut was_there, mut is_done) = (false, true);
        for node in self.keepers(key) {
            match timeout(within, self.asker.engine.remove(node.id, &name)).await {
                Ok(Ok(was)) => was_there |= was,
                Ok(Err(_)) | Err(_) => is_done = false,
            }
        }
        is_done.then_some(was_there)
    }

    /// Ends the lease of a block, whichever client has it. If that fails, it ends by itself.
    async fn end_lease(&self, key: &BlockKey) {
        let name = self.asker.form.name(key);
        for node in self.keepers(key) {
            let ended = self.asker.engine.end_lease(node.id, &name);
            let _ = timeout(self.fills_within(), ended).await;
        }
    }

    /// Within what time a block is at its node, or dropped.
    fn fills_within(&self) -> Duration {
        let usual = self.asker.settings.whole.saturating_mul(FILL_DEADLINES);
        let waited_for = self.leases.times().map(|times| times.silence);
        usual.max(waited_for.unwrap_or_default())
    }

    /// Waits until each block that is on its way to the engine is there, or counted as dropped.
    pub(crate) async fn finish_fills(&self) {
        let within = self.fills_within().saturating_add(FINISHES_WITHIN);
        if timeout(within, self.fills.end()).await.is_err() {
            // A machine that is too busy to end what has run out of time. Counted twice, at worst;
            // never as if they were there.
            self.counts.dropped_fills.add(self.fills.number());
        }
    }
}
