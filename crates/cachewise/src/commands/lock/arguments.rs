//! Arguments of `cachewise lock`.

use std::path::PathBuf;

use cachewise_units::{Bytes, Period};
use clap::Args;

use crate::acting::Target;
use crate::options::SeparatedPathList;

const LOCK_USAGE: &str = "cachewise lock [OPTIONS] <PATH>...
       cachewise lock [OPTIONS] --follow";

/// `cachewise lock`.
#[derive(Debug, Args)]
#[command(
    override_usage = LOCK_USAGE,
    after_help = "Pages stay locked until lock ends: Ctrl-C or SIGTERM unlocks them. The limit is RLIMIT_MEMLOCK, except for \
    root; an error shows the value to set. lock refuses to leave less than 1/16 of memory free in the machine or in a \
    control group; --force overrides this.\n\n\
    --follow keeps the programs and libraries of running processes in memory, so that a machine short of memory stays \
    responsive. It locks only their resident pages, and locks files that processes map later at the next scan.\n\n\
    Exit status: 0 unlocked by a signal; 2 something could not be locked, there is nothing to lock, or with --dry-run \
    residency is unknown; 128+N ended by signal N before all pages were locked.\n\n\
    Examples:\n  \
    cachewise lock /usr/bin/sshd /lib/x86_64-linux-gnu/libc.so.6\n  \
    cachewise lock --resident /var/lib/db/hot.idx\n  \
    cachewise lock --follow --max-file 10M --max-total 500M --dump /var/lib/cachewise/locked"
)]
pub struct Lock {
    /// Files and directories to lock.
    #[arg(value_name = "PATH", required_unless_present_any = ["files_from", "follow"])]
    pub paths: Vec<PathBuf>,
    #[command(flatten)]
    pub list: SeparatedPathList,
    /// Lock only resident pages, and read nothing.
    #[arg(long)]
    pub resident: bool,
    /// Lock the executables and libraries of running processes, and scan again after each --period.
    #[arg(long, conflicts_with_all = ["paths", "files_from", "range", "resident", "one_file_system", "threads"])]
    pub follow: bool,
    // These conflict with PATH, which means that they need --follow: clap ignores `requires` of an option with conflicts.
    /// Time between scans, in seconds or with a unit, with --follow.
    #[arg(
        long,
        value_name = "INTERVAL",
        default_value = "60",
        conflicts_with_all = ["paths", "files_from"]
    )]
    pub period: Period,
    /// Omit larger files, in bytes or with a unit, with --follow.
    #[arg(
        long,
        value_name = "BYTES",
        default_value = "32M",
        conflicts_with_all = ["paths", "files_from"]
    )]
    pub max_file: Bytes,
    /// Maximum to lock, as the sum of whole file sizes, in bytes or with a unit, with --follow.
    #[arg(
        long,
        value_name = "BYTES",
        default_value = "512M",
        conflicts_with_all = ["paths", "files_from"]
    )]
    pub max_total: Bytes,
    /// Save the paths of locked files here, and lock them first at the next start, with --follow.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["paths", "files_from"])]
    pub dump: Option<PathBuf>,
    /// Lock even if memory, or the limit of a control group, is too small.
    #[arg(long)]
    pub force: bool,
    #[command(flatten)]
    pub target: Target,
}
