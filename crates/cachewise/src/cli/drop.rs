//! `cachewise drop`, as typed.

use clap::Args;

use super::output::Output;

/// `cachewise drop`.
#[derive(Debug, Args)]
#[command(
    after_help = "Every program of the machine reads from its disks again after this: it is for measuring cold \
    starts, not for making memory available, which the kernel does by itself. To put out some files only, \
    see `cachewise evict`.\n\n\
    Dirty pages are written back first, so that they go too, unless --no-sync leaves them. Mapped, locked and shared \
    memory stays; the table shows what went.\n\n\
    Exit status: 0 done; 1 you said no; 2 nothing could be dropped.\n\n\
    Examples:\n  \
    cachewise drop --dry-run\n  \
    cachewise drop --yes\n  \
    cachewise drop --yes 3"
)]
pub struct Drop {
    /// What to drop, as /proc/sys/vm/drop_caches has it: 1 the page cache, 2 cached names and inodes, 3 both.
    #[arg(default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=3))]
    pub what: u8,
    /// Leave dirty pages alone: they are not written back first, and so they stay.
    #[arg(long)]
    pub no_sync: bool,
    /// Ask nothing. Needed where there is no terminal to ask at.
    #[arg(short, long)]
    pub yes: bool,
    /// Show what there is to drop, and drop nothing.
    #[arg(short = 'N', long, conflicts_with = "yes")]
    pub dry_run: bool,
    #[command(flatten)]
    pub output: Output,
}
