//! A block cache for many machines.
//!
//! # Layout
//! - `dev_cluster`: [`DevCluster`], a real Redis Cluster on this machine, to try things on.

#![forbid(unsafe_code)]

pub mod dev_cluster;
