//! `cachewise bench matrix` and `restore`, as typed.

use std::path::PathBuf;

use clap::Args;

use super::output::Output;

/// `cachewise bench matrix`.
#[derive(Debug, Args)]
#[command(
    after_help = "A file has arms, each a name and settings, and workloads, each a table of what `bench` takes:\n\n  \
    repeats = 10\n  \
    [[arm]]\n  \
    name = \"no read-ahead\"\n  \
    settings = { read_ahead_kb = 0, \"vm.swappiness\" = 10 }\n  \
    [workload.random]\n  \
    file = \"/var/tmp/data\"\n  \
    size = \"1G\"\n  \
    bytes = \"512M\"\n  \
    fill = \"cold\"\n  \
    memory-max = \"512M\"\n\n\
    Every combination is run --repeats times, in random order; arms are compared with the first, or with one that changes nothing. \
    Each run is appended to the results, so that the same command goes on where it was interrupted. Settings are put back after \
    each run, after Ctrl-C and a panic, and after kill -9 by the next start or `cachewise bench restore`.\n\n\
    Exit status: 0 all is done; 2 something could not be done; 128+N ended by signal N, after what is known so far."
)]
pub struct Matrix {
    /// The file, in TOML.
    #[arg(required_unless_present = "settings", value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// List every setting that there is, with what it is now, and end.
    #[arg(long, conflicts_with = "file")]
    pub settings: bool,
    /// Show what would be done, and touch nothing.
    #[arg(short = 'N', long)]
    pub dry_run: bool,
    /// Where each run is appended [default: FILE with the ending .results.jsonl].
    #[arg(long, value_name = "FILE")]
    pub results: Option<PathBuf>,
    /// Write the report as one page of HTML with plots, too.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Directory of state files [default: /run/cachewise, or $XDG_RUNTIME_DIR/cachewise for ordinary users].
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
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
}
