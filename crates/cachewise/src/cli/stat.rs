//! `cachewise stat`, as typed.

use std::path::PathBuf;

use cachewise_model::{Field, STAT_COLUMNS};
use cachewise_units::Interval;
use clap::Args;

use super::output::{Columns, Output, parse_columns, parse_pid};
use crate::columns::fields;

/// `cachewise stat`.
#[derive(Debug, Args)]
#[command(
    after_help = "HITS + MISSED = REQUESTED, in pages asked for by reads. REUSE% leaves out the hits that \
    read-ahead had just fetched (AHEAD): it is the share that cost no I/O.\n\n\
    Ctrl-C ends with the totals; a second one ends at once. A terminal that is too narrow gets fewer \
    columns, and is told which are left out; --columns shows what it names, whatever the width.\n\n\
    Exit status: 0 done, also by Ctrl-C; 2 something could not be watched, or rows were lost.\n\n\
    Examples:\n  \
    cachewise stat 1 5\n  \
    cachewise stat --file /var/lib/db/data 1\n  \
    cachewise stat --columns time,total,hit%,faults,fault_miss_pages -o csv 0.5"
)]
pub struct Stat {
    /// Time from row to row: 1, 0.5, 100ms, 1m.
    #[arg(default_value = "1", allow_negative_numbers = true)]
    pub interval: Interval,
    /// How many rows; without it, until interrupted.
    #[arg(allow_negative_numbers = true, value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// Only what this process, those under it and those that they start do.
    #[arg(short, long, value_name = "PID", value_parser = parse_pid)]
    pub pid: Option<u32>,
    /// Only what tasks under this control group do.
    #[arg(long, value_name = "PATH")]
    pub cgroup: Option<PathBuf>,
    /// Only what is done to this file; may be given again.
    #[arg(long, value_name = "PATH")]
    pub file: Vec<PathBuf>,
    /// Columns, separated by commas: ids (read_hit_pages) or headings (HITS), in any case;
    /// `cachewise columns` lists them.
    #[arg(short, long, value_name = "LIST", value_parser = parse_columns)]
    pub columns: Option<Columns>,
    #[command(flatten)]
    pub output: Output,
}

impl Stat {
    /// The columns asked for, or those of the case study.
    pub fn fields(&self) -> Vec<&'static Field> {
        match &self.columns {
            Some(columns) => columns.0.clone(),
            None => fields(&STAT_COLUMNS),
        }
    }
}
