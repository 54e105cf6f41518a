//! [`Lease`]: a lease that this client has, renewed while it reads the origin.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until, timeout};

use super::attempt::Asker;
use crate::BlockKey;
use crate::remote::{NodeId, Renewal};

/// Renewals in the time of a lease: the second one is in time where the first one is lost.
const RENEWALS: u32 = 3;

/// A lease that this client has. A task renews it until this is dropped, which ends it in the engine, so that another client
/// may read the block.
#[derive(Debug)]
pub(crate) struct Lease {
    node: NodeId,
    is_over: oneshot::Sender<End>,
}

/// How a lease ends.
#[derive(Debug)]
enum End {
    /// By itself, after its time.
    Kept,
}

/// The task of a lease.
struct Held {
    asker: Arc<Asker>,
    node: NodeId,
    name: BlockKey,
    holder: Arc<str>,
    time: Duration,
    /// Until when no other client can have taken it; `None` where one has.
    sole_until: Option<Instant>,
}

impl Lease {
    /// Begins to renew a lease that lasts for `time`. `asked` is a time before the engine gave it.
    pub(super) fn new(
        asker: &Arc<Asker>,
        node: NodeId,
        name: BlockKey,
        holder: &Arc<str>,
        (asked, time): (Instant, Duration),
    ) -> Self {
        let (is_over, end) = oneshot::channel();
        let held = Held {
            asker: Arc::clone(asker),
            node,
            name,
            holder: Arc::clone(holder),
            time,
            sole_until: Some(asked + time),
        };
        tokio::spawn(held.hold(asked, end));
        Self { node, is_over }
    }

    /// Returns the node that gave it.
    pub(super) fn node(&self) -> NodeId {
        self.node
    }

    /// Lets the lease end by itself, as the block is stored: a client that missed it before will find it.
    pub(super) fn keep(self) {
        // The task is over where the lease is.
        let _ = self.is_over.send(End::Kept);
    }
}

impl Held {
    async fn hold(mut self, mut renewed: Instant, mut end: oneshot::Receiver<End>) {
        loop {
            tokio::select! {
                biased;
                end = &mut end => {
                    if end.is_err() {
                        self.end().await;
                    }
                    return;
                }
                () = sleep_until(renewed + self.time / RENEWALS) => {}
            }
            // Not interrupted: a renewal on its way would come after the end.
            renewed = Instant::now();
            let engine = &self.asker.engine;
            let renewal = engine.renew_lease(self.node, &self.name, &self.holder, self.time);
            match timeout(self.time, renewal).await {
                Ok(Ok(Renewal::Renewed)) if self.sole_until.is_some() => {
                    self.sole_until = Some(renewed + self.time);
                }
                // It lasts until both readers are done.
                Ok(Ok(Renewal::Renewed | Renewal::Other)) => self.sole_until = None,
                Ok(Ok(Renewal::Ended)) => return,
                // It is tried again: the node may be busy.
                Ok(Err(_)) | Err(_) => {}
            }
        }
    }

    /// Ends the lease, unless another client may have it.
    async fn end(&self) {
        if self.sole_until.is_none_or(|until| Instant::now() >= until) {
            return;
        }
        let ended = self.asker.engine.end_lease(self.node, &self.name);
        // If that fails, the lease ends by itself.
        let _ = timeout(self.asker.settings.whole, ended).await;
    }
}
