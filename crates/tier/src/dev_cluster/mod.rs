//! A real Redis Cluster on this machine, to try things on and to test with.
//!
//! [`DevCluster`] starts `redis-server` processes of the system's package, on loopback and on ports that are free,
//! forms a cluster of them and stops them when it is dropped. They are killed by the kernel when this process ends
//! without that, `kill -9` included.
//!
//! It is *not* for production: everything is on one machine, nothing is kept, there is no password.
//!
//! ```no_run
//! use cachewise_tier::dev_cluster::{DevCluster, Options};
//!
//! let cluster = DevCluster::start(&Options { replicas: 1, ..Options::default() })?;
//! println!("{}", cluster.address());
//! # Ok::<(), cachewise_tier::dev_cluster::Error>(())
//! ```
//!
//! # Layout
//! - this file: [`DevCluster`], [`Options`], [`Node`]
//! - `server`: one `redis-server` process; `keeper`: the thread that starts them and outlives them
//! - `wire`: one command, one reply; `form`: from single nodes to a cluster
//! - `error`: [`Error`]

mod error;
mod form;
mod keeper;
mod server;
mod wire;

use std::fs::{self, File};
use std::io;
use std::net::SocketAddrV4;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cachewise_units::Bytes;
use rustix::fs::{FlockOperation, flock};

pub use error::Error;
use keeper::Keeper;
use server::Server;

/// The most nodes, replicas included: a cluster's gossip goes between all pairs.
pub const MOST_NODES: usize = 100;

/// How often other ports are tried.
const TRIES: u32 = 3;

/// What to start.
#[derive(Debug, Clone)]
pub struct Options {
    /// How many masters, from 1 on; a cluster that survives the loss of one has 3.
    pub nodes: usize,
    /// How many replicas each of them has.
    pub replicas: usize,
    /// One cluster, or nodes that know nothing of each other.
    pub topology: Topology,
    /// Where they live; a temporary directory that is removed at the end if `None`.
    pub directory: Option<PathBuf>,
    /// The port of the first node, the next one for the second and so on; free ones if `None`.
    pub port: Option<u16>,
    /// The most memory for values, of each process.
    pub memory: Bytes,
    /// After how long without an answer nodes take one of them for failed.
    pub node_timeout: Duration,
    /// The server; looked for in PATH unless it has a slash.
    pub program: PathBuf,
    /// How long to wait at most until the cluster is whole.
    pub patience: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            nodes: 5,
            replicas: 0,
            topology: Topology::Cluster,
            directory: None,
            port: None,
            memory: Bytes(256 << 20),
            // Redis's own: failing over sooner is a cluster's setting that clients should not depend on.
            node_timeout: Duration::from_secs(15),
            program: PathBuf::from("redis-server"),
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

/// What a node is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Serves a range of slots, or stands alone.
    Master,
    /// Copies the master of this place in [`DevCluster::nodes`].
    ReplicaOf(usize),
}

/// One process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Node {
    /// Where it listens.
    pub address: SocketAddrV4,
    /// Its process, for those who stop or kill it on purpose.
    pub pid: u32,
    /// What it was started as; a failover may have changed that.
    pub role: Role,
}

/// Processes that were started; they are stopped when this is dropped.
#[derive(Debug)]
pub struct DevCluster {
    keeper: Keeper,
    nodes: Vec<Node>,
    topology: Topology,
    directory: PathBuf,
    /// Held so that no other cluster is started there.
    _lock: File,
    /// Removed last, if it is ours.
    _temporary: Option<tempfile::TempDir>,
}

impl DevCluster {
    /// Starts the processes and waits until the cluster answers and has all its replicas.
    ///
    /// # Errors
    /// No such program, a directory that cannot be used, or a cluster that is not whole in time; then everything is
    /// stopped again.
    ///
    /// # Cost
    /// Two seconds, which each node of Redis waits before it takes writes; seven for a hundred processes.
    pub fn start(options: &Options) -> Result<Self, Error> {
        Self::start_unless(options, &AtomicBool::new(false))
    }

    /// As [`start`](Self::start), but ends early with [`Error::Interrupted`] when the flag is raised.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_unless(options: &Options, interrupted: &AtomicBool) -> Result<Self, Error> {
        check(options)?;
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

    fn try_start(options: &Options, until: &Until) -> Result<Self, Error> {
        let (directory, temporary) = directory(options)?;
        let lock = lock(&directory)?;
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

    fn add(&mut self, options: &Options, role: Role, until: &Until) -> Result<Server, Error> {
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
        let server = Server::start(&self.keeper, options, port, &directory, until)?;
        self.nodes.push(Node {
            address: server.address(),
            pid: server.pid,
            role,
        });
        Ok(server)
    }

    /// Returns all nodes, masters first.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Returns what a client is told: `redis-cluster://127.0.0.1:P,127.0.0.1:Q,...`, every master; for single servers
    /// the same with `redis://`.
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

    /// Returns the nodes that ended by themselves or by somebody else's hand, and how; each is told once.
    pub fn ended(&self) -> Vec<(Node, String)> {
        let ended = self.keeper.ended().into_iter();
        let known = ended.filter_map(|(pid, how)| {
            let node = self.nodes.iter().find(|node| node.pid == pid)?;
            Some((*node, how))
        });
        known.collect()
    }
}

/// Until when to wait for something.
struct Until<'a> {
    deadline: Instant,
    patience: Duration,
    interrupted: &'a AtomicBool,
}

impl Until<'_> {
    /// Looks every few milliseconds until there is something.
    fn there<T>(
        &self,
        what: &str,
        mut look: impl FnMut() -> Result<Option<T>, Error>,
    ) -> Result<T, Error> {
        loop {
            if let Some(found) = look()? {
                return Ok(found);
            }
            if self.interrupted.load(Ordering::Acquire) {
                return Err(Error::Interrupted);
            }
            if Instant::now() >= self.deadline {
                return Err(Error::Late {
                    what: what.to_owned(),
                    patience: self.patience,
                });
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn check(options: &Options) -> Result<(), Error> {
    let invalid = |problem: String| Err(Error::Invalid { problem });
    let each = options.replicas.saturating_add(1);
    match options.nodes.checked_mul(each) {
        Some(1..=MOST_NODES) => {}
        _ => {
            return invalid(format!(
                "{} nodes with {} replicas each cannot be: from 1 to {MOST_NODES} processes in all",
                options.nodes, options.replicas
            ));
        }
    }
    if let Some(first) = options.port {
        let last = usize::from(first).saturating_add(options.nodes.saturating_mul(each));
        if first == 0 || last > usize::from(u16::MAX) {
            return invalid(format!(
                "no ports for all nodes from {first} on: the first is from 1 to 65000"
            ));
        }
    }
    if options.topology == Topology::Standalone && options.replicas > 0 {
        return invalid("single servers have no replicas: clients write twice".into());
    }
    Ok(())
}

/// The directory to live in; the second is removed with the cluster.
fn directory(options: &Options) -> Result<(PathBuf, Option<tempfile::TempDir>), Error> {
    let Some(asked) = &options.directory else {
        let made = tempfile::Builder::new()
            .prefix("cachewise-dev-cluster-")
            .tempdir()
            .map_err(|source| Error::io("make a directory in", &std::env::temp_dir(), source))?;
        return Ok((made.path().to_owned(), Some(made)));
    };
    fs::create_dir_all(asked).map_err(|source| Error::io("make the directory", asked, source))?;
    // Absolute: servers change into theirs.
    let asked = fs::canonicalize(asked).map_err(|source| Error::io("open", asked, source))?;
    let entries = fs::read_dir(&asked).map_err(|source| Error::io("read", &asked, source))?;
    for entry in entries {
        let entry = entry.map_err(|source| Error::io("read", &asked, source))?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name != LOCK && !name.starts_with("node-") {
            return Err(Error::Invalid {
                problem: format!(
                    "{}: not empty, and not of an earlier dev-cluster ({name} is in it): name a new directory",
                    cachewise_units::escaped(&asked)
                ),
            });
        }
    }
    Ok((asked, None))
}

const LOCK: &str = "dev-cluster.lock";

/// Keeps others out of the directory, and removes what an earlier cluster left there.
fn lock(directory: &Path) -> Result<File, Error> {
    let path = directory.join(LOCK);
    let file = File::options().create(true).append(true).open(&path);
    let file = file.map_err(|source| Error::io("make", &path, source))?;
    flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|errno| match errno {
        rustix::io::Errno::WOULDBLOCK => Error::Invalid {
            problem: format!(
                "{}: another dev-cluster runs there: end it, or name another directory",
                cachewise_units::escaped(directory)
            ),
        },
        errno => Error::io("lock", &path, errno.into()),
    })?;
    let entries = fs::read_dir(directory).map_err(|source| Error::io("read", directory, source))?;
    for entry in entries {
        let entry = entry.map_err(|source| Error::io("read", directory, source))?;
        let path = entry.path();
        if !entry.file_name().to_string_lossy().starts_with("node-") {
            continue;
        }
        // Not what a link leads to.
        match fs::remove_dir_all(&path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                return Err(Error::io("remove an earlier", &path, source));
            }
            _ => {}
        }
    }
    Ok(file)
}
