//! One request to one node, with its own deadlines.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use super::answer::Answer;
use super::hedge::HedgeTime;
use super::node::Node;
use super::started::Started;
use crate::BlockKey;
use crate::Settings;
use crate::deadline;
use crate::remote::{RemoteEngine, RemoteError};
use crate::seal::BlockForm;

/// A deadline that is noticed late by more than this part of it shows that this process had no CPU: the node may have
/// answered in time.
const STARVED: u32 = 2;

/// The state that all attempts share.
#[derive(Debug)]
pub(super) struct Asker {
    pub(super) engine: Arc<dyn RemoteEngine>,
    pub(super) settings: Settings,
    pub(super) hedge: HedgeTime,
    pub(super) form: BlockForm,
}

/// Asks a node, waits for the first byte for `patience` at most, and reports the outcome to its breaker.
pub(super) async fn ask(
    asker: Arc<Asker>,
    node: Arc<Node>,
    key: BlockKey,
    patience: Duration,
    started: Arc<Started>,
    permit: Option<OwnedSemaphorePermit>,
) -> Answer {
    let answer = within_deadlines(&asker, &node, &key, patience, &started).await;
    if node.answered(&answer) {
        asker.engine.refresh();
    }
    drop(permit);
    answer
}

async fn within_deadlines(
    asker: &Asker,
    node: &Node,
    key: &BlockKey,
    patience: Duration,
    started: &Started,
) -> Answer {
    let begun = Instant::now();
    let name = asker.form.name(key);
    let call = asker.engine.get(node.id, &name, started);
    tokio::pin!(call);
    let mut end = begun + patience;
    let usual = asker.hedge.deadline();
    let mut reply = if patience > usual {
        let opens = node.opens();
        tokio::select! {
            biased;
            reply = deadline::by(end, &mut call) => reply,
            () = opens => None,
        }
    } else {
        deadline::by(end, &mut call).await
    };
    if reply.is_none() && started.get().is_some() {
        // Bytes are coming: they have until the deadline of the whole.
        end = begun + patience.saturating_sub(usual) + asker.settings.whole;
        reply = deadline::by(end, &mut call).await;
    }
    let is_starved = end.elapsed() > (end - begun) / STARVED
        // Other answers came late meanwhile: this one was not waited for long enough.
        || (patience <= usual && asker.hedge.is_busy());
    // A call that is late is dropped on return, and its connection with it.
    let reply = reply.unwrap_or(Err(RemoteError::Deadline));
    if let Some(at) = started.get() {
        let took = at.duration_since(begun);
        node.first_byte(took);
        match patience > usual {
            true => asker.hedge.record_patient(took, at),
            false => asker.hedge.record(took, at),
        }
    }
    match reply {
        Ok(Some(sealed)) => match asker.form.open(key, sealed) {
            Ok(block) => Answer::Hit(block),
            Err(_) => Answer::Corrupt,
        },
        Ok(None) => Answer::Miss,
        Err(RemoteError::Deadline) if is_starved => Answer::Starved,
        Err(RemoteError::Deadline) => Answer::Late,
        Err(RemoteError::Damaged(_)) => Answer::Corrupt,
        Err(_) => Answer::Error,
    }
}
