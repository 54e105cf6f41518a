//! [`Redis`]: the commands of Redis that a cache of blocks needs.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes};
use futures_util::future::BoxFuture;

use super::resp::{self, RespReply};
use crate::block::StoredBlock;
use crate::policy::Started;
use crate::remote::wire::{Connection, Frame, Pool, Protocol, exchange};
use crate::remote::{Credentials, EngineSettings, RemoteError, Renewal};

/// The protocol of Redis, with the credentials of this client.
pub(in crate::remote) struct Redis {
    credentials: Option<Credentials>,
    /// Whether replicas are to answer, which they do only when asked to.
    of_cluster: bool,
}

/// A command that precedes the actual one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Before {
    /// Nothing.
    Nothing,
    /// `ASKING`: the slot is on its way to this node.
    Asking,
}

impl Redis {
    pub(super) fn new(settings: &EngineSettings, of_cluster: bool) -> Self {
        Self {
            credentials: settings.credentials.clone(),
            of_cluster,
        }
    }
}

impl Protocol for Redis {
    type Reply = RespReply;

    fn measure(buffer: &[u8], longest: usize) -> Result<Frame, RemoteError> {
        resp::measure(buffer, longest)
    }

    fn reply(frame: Bytes) -> Result<RespReply, RemoteError> {
        resp::whole(&frame)
    }

    fn greet<'a>(
        &'a self,
        connection: &'a mut Connection<Self>,
    ) -> BoxFuture<'a, Result<(), RemoteError>> {
        Box::pin(async move {
            let mut bytes = Vec::new();
            if let Some(Credentials { user, password }) = &self.credentials {
                let password = password.reveal().as_bytes();
                match user {
                    Some(user) => {
                        resp::command(&mut bytes, &[b"AUTH", user.as_bytes(), password], None);
                    }
                    None => resp::command(&mut bytes, &[b"AUTH", password], None),
                }
            }
            let first: &[u8] = if self.of_cluster {
                b"READONLY"
            } else {
                b"PING"
            };
            resp::command(&mut bytes, &[first], None);
            connection.send(Bytes::from(bytes)).await?;
            if self.credentials.is_some()
                && let RespReply::Error(why) = connection.reply(None).await?
            {
                // The code alone: some servers repeat what they were sent.
                let code = code_of(&why);
                return Err(RemoteError::Refused(format!("{code} to user and password")));
            }
            match connection.reply(None).await? {
                RespReply::Error(why) => Err(RemoteError::Refused(why)),
                _ => Ok(()),
            }
        })
    }
}

/// Returns the word by which Redis names an error.
pub(super) fn code_of(error: &str) -> &str {
    error.split_whitespace().next().unwrap_or("an error")
}

/// Makes an error of a node's answer: of the value, where that has another type than blocks have, else of the node.
pub(super) fn refused(said: String) -> RemoteError {
    match code_of(&said) {
        "WRONGTYPE" => RemoteError::Damaged(said),
        _ => RemoteError::Refused(said),
    }
}

/// Returns what to do about an answer after which waiting does not help.
pub(super) fn hopeless(said: &str) -> Option<&'static str> {
    let said_of = |words: &str| said.contains(words);
    if let Some(advice) = login(said) {
        Some(advice)
    } else if said_of("NOPERM") {
        Some("this user needs +get +set +asking +readonly +cluster|slots, and ~cw:* of the keys")
    } else if said_of("cluster support disabled") {
        Some("it is no cluster: name single nodes as redis://HOST:PORT,...")
    } else {
        None
    }
}

/// Returns what to do about an answer that refuses the user or the password.
pub(super) fn login(said: &str) -> Option<&'static str> {
    if said.contains("WRONGPASS") || said.contains("user and password") {
        Some("check user and password")
    } else if said.contains("NOAUTH") {
        Some(
            "it wants a password: set CACHEWISE_TIER_ENGINE_PASSWORD, or add --engine-password-file FILE",
        )
    } else {
        None
    }
}

/// Sends a command and waits for its reply.
pub(super) async fn ask(
    connection: &mut Connection<Redis>,
    arguments: &[&[u8]],
) -> Result<RespReply, RemoteError> {
    let mut bytes = Vec::with_capacity(64);
    resp::command(&mut bytes, arguments, None);
    connection.send(Bytes::from(bytes)).await?;
    connection.reply(None).await
}

/// Says whether the reply to CLUSTER INFO is of a node that does not have all slots.
pub(super) fn is_of_many(info: &[u8]) -> bool {
    let info = String::from_utf8_lossy(info);
    let size = info
        .lines()
        .find_map(|line| line.strip_prefix("cluster_size:"));
    size.is_some_and(|size| size.trim().parse::<u32>().is_ok_and(|size| size > 1))
}

/// Asks a node for a value. `expected` is how long it will be.
pub(super) async fn get(
    pool: &Arc<Pool<Redis>>,
    name: &[u8],
    before: Before,
    expected: usize,
    started: &Started,
) -> Result<RespReply, RemoteError> {
    let mut bytes = Vec::with_capacity(96);
    let replies = asking(&mut bytes, before);
    resp::command(&mut bytes, &[b"GET", name], None);
    let bytes = Bytes::from(bytes);
    exchange(pool, || bytes.clone(), replies, expected, Some(started)).await
}

/// Brings a block to a node.
pub(super) async fn set(
    pool: &Arc<Pool<Redis>>,
    name: &[u8],
    before: Before,
    block: &StoredBlock,
) -> Result<RespReply, RemoteError> {
    let mut head = Vec::with_capacity(128);
    let replies = asking(&mut head, before);
    let time = block.kept_for().map(milliseconds);
    let count = if time.is_some() { 5 } else { 3 };
    resp::begin(&mut head, count, &[b"SET", name]);
    head.extend_from_slice(format!("${}\r\n", block.total_len()).as_bytes());
    head.extend_from_slice(block.head());
    let head = Bytes::from(head);
    let mut end = b"\r\n".to_vec();
    if let Some(time) = time {
        resp::go_on(&mut end, &[b"PX", time.as_bytes()]);
    }
    let end = Bytes::from(end);
    let command = || head.clone().chain(block.body().clone()).chain(end.clone());
    exchange(pool, command, replies, 0, None).await
}

/// Takes a lease, unless another client has it.
pub(super) async fn lease(
    pool: &Arc<Pool<Redis>>,
    name: &[u8],
    before: Before,
    holder: &str,
    time: Duration,
) -> Result<RespReply, RemoteError> {
    let (holder, time) = (holder.as_bytes(), milliseconds(time));
    let arguments: [&[u8]; 6] = [b"SET", name, holder, b"NX", b"PX", time.as_bytes()];
    short(pool, before, &arguments).await
}

/// Renews a lease, with the one command that a user of a cache may always use (Redis 6.2). The reply names the holder of
/// before.
pub(super) async fn renew(
    pool: &Arc<Pool<Redis>>,
    name: &[u8],
    before: Before,
    holder: &str,
    time: Duration,
) -> Result<RespReply, RemoteError> {
    let (holder, time) = (holder.as_bytes(), milliseconds(time));
    let arguments: [&[u8]; 7] = [b"SET", name, holder, b"XX", b"GET", b"PX", time.as_bytes()];
    short(pool, before, &arguments).await
}

fn milliseconds(time: Duration) -> String {
    time.as_millis().max(1).to_string()
}

/// Ends a lease or a block, with the one command that a user of a cache may always use.
pub(super) async fn end(
    pool: &Arc<Pool<Redis>>,
    name: &[u8],
    before: Before,
) -> Result<RespReply, RemoteError> {
    short(pool, before, &[b"SET", name, b"0", b"XX", b"PX", b"1"]).await
}

/// Sends a command without a block.
async fn short(
    pool: &Arc<Pool<Redis>>,
    before: Before,
    arguments: &[&[u8]],
) -> Result<RespReply, RemoteError> {
    let mut bytes = Vec::with_capacity(160);
    let replies = asking(&mut bytes, before);
    resp::command(&mut bytes, arguments, None);
    let bytes = Bytes::from(bytes);
    exchange(pool, || bytes.clone(), replies, 0, None).await
}

/// Returns whether a lease was taken.
pub(super) fn is_taken(reply: &RespReply) -> Result<bool, RemoteError> {
    was_set(reply).ok_or(RemoteError::Garbage(
        "SET NX is answered by neither OK nor nothing",
    ))
}

/// Returns whether a key that was ended was there.
pub(super) fn was_there(reply: &RespReply) -> Result<bool, RemoteError> {
    was_set(reply).ok_or(RemoteError::Garbage(
        "SET XX is answered by neither OK nor nothing",
    ))
}

/// Returns whether the condition of a SET was met.
fn was_set(reply: &RespReply) -> Option<bool> {
    match reply {
        RespReply::Status(_) => Some(true),
        RespReply::Value(None) => Some(false),
        _ => None,
    }
}

/// Returns the outcome of a renewal.
pub(super) fn renewal(reply: &RespReply, holder: &str) -> Result<Renewal, RemoteError> {
    match reply {
        RespReply::Value(Some(before)) if before == holder.as_bytes() => Ok(Renewal::Renewed),
        RespReply::Value(Some(_)) => Ok(Renewal::Other),
        RespReply::Value(None) => Ok(Renewal::Ended),
        _ => Err(RemoteError::Garbage(
            "SET XX GET is answered by neither a value nor nothing",
        )),
    }
}

/// Writes what comes before, and returns how many replies there are to it.
fn asking(into: &mut Vec<u8>, before: Before) -> usize {
    match before {
        Before::Nothing => 0,
        Before::Asking => {
            resp::command(into, &[b"ASKING"], None);
            1
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renewal_tells_the_lease_of_another_client() {
        let value = |value: &'static [u8]| RespReply::Value(Some(Bytes::from_static(value)));
        for (reply, expected) in [
            (value(b"me"), Renewal::Renewed),
            (value(b"another"), Renewal::Other),
            (RespReply::Value(None), Renewal::Ended),
        ] {
            assert_eq!(renewal(&reply, "me").ok(), Some(expected));
        }
        assert!(renewal(&RespReply::Status("OK".into()), "me").is_err());
    }
}
