//! `cachewise bench matrix` and `restore`, as typed.

use std::path::PathBuf;

use cachewise_cli::columns::SheetColumnsParser;
use cachewise_view::SheetColumns;
use clap::Args;

use super::matrix_shown::MATRIX_COLUMNS;

use crate::options::Output;

/// `cachewise bench matrix`.
#[derive(Debug, Args)]
#[command(
    after_help = "FILE holds arms, each a name and settings, and workloads, each a table of options of `bench`:\n\n  \
    repeats = 10\n  \
    [[arm]]\n  \
    name = \"no readahead\"\n  \
    settings = { read_ahead_kb = 0, \"vm.swappiness\" = 10 }\n  \
    [workload.random]\n  \
    file = \"/var/tmp/data\"\n  \
    size = \"1G\"\n  \
    bytes = \"512M\"\n  \
    fill = \"cold\"\n  \
    memory_max = \"512M\"\n\n\
    Every combination runs `repeats` times, in random order. The baseline is the first arm, or an arm that changes nothing. \
    Each run is appended to the results, so that the same command continues after an interruption. Settings are restored after \
    each run, after Ctrl-C and a panic, and after kill -9 by the next start or `cachewise bench restore`.\n\n\
    Exit status: 0 all runs are done; 2 something could not be done; 128+N ended by signal N, after the results so far."
)]
pub struct Matrix {
    /// Matrix file, in TOML.
    #[arg(required_unless_present = "settings", value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// List every setting with its current value, and exit.
    #[arg(long, conflicts_with = "file")]
    pub settings: bool,
    /// Show the runs without changing anything.
    #[arg(short = 'N', long)]
    pub dry_run: bool,
    /// File to append each run to [default: FILE with the extension .results.jsonl].
    #[arg(long, value_name = "FILE")]
    pub results: Option<PathBuf>,
    /// Also write the report as one HTML page with plots.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Directory of state files [default: /run/cachewise, or $XDG_RUNTIME_DIR/cachewise for ordinary users].
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
    /// Columns of the tables and of CSV, comma-separated ids or headings; see `cachewise columns`.
    #[arg(short, long, value_name = "LIST", conflicts_with_all = ["settings", "dry_run"],
        value_parser = SheetColumnsParser(&[&MATRIX_COLUMNS]), hide_possible_values = true)]
    pub columns: Option<SheetColumns>,
    #[command(flatten)]
    pub output: Output,
}

/// `cachewise bench restore`.
#[derive(Debug, Args)]
pub struct Restore {
    /// Directory of state files [default: /run/cachewise, or $XDG_RUNTIME_DIR/cachewise for ordinary users].
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
    /// Also restore settings of a run in another PID namespace (a container) that cannot be seen to have ended.
    #[arg(long)]
    pub force: bool,
    /// Wait until standard input ends: `guard` starts one that restores its settings after kill -9.
    #[arg(long)]
    pub when_input_ends: bool,
}
