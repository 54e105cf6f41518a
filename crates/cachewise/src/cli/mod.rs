//! The command line. Parsing touches nothing: the second stage, in each command, opens and checks.

mod act;
mod bench;
mod cache;
mod compat;
mod cpu;
mod doctor;
mod drop;
mod files;
mod guard;
mod matrix;
mod mount;
mod order;
mod output;
mod record;
mod report;
mod run;
mod select;
mod serve;
mod stat;
mod tier;
mod top;

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use clap_complete::Shell;

use crate::output::{FAILED, printable};
pub use act::{Evict, Lock, Snapshot, SnapshotCommand, Target, Warm};
pub use bench::{Bench, BenchCommand, Demo, DemoDd, DemoDirect, Measure};
pub use cache::CacheFlags;
pub use compat::{Called, Compat};
pub use cpu::{Cpu, CpuCommand, CpuLab, CpuRun, CpuSharing, CpuTable, CpuTopology};
pub use doctor::Doctor;
pub use drop::Drop;
pub use files::{Files, SortKey};
pub use guard::{By, Guard, KeptOf};
pub use matrix::{Matrix, Restore};
pub use mount::Mount;
pub use order::{Cat, OrderFiles, Unit};
pub use output::{Color, Output};
pub use record::Record;
pub use report::{Of, Report};
pub use run::Run;
pub use select::Select;
pub use serve::{NamedGlob, Serve};
pub use stat::Stat;
pub use tier::{DevCluster, Get, OnFiles, Tier, TierCommand, TierStat};
pub use top::Top;

/// Measure how programs use the page cache, to the page.
#[derive(Debug, Parser)]
#[command(name = "cachewise", version, max_term_width = 100)]
#[command(
    after_help = "Exit status: 0 done; 1 the answer is no (files --fail-below, drop); 2 something could not be done or is \
    not known, usage included; 128+N ended by signal N. \
    `run` ends with the command's own status: 127 not found, 126 not executable, 128+N killed by signal N."
)]
pub struct Cli {
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a program, or follow one, and report how it used the caches.
    Run(Run),
    /// Show hits and misses of the whole machine, a row per interval.
    Stat(Stat),
    /// Show page-cache use live, by process, file, control group or device.
    Top(Box<Top>),
    /// Tell what this machine offers for looking at its caches, and what is wrong on it.
    Doctor(Doctor),
    /// Record what the machine does, to be looked at later.
    Record(Box<Record>),
    /// Look at a recording: figures, gaps, time lost to waiting, who did most; every sample; a page with plots.
    Report(Box<Report>),
    /// Show what of files, directories, processes or the whole machine is in the page cache.
    Files(Box<Files>),
    /// Bring files into the page cache, but for what is there already.
    Warm(Box<Warm>),
    /// Put files out of the page cache, and say what stayed and why.
    Evict(Box<Evict>),
    /// Keep files in memory for as long as this runs.
    Lock(Box<Lock>),
    /// Keep in a file what is resident, bring it back, or compare.
    Snapshot(Snapshot),
    /// Print files, or ranges of them, in the order in which reading costs the least I/O.
    Order(OrderFiles),
    /// Write files to standard output, and leave the cache as it was.
    Cat(Cat),
    /// Keep memory available by reclaiming from the control groups that you name.
    Guard(Box<Guard>),
    /// Drop the clean page cache of the whole machine, after writing dirty pages back.
    Drop(Drop),
    /// Measure reads or writes of a file, with or without memory pressure.
    Bench(Box<Bench>),
    /// Serve metrics, a live web page and JSON over HTTP.
    Serve(Box<Serve>),
    /// See the CPU's own caches: what they are, what they cost, and how a program uses them.
    Cpu(Box<Cpu>),
    /// Show a directory through a block cache: memory, disk, servers that machines share.
    Mount(Box<Mount>),
    /// Use a block cache without a mount, look at it, and try it out.
    Tier(Box<Tier>),
    /// List every column with its meaning.
    Columns,
    /// Print a completion script for a shell.
    Completions {
        /// Shell to complete for.
        shell: Shell,
    },
    /// Print the manual's first page, or write all pages into a directory.
    Man {
        /// Directory for one page per command; it is made if missing [default: print the first page].
        #[arg(value_name = "DIR")]
        directory: Option<PathBuf>,
    },
    /// Run as another tool, or list the supported names and options of other tools.
    Compat(Compat),
}

/// Prints clap's answer: help and version unchanged, errors with escaped user input.
pub fn answer(error: &clap::Error) -> ExitCode {
    if error.use_stderr() {
        let text = error.render().to_string();
        let _ = write!(io::stderr(), "{}", printable(&text));
        return ExitCode::from(FAILED);
    }
    // A closed pipe is not an error.
    let _ = error.print();
    ExitCode::SUCCESS
}
