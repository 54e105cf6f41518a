//! Arguments of `cachewise evict`.

use std::path::PathBuf;

use clap::Args;

use crate::acting::Target;

/// `cachewise evict`.
#[derive(Debug, Args)]
#[command(
    after_help = "Nothing is lost. The kernel sets dirty pages off to the disk; what is dirty or being written at that \
    moment stays, unless --sync waits for it first. What stays is said, with the reason: dirty, being written, locked, \
    mapped (and by whom), at the edge of a range, in memory only.\n\n\
    Exit status: 0 done, also where pages stay; 2 something could not be done, or is not shown to you: of others' \
    files you are not told what is resident; 128+N ended by signal N, what was done is shown.\n\n\
    Examples:\n  \
    cachewise evict --sync backup.tar\n  \
    cachewise evict --dry-run /var/log"
)]
pub struct Evict {
    /// Files and directories.
    #[arg(value_name = "PATH", required = true)]
    pub paths: Vec<PathBuf>,
    /// Write dirty pages back first, and wait for it.
    #[arg(long)]
    pub sync: bool,
    #[command(flatten)]
    pub target: Target,
}
