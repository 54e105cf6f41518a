//! One request to one node, with its own deadlines.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use super::answer::Answer;
use super::fills::Refusal;
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

/// Times of an attempt.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// Maximum time to the first byte.
    pub(super) first: Duration,
    /// Maximum time without bytes after it, where that may be longer than the deadline of the whole.
    pub(super) silence: Option<Duration>,
    /// Maximum time of the whole answer.
    pub(super) whole: Duration,
}

/// The state that all attempts share.
#[derive(Debug)]
pub(super) struct Asker {
    pub(super) engine: Arc<dyn RemoteEngine>,
    pub(super) settings: Settings,
    pub(super) hedge: HedgeTime,
    pub(super) form: BlockForm,
    /// The last request for a block that failed.
    pub(super) failure: Refusal,
}

impl Asker {
    /// Notes that no node could be asked, unless one failed before.
    pub(super) fn no_node(&self) {
        self.failure.set_first(|| match &self.settings.engine {
            Some(engine) => format!("{engine}: no server answers"),
            None => "no server answers".to_owned(),
        });
    }
}

/// Asks a node, waits for `patience` at most, and reports the outcome to its breaker.
pub(super) async fn ask(
    asker: Arc<Asker>,
    node: Arc<Node>,
    key: BlockKey,
    patience: Patience,
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

/// Returns whether a deadline of this length, which is over, is noticed so late that this process had no CPU.
pub(super) fn is_noticed_late(end: Instant, length: Duration) -> bool {
    end.elapsed() > length / STARVED
}

async fn within_deadlines(
    asker: &Asker,
    node: &Node,
    key: &BlockKey,
    patience: Patience,
    started: &Started,
) -> Answer {
    let begun = Instant::now();
    let name = asker.form.name(key);
    let call = asker.engine.get(node.id, &name, started);
    tokio::pin!(call);
    let mut end = begun + patience.first;
    let usual = asker.hedge.deadline();
    let mut reply = if patience.first > usual {
        let opens = node.opens();
        tokio::select! {
            biased;
            reply = deadline::by(end, &mut call) => reply,
            () = opens => None,
        }
    } else {
        deadline::by(end, &mut call).await
    };
    // This process had no CPU when the time was up, so the answer may be there: it has another deadline to be found.
    while reply.is_none()
        && started.get().is_none()
        && is_noticed_late(end, usual)
        && begun.elapsed() < patience.whole
    {
        end = Instant::now() + usual;
        reply = deadline::by(end, &mut call).await;
    }
    let usual_whole = patience.first.saturating_sub(usual) + asker.settings.whole;
    if reply.is_none() && started.get().is_some() {
        // Bytes are coming: they have until the deadline of the whole.
        end = begun + usual_whole;
        reply = deadline::by(end, &mut call).await;
    }
    // They still are: the node is busy, and will be done.
    while reply.is_none()
        && let (Some(latest), Some(silence)) = (started.latest(), patience.silence)
        && let next = (latest + silence).min(begun + patience.whole)
        && next > end
    {
        if !is_noticed_late(end, usual) {
            asker
                .hedge
                .record_late(begun, latest - begun, latest - begun);
        }
        end = next;
        reply = deadline::by(end, &mut call).await;
    }
    let is_starved = is_noticed_late(end, end - begun)
        // Other answers came late meanwhile: this one was not waited for long enough.
        || (patience.first <= usual && asker.hedge.busy().is_some());
    // A call that is late is dropped on return, and its connection with it.
    let reply = reply.unwrap_or(Err(RemoteError::Deadline));
    if let Err(why) = &reply
        && !matches!(why, RemoteError::Damaged(_))
    {
        let name = asker.engine.name(node.id);
        asker.failure.set(format!("{name}: {why}"));
    }
    if let Some(at) = started.get() {
        let took = at.duration_since(begun);
        node.first_byte(took);
        match patience.first > usual {
            true => {
                let last = started.latest().unwrap_or(at).duration_since(begun);
                asker.hedge.record_patient(begun, took, last);
            }
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
