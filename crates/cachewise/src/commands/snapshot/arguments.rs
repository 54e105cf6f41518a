//! Arguments of `cachewise snapshot`.

use std::ffi::OsString;
use std::path::PathBuf;

use cachewise_units::Bytes;
use clap::{Args, Subcommand};

use crate::options::{Output, Select, SeparatedPathList, parse_rate};

/// `cachewise snapshot`.
#[derive(Debug, Args)]
#[command(
    after_help = "A snapshot lists the resident pages of files, not their contents. It is text: one line of JSON per file. \
    Paths are private data: a new snapshot has mode 0600, and a replaced one keeps its mode. save never replaces a file \
    that is neither a snapshot nor empty.\n\n\
    Exit status: 0 done; 2 something could not be done, or residency is unknown; 128+N ended by signal N.\n\n\
    Examples:\n  \
    cachewise snapshot save before.snap /var/lib/db\n  \
    cachewise snapshot restore before.snap\n  \
    cachewise snapshot diff before.snap\n  \
    cachewise snapshot save start.snap --of -- python3 -c 'import numpy'\n  \
    cachewise run --with-snapshot start.snap -- python3 -c 'import numpy'"
)]
pub struct Snapshot {
    /// The operation.
    #[command(subcommand)]
    pub command: SnapshotCommand,
}

/// Operations on a snapshot.
#[derive(Debug, Subcommand)]
pub enum SnapshotCommand {
    /// Save which pages of files and directories are resident.
    Save {
        /// Snapshot to write, replaced when the new one is complete; `-` is standard output.
        file: PathBuf,
        /// Files and directories to save.
        #[arg(value_name = "PATH", required_unless_present_any = ["files_from", "of"])]
        paths: Vec<PathBuf>,
        #[command(flatten)]
        list: SeparatedPathList,
        #[command(flatten)]
        select: Select,
        /// Run COMMAND and save the pages that it touches, in order of first touch, instead of the resident pages.
        #[arg(long, requires = "command", conflicts_with_all = ["paths", "files_from", "one_file_system", "include", "exclude", "threads"])]
        of: bool,
        /// Command of --of, and its arguments.
        #[arg(last = true, value_name = "COMMAND", requires = "of")]
        command: Vec<OsString>,
    },
    /// Prefetch the pages that were resident.
    Restore {
        /// Snapshot to read; `-` is standard input.
        file: PathBuf,
        /// Also restore changed files, at the same offsets.
        #[arg(long)]
        anyway: bool,
        /// Maximum bytes to read per second, for example 200M [default: no limit].
        #[arg(long, value_name = "BYTES", value_parser = parse_rate, allow_hyphen_values = true)]
        rate: Option<Bytes>,
        /// Maximum bytes to read, from the start of the snapshot, in bytes or with a unit [default: all].
        #[arg(long = "max", value_name = "BYTES")]
        most: Option<Bytes>,
        /// Number of threads [default: number of CPUs, at most 8].
        #[arg(short = 'j', long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=512))]
        threads: Option<u16>,
        /// Report what would be read without reading it.
        #[arg(short = 'N', long)]
        dry_run: bool,
    },
    /// Restore, run a command, and remove from the snapshot the pages that the command did not touch.
    Prune {
        /// Snapshot of the command, replaced when the command has ended.
        file: PathBuf,
        /// Command, and its arguments.
        #[arg(last = true, required = true, value_name = "COMMAND")]
        command: Vec<OsString>,
    },
    /// Compare with another snapshot, or with current residency.
    Diff {
        /// Earlier snapshot; `-` is standard input.
        file: PathBuf,
        /// Later snapshot [default: current residency].
        other: Option<PathBuf>,
        /// Maximum files to show, largest change first; 0 shows all.
        #[arg(short = 'n', long, value_name = "N")]
        top: Option<usize>,
        #[command(flatten)]
        output: Output,
    },
}
