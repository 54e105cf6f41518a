//! memcached 1.6, by its meta commands.

mod protocol;

use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes};
use futures_util::future::BoxFuture;

use self::protocol::MemcachedReply;
use super::rendezvous::Speaks;
use super::wire::{Connection, Frame, Pool, Protocol, exchange};
use super::{EngineSettings, RemoteError, Renewal};
use crate::block::StoredBlock;
use crate::policy::Started;

/// How memcached nodes are spoken to.
///
/// A node takes values of 1 MiB at most unless started with `-I`: blocks of that size are refused,
/// and counted as dropped.
#[derive(Debug)]
pub(super) struct Memcached;

impl Protocol for Memcached {
    type Reply = MemcachedReply;

    fn measure(buffer: &[u8], longest: usize) -> Result<Frame, RemoteError> {
        protocol::measure(buffer, longest)
    }

    fn reply(frame: Bytes) -> Result<MemcachedReply, RemoteError> {
        protocol::reply(&frame)
    }

    fn greet<'a>(
        &'a self,
        connection: &'a mut Connection<Self>,
    ) -> BoxFuture<'a, Result<(), RemoteError>> {
        Box::pin(async move {
            connection.send(Bytes::from_static(b"mn\r\n")).await?;
            match connection.reply(None).await? {
                MemcachedReply::Done => Ok(()),
                MemcachedReply::Error(why) => Err(RemoteError::Refused(why)),
                _ => Err(RemoteError::Garbage("mn is not answered by MN")),
            }
        })
    }
}

impl Speaks for Memcached {
    type Protocol = Self;

    fn protocol(_: &EngineSettings) -> Self {
        Self
    }

    fn get<'a>(
        pool: &'a Arc<Pool<Self>>,
        name: &'a str,
        expected: usize,
        started: &'a Started,
    ) -> BoxFuture<'a, Result<Option<Bytes>, RemoteError>> {
        Box::pin(async move {
            let command = Bytes::from(format!("mg {name} v\r\n"));
            match exchange(pool, || command.clone(), 0, expected, Some(started)).await? {
                MemcachedReply::Value(value) => Ok(Some(value)),
                MemcachedReply::Nothing => Ok(None),
                MemcachedReply::Error(why) => Err(RemoteError::Refused(why)),
                MemcachedReply::Done => Err(RemoteError::Garbage("mg is not answered by a value")),
            }
        })
    }

    fn put<'a>(
        pool: &'a Arc<Pool<Self>>,
        name: &'a str,
        block: &'a StoredBlock,
    ) -> BoxFuture<'a, Result<(), RemoteError>> {
        Box::pin(async move {
            let len = block.total_len();
            let head = match block.kept_for() {
                Some(time) => format!("ms {name} {len} T{}\r\n", seconds(time)),
                None => format!("ms {name} {len}\r\n"),
            };
            let mut head = head.into_bytes();
            head.extend_from_slice(block.head());
            let head = Bytes::from(head);
            let command = || {
                head.clone()
                    .chain(block.body().clone())
                    .chain(Bytes::from_static(b"\r\n"))
            };
            match exchange(pool, command, 0, 0, None).await? {
                MemcachedReply::Done => Ok(()),
                MemcachedReply::Error(why) => Err(RemoteError::Refused(why)),
                _ => Err(RemoteError::Garbage("ms is not answered by HD")),
            }
        })
    }

    fn lease<'a>(
        pool: &'a Arc<Pool<Self>>,
        name: &'a str,
        holder: &'a str,
        time: Duration,
    ) -> BoxFuture<'a, Result<bool, RemoteError>> {
        Box::pin(async move {
            let (len, seconds) = (holder.len(), seconds(time));
            let command = format!("ms {name} {len} T{seconds} ME\r\n{holder}\r\n");
            let command = Bytes::from(command);
            match exchange(pool, || command.clone(), 0, 0, None).await? {
                MemcachedReply::Done => Ok(true),
                MemcachedReply::Error(why) if why.starts_with("NS") => Ok(false),
                MemcachedReply::Error(why) => Err(RemoteError::Refused(why)),
                _ => Err(RemoteError::Garbage("ms is not answered by HD")),
            }
        })
    }

    fn renew<'a>(
        pool: &'a Arc<Pool<Self>>,
        name: &'a str,
        holder: &'a str,
        time: Duration,
    ) -> BoxFuture<'a, Result<Renewal, RemoteError>> {
        Box::pin(async move {
            let seconds = seconds(time);
            let command = Bytes::from(format!("mg {name} v T{seconds}\r\n"));
            match exchange(pool, || command.clone(), 0, 0, None).await? {
                MemcachedReply::Value(value) if value == holder.as_bytes() => Ok(Renewal::Renewed),
                MemcachedReply::Value(_) => Ok(Renewal::Other),
                MemcachedReply::Nothing => Ok(Renewal::Ended),
                MemcachedReply::Error(why) => Err(RemoteError::Refused(why)),
                MemcachedReply::Done => Err(RemoteError::Garbage("mg is not answered by a value")),
            }
        })
    }

    fn end<'a>(
        pool: &'a Arc<Pool<Self>>,
        name: &'a str,
    ) -> BoxFuture<'a, Result<bool, RemoteError>> {
        Box::pin(async move {
            let command = Bytes::from(format!("md {name}\r\n"));
            match exchange(pool, || command.clone(), 0, 0, None).await? {
                MemcachedReply::Done => Ok(true),
                MemcachedReply::Error(why) if why.starts_with("NF") => Ok(false),
                MemcachedReply::Error(why) => Err(RemoteError::Refused(why)),
                _ => Err(RemoteError::Garbage("md is not answered by HD")),
            }
        })
    }

    fn advice(_: &str) -> Option<&'static str> {
        None
    }
}

/// Returns the time of a lease or a copy in whole seconds. The clock of memcached ticks once a second, so the first one may be short.
fn seconds(time: Duration) -> u128 {
    time.as_millis().div_ceil(1_000) + 1
}
