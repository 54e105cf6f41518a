//! Redis and Valkey: a thin client of the few commands that a cache of blocks needs.
//!
//! Why not the crate `redis`: docs/tier.md has the measurement. In short, its cluster client shares a
//! connection between all requests, so that a reply that nobody waits for any more comes in before
//! those that are waited for, and it moves a fraction of the bytes.

mod cluster;
mod protocol;
mod resp;
mod single;
mod slot;
mod topology;

pub(super) use cluster::RedisCluster;
pub(super) use single::SingleRedis;
