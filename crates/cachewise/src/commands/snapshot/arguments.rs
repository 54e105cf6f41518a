//! Arguments of `cachewise snapshot`.

use std::path::PathBuf;

use cachewise_units::Bytes;
use clap::{Args, Subcommand};

use crate::options::{Output, Select, parse_rate};

/// `cachewise snapshot`.
#[derive(Debug, Args)]
#[command(
    after_help = "A snapshot holds which pages of which files are resident, not their content. It is text: a line of JSON \
    a file. Its paths are not for everybody: a new one has mode 0600, and one that is replaced passes on its mode. What is \
    neither a snapshot nor empty is never replaced.\n\n\
    Exit status: 0 done; 2 something could not be done, or is not known; 128+N ended by signal N.\n\n\
    Examples:\n  \
    cachewise snapshot save before.snap /var/lib/db\n  \
    cachewise snapshot restore before.snap\n  \
    cachewise snapshot diff before.snap"
)]
pub struct Snapshot {
    /// The operation.
    #[command(subcommand)]
    pub command: SnapshotCommand,
}

/// Operations on a snapshot.
#[derive(Debug, Subcommand)]
pub enum SnapshotCommand {
    /// Write down what of files and trees is resident.
    Save {
        /// The file to write; it takes its place when it is complete. `-` is standard output. A new one is readable by
        /// its owner alone.
        file: PathBuf,
        /// Files and directories.
        #[arg(value_name = "PATH", required = true)]
        paths: Vec<PathBuf>,
        #[command(flatten)]
        select: Select,
    },
    /// Bring in again what was resident.
    Restore {
        /// The file that was saved; `-` is standard input.
        file: PathBuf,
        /// Files that have changed since, too: the pages at the same places.
        #[arg(long)]
        anyway: bool,
        /// Read no faster than this: bytes a second (200M).
        #[arg(long, value_name = "BYTES", value_parser = parse_rate, allow_hyphen_values = true)]
        rate: Option<Bytes>,
        /// How many threads read; as many as there are CPUs, up to 8.
        #[arg(short = 'j', long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=512))]
        threads: Option<u16>,
        /// Say what would be read, and read nothing.
        #[arg(short = 'N', long)]
        dry_run: bool,
    },
    /// Compare with another snapshot, or with now.
    Diff {
        /// The earlier one; `-` is standard input.
        file: PathBuf,
        /// The later one; without it, what is resident now.
        other: Option<PathBuf>,
        /// Show so many files, those with the largest change first; 0: all.
        #[arg(short = 'n', long, value_name = "N")]
        top: Option<usize>,
        #[command(flatten)]
        output: Output,
    },
}
