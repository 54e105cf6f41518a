//! [`RedisCluster`]: an engine that is a Redis Cluster; Valkey is one too.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::{StreamExt, stream};
use tokio::time::{Instant, sleep, timeout};

use super::protocol::{self, Before, Redis, code_of};
use super::resp::RespReply;
use super::slot;
use super::topology::{self, Redirect, SlotMap};
use super::zones::{Zones, zone_of_info};
use crate::block::StoredBlock;
use crate::policy::Started;
use crate::remote::key_names::KeyNames;
use crate::remote::wire::{self, Buffers, Dialer, Nodes};
use crate::remote::{Address, EngineSettings, NodeId, RemoteEngine, RemoteError, Renewal};
use crate::{BlockKey, Error, Settings};

type Pool = wire::Pool<Redis>;

/// Maximum wait for the cluster at the opening; after that the search continues in the background.
const OPENING: Duration = Duration::from_secs(2);

/// Time limit of `CLUSTER SLOTS` at one node.
const TELLS_WITHIN: Duration = Duration::from_millis(300);

/// Intervals of the periodic topology refresh; a failure refreshes at once. The first intervals are
/// short, as a cluster that is new or has failed over learns its replicas a little later.
const LOOKS_EVERY: [Duration; 4] = [
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(5),
    Duration::from_secs(10),
];

/// Minimum time between two refreshes.
const LOOKS_APART: Duration = Duration::from_millis(200);

/// Maximum nodes that tell their zone at a time.
const ZONES_AT_ONCE: usize = 16;

/// Maximum redirections of one command.
const REDIRECTIONS: usize = 2;

/// Errors after which another node may serve the blocks.
const MOVES: [&str; 4] = ["CLUSTERDOWN", "LOADING", "MASTERDOWN", "READONLY"];

/// An engine that is a Redis Cluster.
pub(crate) struct RedisCluster {
    shared: Arc<ClusterShared>,
}

struct ClusterShared {
    settings: EngineSettings,
    dialer: wire::SharedDialer<Redis>,
    nodes: Nodes<Redis>,
    topology: RwLock<Arc<SlotMap>>,
    /// Whether a refresh is under way.
    looking: AtomicBool,
    warnings: Mutex<Vec<String>>,
    block_size: usize,
    zones: Zones,
    names: KeyNames,
}

impl RedisCluster {
    /// Asks the nodes that are named for the others.
    pub(crate) async fn open(
        settings: &EngineSettings,
        cache: &Settings,
        buffers: &Arc<Buffers>,
    ) -> Result<Self, Error> {
        let redis = Redis::new(settings, true);
        let dialer = Arc::new(Dialer::new(redis, settings, cache, buffers)?);
        let shared = Arc::new(ClusterShared {
            settings: settings.clone(),
            nodes: Nodes::new(Arc::clone(&dialer)),
            dialer,
            topology: RwLock::default(),
            looking: AtomicBool::new(false),
            warnings: Mutex::default(),
            block_size: usize::try_from(cache.block.0).unwrap_or(usize::MAX),
            zones: Zones::new(cache),
            names: KeyNames::new(cache),
        });
        shared.first_look().await?;
        let weak = Arc::downgrade(&shared);
        tokio::spawn(keep_looking(weak));
        Ok(Self { shared })
    }
}

async fn keep_looking(shared: Weak<ClusterShared>) {
    let mut pauses = LOOKS_EVERY.into_iter();
    let mut pause = Duration::ZERO;
    loop {
        pause = pauses.next().unwrap_or(pause);
        sleep(pause).await;
        let Some(shared) = shared.upgrade() else {
            return;
        };
        shared.refresh_soon();
    }
}

impl ClusterShared {
    /// Looks until some node tells, or the time is up.
    async fn first_look(&self) -> Result<(), Error> {
        let end = Instant::now() + OPENING;
        loop {
            let why = match self.refresh_topology().await {
                Ok(()) => {
                    self.learn_zones().await;
                    self.check().await;
                    return Ok(());
                }
                Err(why) => why,
            };
            if let RemoteError::Refused(said) = &why
                && let Some(advice) = protocol::hopeless(said)
            {
                return Err(Error::Engine {
                    engine: self.settings.to_string(),
                    why: format!("{}: {advice}", said.trim_end_matches('.')),
                });
            }
            if Instant::now() >= end {
                self.warn(format!(
                    "{}: no node answers ({why}): blocks come from this machine and the origin \
                     until one does",
                    self.settings
                ));
                return Ok(());
            }
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// Asks one node after the other for the topology, until one knows a node for every slot. A
    /// node that was removed from the cluster still answers, but without slots, so the best answer
    /// counts.
    async fn refresh_topology(&self) -> Result<(), RemoteError> {
        let mut best: Option<SlotMap> = None;
        let mut failed = None;
        for address in self.askable() {
            let topology = match timeout(TELLS_WITHIN, self.ask_slots(&address)).await {
                Ok(Ok(topology)) => topology,
                Ok(Err(why)) => {
                    failed = Some(why);
                    continue;
                }
                Err(_) => {
                    failed = Some(RemoteError::Deadline);
                    continue;
                }
            };
            let unserved = topology.unserved();
            if best.as_ref().is_none_or(|best| unserved < best.unserved()) {
                best = Some(topology);
            }
            if unserved == 0 {
                break;
            }
        }
        let none = || RemoteError::Connect("no node is known".to_owned());
        let Some(best) = best else {
            return Err(failed.unwrap_or_else(none));
        };
        let mut known = self
            .topology
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        // A node that did not answer may know a better topology, as one did before.
        match failed {
            Some(why) if best.unserved() > known.unserved() => Err(why),
            _ => {
                *known = Arc::new(best);
                Ok(())
            }
        }
    }

    /// Returns the nodes to ask: the known masters, then the configured nodes.
    fn askable(&self) -> Vec<Address> {
        let mut askable: Vec<Address> = Vec::new();
        let known = (0..self.nodes.count()).filter_map(|number| self.nodes.pool(NodeId(number)));
        for address in known
            .map(|pool| pool.address.clone())
            .chain(self.settings.nodes.iter().cloned())
        {
            if !askable.contains(&address) {
                askable.push(address);
            }
        }
        askable
    }

    /// Asks on a connection of its own: the others are for blocks.
    async fn ask_slots(&self, address: &Address) -> Result<SlotMap, RemoteError> {
        let mut connection = self.dialer.dial(address).await?;
        let reply = protocol::ask(&mut connection, &[b"CLUSTER", b"SLOTS"]).await?;
        let ranges = topology::ranges(reply, address)?;
        Ok(SlotMap::new(&ranges, |node| {
            let number = self.nodes.number(&node.address);
            self.zones.note(number, &node.address, node.zone.as_deref());
            number
        }))
    }

    /// Asks the nodes for their zones, where these are neither in the settings nor in the topology. A node that does not
    /// answer is asked again after the next refresh.
    async fn learn_zones(&self) {
        let lack = (0..self.nodes.count())
            .map(NodeId)
            .filter(|node| self.zones.lacks(*node))
            .filter_map(|node| Some((node, self.nodes.pool(node)?.address.clone())));
        let asked =
            stream::iter(lack).for_each_concurrent(ZONES_AT_ONCE, |(node, address)| async move {
                if let Ok(Ok(zone)) = timeout(TELLS_WITHIN, self.ask_zone(&address)).await {
                    self.zones.learn(node, zone);
                }
            });
        asked.await;
    }

    async fn ask_zone(&self, address: &Address) -> Result<Option<String>, RemoteError> {
        let mut connection = self.dialer.dial(address).await?;
        zone_of_info(&protocol::ask(&mut connection, &[b"INFO", b"server"]).await?)
    }

    /// Looks in the background, unless that is being done.
    fn refresh_soon(self: &Arc<Self>) {
        if self.looking.swap(true, Ordering::AcqRel) {
            return;
        }
        let shared = Arc::clone(self);
        tokio::spawn(async move {
            // A failure is retried at the next occasion.
            let _ = shared.refresh_topology().await;
            shared.learn_zones().await;
            sleep(LOOKS_APART).await;
            shared.looking.store(false, Ordering::Release);
        });
    }

    fn topology(&self) -> Arc<SlotMap> {
        Arc::clone(&self.topology.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn warn(&self, warning: String) {
        self.warnings
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(warning);
    }

    /// Looks for what is set up in a way that will hurt.
    async fn check(&self) {
        let unserved = self.topology().unserved();
        if unserved > 0 {
            self.warn(format!(
                "{unserved} of {} slots are served by no node: their blocks come from the origin; \
                 see redis-cli --cluster check",
                slot::SLOTS
            ));
        }
        if let Some(warning) = self.zones.warning() {
            self.warn(format!("{}: {warning}", self.settings));
        }
        for address in self.askable() {
            let settings = timeout(TELLS_WITHIN, self.ask_settings(&address)).await;
            let Ok(Ok(settings)) = settings else {
                continue;
            };
            match settings.as_deref() {
                Ok([coverage, policy, memory]) => self.check_settings(&address, coverage, policy, memory),
                Ok(_) => {}
                Err(why) => self.warn(format!(
                    "{address}: whether cluster-require-full-coverage is set is not known ({}): \
                     while it is, one node that fails makes all of them refuse; check that it is no",
                    code_of(why)
                )),
            }
            return;
        }
    }

    fn check_settings(&self, address: &Address, coverage: &str, policy: &str, memory: &str) {
        if coverage == "yes" {
            self.warn(format!(
                "{address}: cluster-require-full-coverage is yes: when one master without a replica \
                 fails, all the others refuse too, and every block comes from the origin; set it on \
                 each node: CONFIG SET cluster-require-full-coverage no"
            ));
        }
        if policy == "noeviction" && memory != "0" {
            self.warn(format!(
                "{address}: maxmemory-policy is noeviction: a full node takes no more blocks; set it \
                 on each node: CONFIG SET maxmemory-policy allkeys-lru"
            ));
        }
    }

    /// Returns the three settings that matter, or what the node said instead.
    async fn ask_settings(
        &self,
        address: &Address,
    ) -> Result<Result<Vec<String>, String>, RemoteError> {
        let mut connection = self.dialer.dial(address).await?;
        let mut values = Vec::new();
        for name in [
            "cluster-require-full-coverage",
            "maxmemory-policy",
            "maxmemory",
        ] {
            let question: [&[u8]; 3] = [b"CONFIG", b"GET", name.as_bytes()];
            match protocol::ask(&mut connection, &question).await? {
                RespReply::Error(why) => return Ok(Err(why)),
                RespReply::List(members) => match members.get(1) {
                    Some(RespReply::Value(Some(value))) => {
                        values.push(String::from_utf8_lossy(value).into_owned());
                    }
                    _ => values.push("?".to_owned()),
                },
                _ => {
                    return Err(RemoteError::Garbage(
                        "CONFIG GET of a form that is not known",
                    ));
                }
            }
        }
        Ok(Ok(values))
    }

    /// Follows a command from node to node until one takes it.
    async fn follow<F>(
        self: &Arc<Self>,
        node: NodeId,
        command: impl Fn(Arc<Pool>, Before) -> F,
    ) -> Result<RespReply, RemoteError>
    where
        F: Future<Output = Result<RespReply, RemoteError>>,
    {
        let unknown = || RemoteError::Connect("no such node".to_owned());
        let mut pool = self.nodes.pool(node).ok_or_else(unknown)?;
        let mut before = Before::Nothing;
        for _ in 0..=REDIRECTIONS {
            let why = match command(Arc::clone(&pool), before).await? {
                RespReply::Error(why) => why,
                reply => return Ok(reply),
            };
            let to = match topology::redirect(&why, &pool.address) {
                None => {
                    // The node refuses: another may serve its slots by now. Other errors, as from a
                    // full node, do not move slots.
                    if MOVES.contains(&code_of(&why)) {
                        self.refresh_soon();
                    }
                    return Err(protocol::refused(why));
                }
                Some(Redirect::Moved(to)) => {
                    self.refresh_soon();
                    before = Before::Nothing;
                    to
                }
                Some(Redirect::Ask(to)) => {
                    before = Before::Asking;
                    to
                }
            };
            pool = self
                .nodes
                .pool(self.nodes.number(&to))
                .ok_or_else(unknown)?;
        }
        Err(RemoteError::Refused(
            "sent from node to node without end".to_owned(),
        ))
    }
}

impl RemoteEngine for RedisCluster {
    fn name(&self, node: NodeId) -> String {
        self.shared
            .nodes
            .pool(node)
            .map_or_else(|| "?".to_owned(), |pool| pool.address.to_string())
    }

    fn nodes(&self) -> u32 {
        self.shared.nodes.count()
    }

    fn connections(&self, node: NodeId) -> usize {
        self.shared.nodes.pool(node).map_or(0, |pool| pool.open())
    }

    fn route(&self, key: &BlockKey, into: &mut Vec<NodeId>) {
        let slot = slot::of_key(self.shared.names.block(key).as_bytes());
        into.extend_from_slice(self.shared.topology().nodes(slot));
        if into.is_empty() {
            self.shared.refresh_soon();
        }
    }

    fn is_near(&self, node: NodeId) -> bool {
        self.shared.zones.is_near(node)
    }

    /// It does so itself: only the master takes blocks.
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
            let name = self.shared.names.block(key);
            let name = name.as_bytes();
            let expected = self.shared.block_size;
            let get = |pool: Arc<Pool>, before| async move {
                protocol::get(&pool, name, before, expected, started).await
            };
            match self.shared.follow(node, get).await? {
                RespReply::Value(value) => Ok(value),
                _ => Err(RemoteError::Garbage("GET is not answered by a value")),
            }
        })
    }

    fn put<'a>(
        &'a self,
        node: NodeId,
        key: &'a BlockKey,
        block: &'a StoredBlock,
    ) -> BoxFuture<'a, Result<(), RemoteError>> {
        Box::pin(async move {
            let name = self.shared.names.block(key);
            let name = name.as_bytes();
            let set = |pool: Arc<Pool>, before| async move {
                protocol::set(&pool, name, before, block).await
            };
            match self.shared.follow(node, set).await? {
                RespReply::Status(_) => Ok(()),
                _ => Err(RemoteError::Garbage("SET is not answered by OK")),
            }
        })
    }

    fn lease<'a>(
        &'a self,
        node: NodeId,
        key: &'a BlockKey,
        holder: &'a str,
        time: Duration,
    ) -> BoxFuture<'a, Result<bool, RemoteError>> {
        Box::pin(async move {
            let name = self.shared.names.lease(key);
            let name = name.as_bytes();
            let lease = |pool: Arc<Pool>, before| async move {
                protocol::lease(&pool, name, before, holder, time).await
            };
            protocol::is_taken(&self.shared.follow(node, lease).await?)
        })
    }

    fn renew_lease<'a>(
        &'a self,
        node: NodeId,
        key: &'a BlockKey,
        holder: &'a str,
        time: Duration,
    ) -> BoxFuture<'a, Result<Renewal, RemoteError>> {
        Box::pin(async move {
            let name = self.shared.names.lease(key);
            let name = name.as_bytes();
            let renew = |pool: Arc<Pool>, before| async move {
                protocol::renew(&pool, name, before, holder, time).await
            };
            protocol::renewal(&self.shared.follow(node, renew).await?, holder)
        })
    }

    fn end_lease<'a>(
        &'a self,
        node: NodeId,
        key: &'a BlockKey,
    ) -> BoxFuture<'a, Result<(), RemoteError>> {
        Box::pin(async move {
            let name = self.shared.names.lease(key);
            let name = name.as_bytes();
            let end =
                |pool: Arc<Pool>, before| async move { protocol::end(&pool, name, before).await };
            self.shared.follow(node, end).await.map(drop)
        })
    }

    fn remove<'a>(
        &'a self,
        node: NodeId,
        key: &'a BlockKey,
    ) -> BoxFuture<'a, Result<bool, RemoteError>> {
        Box::pin(async move {
            let name = self.shared.names.block(key);
            let name = name.as_bytes();
            let end =
                |pool: Arc<Pool>, before| async move { protocol::end(&pool, name, before).await };
            protocol::was_there(&self.shared.follow(node, end).await?)
        })
    }

    fn refresh(&self) {
        self.shared.refresh_soon();
    }

    fn warnings(&self) -> Vec<String> {
        self.shared
            .warnings
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl std::fmt::Debug for RedisCluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedisCluster")
            .field("settings", &self.shared.settings)
            .finish_non_exhaustive()
    }
}
