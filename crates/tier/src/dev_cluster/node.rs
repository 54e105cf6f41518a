//! [`DevNode`]: one process of the cluster, and its role.

use std::net::SocketAddrV4;

/// The role of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Serves a range of slots, or stands alone.
    Master,
    /// Copies the master of this place in [`DevCluster::nodes`](super::DevCluster::nodes).
    ReplicaOf(usize),
}

/// One process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DevNode {
    /// Address on which it listens.
    pub address: SocketAddrV4,
    /// Its process, for tests that stop or kill it.
    pub pid: u32,
    /// Its role at the start; a failover may have changed it.
    pub role: Role,
}
