//! A real Redis Cluster on this machine, for tests and experiments.
//!
//! [`DevCluster`] starts `redis-server` processes from the system's package on free loopback ports, joins them into a
//! cluster and stops them when it is dropped. If this process ends without dropping it, by `kill -9` for example, the
//! kernel kills the servers, and a temporary directory remains.
//!
//! It is *not* for production: all nodes share one machine, keep no data across restarts and have no password.
//!
//! ```no_run
//! use cachewise_tier::dev_cluster::{DevCluster, DevClusterOptions};
//!
//! let cluster = DevCluster::start(&DevClusterOptions { replicas: 1, ..DevClusterOptions::default() })?;
//! println!("{}", cluster.address());
//! # Ok::<(), cachewise_tier::dev_cluster::DevClusterError>(())
//! ```
//!
//! # Layout
//! - this file: [`DevCluster`]; `options`: [`DevClusterOptions`]; `node`: [`DevNode`]
//! - `server`: one `redis-server` process; `keeper`: the thread that starts and kills them
//! - `directory`: the working directory and its lock; `until`: waiting with a deadline
//! - `wire`: one command, one reply; `form`: joining single nodes into a cluster
//! - `error`: [`DevClusterError`]

mod directory;
mod error;
mod form;
mod keeper;
mod node;
mod options;
mod server;
mod until;
mod wire;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Instant;

pub use error::DevClusterError;
use keeper::Keeper;
pub use node::{DevNode, Role};
pub use options::{DevClusterOptions, MOST_NODES, Topology};
use server::RedisServer;
use until::Until;

/// Maximum attempts with other ports.
const TRIES: u32 = 3;

/// Processes that were started; they are stopped when this is dropped.
#[derive(Debug)]
pub struct DevCluster {
    keeper: Keeper,
    nodes: Vec<DevNode>,
    topology: Topology,
    directory: PathBuf,
    /// Held so that no other cluster is started there.
    _lock: File,
    /// Removed last, if it is ours.
    _temporary: Option<tempfile::TempDir>,
}

impl DevCluster {
    /// Starts the processes and waits until the cluster answers and lists all its replicas for clients.
    ///
    /// # Errors
    /// A missing program, an unusable directory, or a cluster that is not complete in time. All
    /// processes are stopped then.
    ///
    /// # Cost
    /// Two seconds, which each node of Redis waits before it takes writes, and some more with replicas; seven for a hundred
    /// processes.
    pub fn start(options: &DevClusterOptions) -> Result<Self, DevClusterError> {
        Self::start_unless(options, &AtomicBool::new(false))
    }

    /// As [`start`](Self::start), but ends early with [`DevClusterError::Interrupted`] when the flag is raised.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_unless(
        options: &DevClusterOptions,
        interrupted: &AtomicBool,
    ) -> Result<Self, DevClusterError> {
        options.check()?;
        let until = Until {
            deadline: Instant::now() + options.patience,
            patience: options.patience,
            interrupted,
        };
        let mut tries = 0;
        loop {
            match Self::try_start(options, &until) {
                // A free port may be one that a node of another cluster had a moment ago: its peers
                // still speak to it, and tell the new node of their slots.
                Err(error) if options.port.is_none() && error.is_of_another() && tries < TRIES => {
                    tries += 1;
                }
                started => return started,
            }
        }
    }

    fn try_start(options: &DevClusterOptions, until: &Until) -> Result<Self, DevClusterError> {
        if let Some(first) = options.port {
            server::check_ports(first, options.nodes * (1 + options.replicas))?;
        }
        let (directory, temporary) = directory::directory(options)?;
        let lock = directory::lock(&directory)?;
        let keeper = Keeper::new()?;
        let mut cluster = Self {
            keeper,
            nodes: Vec::new(),
            topology: options.topology,
            directory,
            _lock: lock,
            _temporary: temporary,
        };
        let masters = options.nodes;
        let mut servers = Vec::new();
        for place in 0..masters * (1 + options.replicas) {
            let role = match place.checked_sub(masters) {
                None => Role::Master,
                Some(replica) => Role::ReplicaOf(replica % masters),
            };
            servers.push(cluster.add(options, role, until)?);
        }
        if options.topology == Topology::Cluster {
            let roles = cluster.nodes.iter().map(|node| node.role);
            let servers: Vec<_> = servers.into_iter().zip(roles).collect();
            form::form(&servers, options.node_timeout, until)?;
        }
        Ok(cluster)
    }

    fn add(
        &mut self,
        options: &DevClusterOptions,
        role: Role,
        until: &Until,
    ) -> Result<RedisServer, DevClusterError> {
        let directory = self
            .directory
            .join(format!("node-{}", self.nodes.len().saturating_add(1)));
        let port = match options.port {
            None => None,
            // Checked before anything was started.
            Some(first) => u16::try_from(self.nodes.len())
                .ok()
                .and_then(|place| first.checked_add(place)),
        };
        let server = RedisServer::start(&self.keeper, options, port, &directory, until)?;
        self.nodes.push(DevNode {
            address: server.address(),
            pid: server.pid,
            role,
        });
        Ok(server)
    }

    /// Returns all nodes, masters first.
    #[must_use]
    pub fn nodes(&self) -> &[DevNode] {
        &self.nodes
    }

    /// Returns the engine address for clients: `redis-cluster://127.0.0.1:P,127.0.0.1:Q,...` with
    /// every master; for single servers the same with `redis://`.
    #[must_use]
    pub fn address(&self) -> String {
        let masters = self.nodes.iter().filter(|node| node.role == Role::Master);
        let masters: Vec<String> = masters.map(|node| node.address.to_string()).collect();
        let scheme = match self.topology {
            Topology::Cluster => "redis-cluster",
            Topology::Standalone => "redis",
        };
        format!("{scheme}://{}", masters.join(","))
    }

    /// Returns where the processes live: each has a directory with its log.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the nodes that exited or were killed by another process, with the exit status. Each
    /// node is reported once.
    pub fn ended(&self) -> Vec<(DevNode, String)> {
        let ended = self.keeper.ended().into_iter();
        let known = ended.filter_map(|(pid, how)| {
            let node = self.nodes.iter().find(|node| node.pid == pid)?;
            Some((*node, how))
        });
        known.collect()
    }
}
