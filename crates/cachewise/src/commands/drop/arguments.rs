//! Arguments of `cachewise drop`.

use clap::Args;

use crate::options::{Columns, Output, drop_columns};

/// `cachewise drop`.
#[derive(Debug, Args)]
#[command(
    after_help = "After this every program of the machine reads from its disks again. Use it to measure cold starts, not to \
    make memory available, which the kernel does by itself. To evict only some files, use `cachewise evict`.\n\n\
    Dirty pages are written back first and dropped too, unless --no-sync leaves them. Mapped, locked and shared \
    memory stays; the table shows how much was dropped.\n\n\
    Exit status: 0 done; 1 you said no; 2 nothing could be dropped.\n\n\
    Examples:\n  \
    cachewise drop --dry-run\n  \
    cachewise drop --yes\n  \
    cachewise drop --yes 3"
)]
pub struct Drop {
    /// Caches to drop, as in /proc/sys/vm/drop_caches: 1 page cache, 2 cached names and inodes, 3 both.
    #[arg(default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=3))]
    pub what: u8,
    /// Keep dirty pages: do not write them back first.
    #[arg(long)]
    pub no_sync: bool,
    /// Do not ask for confirmation; required without a terminal.
    #[arg(short, long)]
    pub yes: bool,
    /// Show how much could be dropped, and drop nothing.
    #[arg(short = 'N', long, conflicts_with = "yes")]
    pub dry_run: bool,
    /// Columns, comma-separated ids or headings; see `cachewise columns`.
    #[arg(short, long, value_name = "LIST", value_parser = drop_columns(), hide_possible_values = true)]
    pub columns: Option<Columns>,
    #[command(flatten)]
    pub output: Output,
}
