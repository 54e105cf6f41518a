//! `cachewise cpu`, as typed.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::output::Output;

/// `cachewise cpu`.
#[derive(Debug, Args)]
pub struct Cpu {
    /// What of it.
    #[command(subcommand)]
    pub command: CpuCommand,
}

/// What there is to see of the CPU's caches.
#[derive(Debug, Subcommand)]
pub enum CpuCommand {
    /// Show caches, cores, threads and NUMA nodes as a tree.
    Topology(CpuTopology),
}

/// `cachewise cpu topology`.
#[derive(Debug, Args)]
#[command(
    after_help = "What sysfs says, which in a virtual machine is what the hypervisor lets it say; `cachewise cpu table` \
    measures it. Containers may hide the caches: then the rest is shown, and that is said.\n\n\
    Exit status: 0 done; 2 something could not be done.\n\n\
    Examples:\n  \
    cachewise cpu topology\n  \
    cachewise cpu topology -o csv"
)]
pub struct CpuTopology {
    /// Read this directory as /sys: a copy from another machine, for one.
    #[arg(long, value_name = "DIRECTORY", default_value = "/sys")]
    pub sys: PathBuf,
    #[command(flatten)]
    pub output: Output,
}
