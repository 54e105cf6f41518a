//! `cachewise tier drop`, as typed.

use std::path::PathBuf;

use cachewise_cli::arguments::{OUTPUT_WITHOUT_METRICS, Output};
use cachewise_cli::columns::SheetColumnsParser;
use cachewise_view::SheetColumns;
use clap::{Args, ValueHint};

use crate::commands::columns;

/// `cachewise tier drop`.
#[derive(Debug, Args)]
#[command(
    mut_arg("output", |output| output.help(OUTPUT_WITHOUT_METRICS)),
    after_help = "drop makes a mount forget names, attributes and blocks of PATH and of all below it, so that the next access asks the \
    origin, although --revalidate has not passed. Through the engine (Redis or Valkey) it does the same in all mounts of that \
    origin on all machines, and removes the blocks from the engine. Without such an engine, it does so in all mounts of that \
    origin on this machine. Open files stay what they are.\n\n\
    Blocks of files that the mount does not know are not removed: `cachewise tier put` writes them anew. A machine that misses \
    the message, as it is cut off, sees the change after its --revalidate.\n\n\
    Exit status: 0 dropped; 1 other machines could not be notified, or the engine did not remove a block in time; 2 PATH is not \
    in a mount, or not of this user.\n\n\
    Examples:\n  \
    cachewise tier drop /mnt/model/weights.bin\n  \
    cachewise tier drop /mnt -o json"
)]
pub struct Drop {
    /// File or directory in a mount of `cachewise mount`; it need not exist any more.
    #[arg(value_name = "PATH", required = true, value_hint = ValueHint::AnyPath)]
    pub paths: Vec<PathBuf>,
    /// Columns of the table and of CSV, comma-separated ids or headings; see `cachewise tier columns`.
    #[arg(short, long, value_name = "LIST", value_parser = SheetColumnsParser(&[&columns::DROPPED]), hide_possible_values = true)]
    pub columns: Option<SheetColumns>,
    #[command(flatten)]
    pub output: Output,
}
