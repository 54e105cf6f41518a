//! Arguments of `cachewise size`.

use std::ffi::OsString;
use std::path::PathBuf;

use cachewise_units::{Bytes, Period};
use clap::Args;
use clap::error::ErrorKind;

use super::policy::Evicts;
use crate::options::{Columns, Output, size_columns};
use crate::selection::Selection;

const SIZE_USAGE: &str = "cachewise size [OPTIONS] [--] COMMAND [ARGUMENT]...
       cachewise size [OPTIONS] --pid PID
       cachewise size [OPTIONS] --cgroup PATH
       cachewise size [OPTIONS] --all";

/// `cachewise size`.
#[derive(Debug, Args)]
#[command(
    override_usage = SIZE_USAGE,
    after_help = "Watches accesses to the page cache and simulates some twenty memory sizes at once, with the kernel's active and \
    inactive lists or, where it has MGLRU on, its generations, and with its refaults and its readahead. MISS% is the share of requested pages that would not be in \
    the page cache; FETCH% are the pages that devices would deliver, by requested pages. All figures are simulated and marked with ~.\n\n\
    CACHE is the part of MEMORY that pages of files can have; the other memory of the control group is taken as it is. \
    Touches of mapped files are no events: if the program maps files, it may need more memory than the curve says. A \
    large footprint is sampled, in bounded memory.\n\n\
    The result of a command goes to standard error, separate from its output; with -p, --cgroup and --all it goes to \
    standard output, and Ctrl-C ends the measurement.\n\n\
    Exit status: 0 done; 2 accesses could not be watched, or were lost; 130 ended by Ctrl-C, after the result so far; \
    with a command its own status.\n\n\
    Examples:\n  \
    cachewise size -- ./query.sh\n  \
    cachewise size -p 1234 -d 60 --svg curve.svg\n  \
    cachewise size --cgroup /system.slice/postgresql.service -d 60 --warm-up 20\n  \
    cachewise size --all -d 60 -o json"
)]
pub struct Size {
    /// Program to run, and its arguments.
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
    #[command(flatten)]
    pub selection: Selection,
    /// Watch the whole machine instead.
    #[arg(long)]
    pub all: bool,
    /// Stop after this time, in seconds or with a unit (500ms, 2m), not with a command [default: until interrupted].
    #[arg(short, long, value_name = "SECONDS", allow_negative_numbers = true)]
    pub duration: Option<Period>,
    /// Count only accesses after this time; those before fill the simulated memories [default: count all].
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    pub warm_up: Option<Period>,
    /// Simulate this memory size too; repeat for more sizes.
    #[arg(long, value_name = "BYTES")]
    pub memory: Vec<Bytes>,
    /// Policy of eviction to simulate.
    #[arg(long, value_name = "POLICY", value_enum, default_value_t = Evicts::Auto)]
    pub policy: Evicts,
    /// Simulate all pages, up to 131,072, whatever CPU time that takes [default: a sample that takes at most a twentieth of
    /// a CPU].
    #[arg(long)]
    pub full_sample: bool,
    /// Write a plot of the curve to this file.
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Columns, comma-separated ids (size_miss_ratio) or headings (MISS%), in any case; see `cachewise columns`.
    #[arg(long, value_name = "LIST", value_parser = size_columns(), hide_possible_values = true)]
    pub columns: Option<Columns>,
    #[command(flatten)]
    pub output: Output,
}

impl Size {
    /// Checks that there is exactly one thing to watch, with clearer errors than those of clap.
    ///
    /// # Errors
    /// Names the missing or conflicting argument, and the fix.
    pub fn check(&self) -> Result<(), (ErrorKind, String)> {
        self.selection.exactly_one(
            &self.command,
            (self.all, "--all"),
            self.duration.is_some(),
            ("watch", "cachewise size -- ls"),
        )
    }
}
