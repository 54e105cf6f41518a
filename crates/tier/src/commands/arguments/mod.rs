//! The command line of `cachewise-tier`.

mod cache;
mod csi;
mod drop;
mod mount;
mod published;
mod trim;

use std::path::PathBuf;

use cachewise_cli::about::About;
use cachewise_cli::arguments::{OUTPUT_WITHOUT_METRICS, Output};
use cachewise_cli::columns::SheetColumnsParser;
use cachewise_tier::dev_cluster::DevClusterOptions;
use cachewise_units::{Bytes, Period};
use cachewise_view::SheetColumns;
use clap::{Args, Parser, Subcommand};

use super::columns;

pub use cache::{CacheFlags, OPTIONS, SettingFlags};
pub use csi::Csi;
pub use drop::Drop;
pub use mount::Mount;
pub use published::{Diff, Gc, Key, Publish};
pub use trim::Trim;

/// Mount, read, fill, verify and inspect a block cache that many machines share.
#[derive(Debug, Parser)]
#[command(name = "cachewise-tier", version, max_term_width = 100)]
#[command(
    after_help = "`cachewise tier` and `cachewise mount` start this program.\n\n\
    Exit status: 0 done; 1 differences were found (verify, diff), or drop did not reach all machines; 2 something \
    could not be done, usage included; 128+N ended by signal N."
)]
pub struct Cli {
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Mount a directory or URL through a block cache in memory, on disk and on shared servers.
    Mount(Box<Mount>),
    /// Write a file to standard output, read through the cache.
    Get(Get),
    /// Read files from the origin and write all their blocks to the engine.
    #[command(after_help = PUT)]
    Put(OnFiles),
    /// Fetch the missing blocks of files into the cache.
    Warm(Warm),
    /// Show the requests of a mount, and the hits and latencies of each tier and server.
    Stat(TierStat),
    /// Compare blocks on the disk and in the engine with the origin, byte by byte, and store nothing.
    #[command(after_help = VERIFY)]
    Verify(OnFiles),
    /// Forget names and blocks of a path of a mount, on all machines.
    Drop(Drop),
    /// Count the blocks of an engine, and remove those that are unused or over a limit.
    Trim(Trim),
    /// Generate a key pair for published versions.
    Key(Key),
    /// Publish a directory, bucket or HTTP server as a signed version that never changes.
    Publish(Publish),
    /// List the differences of two published versions.
    Diff(Diff),
    /// Remove old published versions from a store.
    Gc(Gc),
    /// Mount volumes of Kubernetes on this node (CSI node plugin).
    Csi(Csi),
    /// Run a Redis Cluster for tests on this machine.
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
    mut_arg("output", |output| output.help(OUTPUT_WITHOUT_METRICS)),
    after_help = "dev-cluster starts several redis-server processes on loopback, without a password, and joins them to a cluster. When \
    the cluster is ready, the first line of the output is the value for --engine of `cachewise mount` and `cachewise tier`.\n\n\
    The servers stop when dev-cluster ends: after --duration, Ctrl-C, SIGTERM or kill -9. Their files are deleted, unless \
    --dir names a directory, or kill -9 ends dev-cluster: then the temporary directory remains.\n\n\
    Exit status: 0 stopped after --duration; 2 something could not be done; 128+N ended by signal N.\n\n\
    Examples:\n  \
    cachewise tier dev-cluster\n  \
    cachewise tier dev-cluster --nodes 5 --replicas 1 --port 7001"
)]
pub struct DevCluster {
    /// Number of primaries.
    #[arg(short, long, value_name = "NUMBER", default_value_t = usual().nodes)]
    pub nodes: usize,
    /// Number of replicas of each primary.
    #[arg(short, long, value_name = "NUMBER", default_value_t = usual().replicas)]
    pub replicas: usize,
    /// Start independent servers instead of a cluster.
    #[arg(long)]
    pub standalone: bool,
    /// Port of the first server; the others use the next ports [default: free ports].
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,
    /// Directory for files and logs of the servers, which remain at the end [default: a temporary directory].
    #[arg(long, value_name = "DIRECTORY")]
    pub dir: Option<PathBuf>,
    /// Maximum memory of each server for values (maxmemory).
    #[arg(long, value_name = "BYTES", default_value = format!("{}M", usual().memory.0 >> 20))]
    pub memory: Bytes,
    /// Time without a response after which the cluster marks a node as failed (cluster-node-timeout).
    #[arg(long, value_name = "TIME", default_value = format!("{:?}", usual().node_timeout))]
    pub node_timeout: Period,
    /// Server program: a name in PATH, or a path with a slash.
    #[arg(long, value_name = "PROGRAM", default_value_os_t = usual().server)]
    pub server: PathBuf,
    /// Stop after this time [default: until interrupted].
    #[arg(short, long, value_name = "TIME")]
    pub duration: Option<Period>,
    /// Columns of the table and of CSV, comma-separated ids or headings; see `cachewise tier columns`.
    #[arg(short, long, value_name = "LIST", value_parser = SheetColumnsParser(&[&columns::DEV_CLUSTER]), hide_possible_values = true)]
    pub columns: Option<SheetColumns>,
    #[command(flatten)]
    pub output: Output,
}

/// `cachewise tier get`.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit status: 0 all bytes were written; 2 something could not be read or written.\n\n\
    Examples:\n  \
    cachewise tier get /srv/data model/weights.bin >weights.bin\n  \
    cachewise tier get https://example.org/data model/weights.bin >weights.bin\n  \
    cachewise tier get --offset 1M --length 4K --engine redis-cluster://10.0.0.1:6379 /srv/data model/weights.bin | xxd"
)]
pub struct Get {
    /// Origin: a directory, http://HOST/PATH, https://HOST/PATH or s3://BUCKET/PREFIX.
    #[arg(value_name = "ORIGIN")]
    pub origin: String,
    /// File to read, relative to the origin.
    #[arg(value_name = "PATH")]
    pub path: PathBuf,
    /// Offset of the first byte to write, in bytes or with a unit.
    #[arg(long, value_name = "BYTES", default_value = "0")]
    pub offset: Bytes,
    /// Maximum bytes to write, in bytes or with a unit [default: to the end of the file].
    #[arg(long, value_name = "BYTES")]
    pub length: Option<Bytes>,
    #[command(flatten)]
    pub cache: CacheFlags,
}

const PUT: &str = "put reads files from the origin, not from the cache, and writes every block.\n\n\
    Exit status: 0 done; 2 something could not be done, or a block did not reach the engine; 128+N ended by signal N.\n\n\
    Examples:\n  \
    cachewise tier put --engine redis-cluster://10.0.0.1:6379 /srv/data\n  \
    cachewise tier put --engine redis-cluster://10.0.0.1:6379 /srv/data model/weights.bin";

const WARM: &str = "warm reads the blocks that no tier has from the origin, and copies those of the engine to the local disk.\n\n\
    Exit status: 0 done; 2 something could not be done, or a block did not reach the disk or the engine; 128+N ended by signal N.\n\n\
    Examples:\n  \
    cachewise tier warm --engine redis-cluster://10.0.0.1:6379 /srv/data model\n  \
    cachewise tier warm --disk /var/cache/blocks s3://bucket/data\n  \
    cachewise tier warm --disk /var/cache/blocks --snapshot start.snap --mounted-at /mnt s3://bucket/data";

const VERIFY: &str = "verify compares the blocks that the disk and the engine have with the origin. Blocks that they do not have are counted as \
    missing, and are no difference.\n\n\
    Exit status: 0 no difference; 1 blocks differ or are damaged; 2 something could not be done, or a block could not be \
    compared; 128+N ended by signal N.\n\n\
    Examples:\n  \
    cachewise tier verify --engine redis-cluster://10.0.0.1:6379 /srv/data\n  \
    cachewise tier verify --disk /var/cache/blocks s3://bucket/data model/weights.bin";

/// `cachewise tier put`, `warm` and `verify`.
#[derive(Debug, Args)]
#[command(mut_arg("output", |output| output.help(OUTPUT_WITHOUT_METRICS)))]
pub struct OnFiles {
    /// Origin: a directory, http://HOST/PATH, https://HOST/PATH or s3://BUCKET/PREFIX.
    #[arg(value_name = "ORIGIN")]
    pub origin: String,
    /// Files and directories, relative to the origin [default: all].
    #[arg(value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    #[command(flatten)]
    pub cache: CacheFlags,
    /// Columns of the table of files and of CSV, comma-separated ids or headings; see `cachewise tier columns`.
    #[arg(short, long, value_name = "LIST", value_parser = SheetColumnsParser(&[&columns::FILES]), hide_possible_values = true)]
    pub columns: Option<SheetColumns>,
    #[command(flatten)]
    pub output: Output,
}

/// `cachewise tier warm`.
#[derive(Debug, Args)]
#[command(after_help = WARM)]
pub struct Warm {
    /// Read the blocks of the pages in a snapshot only, in its order; see `cachewise snapshot`.
    #[arg(long, value_name = "FILE", conflicts_with = "paths")]
    pub snapshot: Option<PathBuf>,
    /// Directory that the paths of the snapshot are below [default: ORIGIN, if it is a directory].
    #[arg(long, value_name = "DIR", requires = "snapshot")]
    pub mounted_at: Option<PathBuf>,
    #[command(flatten)]
    pub on: OnFiles,
}

/// `cachewise tier stat`.
#[derive(Debug, Args)]
#[command(
    after_help = "stat counts from the start of the mount: FUSE requests of the kernel, and calls, hits, misses and latencies of each tier \
    and server. The file .cachewise/stat.json in the mount has the same figures. With PERIOD it prints a table for \
    each period until Ctrl-C. Tables per period have no percentiles or maxima, because these cover the time since the \
    start.\n\n\
    Exit status: 0 done, also by Ctrl-C; 2 DIR is not a mount of cachewise, or its process has ended.\n\n\
    Examples:\n  \
    cachewise tier stat /mnt\n  \
    cachewise tier stat /mnt 1\n  \
    cachewise tier stat /mnt -o openmetrics"
)]
pub struct TierStat {
    /// Mount point of `cachewise mount`.
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// Time between tables, in seconds or with a unit: 0.5, 100ms, 1m [default: one table, since the start].
    #[arg(allow_negative_numbers = true)]
    pub period: Option<Period>,
    /// Number of tables [default: until interrupted].
    #[arg(allow_negative_numbers = true, value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// Columns of the table and of CSV, comma-separated ids or headings; see `cachewise tier columns`.
    #[arg(short, long, value_name = "LIST", value_parser = SheetColumnsParser(&[&columns::STAT]), hide_possible_values = true)]
    pub columns: Option<SheetColumns>,
    #[command(flatten)]
    pub output: Output,
}
