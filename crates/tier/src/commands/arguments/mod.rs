//! The command line of `cachewise-tier`.

mod cache;
mod mount;

use std::path::PathBuf;

use cachewise_cli::about::About;
use cachewise_cli::arguments::Output;
use cachewise_tier::dev_cluster::DevClusterOptions;
use cachewise_units::{Bytes, Period};
use clap::{Args, Parser, Subcommand};

pub use cache::{CacheFlags, SettingFlags};
pub use mount::Mount;

/// Use a block cache that many machines share: mount an origin, read through the cache, look at it.
#[derive(Debug, Parser)]
#[command(name = "cachewise-tier", version, max_term_width = 100)]
#[command(
    after_help = "`cachewise tier` and `cachewise mount` start this program.\n\n\
    Exit status: 0 done; 1 the answer is no (verify); 2 something could not be done, usage included; 128+N ended by \
    signal N."
)]
pub struct Cli {
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show a directory through a block cache: memory, disk, servers that machines share.
    Mount(Box<Mount>),
    /// Write a file's bytes to standard output, through the cache.
    Get(Get),
    /// Read files from the origin and bring them to the engine, whatever it has already.
    Put(OnFiles),
    /// Bring what the cache has not yet of files into it.
    Warm(OnFiles),
    /// Show what a mount was asked, and what came from where.
    Stat(TierStat),
    /// Compare what the cache gives with what the origin has, byte by byte.
    Verify(OnFiles),
    /// Run a Redis Cluster of real servers on this machine, to try things on.
    DevCluster(DevCluster),
    #[command(flatten)]
    About(About),
}

/// Returns the options of a cluster that are not given.
fn usual() -> DevClusterOptions {
    DevClusterOptions::default()
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
    #[arg(short, long, value_name = "NUMBER", default_value_t = usual().nodes)]
    pub nodes: usize,
    /// How many replicas each of them has.
    #[arg(short, long, value_name = "NUMBER", default_value_t = usual().replicas)]
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
    #[arg(long, value_name = "BYTES", default_value_t = usual().memory)]
    pub memory: Bytes,
    /// After how long without an answer nodes take one of them for failed.
    #[arg(long, value_name = "TIME", default_value = format!("{:?}", usual().node_timeout))]
    pub node_timeout: Period,
    /// The server; looked for in PATH unless it has a slash.
    #[arg(long, value_name = "PROGRAM", default_value_os_t = usual().server)]
    pub server: PathBuf,
    /// End after so long.
    #[arg(short, long, value_name = "TIME")]
    pub duration: Option<Period>,
    #[command(flatten)]
    pub output: Output,
}

/// `cachewise tier get`.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit status: 0 all bytes were written; 2 something could not be done.\n\n\
    Examples:\n  \
    cachewise tier get /srv/data model/weights.bin >weights.bin\n  \
    cachewise tier get https://example.org/data model/weights.bin >weights.bin\n  \
    cachewise tier get --offset 1M --length 4K --engine redis-cluster://10.0.0.1:6379 /srv/data model/weights.bin | xxd"
)]
pub struct Get {
    /// Origin: a directory, http://HOST/PATH, https://HOST/PATH or s3://BUCKET/PREFIX.
    #[arg(value_name = "ORIGIN")]
    pub origin: String,
    /// The file, relative to the origin.
    #[arg(value_name = "PATH")]
    pub path: PathBuf,
    /// Start at this offset in the file, in bytes.
    #[arg(long, value_name = "BYTES", default_value = "0")]
    pub offset: Bytes,
    /// Maximum bytes to write [default: up to the end].
    #[arg(long, value_name = "BYTES")]
    pub length: Option<Bytes>,
    #[command(flatten)]
    pub cache: CacheFlags,
}

const ON_FILES: &str = "Exit status: 0 done; 1 bytes differ (verify); 2 something could not be done.\n\n\
    Examples:\n  \
    cachewise tier warm --engine redis-cluster://10.0.0.1:6379 /srv/data model\n  \
    cachewise tier put --engine redis-cluster://10.0.0.1:6379 /srv/data model/weights.bin\n  \
    cachewise tier warm --disk /var/cache/blocks s3://bucket/data\n  \
    cachewise tier verify --engine redis-cluster://10.0.0.1:6379 /srv/data";

/// `cachewise tier put`, `warm` and `verify`.
#[derive(Debug, Args)]
#[command(after_help = ON_FILES)]
pub struct OnFiles {
    /// Origin: a directory, http://HOST/PATH, https://HOST/PATH or s3://BUCKET/PREFIX.
    #[arg(value_name = "ORIGIN")]
    pub origin: String,
    /// Files and directories, relative to the origin [default: all].
    #[arg(value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    #[command(flatten)]
    pub cache: CacheFlags,
    #[command(flatten)]
    pub output: Output,
}

/// `cachewise tier stat`.
#[derive(Debug, Args)]
#[command(
    after_help = "What the kernel asked of a mount, what each tier and each server answered, and how long that took, since the mount \
    began. The mount has it as .cachewise/stat.json too.\n\n\
    Exit status: 0 done; 2 it is no mount, or one that has lost its process.\n\n\
    Examples:\n  \
    cachewise tier stat /mnt\n  \
    cachewise tier stat /mnt -o openmetrics"
)]
pub struct TierStat {
    /// Where `cachewise mount` has mounted something.
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    #[command(flatten)]
    pub output: Output,
}
