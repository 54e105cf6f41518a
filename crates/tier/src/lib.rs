//! A block cache for many machines: memory, then the local disk, then an engine that machines
//! share (Redis Cluster, Valkey), then the origin; filled on the way back.
//!
//! Blocks never change: their keys hold the origin's identity and the object's version, so a
//! changed origin is never served stale, and each block is checked when it comes from a disk or a
//! network. When a node is slow, a read still ends in bounded time.
//!
//! It is *not* a file system (the mount is built on it) and writes nothing to the origin, ever.
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! use std::path::Path;
//! use std::sync::Arc;
//!
//! use cachewise_tier::{BlockCache, Directory, Settings};
//! use cachewise_units::ByteRange;
//!
//! # let root = tempfile::tempdir()?;
//! # std::fs::write(root.path().join("block.bin"), b"some bytes")?;
//! # let root = root.path();
//! let origin = Arc::new(Directory::open(root)?);
//! let cache = BlockCache::open(Settings::default(), origin).await?;
//! let file = cache.stat(Path::new("block.bin")).await?;
//! let bytes = cache.get(&file, ByteRange { start: 5, len: 100 }).await?;
//! assert_eq!(bytes.as_ref(), b"bytes");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Layout
//! - `cache`: [`BlockCache`], [`File`]: a read through the tiers; `flight`: one fetch shared by all waiting reads; `turn`: one read of the origin by all machines.
//! - `key`: [`BlockKey`]; `block`: a block and its check sum; `block_name`: its key and the hash that its bytes must have; `engine_key`: [`EngineKey`]; `seal`: plain and sealed blocks in an engine.
//! - `origin`: [`Origin`], [`Meta`], [`Version`]; [`Directory`], [`Http`], [`S3`].
//! - `bulkhead`, `origin_breaker`, `origin_limit`: how many requests the origin gets, and which of them fail at once.
//! - `local`: memory and disk.
//! - [`remote`]: [`remote::RemoteEngine`], and the engines.
//! - `policy`: deadlines, hedges, circuit breakers, limits on blocks in flight.
//! - `drops`: paths that all machines are to forget; `os_bytes`: paths from other machines.
//! - `counters`: [`Table`], what `tier stat` shows.
//! - [`dev_cluster`]: a real Redis Cluster on this machine, for tests and experiments.
//! - `settings`: [`Settings`], and [`SETTINGS`], the table of names, units, defaults and help; `setting_value`: values as
//!   text; `named`: [`SettingsBuilder`], settings by name; `error`: [`Error`].
//! - `tree`: [`Tree`], files below directories; `warm`: [`BlockCache::warm`].
//! - [`published`]: versions of a directory that never change, under a signature.
//! - [`mount`]: an origin as a directory.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]
#![forbid(unsafe_code)]

mod block;
mod block_name;
mod bulkhead;
mod cache;
mod counters;
mod deadline;
pub mod dev_cluster;
mod drops;
mod engine_key;
mod error;
mod flight;
#[doc(hidden)]
pub mod fuzzing;
mod key;
mod local;
pub mod mount;
mod named;
mod origin;
mod origin_breaker;
mod origin_limit;
mod os_bytes;
mod policy;
pub mod published;
pub mod remote;
mod runtime;
mod seal;
mod search;
mod secret_file;
mod setting_value;
mod settings;
#[doc(hidden)]
pub mod simulation;
mod tls;
mod tree;
mod turn;
mod warm;
mod within;

pub use block::{Block, StoredBlock};
pub use cache::{BlockCache, File, Held, worker_threads};
pub use counters::{BreakerState, Latency, NodeRow, Table, Tier, TierRow, Totals};
pub use engine_key::EngineKey;
pub use error::{Error, ErrorKind};
pub use key::BlockKey;
pub use origin::{
    Directory, DirectoryOptions, Entry, Http, Kind, Meta, NetworkOptions, Origin, Room, S3,
    Subtree, SubtreeList, Version,
};
pub use policy::Started;
pub use runtime::runtime;
pub use settings::{LONGEST_READ, SETTINGS, Setting, Settings, SettingsBuilder};
pub use tree::Tree;
pub use warm::{WarmFrom, Warmed};
