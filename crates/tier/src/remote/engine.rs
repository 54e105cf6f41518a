//! [`RemoteEngine`]: a store of blocks that machines share, node by node.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;

use crate::policy::Started;
use crate::{BlockKey, StoredBlock};

/// The number of a node of an engine. A number is assigned once and stays with the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub u32);

/// The reason why a node did not answer a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RemoteError {
    /// No connection came about.
    #[error("cannot connect: {0}")]
    Connect(String),
    /// The connection broke.
    #[error("connection lost: {0}")]
    Lost(String),
    /// The node answered with an error of its own: LOADING, CLUSTERDOWN, OOM and the like.
    #[error("the node refuses: {0}")]
    Refused(String),
    /// The node answered, about this block: what is stored under its name is no block.
    #[error("no block is stored there: {0}")]
    Damaged(String),
    /// The answer violates the protocol.
    #[error("not an answer: {0}")]
    Garbage(&'static str),
    /// The time was up.
    #[error("no answer in time")]
    Deadline,
}

/// The outcome of a request to renew a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewal {
    /// The lease lasts longer.
    Renewed,
    /// The lease had ended, and another client has taken one.
    Other,
    /// The lease has ended, and no client has one.
    Ended,
}

/// A store of blocks that machines share. It moves bytes and knows which node has a block. The
/// policy decides when to wait, hedge and give up, the same for all engines.
pub trait RemoteEngine: Send + Sync + fmt::Debug {
    /// Names a node for people: its address.
    fn name(&self, node: NodeId) -> String;

    /// Returns how many nodes there are or were: their numbers are all below it.
    fn nodes(&self) -> u32;

    /// Returns how many connections to a node there are.
    fn connections(&self, node: NodeId) -> usize;

    /// Appends the nodes to ask for a block, best first; writes go to the first.
    fn route(&self, key: &BlockKey, into: &mut Vec<NodeId>);

    /// Says whether reads prefer a node to others of a route, as it is in the zone of this client.
    fn is_near(&self, _node: NodeId) -> bool {
        true
    }

    /// Says whether blocks may go to the second node of a route while the first does not answer.
    /// Not where the engine copies them there itself.
    fn second_takes_over(&self) -> bool;

    /// Asks one node for a block; `None` if it has none. Marks `started` at the first byte of the
    /// answer. Dropping the future ends the request and its connection.
    fn get<'a>(
        &'a self,
        node: NodeId,
        key: &'a BlockKey,
        started: &'a Started,
    ) -> BoxFuture<'a, Result<Option<Bytes>, RemoteError>>;

    /// Writes a block to a node. Dropping the future ends the request and its connection.
    fn put<'a>(
        &'a self,
        node: NodeId,
        key: &'a BlockKey,
        block: &'a StoredBlock,
    ) -> BoxFuture<'a, Result<(), RemoteError>>;

    /// Takes the lease of a block at a node for some time, unless another client has it; returns whether it did. Leases of
    /// engines that count in seconds may last two seconds longer. `holder` names this client.
    fn lease<'a>(
        &'a self,
        node: NodeId,
        key: &'a BlockKey,
        holder: &'a str,
        time: Duration,
    ) -> BoxFuture<'a, Result<bool, RemoteError>>;

    /// Makes a lease that `holder` took last for this time from now on. Makes none where there is none.
    fn renew_lease<'a>(
        &'a self,
        node: NodeId,
        key: &'a BlockKey,
        holder: &'a str,
        time: Duration,
    ) -> BoxFuture<'a, Result<Renewal, RemoteError>>;

    /// Ends the lease of a block.
    fn end_lease<'a>(
        &'a self,
        node: NodeId,
        key: &'a BlockKey,
    ) -> BoxFuture<'a, Result<(), RemoteError>>;

    /// Removes a block from a node; returns whether it was there. Dropping the future ends the request and its connection.
    fn remove<'a>(
        &'a self,
        _node: NodeId,
        _key: &'a BlockKey,
    ) -> BoxFuture<'a, Result<bool, RemoteError>> {
        let why = "this engine removes no blocks".to_owned();
        Box::pin(std::future::ready(Err(RemoteError::Refused(why))))
    }

    /// Refreshes the topology in the background, after a node failed to answer.
    fn refresh(&self);

    /// Returns warnings about harmful configuration, found at the opening.
    fn warnings(&self) -> Vec<String>;
}
