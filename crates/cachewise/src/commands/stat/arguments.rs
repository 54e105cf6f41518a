//! Arguments of `cachewise stat`.

use std::path::PathBuf;

use cachewise_model::{Field, STAT_COLUMNS};
use cachewise_units::Period;
use clap::Args;

use crate::columns::fields;
use crate::options::{Columns, Output, system_columns};
use crate::selection::Selection;

/// `cachewise stat`.
#[derive(Debug, Args)]
#[command(
    after_help = "HITS + MISSED + UNSERVED = REQUESTED, in pages that reads requested; UNSERVED is 0 unless requests \
    failed or ended short. REUSE% excludes readahead hits (AHEAD): it is the share that cost no I/O.\n\n\
    Ctrl-C ends with the totals; a second one ends at once. A narrow terminal gets fewer columns, and \
    a note lists the omitted ones; --columns shows its columns at any width.\n\n\
    Exit status: 0 done, also by Ctrl-C; 2 something could not be watched, or rows were lost.\n\n\
    Examples:\n  \
    cachewise stat 1 5\n  \
    cachewise stat --file /var/lib/db/data 1\n  \
    cachewise stat --columns time,requested,hit%,faults,fault_miss_pages -o csv 0.5"
)]
pub struct Stat {
    /// Time between rows, in seconds or with a unit: 0.5, 100ms, 1m.
    #[arg(default_value = "1", allow_negative_numbers = true)]
    pub interval: Period,
    /// Number of rows [default: until interrupted].
    #[arg(allow_negative_numbers = true, value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    #[command(flatten)]
    pub selection: Selection,
    /// Count only accesses to this file; repeat for more files.
    #[arg(long, value_name = "PATH")]
    pub file: Vec<PathBuf>,
    /// Columns, comma-separated ids (read_hit_pages) or headings (HITS), in any case; see `cachewise columns`.
    #[arg(short, long, value_name = "LIST", value_parser = system_columns(), hide_possible_values = true)]
    pub columns: Option<Columns>,
    #[command(flatten)]
    pub output: Output,
}

impl Stat {
    /// Columns of `--columns`, or those of the case study.
    pub fn fields(&self) -> Vec<&'static Field> {
        match &self.columns {
            Some(columns) => columns.0.clone(),
            None => fields(&STAT_COLUMNS),
        }
    }
}
