//! `cachewise tier`, as typed.

use std::path::PathBuf;

use cachewise_units::{Bytes, Interval};
use clap::{Args, Subcommand};

use super::output::Output;

/// `cachewise tier`.
#[derive(Debug, Args)]
pub struct Tier {
    /// What of it.
    #[command(subcommand)]
    pub command: TierCommand,
}

/// What there is to do with a cache of many machines.
#[derive(Debug, Subcommand)]
pub enum TierCommand {
    /// Run a Redis Cluster of real servers on this machine, to try things on.
    DevCluster(DevCluster),
}

/// `cachewise tier dev-cluster`.
#[derive(Debug, Args)]
#[command(
    after_help = "Starts redis-server of the system's package on loopback, without a password, and forms a cluster of them. The first \
    line of the output is what --engine of `cachewise mount` and `cachewise tier` takes; it comes when the cluster is whole.\n\n\
    The servers are stopped at the end, after Ctrl-C and SIGTERM, and by the kernel after kill -9. Nothing is kept.\n\n\
    Exit status: 0 the time is over; 2 it cannot be done; 128+N ended by signal N.\n\n\
    Examples:\n  \
    cachewise tier dev-cluster\n  \
    cachewise tier dev-cluster --nodes 5 --replicas 1 --port 7001"
)]
pub struct DevCluster {
    /// How many masters.
    #[arg(short, long, value_name = "NUMBER", default_value_t = 5)]
    pub nodes: usize,
    /// How many replicas each of them has.
    #[arg(short, long, value_name = "NUMBER", default_value_t = 0)]
    pub replicas: usize,
    /// Servers that know nothing of each other, instead of a cluster.
    #[arg(long)]
    pub standalone: bool,
    /// The first node's port, the next ones follow [default: free ones].
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,
    /// Where their files and logs go, which then stay [default: a temporary directory].
    #[arg(long, value_name = "DIRECTORY")]
    pub dir: Option<PathBuf>,
    /// The most memory for values, of each server.
    #[arg(long, value_name = "BYTES", default_value = "256M")]
    pub memory: Bytes,
    /// After how long without an answer nodes take one of them for failed.
    #[arg(long, value_name = "TIME", default_value = "15")]
    pub node_timeout: Interval,
    /// The server; looked for in PATH unless it has a slash.
    #[arg(long, value_name = "PROGRAM", default_value = "redis-server")]
    pub server: PathBuf,
    /// End after so long.
    #[arg(short, long, value_name = "TIME")]
    pub duration: Option<Interval>,
    #[command(flatten)]
    pub output: Output,
}
