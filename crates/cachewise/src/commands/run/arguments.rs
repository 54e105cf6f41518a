//! Arguments of `cachewise run`.

use std::ffi::OsString;

use cachewise_probe::Options;
use cachewise_units::Interval;
use clap::Args;
use clap::error::ErrorKind;

use crate::options::{Output, parse_pid};

const RUN_USAGE: &str = "cachewise run [OPTIONS] [--] COMMAND [ARGUMENT]...
       cachewise run [OPTIONS] --pid PID";

/// `cachewise run`.
#[derive(Debug, Args)]
#[command(
    override_usage = RUN_USAGE,
    after_help = "The report goes to standard error, so that the program's own output stays whole; \
    machine formats and files are chosen with -o.\n\n\
    Ctrl-C goes to the program, as without cachewise; the report follows when the program has ended. \
    With -p it ends the following, and the report comes at once. Pressed again while the report is \
    made, it ends cachewise without one (130).\n\n\
    Examples:\n  \
    cachewise run -- dd if=FILE of=/dev/null bs=1M\n  \
    cachewise run -o report.json -- make -j8\n  \
    cachewise run -p 1234 -d 10"
)]
pub struct Run {
    /// The program and its arguments.
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
    /// Follow this process instead, with those under it and those that they start.
    #[arg(short, long, value_name = "PID", value_parser = parse_pid)]
    pub pid: Option<u32>,
    /// With -p: report after so long (10, 500ms, 2m) instead of when the process ends.
    #[arg(short, long, value_name = "SECONDS", allow_negative_numbers = true)]
    pub duration: Option<Interval>,
    /// How many files, processes and control groups to name in the table.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10)]
    pub top: usize,
    #[command(flatten)]
    pub output: Output,
    /// Maximum (process, file) rows to track, about 490 bytes of kernel memory each; the rest is aggregated and
    /// reported.
    #[arg(long, value_name = "N", default_value_t = Options::MAX_ROWS, value_parser = clap::value_parser!(u32).range(1..=4_194_304))]
    pub max_rows: u32,
    /// Check each file, process and control group against independent counts, and show the checks.
    #[arg(short, long)]
    pub verbose: bool,
    /// Keep the arguments of the command out of the report: they may hold secrets.
    #[arg(long)]
    pub redact_args: bool,
}

impl Run {
    /// That of a command, with everything else as usual.
    pub fn of(command: Vec<OsString>) -> Run {
        Run {
            command,
            pid: None,
            duration: None,
            top: 10,
            output: Output::usual(),
            max_rows: Options::MAX_ROWS,
            verbose: false,
            redact_args: false,
        }
    }

    /// Checks that there is either a command or a process: what clap would say of it helps nobody.
    ///
    /// # Errors
    /// Says what is missing or contradicts, and what to write.
    pub fn check(&self) -> Result<(), (ErrorKind, String)> {
        let fault = match (self.pid, self.duration, &self.command[..]) {
            (None, Some(_), _) => (
                ErrorKind::MissingRequiredArgument,
                "-d limits how long a process is followed, so it needs --pid PID; a command runs to its end"
                    .into(),
            ),
            (None, None, []) => (
                ErrorKind::MissingRequiredArgument,
                "nothing to run: give a command, as in `cachewise run -- ls`, or with --pid a process that \
                 runs already"
                    .into(),
            ),
            (Some(pid), _, [command, ..]) => (
                ErrorKind::ArgumentConflict,
                format!(
                    "--pid {pid} follows a process that runs already, and {:?} would start another: give \
                     one of the two; to see both, start cachewise twice",
                    command.to_string_lossy()
                ),
            ),
            _ => return Ok(()),
        };
        Err(fault)
    }
}
