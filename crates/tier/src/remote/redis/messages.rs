//! [`Messages`]: short messages between the clients of Redis nodes, by PUBLISH and SUBSCRIBE.
//!
//! Nodes of a cluster pass messages on to each other, so one node is enough to publish at. Each client listens at all nodes
//! that it was configured with, as one of them may be gone: it hears a message several times.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use super::protocol::{self, Redis};
use super::resp::{self, RespReply};
use crate::remote::wire::{Buffers, Connection, Dialer};
use crate::remote::{Address, EngineKind, EngineSettings, RemoteError};
use crate::{Error, Settings};

/// Time limit of a command.
const WITHIN: Duration = Duration::from_secs(2);

/// Interval of the check whether a node without messages still answers.
const PING_EVERY: Duration = Duration::from_secs(10);

/// Pause before the next connection to a node that does not answer.
const AGAIN: Duration = Duration::from_secs(1);

/// Messages of one channel.
pub(crate) struct Messages {
    dialer: Dialer<Redis>,
    nodes: Vec<Address>,
    is_cluster: bool,
    channel: String,
}

impl std::fmt::Debug for Messages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut debug = f.debug_struct("Messages");
        debug.field("nodes", &self.nodes).finish_non_exhaustive()
    }
}

impl Messages {
    /// Returns the channel of this name; `None` for an engine without messages.
    ///
    /// # Errors
    /// [`Error::Setting`] for TLS settings that cannot be used.
    pub(crate) fn open(
        engine: &EngineSettings,
        cache: &Settings,
        channel: String,
    ) -> Result<Option<Self>, Error> {
        let is_cluster = match engine.kind {
            EngineKind::RedisCluster => true,
            EngineKind::Redis => false,
            EngineKind::Memcached => return Ok(None),
        };
        let patient = Settings {
            connect: cache.connect.max(WITHIN),
            whole: cache.whole.max(WITHIN),
            ..cache.clone()
        };
        let buffers = Buffers::for_blocks(cache.block.0);
        Ok(Some(Self {
            dialer: Dialer::new(Redis::new(engine, false), engine, &patient, &buffers)?,
            nodes: engine.nodes.clone(),
            is_cluster,
            channel,
        }))
    }

    /// Sends a message to all clients that listen. Nodes that do not know each other all get it; an error is that of the
    /// last one that did not.
    pub(crate) async fn publish(&self, message: &[u8]) -> Result<(), RemoteError> {
        let mut outcome = Err(RemoteError::Deadline);
        let mut failed = None;
        for node in &self.nodes {
            match timeout(WITHIN, self.publish_at(node, message)).await {
                Ok(Ok(())) if self.is_cluster => return Ok(()),
                Ok(Ok(())) => outcome = Ok(()),
                Ok(Err(why)) => failed = Some(why),
                Err(_) => failed = Some(RemoteError::Deadline),
            }
        }
        failed.map_or(outcome, Err)
    }

    async fn publish_at(&self, node: &Address, message: &[u8]) -> Result<(), RemoteError> {
        let mut connection = self.dialer.dial(node).await?;
        let command: [&[u8]; 3] = [b"PUBLISH", self.channel.as_bytes(), message];
        match protocol::ask(&mut connection, &command).await? {
            RespReply::Number(_) => Ok(()),
            RespReply::Error(why) => Err(RemoteError::Refused(why)),
            _ => Err(RemoteError::Garbage("PUBLISH is not answered by a number")),
        }
    }

    /// Listens at all nodes, in tasks that end when the receiver is dropped. Connections that end are made anew; messages
    /// in between are missed.
    pub(crate) fn listen(self: Arc<Self>, heard: mpsc::Sender<Heard>) {
        for node in self.nodes.clone() {
            let (messages, heard) = (Arc::clone(&self), heard.clone());
            tokio::spawn(async move {
                while !heard.is_closed() {
                    let listened = messages.listen_at(&node, &heard);
                    tokio::select! {
                        // Whatever ended it, it is tried again.
                        _ = listened => {}
                        () = heard.closed() => return,
                    }
                    sleep(AGAIN).await;
                }
            });
        }
    }

    async fn listen_at(
        &self,
        node: &Address,
        heard: &mpsc::Sender<Heard>,
    ) -> Result<(), RemoteError> {
        let mut connection = self.dialer.dial(node).await?;
        send(&mut connection, &[b"SUBSCRIBE", self.channel.as_bytes()]).await?;
        let mut is_asked = true;
        loop {
            // Reading a reply can be given up at any time: its bytes stay in the buffer.
            let within = if is_asked { WITHIN } else { PING_EVERY };
            let Ok(reply) = timeout(within, connection.reply(None)).await else {
                if is_asked {
                    return Err(RemoteError::Deadline);
                }
                send(&mut connection, &[b"PING"]).await?;
                is_asked = true;
                continue;
            };
            is_asked = false;
            let heard_now = match reply? {
                RespReply::Error(why) => return Err(RemoteError::Refused(why)),
                RespReply::List(members) => match members.as_slice() {
                    [
                        RespReply::Value(Some(kind)),
                        _,
                        RespReply::Value(Some(message)),
                    ] if kind.as_ref() == b"message" => Heard::Message(message.clone()),
                    [RespReply::Value(Some(kind)), ..] if kind.as_ref() == b"subscribe" => {
                        Heard::Listening
                    }
                    _ => continue,
                },
                _ => continue,
            };
            if heard.send(heard_now).await.is_err() {
                return Ok(());
            }
        }
    }
}

/// An event of a listener.
#[derive(Debug)]
pub(crate) enum Heard {
    /// A node has accepted the subscription.
    Listening,
    Message(Bytes),
}

async fn send(connection: &mut Connection<Redis>, arguments: &[&[u8]]) -> Result<(), RemoteError> {
    let mut bytes = Vec::with_capacity(64);
    resp::command(&mut bytes, arguments, None);
    connection.send(Bytes::from(bytes)).await
}
