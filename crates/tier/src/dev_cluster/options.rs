//! [`DevClusterOptions`]: what to start.

use std::path::PathBuf;
use std::time::Duration;

use cachewise_units::Bytes;

use super::error::DevClusterError;

/// The most nodes, replicas included: a cluster's gossip goes between all pairs.
pub const MOST_NODES: usize = 100;

/// Options of a cluster.
#[derive(Debug, Clone)]
pub struct DevClusterOptions {
    /// How many masters, from 1 on; a cluster that survives the loss of one has 3.
    pub nodes: usize,
    /// How many replicas each of them has.
    pub replicas: usize,
    /// One cluster, or nodes that know nothing of each other.
    pub topology: Topology,
    /// Where they live; a temporary directory that is removed at the end if `None`.
    pub dir: Option<PathBuf>,
    /// The port of the first node, the next one for the second and so on; free ones if `None`.
    pub port: Option<u16>,
    /// The most memory for values, of each process.
    pub memory: Bytes,
    /// After how long without an answer nodes take one of them for failed.
    pub node_timeout: Duration,
    /// The server; looked for in PATH unless it has a slash.
    pub server: PathBuf,
    /// How long to wait at most until the cluster is whole.
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
            // Redis's own: failing over sooner is a cluster's setting that clients should not depend on.
            node_timeout: Duration::from_secs(15),
            server: PathBuf::from("redis-server"),
            patience: Duration::from_secs(60),
        }
    }
}

/// How nodes stand to each other.
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
                    "{} nodes with {} replicas each cannot be: from 1 to {MOST_NODES} processes in all",
                    self.nodes, self.replicas
                ));
            }
        }
        if let Some(first) = self.port {
            let last = usize::from(first).saturating_add(self.nodes.saturating_mul(each));
            if first == 0 || last > usize::from(u16::MAX) {
                return invalid(format!(
                    "no ports for all nodes from {first} on: the first is from 1 to 65000"
                ));
            }
        }
        if self.topology == Topology::Standalone && self.replicas > 0 {
            return invalid("single servers have no replicas: clients write twice".into());
        }
        Ok(())
    }
}
