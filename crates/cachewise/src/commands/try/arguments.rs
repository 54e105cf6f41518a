//! `cachewise try`, as typed.

use std::ffi::OsString;
use std::path::PathBuf;

use cachewise_cli::columns::SheetColumnsParser;
use cachewise_view::{SheetColumn, SheetColumns};
use clap::{Args, ValueEnum};

use super::fix::Fix;
use crate::comparison;
use crate::options::Output;

const TRY_USAGE: &str = "cachewise try [OPTIONS] FIX [FIX]... -- COMMAND [ARGUMENT]...";

/// Columns of changes by a fix.
pub const COLUMNS: [SheetColumn; 15] = comparison::columns("FIX", "WITHOUT", "WITH");

/// `cachewise try`.
#[derive(Debug, Args)]
#[command(
    override_usage = TRY_USAGE,
    after_help = "Fixes:\n  \
    advice=random|sequential   posix_fadvise on files that the command opens, and madvise on those that it maps\n  \
    fadvise=, madvise=         one of the two alone\n  \
    populate                   fetch the pages of a mapping when it is made (MADV_POPULATE_READ)\n  \
    no-direct                  open files without O_DIRECT\n  \
    readahead=SIZE             readahead of the devices that hold the files, for all programs meanwhile\n  \
    memory=SIZE                a control group with this memory limit\n  \
    shield=PROGRAM             drop pages behind the processes of this name, as `cachewise shield` does\n  \
    warm                       prefetch the files that the command reads\n\n\
    The command runs once to find its files, then ROUNDS times without a fix and with each, in alternating order. Each run \
    starts with its files evicted (`--start cold`) or prefetched (`--start warm`). Its output is discarded. Settings \
    and groups are restored after each run, after Ctrl-C and a panic, and after kill -9 by the next start or \
    `cachewise bench restore`.\n\n\
    Exit status: 0 done; 2 something could not be done, or the command failed; 128+N ended by signal N.\n\n\
    Examples:\n  \
    cachewise try madvise=random readahead=16K -- ./search index\n  \
    cachewise try --rounds 10 memory=2G -- ./job\n  \
    cachewise try --prepare 'git checkout -q .' warm -- make"
)]
pub struct Try {
    /// Fixes to try, each by itself.
    #[arg(required = true, value_name = "FIX", value_parser = Fix::parse)]
    pub fixes: Vec<Fix>,
    /// Command to run, and its arguments.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
    /// Runs without a fix, and with each.
    #[arg(short, long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(2..=1000))]
    pub rounds: u32,
    /// State of the files at the start of each run.
    #[arg(long, value_enum, default_value_t = StartState::Cold)]
    pub start: StartState,
    /// Shell command to run before each run: it restores what the command changed.
    #[arg(long, value_name = "COMMAND")]
    pub prepare: Option<String>,
    /// Run the command again although it wrote or removed files.
    #[arg(short, long)]
    pub yes: bool,
    /// Accept a command that fails.
    #[arg(short, long)]
    pub ignore_failure: bool,
    /// Show the output of the command on standard error.
    #[arg(long)]
    pub show_output: bool,
    /// Directory of state files [default: /run/cachewise, or $XDG_RUNTIME_DIR/cachewise for ordinary users].
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
    /// Columns of the table and of CSV, comma-separated ids or headings; see `cachewise columns`.
    #[arg(short, long, value_name = "LIST", value_parser = SheetColumnsParser(&[&COLUMNS]), hide_possible_values = true)]
    pub columns: Option<SheetColumns>,
    #[command(flatten)]
    pub output: Output,
}

/// State of the files at the start of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum StartState {
    /// Evicted.
    Cold,
    /// Prefetched.
    Warm,
}

impl StartState {
    /// Its name in machine formats.
    pub fn id(self) -> &'static str {
        match self {
            StartState::Cold => "cold",
            StartState::Warm => "warm",
        }
    }
}
