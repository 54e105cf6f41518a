//! Stores of blocks that machines share: the engines, and the choice of one by its settings.

mod engine;
mod key_names;
mod memcached;
mod redis;
mod rendezvous;
mod secret;
mod spec;
mod wire;
mod zone;

use std::sync::Arc;

pub use engine::{NodeId, RemoteEngine, RemoteError, Renewal};
pub(crate) use redis::{Heard, Messages, ask_blocking, fuzz as fuzz_resp, slot_of};
pub use redis::{TenantBlocks, TrimOptions, trim};
pub use secret::Secret;
pub use spec::{Address, Credentials, EngineKind, EngineSettings, TlsSettings};
pub(crate) use wire::Buffers;
pub use zone::ZoneMap;

use crate::{Error, Settings};
use memcached::Memcached;
use redis::{RedisCluster, SingleRedis};
use rendezvous::Rendezvous;

/// Opens an engine.
pub(crate) async fn open(
    engine: &EngineSettings,
    cache: &Settings,
    buffers: &Arc<Buffers>,
) -> Result<Arc<dyn RemoteEngine>, Error> {
    if engine.kind == EngineKind::Memcached && engine.credentials.is_some() {
        return Err(Error::Engine {
            engine: engine.to_string(),
            why:
                "memcached is asked without user and password here; keep its port to those who may \
                  read, or use TLS or Redis"
                    .to_owned(),
        });
    }
    if engine.kind != EngineKind::RedisCluster && cache.zone.is_some() {
        return Err(Error::Setting {
            setting: "zone",
            why: format!(
                "{}:// has no replicas to choose from: use redis-cluster://, or no zone",
                engine.kind.scheme()
            ),
        });
    }
    Ok(match engine.kind {
        EngineKind::RedisCluster => Arc::new(RedisCluster::open(engine, cache, buffers).await?),
        EngineKind::Redis => {
            Arc::new(Rendezvous::<SingleRedis>::open(engine, cache, buffers).await?)
        }
        EngineKind::Memcached => {
            Arc::new(Rendezvous::<Memcached>::open(engine, cache, buffers).await?)
        }
    })
}
