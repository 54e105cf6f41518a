//! Arguments of `cachewise order`.

use std::path::PathBuf;

use cachewise_residency::order::{Mode, PlanOptions};
use cachewise_units::Bytes;
use clap::{Args, ValueEnum};

use crate::options::{Columns, Output, PathList, Select, file_columns};

/// `cachewise order`.
#[derive(Debug, Args)]
#[command(
    after_help = "Files that exceed memory and are read repeatedly in the same order never hit the cache: the kernel evicts each \
    page just before it is requested again. If resident pages are read first, only the part that does not fit is read \
    from the disk.\n\n\
    Files whose residency is not visible to this user keep the order given; a note names the reason.\n\n\
    Exit status: 0 done; 2 something could not be done, or residency is unknown; 128+N ended by signal N, after the order \
    of the files examined so far.\n\n\
    Examples:\n  \
    cachewise order -0 /data/*.bin | xargs -0 sha256sum\n  \
    cachewise order --explain --unit range /data\n  \
    cachewise order --simulate 768M /data"
)]
pub struct OrderFiles {
    /// Files and directories; files of a directory are sorted by path.
    #[arg(value_name = "PATH", required_unless_present = "files_from")]
    pub paths: Vec<PathBuf>,
    #[command(flatten)]
    pub list: PathList,
    /// End each path with a zero byte instead of a newline, for xargs -0; so do those of --files-from.
    #[arg(short = '0', long)]
    pub null: bool,
    /// Unit to order.
    #[arg(long, value_enum, default_value_t = Unit::File)]
    pub unit: Unit,
    /// Shuffle by this seed, resident chunks first, with --unit range; with --simulate, the seed of the shuffled row.
    #[arg(long, value_name = "SEED")]
    pub shuffle: Option<u64>,
    /// Report the I/O that the order saves, on standard error.
    #[arg(long)]
    pub explain: bool,
    /// Show the bytes read per cycle by each order in a memory group with this limit, without reading.
    #[arg(long, value_name = "BYTES")]
    pub simulate: Option<Bytes>,
    /// Write a table with these columns, comma-separated ids or headings; see `cachewise columns`.
    #[arg(short, long, value_name = "LIST", value_parser = file_columns(), hide_possible_values = true, conflicts_with_all = ["null", "simulate"])]
    pub columns: Option<Columns>,
    #[command(flatten)]
    pub select: Select,
    #[command(flatten)]
    pub output: Output,
}

/// Unit to order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Unit {
    /// Whole files.
    File,
    /// Ranges of files: path, offset, length and resident bytes, tab-separated.
    Range,
}

impl OrderFiles {
    /// Options of the planner.
    pub fn options(&self) -> PlanOptions {
        PlanOptions {
            mode: self.shuffle.map_or(Mode::Free, Mode::Shuffle),
            ..PlanOptions::default()
        }
    }
}
