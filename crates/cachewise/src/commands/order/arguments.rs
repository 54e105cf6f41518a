//! Arguments of `cachewise order`.

use std::path::PathBuf;

use cachewise_residency::order::{Mode, PlanOptions};
use cachewise_units::Bytes;
use clap::{Args, ValueEnum};

use crate::options::Output;
use crate::options::Select;

/// `cachewise order`.
#[derive(Debug, Args)]
#[command(
    after_help = "Files that are read again and again and do not all fit into memory are never hit in their usual order: each \
    page is thrown out just before it is wanted. What is resident read first costs only what does not fit.\n\n\
    Files of which nobody tells this user what is resident keep the order given; that is said, with the reason.\n\n\
    Exit status: 0 done; 2 something could not be done, or is not known; 128+N ended by signal N, with the order of what \
    was looked at until then.\n\n\
    Examples:\n  \
    cachewise order -0 /data/*.bin | xargs -0 sha256sum\n  \
    cachewise order --explain --unit range /data\n  \
    cachewise order --simulate 768M /data"
)]
pub struct OrderFiles {
    /// Files and directories; what is under a directory comes in the order of its paths.
    #[arg(value_name = "PATH", required = true)]
    pub paths: Vec<PathBuf>,
    /// End each path with a zero byte instead of a newline, for xargs -0.
    #[arg(short = '0', long)]
    pub null: bool,
    /// What is put in order.
    #[arg(long, value_enum, default_value_t = Unit::File)]
    pub unit: Unit,
    /// With --unit range: a random order by this seed, resident chunks first; with --simulate, the seed of its row.
    #[arg(long, value_name = "SEED")]
    pub shuffle: Option<u64>,
    /// Say what the order saves, on standard error.
    #[arg(long)]
    pub explain: bool,
    /// Say what orders would cost with so much memory, a cycle, and read nothing.
    #[arg(long, value_name = "BYTES")]
    pub simulate: Option<Bytes>,
    #[command(flatten)]
    pub select: Select,
    #[command(flatten)]
    pub output: Output,
}

/// What is put in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Unit {
    /// Whole files.
    File,
    /// Ranges of files: PATH, OFFSET, LENGTH and what is resident, between tabs.
    Range,
}

impl OrderFiles {
    /// How to plan.
    pub fn options(&self) -> PlanOptions {
        PlanOptions {
            mode: self.shuffle.map_or(Mode::Free, Mode::Shuffle),
            ..PlanOptions::default()
        }
    }
}
