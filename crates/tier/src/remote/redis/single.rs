//! [`SingleRedis`]: the conversation with Redis nodes that do not know each other.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;

use super::protocol::{self, Before, Redis, hopeless};
use super::resp::RespReply;
use crate::block::StoredBlock;
use crate::policy::Started;
use crate::remote::rendezvous::Speaks;
use crate::remote::wire::{Connection, Pool};
use crate::remote::{EngineSettings, RemoteError, Renewal};

/// How Redis nodes that do not know each other are spoken to.
#[derive(Debug)]
pub(in crate::remote) struct SingleRedis;

impl Speaks for SingleRedis {
    type Protocol = Redis;

    fn protocol(settings: &EngineSettings) -> Redis {
        Redis::new(settings, false)
    }

    fn misfit<'a>(connection: &'a mut Connection<Redis>) -> BoxFuture<'a, Option<&'static str>> {
        Box::pin(async move {
            // A node without a cluster answers with an error, and so does one where this user may not ask.
            match protocol::ask(connection, &[b"CLUSTER", b"INFO"]).await {
                Ok(RespReply::Value(Some(info))) if protocol::is_of_many(&info) => Some(
                    "it is a node of a cluster, and has a part of the blocks alone: name it as redis-cluster://HOST:PORT,...",
                ),
                _ => None,
            }
        })
    }

    fn get<'a>(
        pool: &'a Arc<Pool<Redis>>,
        name: &'a str,
        expected: usize,
        started: &'a Started,
    ) -> BoxFuture<'a, Result<Option<Bytes>, RemoteError>> {
        Box::pin(async move {
            let reply = protocol::get(pool, name.as_bytes(), Before::Nothing, expected, started);
            match accepted(reply.await?)? {
                RespReply::Value(value) => Ok(value),
                _ => Err(RemoteError::Garbage("GET is not answered by a value")),
            }
        })
    }

    fn put<'a>(
        pool: &'a Arc<Pool<Redis>>,
        name: &'a str,
        block: &'a StoredBlock,
    ) -> BoxFuture<'a, Result<(), RemoteError>> {
        Box::pin(async move {
            let reply = protocol::set(pool, name.as_bytes(), Before::Nothing, block);
            match accepted(reply.await?)? {
                RespReply::Status(_) => Ok(()),
                _ => Err(RemoteError::Garbage("SET is not answered by OK")),
            }
        })
    }

    fn lease<'a>(
        pool: &'a Arc<Pool<Redis>>,
        name: &'a str,
        holder: &'a str,
        time: Duration,
    ) -> BoxFuture<'a, Result<bool, RemoteError>> {
        Box::pin(async move {
            let reply = protocol::lease(pool, name.as_bytes(), Before::Nothing, holder, time);
            protocol::is_taken(&accepted(reply.await?)?)
        })
    }

    fn renew<'a>(
        pool: &'a Arc<Pool<Redis>>,
        name: &'a str,
        holder: &'a str,
        time: Duration,
    ) -> BoxFuture<'a, Result<Renewal, RemoteError>> {
        Box::pin(async move {
            let reply = protocol::renew(pool, name.as_bytes(), Before::Nothing, holder, time);
            protocol::renewal(&accepted(reply.await?)?, holder)
        })
    }

    fn end<'a>(
        pool: &'a Arc<Pool<Redis>>,
        name: &'a str,
    ) -> BoxFuture<'a, Result<bool, RemoteError>> {
        Box::pin(async move {
            let reply = protocol::end(pool, name.as_bytes(), Before::Nothing);
            protocol::was_there(&accepted(reply.await?)?)
        })
    }

    fn advice(refused: &str) -> Option<&'static str> {
        hopeless(refused)
    }
}

/// Returns a reply that is no refusal.
fn accepted(reply: RespReply) -> Result<RespReply, RemoteError> {
    match reply {
        RespReply::Error(why) => Err(protocol::refused(why)),
        reply => Ok(reply),
    }
}
