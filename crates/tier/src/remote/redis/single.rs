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
use crate::remote::wire::Pool;
use crate::remote::{EngineSettings, RemoteError, Renewal};

/// How Redis nodes that do not know each other are spoken to.
#[derive(Debug)]
pub(in crate::remote) struct SingleRedis;

impl Speaks for SingleRedis {
    type Protocol = Redis;

    fn protocol(settings: &EngineSettings) -> Redis {
        Redis::new(settings, false)
    }

    fn get<'a>(
        pool: &'a Arc<Pool<Redis>>,
        name: &'a str,
        expected: usize,
        started: &'a Started,
    ) -> BoxFuture<'a, Result<Option<Bytes>, RemoteError>> {
        Box::pin(async move {
            match protocol::get(pool, name.as_bytes(), Before::Nothing, expected, started).await? {
                RespReply::Value(value) => Ok(value),
                RespReply::Error(why) => Err(protocol::refused(why)),
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
            match protocol::set(pool, name.as_bytes(), Before::Nothing, block).await? {
                RespReply::Status(_) => Ok(()),
                RespReply::Error(why) => Err(protocol::refused(why)),
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
            match protocol::lease(pool, name.as_bytes(), Before::Nothing, holder, time).await? {
                RespReply::Error(why) => Err(protocol::refused(why)),
                reply => protocol::is_taken(&reply),
            }
        })
    }

    fn renew<'a>(
        pool: &'a Arc<Pool<Redis>>,
        name: &'a str,
        holder: &'a str,
        time: Duration,
    ) -> BoxFuture<'a, Result<Renewal, RemoteError>> {
        Box::pin(async move {
            match protocol::renew(pool, name.as_bytes(), Before::Nothing, holder, time).await? {
                RespReply::Error(why) => Err(protocol::refused(why)),
                reply => protocol::renewal(&reply, holder),
            }
        })
    }

    fn end<'a>(
        pool: &'a Arc<Pool<Redis>>,
        name: &'a str,
    ) -> BoxFuture<'a, Result<(), RemoteError>> {
        Box::pin(async move {
            match protocol::end(pool, name.as_bytes(), Before::Nothing).await? {
                RespReply::Error(why) => Err(protocol::refused(why)),
                _ => Ok(()),
            }
        })
    }

    fn advice(refused: &str) -> Option<&'static str> {
        hopeless(refused)
    }
}
