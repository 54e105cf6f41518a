//! Arguments of `cachewise run`.

use std::ffi::OsString;
use std::path::PathBuf;

use cachewise_model::Condition;
use cachewise_probe::Options;
use cachewise_units::Period;
use clap::Args;
use clap::error::ErrorKind;

use crate::options::{Columns, LabelFile, Output, StackFiles, fail_if, report_columns};
use crate::selection::Selection;

const RUN_USAGE: &str = "cachewise run [OPTIONS] [--] COMMAND [ARGUMENT]...
       cachewise run [OPTIONS] --pid PID";

/// `cachewise run`.
#[derive(Debug, Args)]
#[command(
    override_usage = RUN_USAGE,
    mut_arg("json", |json| json.help("Same as -o json, to standard error, mixed with that of the program: prefer -o FILE.json")),
    mut_arg("folded", |folded| folded.help("Write the stacks to this file, one a line, for programs that draw flame graphs; implies --stacks")),
    mut_arg("flamegraph", |graph| graph.help("Write a flame graph to this file (SVG); implies --stacks")),
    after_help = "The report goes to standard error, separate from the output of the program; -o selects a format or a \
    file.\n\n\
    Ctrl-C goes to the program, as without cachewise; the report follows when the program has ended. With -p, Ctrl-C \
    ends the measurement and prints the report. A second Ctrl-C during the report ends cachewise without one (130).\n\n\
    Exit status: that of the program, if it is not 0; 1 a condition of --fail-if is true; 2 one is unknown, or something could \
    not be done.\n\n\
    Examples:\n  \
    cachewise run -- dd if=FILE of=/dev/null bs=1M\n  \
    cachewise run -o report.json -- make -j8\n  \
    cachewise run -p 1234 -d 10\n  \
    cachewise run --stacks --flamegraph flame.svg -- ./server --once\n  \
    cachewise run --fail-if 'fetched_bytes > 100M' --fail-if 'reuse_ratio < 90%' -- make test"
)]
pub struct Run {
    /// Program to run, and its arguments.
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
    #[command(flatten)]
    pub selection: Selection,
    #[command(flatten)]
    pub labels: LabelFile,
    /// Stop after this time, in seconds or with a unit (500ms, 2m), with -p [default: until the process ends].
    #[arg(short, long, value_name = "SECONDS", allow_negative_numbers = true)]
    pub duration: Option<Period>,
    /// Maximum files, processes and control groups to show in the table.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10)]
    pub top: usize,
    /// Columns of the tables of files, processes and control groups, and of CSV, comma-separated ids or headings; see
    /// `cachewise columns`.
    #[arg(short, long, value_name = "LIST", value_parser = report_columns(), hide_possible_values = true)]
    pub columns: Option<Columns>,
    #[command(flatten)]
    pub output: Output,
    /// Maximum (process, file) rows to track, about 810 bytes of kernel memory each; the rest is aggregated and
    /// reported.
    #[arg(long, value_name = "N", default_value_t = Options::MAX_ROWS, value_parser = clap::value_parser!(u32).range(1..=4_194_304))]
    pub max_rows: u32,
    /// Exit with 1 if this is true of the totals: a field (see `cachewise columns`), <, <=, >, >=, == or !=, and a value such
    /// as 100M, 2s or 99.5%; repeat for more conditions.
    #[arg(long, value_name = "CONDITION", value_parser = fail_if::parse_of_run)]
    pub fail_if: Vec<Condition>,
    /// Restore a snapshot of `snapshot save --of` while the command starts, and report how much of it was used.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["pid", "cgroup", "unit", "container", "program", "verify"])]
    pub with_snapshot: Option<PathBuf>,
    /// Run the command again with its files in the page cache, and compare the time with the prediction.
    #[arg(long, conflicts_with_all = ["pid", "cgroup", "unit", "container", "program"])]
    pub verify: bool,
    /// With --verify: shell command that restores what the command changed, to run before it runs again.
    #[arg(long, value_name = "COMMAND", requires = "verify")]
    pub prepare: Option<String>,
    /// With --verify: run the command again although it wrote or removed files.
    #[arg(short, long, requires = "verify")]
    pub yes: bool,
    /// Check each file, process and control group against independent counts, and show the checks.
    #[arg(short, long)]
    pub verbose: bool,
    /// Show the code that waits for storage or evicts: user and kernel stacks of missed reads and faults, direct I/O, fsync,
    /// throttled writes and evictions.
    #[arg(long)]
    pub stacks: bool,
    #[command(flatten)]
    pub stack_files: StackFiles,
    /// Omit the arguments of the command from the report: they may hold secrets.
    #[arg(long)]
    pub redact_args: bool,
}

impl Run {
    /// Whether stacks are wanted, in the report or in a file.
    pub fn wants_stacks(&self) -> bool {
        self.stacks || self.stack_files.is_wanted()
    }

    /// Arguments that run `command` with the default options.
    pub fn of(command: Vec<OsString>) -> Run {
        Run {
            command,
            selection: Selection::default(),
            labels: LabelFile::default(),
            duration: None,
            top: 10,
            columns: None,
            output: Output::usual(),
            max_rows: Options::MAX_ROWS,
            fail_if: Vec::new(),
            with_snapshot: None,
            verify: false,
            prepare: None,
            yes: false,
            verbose: false,
            stacks: false,
            stack_files: StackFiles::default(),
            redact_args: false,
        }
    }

    /// Checks that there is either a command or a process, with clearer errors than those of clap.
    ///
    /// # Errors
    /// Names the missing or conflicting argument, and the fix.
    pub fn check(&self) -> Result<(), (ErrorKind, String)> {
        let fault = match (self.selection.option(), self.duration, &self.command[..]) {
            (None, Some(_), _) => (
                ErrorKind::MissingRequiredArgument,
                "-d limits the time that a process is followed: add --pid PID, --command PATTERN, --unit NAME or --container NAME; a command runs to its end"
                    .into(),
            ),
            (None, None, []) => (
                ErrorKind::MissingRequiredArgument,
                "nothing to run: add a command, as in `cachewise run -- ls`, or a running process with --pid PID, --command PATTERN, --unit NAME or --container NAME"
                    .into(),
            ),
            (Some(option), _, [command, ..]) => (
                ErrorKind::ArgumentConflict,
                format!(
                    "{option}{} follows a running process, and {:?} would start another: remove one of the two; \
                     to measure both, run cachewise twice",
                    self.selection.pid.map_or(String::new(), |pid| format!(" {pid}")),
                    command.to_string_lossy()
                ),
            ),
            _ => return Ok(()),
        };
        Err(fault)
    }
}
