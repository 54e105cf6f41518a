//! A client without memory, disk and connections: the policy and the leases as they are, for simulations of many clients.

use std::sync::Arc;

use bytes::Bytes;
use tokio::time::Instant;

use crate::block::Block;
use crate::counters::Count;
use crate::policy::{EngineAnswer, Remote};
use crate::remote::RemoteEngine;
use crate::search::search;
use crate::{BlockKey, Settings, Totals};

/// Returns the slot of a key of Redis Cluster.
#[must_use]
pub fn slot_of(key: &[u8]) -> u16 {
    crate::remote::slot_of(key)
}

/// Returns the name of a block in Redis.
#[must_use]
pub fn name_of(key: &BlockKey) -> String {
    format!("cw:{key}")
}

/// The tier that had a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The engine.
    Engine,
    /// The origin.
    Origin,
}

/// One client, as a process of one machine.
#[derive(Debug)]
pub struct SimulatedClient(Remote);

impl SimulatedClient {
    /// Makes a client with these settings of deadlines, hedges, breakers and leases.
    #[must_use]
    pub fn new(engine: Arc<dyn RemoteEngine>, settings: &Settings) -> Self {
        Self(Remote::new(engine, settings, settings.block.0))
    }

    /// Reads a block that this machine does not have, as a cache does: from the engine, else in its turn from the origin,
    /// and then fills the engine.
    pub async fn read(&self, key: &BlockKey, origin: impl Future<Output = Bytes>) -> Source {
        let owed = match search(&self.0, key, &Count::default()).await {
            (EngineAnswer::Hit(_), _) => return Source::Engine,
            (_, owed) => owed,
        };
        let begun = Instant::now();
        let bytes = origin.await;
        self.0.leases().origin_took(begun.elapsed());
        owed.store(&self.0, *key, &Block::seal(key, bytes));
        Source::Origin
    }

    /// Returns the counters of the policy.
    #[must_use]
    pub fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        self.0.add_to(&mut totals);
        totals
    }
}
