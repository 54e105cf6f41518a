//! Redis and Valkey: a thin client of the six commands that a cache of blocks needs.
//!
//! Why not the crate `redis`: see docs/tier.md, which has the measurement. In short, its cluster client
//! shares a connection between all requests, so that a reply that nobody waits for any more comes in
//! before those that are waited for, and it moves a fraction of the bytes.

mod cluster;
mod connection;
mod nodes;
mod pool;
mod resp;
mod slot;
mod topology;

pub(crate) use cluster::RedisCluster;
