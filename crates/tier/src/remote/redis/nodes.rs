//! [`Nodes`]: the nodes that were ever heard of, by number, and a command to one of them.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use bytes::{Buf, Bytes};

use super::connection::SharedDialer;
use super::pool::Pool;
use super::resp::{self, Reply};
use crate::block::{Block, HEADER};
use crate::policy::Started;
use crate::remote::{Address, NodeId, RemoteError};

/// The nodes that were ever heard of.
pub(super) struct Nodes {
    dialer: SharedDialer,
    known: RwLock<Known>,
}

#[derive(Default)]
struct Known {
    pools: Vec<Arc<Pool>>,
    numbers: HashMap<Address, NodeId>,
}

/// What a block is stored under: readable, and without braces, as Redis Cluster means something by
/// them.
pub(super) fn name_of(key: &crate::BlockKey) -> Vec<u8> {
    format!("cw:{key}").into_bytes()
}

/// What precedes a command on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Before {
    /// Nothing.
    Nothing,
    /// `ASKING`: the slot is on its way to this node.
    Asking,
}

impl Nodes {
    pub(super) fn new(dialer: SharedDialer) -> Self {
        Self {
            dialer,
            known: RwLock::default(),
        }
    }

    /// Returns the number of a node, which it gets when it is first heard of.
    pub(super) fn number(&self, address: &Address) -> NodeId {
        if let Some(number) = self.read().numbers.get(address) {
            return *number;
        }
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(number) = known.numbers.get(address) {
            return *number;
        }
        // There are no four thousand million nodes: each was heard of in a reply.
        let number = NodeId(u32::try_from(known.pools.len()).unwrap_or(u32::MAX));
        let pool = Pool::new(address.clone(), Arc::clone(&self.dialer));
        known.pools.push(Arc::new(pool));
        known.numbers.insert(address.clone(), number);
        number
    }

    /// Returns how many there are.
    pub(super) fn count(&self) -> u32 {
        u32::try_from(self.read().pools.len()).unwrap_or(u32::MAX)
    }

    /// Returns the connections to a node.
    pub(super) fn pool(&self, node: NodeId) -> Option<Arc<Pool>> {
        let at = usize::try_from(node.0).ok()?;
        self.read().pools.get(at).cloned()
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, Known> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Asks a node for a value. `expected` is how long it will be.
pub(super) async fn get(
    pool: &Arc<Pool>,
    name: &[u8],
    before: Before,
    expected: usize,
    started: &Started,
) -> Result<Reply, RemoteError> {
    let mut bytes = Vec::with_capacity(96);
    asking(&mut bytes, before);
    resp::command(&mut bytes, &[b"GET", name], None);
    let bytes = Bytes::from(bytes);
    exchange(pool, || bytes.clone(), before, expected, Some(started)).await
}

/// Brings a block to a node.
pub(super) async fn set(
    pool: &Arc<Pool>,
    name: &[u8],
    before: Before,
    block: &Block,
) -> Result<Reply, RemoteError> {
    let mut head = Vec::with_capacity(128);
    asking(&mut head, before);
    resp::command(&mut head, &[b"SET", name], Some(block.sealed_len()));
    head.extend_from_slice(block.header());
    let head = Bytes::from(head);
    let command = || {
        head.clone()
            .chain(block.bytes().clone())
            .chain(Bytes::from_static(b"\r\n"))
    };
    exchange(pool, command, before, 0, None).await
}

fn asking(into: &mut Vec<u8>, before: Before) {
    if before == Before::Asking {
        resp::command(into, &[b"ASKING"], None);
    }
}

/// Sends a command and waits for its reply, on a connection that nobody else uses meanwhile.
async fn exchange<B: Buf>(
    pool: &Arc<Pool>,
    command: impl Fn() -> B,
    before: Before,
    expected: usize,
    started: Option<&Started>,
) -> Result<Reply, RemoteError> {
    let mut again = true;
    loop {
        let mut lease = pool.lease().await?;
        let connection = lease.connection()?;
        let used = connection.used;
        if expected > 0 {
            connection.expect(expected.saturating_add(HEADER + 32));
        }
        let answer = async {
            connection.send(command()).await?;
            if before == Before::Asking {
                connection.reply(None).await?;
            }
            connection.reply(started).await
        }
        .await;
        match answer {
            Ok(reply) => {
                lease.give_back();
                return Ok(reply);
            }
            // It died while nobody used it: the node was restarted, or closes what is idle. Its
            // other connections are no better.
            Err(RemoteError::Lost(_)) if used && again => {
                again = false;
                drop(lease);
                pool.clear();
            }
            Err(error) => return Err(error),
        }
    }
}
