//! Rendezvous hashing: placement of blocks on independent nodes.
//!
//! Each node has a weight for each key, from the hash of both. The heaviest node has the block. The
//! second is asked when the first is slow, and takes its blocks while it is away. There is no table
//! and no gossip: all clients with the same addresses agree. An additional node takes an equal
//! share of the keys, and no key moves between the others (Thaler and Ravishankar, 1998).

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use tokio::time::timeout;
use twox_hash::XxHash3_64;

use super::key_names::KeyNames;
use super::wire::{Buffers, Connection, Dialer, Nodes, Pool, Protocol};
use super::{Address, EngineSettings, NodeId, RemoteEngine, RemoteError, Renewal};
use crate::block::StoredBlock;
use crate::policy::Started;
use crate::{BlockKey, Error, Settings};

/// The commands of a protocol for independent nodes.
pub(super) trait Speaks: Send + Sync + Sized + 'static {
    /// Their protocol.
    type Protocol: Protocol;

    /// Makes it, with what it takes to get in.
    fn protocol(settings: &EngineSettings) -> Self::Protocol;

    /// Says why a node that answers can never be one of independent nodes.
    fn misfit<'a>(
        _connection: &'a mut Connection<Self::Protocol>,
    ) -> BoxFuture<'a, Option<&'static str>> {
        Box::pin(std::future::ready(None))
    }

    /// Asks a node for a value.
    fn get<'a>(
        pool: &'a Arc<Pool<Self::Protocol>>,
        name: &'a str,
        expected: usize,
        started: &'a Started,
    ) -> BoxFuture<'a, Result<Option<Bytes>, RemoteError>>;

    /// Brings a block to a node.
    fn put<'a>(
        pool: &'a Arc<Pool<Self::Protocol>>,
        name: &'a str,
        block: &'a StoredBlock,
    ) -> BoxFuture<'a, Result<(), RemoteError>>;

    /// Takes a lease.
    fn lease<'a>(
        pool: &'a Arc<Pool<Self::Protocol>>,
        name: &'a str,
        holder: &'a str,
        time: Duration,
    ) -> BoxFuture<'a, Result<bool, RemoteError>>;

    /// Renews a lease.
    fn renew<'a>(
        pool: &'a Arc<Pool<Self::Protocol>>,
        name: &'a str,
        holder: &'a str,
        time: Duration,
    ) -> BoxFuture<'a, Result<Renewal, RemoteError>>;

    /// Ends a lease or a block.
    fn end<'a>(
        pool: &'a Arc<Pool<Self::Protocol>>,
        name: &'a str,
    ) -> BoxFuture<'a, Result<bool, RemoteError>>;

    /// Returns what to do about a refusal after which waiting does not help.
    fn advice(refused: &str) -> Option<&'static str>;
}

/// Nodes that do not know each other, as one engine.
pub(super) struct Rendezvous<S: Speaks> {
    settings: EngineSettings,
    nodes: Nodes<S::Protocol>,
    ranking: Ranking,
    warnings: Vec<String>,
    block_size: usize,
    names: KeyNames,
}

/// Within what time a node answers when the cache is opened.
const OPENS_WITHIN: Duration = Duration::from_secs(1);

impl<S: Speaks> Rendezvous<S> {
    /// Tries all nodes. One that does not answer is warned of, as it may come later.
    pub(super) async fn open(
        settings: &EngineSettings,
        cache: &Settings,
        buffers: &Arc<Buffers>,
    ) -> Result<Self, Error> {
        let dialer = Arc::new(Dialer::new(
            S::protocol(settings),
            settings,
            cache,
            buffers,
        )?);
        let nodes = Nodes::new(Arc::clone(&dialer));
        let mut warnings = Vec::new();
        let dials = settings.nodes.iter().map(|address| {
            let answer = async {
                let mut connection = dialer.dial(address).await?;
                Ok(S::misfit(&mut connection).await)
            };
            timeout(OPENS_WITHIN, answer)
        });
        let answers = futures_util::future::join_all(dials).await;
        for (address, answer) in settings.nodes.iter().zip(answers) {
            let why = match answer {
                Ok(Ok(None)) => continue,
                Ok(Ok(Some(advice))) => {
                    return Err(Error::Engine {
                        engine: settings.to_string(),
                        why: format!("{address}: {advice}"),
                    });
                }
                Ok(Err(why)) => why,
                Err(_) => RemoteError::Deadline,
            };
            if let RemoteError::Refused(said) = &why
                && let Some(advice) = S::advice(said)
            {
                return Err(Error::Engine {
                    engine: settings.to_string(),
                    why: format!("{address}: {}: {advice}", said.trim_end_matches('.')),
                });
            }
            warnings.push(format!(
                "{address}: does not answer ({why}): its blocks go to the next in rank until it does"
            ));
        }
        let mut distinct: Vec<Address> = settings.nodes.clone();
        distinct.sort();
        distinct.dedup();
        let ranking = Ranking::new(
            distinct
                .into_iter()
                .map(|address| (nodes.number(&address), address)),
        );
        Ok(Self {
            settings: settings.clone(),
            nodes,
            ranking,
            warnings,
            block_size: usize::try_from(cache.block.0).unwrap_or(usize::MAX),
            names: KeyNames::new(cache),
        })
    }

    fn pool(&self, node: NodeId) -> Result<Arc<Pool<S::Protocol>>, RemoteError> {
        let pool = self.nodes.pool(node);
        pool.ok_or_else(|| RemoteError::Connect("no such node".to_owned()))
    }
}

impl<S: Speaks> RemoteEngine for Rendezvous<S> {
    fn name(&self, node: NodeId) -> String {
        self.pool(node)
            .map_or_else(|_| "?".to_owned(), |pool| pool.address.to_string())
    }

    fn nodes(&self) -> u32 {
        self.nodes.count()
    }

    fn connections(&self, node: NodeId) -> usize {
        self.pool(node).map_or(0, |pool| pool.open())
    }

    fn route(&self, key: &BlockKey, into: &mut Vec<NodeId>) {
        self.ranking.rank(key, into);
    }

    fn second_takes_over(&self) -> bool {
        true
    }

    fn get<'a>(
        &'a self,
        node: NodeId,
        key: &'a BlockKey,
        started: &'a Started,
    ) -> BoxFuture<'a, Result<Option<Bytes>, RemoteError>> {
        Box::pin(async move {
            let pool = self.pool(node)?;
            S::get(&pool, &self.names.block(key), self.block_size, started).await
        })
    }

    fn put<'a>(
        &'a self,
        node: NodeId,
        key: &'a BlockKey,
        block: &'a StoredBlock,
    ) -> BoxFuture<'a, Result<(), RemoteError>> {
        Box::pin(async move { S::put(&self.pool(node)?, &self.names.block(key), block).await })
    }

    fn lease<'a>(
        &'a self,
        node: NodeId,
        key: &'a BlockKey,
        holder: &'a str,
        time: Duration,
    ) -> BoxFuture<'a, Result<bool, RemoteError>> {
        Box::pin(async move {
            let name = self.names.lease(key);
            S::lease(&self.pool(node)?, &name, holder, time).await
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
            let name = self.names.lease(key);
            S::renew(&self.pool(node)?, &name, holder, time).await
        })
    }

    fn end_lease<'a>(
        &'a self,
        node: NodeId,
        key: &'a BlockKey,
    ) -> BoxFuture<'a, Result<(), RemoteError>> {
        Box::pin(async move {
            let ended = S::end(&self.pool(node)?, &self.names.lease(key)).await;
            ended.map(drop)
        })
    }

    fn remove<'a>(
        &'a self,
        node: NodeId,
        key: &'a BlockKey,
    ) -> BoxFuture<'a, Result<bool, RemoteError>> {
        Box::pin(async move { S::end(&self.pool(node)?, &self.names.block(key)).await })
    }

    /// Nothing to refresh: the addresses alone determine the placement.
    fn refresh(&self) {}

    fn warnings(&self) -> Vec<String> {
        self.warnings.clone()
    }
}

impl<S: Speaks> fmt::Debug for Rendezvous<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rendezvous")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

/// How many nodes of the ranking are asked, at most.
const RANKS: usize = 3;

/// The nodes, each with the seed that its address makes.
#[derive(Clone, Debug)]
struct Ranking {
    seeds: Vec<(NodeId, u64)>,
}

impl Ranking {
    /// Ranks these nodes. Their order does not matter.
    fn new(nodes: impl IntoIterator<Item = (NodeId, Address)>) -> Self {
        Self {
            seeds: nodes
                .into_iter()
                .map(|(id, address)| (id, XxHash3_64::oneshot(address.to_string().as_bytes())))
                .collect(),
        }
    }

    /// Appends the heaviest nodes for a key, the heaviest first.
    fn rank(&self, key: &BlockKey, into: &mut Vec<NodeId>) {
        let mut weights: Vec<(u64, NodeId)> = self
            .seeds
            .iter()
            .map(|(id, seed)| (XxHash3_64::oneshot_with_seed(*seed, key.as_bytes()), *id))
            .collect();
        weights.sort_unstable_by(|a, b| b.cmp(a));
        into.extend(weights.into_iter().take(RANKS).map(|(_, id)| id));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranking(ports: impl IntoIterator<Item = u16>) -> Ranking {
        Ranking::new(ports.into_iter().map(|port| {
            let host = "10.0.0.1".to_owned();
            (NodeId(u32::from(port)), Address { host, port })
        }))
    }

    fn first(ranking: &Ranking, key: u32) -> NodeId {
        let mut ranks = Vec::new();
        ranking.rank(&key_of(key), &mut ranks);
        assert_eq!(ranks.len(), RANKS, "no node twice, and enough of them");
        ranks[0]
    }

    fn key_of(number: u32) -> BlockKey {
        let mut bytes = [0; 16];
        bytes[..4].copy_from_slice(&number.to_le_bytes());
        BlockKey::from_bytes(bytes)
    }

    #[test]
    fn each_node_has_its_share() {
        let ranking = ranking(1..=5);
        let mut shares = [0_u32; 6];
        for key in 0..10_000 {
            shares[first(&ranking, key).0 as usize] += 1;
        }
        // A fair share is 2,000, and its standard deviation 40.
        for share in &shares[1..] {
            assert!((1_800..2_200).contains(share), "{shares:?}");
        }
    }

    #[test]
    fn a_node_more_takes_its_share_and_moves_nothing_else() {
        let (five, six) = (ranking(1..=5), ranking((1..=6).rev()));
        let mut moved = 0;
        for key in 0..10_000 {
            let (before, after) = (first(&five, key), first(&six, key));
            if before != after {
                assert_eq!(
                    after,
                    NodeId(6),
                    "to the new one, never between the old ones"
                );
                moved += 1;
            }
        }
        assert!((1_450..1_900).contains(&moved), "a sixth of them: {moved}");
    }
}
