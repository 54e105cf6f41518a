//! One question to one node, with its own deadlines.

use std::sync::Arc;

use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

use super::Started;
use super::hedge::HedgeTime;
use super::node::Node;
use crate::BlockKey;
use crate::block::Block;
use crate::remote::{RemoteEngine, RemoteError};
use crate::settings::PolicySettings;

/// What came of one question.
#[derive(Debug)]
pub(super) enum Answer {
    Hit(Block),
    Miss,
    /// It had it, broken.
    Corrupt,
    /// It refused, broke off, or cannot be reached.
    Error,
    /// The time was up.
    Late,
}

/// For what reason a node is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    First,
    Hedge,
    Probe,
}

/// What all attempts share.
#[derive(Debug)]
pub(super) struct Asker {
    pub(super) engine: Arc<dyn RemoteEngine>,
    pub(super) settings: PolicySettings,
    pub(super) hedge: HedgeTime,
}

/// A question under way.
#[derive(Debug)]
pub(super) struct Attempt {
    pub(super) started: Arc<Started>,
    pub(super) task: JoinHandle<Answer>,
}

/// Asks a node, as a task that goes on when nobody waits for it any more: the node's breaker and
/// the percentiles have to know how long it really took, and a connection whose reply comes within
/// the deadline can be kept.
pub(super) fn ask(
    asker: &Arc<Asker>,
    node: &Arc<Node>,
    key: BlockKey,
    why: Why,
    permit: Option<OwnedSemaphorePermit>,
) -> Attempt {
    node.asked(why);
    let started = Arc::new(Started::default());
    let (asker, node, told) = (Arc::clone(asker), Arc::clone(node), Arc::clone(&started));
    let task = tokio::spawn(async move {
        let answer = within_deadlines(&asker, &node, &key, &told).await;
        if node.answered(&answer) {
            asker.engine.refresh();
        }
        drop(permit);
        answer
    });
    Attempt { started, task }
}

async fn within_deadlines(asker: &Asker, node: &Node, key: &BlockKey, started: &Started) -> Answer {
    let begun = Instant::now();
    let call = asker.engine.get(node.id, key, started);
    tokio::pin!(call);
    let first = timeout_at(begun + asker.settings.first_byte, &mut call).await;
    let reply = match first {
        Ok(reply) => reply,
        // Bytes are coming: they have until the deadline of the whole.
        Err(_) if started.get().is_some() => {
            match timeout_at(begun + asker.settings.whole, &mut call).await {
                Ok(reply) => reply,
                Err(_) => Err(RemoteError::Deadline),
            }
        }
        // The call is dropped on return, and its connection with it.
        Err(_) => Err(RemoteError::Deadline),
    };
    if let Some(at) = started.get() {
        let took = at.duration_since(begun);
        node.first_byte(took);
        asker.hedge.record(took, at);
    }
    match reply {
        Ok(Some(sealed)) => match Block::open(key, &sealed) {
            Ok(block) => Answer::Hit(block),
            Err(_) => Answer::Corrupt,
        },
        Ok(None) => Answer::Miss,
        Err(RemoteError::Deadline) => Answer::Late,
        Err(_) => Answer::Error,
    }
}
