//! Options of a development cluster: [`DevClusterOptions`].

use std::path::PathBuf;
use std::time::Duration;

use cachewise_units::Bytes;

use super::error::DevClusterError;

/// Maximum number of nodes, replicas included: every pair of nodes exchanges gossip.
pub const MOST_NODES: usize = 100;

/// Options of a cluster.
#[derive(Debug, Clone)]
pub struct DevClusterOptions {
    /// Number of masters, at least 1; a cluster needs 3 to survive the loss of one.
    pub nodes: usize,
    /// Number of replicas of each master.
    pub replicas: usize,
    /// One cluster, or independent nodes.
    pub topology: Topology,
    /// Directory of their files; `None` is a temporary directory, which is removed at the end, but for `kill -9`.
    pub dir: Option<PathBuf>,
    /// Port of the first node; the others use the next ports. `None` is free ports.
    pub port: Option<u16>,
    /// Maximum memory for values of each process.
    pub memory: Bytes,
    /// Time without a response after which the cluster marks a node as failed.
    pub node_timeout: Duration,
    /// Server program: a name in PATH, or a path with a slash.
    pub server: PathBuf,
    /// Time limit until the cluster is ready.
    pub patience: Duration,
}

impl Default for DevClusterOptions {
    fn default() -> Self {
        Self {
            nodes: 5,
            replicas: 0,
            topology: Topology::Cluster,
            dir: None,
            port: None,
            memory: Bytes(256 << 20),
            // The default of Redis: clients should not depend on a faster failover.
            node_timeout: Duration::from_secs(15),
            server: PathBuf::from("redis-server"),
            patience: Duration::from_secs(60),
        }
    }
}

/// Relation between nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Topology {
    /// A Redis Cluster: 16,384 slots, spread evenly.
    Cluster,
    /// Single servers, for clients that place keys themselves.
    Standalone,
}

impl DevClusterOptions {
    /// Refuses options that no cluster can have.
    pub(super) fn check(&self) -> Result<(), DevClusterError> {
        let invalid = |problem: String| Err(DevClusterError::Invalid { problem });
        let each = self.replicas.saturating_add(1);
        match self.nodes.checked_mul(each) {
            Some(1..=MOST_NODES) => {}
            _ => {
                return invalid(format!(
                    "{} nodes with {} replicas each are out of range: the total is from 1 to {MOST_NODES} processes",
                    self.nodes, self.replicas
                ));
            }
        }
        if let Some(first) = self.port {
            let last = usize::from(first).saturating_add(self.nodes.saturating_mul(each));
            if first == 0 || last > usize::from(u16::MAX) {
                return invalid(format!(
                    "no ports for all nodes from {first} on: use a first port from 1 to 65000"
                ));
            }
        }
        if self.topology == Topology::Standalone && self.replicas > 0 {
            return invalid(
                "independent servers have no replicas: clients write each block to two servers"
                    .into(),
            );
        }
        Ok(())
    }
}
