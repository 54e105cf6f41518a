//! Arguments of `cachewise lock`.

use std::path::PathBuf;

use cachewise_units::{Bytes, Interval};
use clap::Args;

use crate::acting::Target;

const LOCK_USAGE: &str = "cachewise lock [OPTIONS] <PATH>...
       cachewise lock [OPTIONS] --follow";

/// `cachewise lock`.
#[derive(Debug, Args)]
#[command(
    override_usage = LOCK_USAGE,
    after_help = "Pages stay locked as long as this runs: Ctrl-C or SIGTERM lets them go. The limit is RLIMIT_MEMLOCK, unless \
    run as root; an error says what to set. Nothing is locked where less memory than 1/16 would be left in the machine \
    or in a control group; --force locks all the same.\n\n\
    --follow keeps the programs and libraries of running processes in memory, so that a machine short of memory stays \
    responsive: only their resident pages are locked, and what processes map later follows with the next scan.\n\n\
    Exit status: 0 let go by a signal; 2 something could not be locked, or there is nothing to lock; with --dry-run \
    also what is not shown to you; 128+N ended by signal N before all was locked.\n\n\
    Examples:\n  \
    cachewise lock /usr/bin/sshd /lib/x86_64-linux-gnu/libc.so.6\n  \
    cachewise lock --resident /var/lib/db/hot.idx\n  \
    cachewise lock --follow --max-file 10M --max-total 500M --dump /var/lib/cachewise/locked"
)]
pub struct Lock {
    /// Files and directories.
    #[arg(value_name = "PATH", required_unless_present = "follow")]
    pub paths: Vec<PathBuf>,
    /// Lock what is resident, and bring nothing in.
    #[arg(long)]
    pub resident: bool,
    /// Lock the executables and libraries of running processes, and look again after each period.
    #[arg(long, conflicts_with_all = ["paths", "range", "resident", "one_file_system", "threads"])]
    pub follow: bool,
    // That these need --follow is said the other way round: clap drops a requirement for what conflicts.
    /// With --follow: look again after so long.
    #[arg(
        long,
        value_name = "INTERVAL",
        default_value = "60",
        conflicts_with = "paths"
    )]
    pub period: Interval,
    /// With --follow: leave out larger files.
    #[arg(
        long,
        value_name = "BYTES",
        default_value = "32M",
        conflicts_with = "paths"
    )]
    pub max_file: Bytes,
    /// With --follow: lock no more than this in all; files count whole, resident or not.
    #[arg(
        long,
        value_name = "BYTES",
        default_value = "512M",
        conflicts_with = "paths"
    )]
    pub max_total: Bytes,
    /// With --follow: write the paths of what is locked to this file, and lock what it names first when started
    /// again.
    #[arg(long, value_name = "FILE", conflicts_with = "paths")]
    pub dump: Option<PathBuf>,
    /// Lock also where memory, or the limit of a control group, is too small for it.
    #[arg(long)]
    pub force: bool,
    #[command(flatten)]
    pub target: Target,
}
