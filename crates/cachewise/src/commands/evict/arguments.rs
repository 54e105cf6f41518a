//! Arguments of `cachewise evict`.

use std::path::PathBuf;

use clap::Args;

use crate::acting::Target;
use crate::options::SeparatedPathList;

/// `cachewise evict`.
#[derive(Debug, Args)]
#[command(
    after_help = "No data is lost. The kernel starts writeback of dirty pages; pages that are dirty or under writeback at \
    that moment stay, unless --sync waits for them first. The table shows how many pages remained and why: dirty, being \
    written, locked, mapped (and by which process), at the edge of a range, in memory only.\n\n\
    Exit status: 0 done, also if pages remain; 2 something could not be done, or residency is unknown: it is visible \
    only to users who own or may write the file; 128+N ended by signal N, after the result so far.\n\n\
    Examples:\n  \
    cachewise evict --sync backup.tar\n  \
    cachewise evict --dry-run /var/log"
)]
pub struct Evict {
    /// Files and directories to evict.
    #[arg(value_name = "PATH", required_unless_present = "files_from")]
    pub paths: Vec<PathBuf>,
    #[command(flatten)]
    pub list: SeparatedPathList,
    /// Write dirty pages back first, and wait until they are on the disk.
    #[arg(long)]
    pub sync: bool,
    #[command(flatten)]
    pub target: Target,
}
