//! The nodes of a Redis Cluster that many clients share: queues, blocks, leases and lost zones. The clients are those of
//! the library (`cachewise_tier::simulation`), on a clock that only moves when all of them wait.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use cachewise_tier::remote::{NodeId, RemoteEngine, RemoteError, Renewal};
use cachewise_tier::simulation::{name_of, slot_of};
use cachewise_tier::{BlockKey, Started, StoredBlock};
use futures_util::future::BoxFuture;
use tokio::time::{Instant, sleep_until};

use super::placement::node_of_slot;

/// Zones over which nodes are spread evenly.
pub const ZONES: usize = 3;

/// Time for a request, and for each KiB of an answer: as measured at five nodes.
const REQUEST: Duration = Duration::from_micros(60);
const KIB: Duration = Duration::from_nanos(250);
/// Size of a block in KiB. Simulated blocks are short, and nodes take the time of this size.
const BLOCK_KIB: u32 = 128;

/// Where the copies of blocks are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replicas {
    /// There are none.
    None,
    /// Each master has a replica in its own zone.
    SameZone,
    /// Each master has a replica in the next zone.
    OtherZone,
}

/// A cluster of nodes.
#[derive(Debug)]
pub struct Fleet {
    masters: usize,
    replicas: Replicas,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    free_at: Vec<Instant>,
    blocks: HashMap<BlockKey, Bytes>,
    leases: HashMap<BlockKey, Instant>,
    /// The zone whose nodes no longer answer.
    lost: Option<usize>,
    /// Whether replicas have taken over from lost masters.
    is_failed_over: bool,
}

impl Fleet {
    /// Makes a cluster of `nodes` nodes, half of them replicas if there are any.
    pub fn new(nodes: usize, replicas: Replicas) -> Arc<Self> {
        let masters = match replicas {
            Replicas::None => nodes,
            _ => nodes / 2,
        };
        Arc::new(Self {
            masters,
            replicas,
            state: Mutex::new(State {
                free_at: vec![Instant::now(); nodes],
                blocks: HashMap::new(),
                leases: HashMap::new(),
                lost: None,
                is_failed_over: false,
            }),
        })
    }

    /// Returns the engine as one client sees it, without a zone.
    pub fn view(self: &Arc<Self>) -> Arc<View> {
        self.view_from(None)
    }

    /// Returns the engine as one client sees it, in a zone.
    pub fn view_from(self: &Arc<Self>, zone: Option<usize>) -> Arc<View> {
        Arc::new(View {
            fleet: Arc::clone(self),
            nodes: Mutex::default(),
            zone,
        })
    }

    /// Stores a block without taking time.
    pub fn store(&self, key: BlockKey, block: &StoredBlock) {
        self.state().blocks.insert(key, joined(block));
    }

    /// Takes the nodes of a zone away.
    pub fn lose(&self, zone: usize) {
        self.state().lost = Some(zone);
    }

    /// Has replicas take over from the masters that are lost, as the cluster does after its node timeout.
    pub fn fail_over(&self) {
        self.state().is_failed_over = true;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn zone(&self, node: usize) -> usize {
        match self.replicas {
            Replicas::OtherZone if node >= self.masters => (node - self.masters + 1) % ZONES,
            _ => (node % self.masters) % ZONES,
        }
    }

    /// Returns the nodes of a block as the clients know them: the master first.
    fn route(&self, key: &BlockKey) -> Vec<usize> {
        let slot = slot_of(name_of(key).as_bytes());
        let master = node_of_slot(usize::from(slot), self.masters);
        if self.replicas == Replicas::None {
            return vec![master];
        }
        let state = self.state();
        let replica = master + self.masters;
        let is_lost = |node| state.is_failed_over && state.lost == Some(self.zone(node));
        match (is_lost(master), is_lost(replica)) {
            (true, false) => vec![replica],
            // The cluster does not list a replica that failed.
            (false, true) => vec![master],
            _ => vec![master, replica],
        }
    }

    /// Waits until the node has done this work after all that came before; for ever, if the node is lost.
    async fn work(&self, node: usize, kib: u32) {
        let done = {
            let mut state = self.state();
            (state.lost != Some(self.zone(node))).then(|| {
                let begins = state.free_at[node].max(Instant::now());
                state.free_at[node] = begins + REQUEST + KIB * kib;
                state.free_at[node]
            })
        };
        match done {
            Some(done) => sleep_until(done).await,
            None => std::future::pending().await,
        }
    }
}

fn joined(block: &StoredBlock) -> Bytes {
    [block.head().as_ref(), block.body()].concat().into()
}

/// The engine of one client, which numbers nodes in the order in which it meets them: state for each of a thousand nodes
/// in each of ten thousand clients is more than memory has room for.
#[derive(Debug)]
pub struct View {
    fleet: Arc<Fleet>,
    nodes: Mutex<Vec<usize>>,
    zone: Option<usize>,
}

impl View {
    fn known(&self) -> MutexGuard<'_, Vec<usize>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn node(&self, id: NodeId) -> usize {
        self.known()[id.0 as usize]
    }
}

impl RemoteEngine for View {
    fn name(&self, node: NodeId) -> String {
        self.node(node).to_string()
    }

    fn nodes(&self) -> u32 {
        self.known().len() as u32
    }

    fn connections(&self, _: NodeId) -> usize {
        1
    }

    fn route(&self, key: &BlockKey, into: &mut Vec<NodeId>) {
        let mut known = self.known();
        for node in self.fleet.route(key) {
            let place = known.iter().position(|known| *known == node);
            let place = place.unwrap_or_else(|| {
                known.push(node);
                known.len() - 1
            });
            into.push(NodeId(place as u32));
        }
    }

    fn is_near(&self, node: NodeId) -> bool {
        self.zone
            .is_none_or(|zone| zone == self.fleet.zone(self.node(node)))
    }

    fn second_takes_over(&self) -> bool {
        false
    }

    fn get<'a>(
        &'a self,
        node: NodeId,
        key: &'a BlockKey,
        started: &'a Started,
    ) -> BoxFuture<'a, Result<Option<Bytes>, RemoteError>> {
        Box::pin(async move {
            let block = self.fleet.state().blocks.get(key).cloned();
            let kib = block.as_ref().map_or(0, |_| BLOCK_KIB);
            self.fleet.work(self.node(node), kib).await;
            started.now();
            Ok(block)
        })
    }

    fn put<'a>(
        &'a self,
        node: NodeId,
        key: &'a BlockKey,
        block: &'a StoredBlock,
    ) -> BoxFuture<'a, Result<(), RemoteError>> {
        Box::pin(async move {
            self.fleet.work(self.node(node), BLOCK_KIB).await;
            self.fleet.store(*key, block);
            Ok(())
        })
    }

    fn lease<'a>(
        &'a self,
        node: NodeId,
        key: &'a BlockKey,
        _: &'a str,
        time: Duration,
    ) -> BoxFuture<'a, Result<bool, RemoteError>> {
        Box::pin(async move {
            self.fleet.work(self.node(node), 0).await;
            let now = Instant::now();
            let mut state = self.fleet.state();
            let is_held = state.leases.get(key).is_some_and(|until| *until > now);
            if !is_held {
                state.leases.insert(*key, now + time);
            }
            Ok(!is_held)
        })
    }

    fn renew_lease<'a>(
        &'a self,
        node: NodeId,
        key: &'a BlockKey,
        _: &'a str,
        time: Duration,
    ) -> BoxFuture<'a, Result<Renewal, RemoteError>> {
        Box::pin(async move {
            self.fleet.work(self.node(node), 0).await;
            let now = Instant::now();
            let mut state = self.fleet.state();
            let lease = state.leases.get_mut(key).filter(|until| **until > now);
            Ok(match lease {
                Some(until) => {
                    *until = now + time;
                    Renewal::Renewed
                }
                None => Renewal::Ended,
            })
        })
    }

    fn end_lease<'a>(
        &'a self,
        node: NodeId,
        key: &'a BlockKey,
    ) -> BoxFuture<'a, Result<(), RemoteError>> {
        Box::pin(async move {
            self.fleet.work(self.node(node), 0).await;
            self.fleet.state().leases.remove(key);
            Ok(())
        })
    }

    fn refresh(&self) {}

    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }
}
