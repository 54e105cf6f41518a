//! [`Nodes`]: the nodes that were ever heard of, by number; [`exchange`]: a command to one of them.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use bytes::Buf;

use super::connection::{Protocol, SharedDialer};
use super::pool::Pool;
use crate::block::LONGEST_ENVELOPE;
use crate::policy::Started;
use crate::remote::{Address, NodeId, RemoteError};

/// The nodes that were ever heard of.
pub(in crate::remote) struct Nodes<P: Protocol> {
    dialer: SharedDialer<P>,
    known: RwLock<KnownNodes<P>>,
}

struct KnownNodes<P: Protocol> {
    pools: Vec<Arc<Pool<P>>>,
    numbers: HashMap<Address, NodeId>,
}

impl<P: Protocol> Nodes<P> {
    pub(in crate::remote) fn new(dialer: SharedDialer<P>) -> Self {
        Self {
            dialer,
            known: RwLock::new(KnownNodes {
                pools: Vec::new(),
                numbers: HashMap::new(),
            }),
        }
    }

    /// Returns the number of a node, which it gets when it is first heard of.
    pub(in crate::remote) fn number(&self, address: &Address) -> NodeId {
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
    pub(in crate::remote) fn count(&self) -> u32 {
        u32::try_from(self.read().pools.len()).unwrap_or(u32::MAX)
    }

    /// Returns the connections to a node.
    pub(in crate::remote) fn pool(&self, node: NodeId) -> Option<Arc<Pool<P>>> {
        let at = usize::try_from(node.0).ok()?;
        self.read().pools.get(at).cloned()
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, KnownNodes<P>> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sends a command and waits for its reply, on a connection of its own. Skips `before` replies
/// first; `expected` is the length of the value.
pub(in crate::remote) async fn exchange<P: Protocol, B: Buf>(
    pool: &Arc<Pool<P>>,
    command: impl Fn() -> B,
    before: usize,
    expected: usize,
    started: Option<&Started>,
) -> Result<P::Reply, RemoteError> {
    let mut again = true;
    loop {
        let mut lease = pool.lease().await?;
        let connection = lease.connection()?;
        let used = connection.used;
        if expected > 0 {
            connection.expect(expected.saturating_add(LONGEST_ENVELOPE + 32));
        }
        let answer = async {
            connection.send(command()).await?;
            for _ in 0..before {
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
            // It died while idle: the node restarted, or closes idle connections. Its other
            // connections are dead too.
            Err(RemoteError::Lost(_)) if used && again => {
                again = false;
                drop(lease);
                pool.clear();
            }
            Err(error) => return Err(error),
        }
    }
}
