//! Arguments of `cachewise record`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use cachewise_units::{Bytes, Period};
use clap::Args;

use crate::options::LabelFile;
use crate::selection::Selection;

const RECORD_USAGE: &str = "cachewise record [OPTIONS] FILE
       cachewise record [OPTIONS] FILE -- COMMAND [ARGUMENT]...";

/// Each sample reads the probe: with a shorter interval the recorder would distort what it measures.
const SHORTEST: Duration = Duration::from_millis(100);
/// Enough for several samples of a busy machine.
const SMALLEST: Bytes = Bytes(1 << 20);

/// `cachewise record`.
#[derive(Debug, Args)]
#[command(
    override_usage = RECORD_USAGE,
    mut_arg("pid", |pid| pid.conflicts_with("cgroup")),
    after_help = "Each sample is written at once: after kill -9 all but the last are there. An existing recording is \
    continued, with the gap marked. FILE.1, FILE.2, ... are its older parts; the oldest is deleted when --max-size is \
    reached.\n\n\
    Ctrl-C ends the recording. With a command, Ctrl-C goes to the command, and the recording ends when the command ends.\n\n\
    Exit status: 0 done, also by Ctrl-C; 2 something could not be recorded; with a command its own status, or 2 if that is 0 and \
    something could not be recorded.\n\n\
    Examples:\n  \
    cachewise record night.rec\n  \
    cachewise record --interval 100ms build.rec -- make -j8\n  \
    cachewise record --stacks --only app.rec -- ./server --once\n  \
    cachewise record --duration 1h --max-size 16M -p 1234 db.rec"
)]
pub struct Record {
    /// Recording to create or continue.
    pub file: PathBuf,
    /// Command to run; the recording ends with it.
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
    /// Time between samples, in seconds or with a unit: 0.5, 100ms, 1m; minimum 100ms.
    #[arg(short, long, default_value = "1", allow_negative_numbers = true, value_parser = parse_interval)]
    pub interval: Period,
    /// Stop after this time, in seconds or with a unit: 90, 10m, 8h [default: until interrupted].
    #[arg(short, long, allow_negative_numbers = true)]
    pub duration: Option<Period>,
    /// Number of the most active processes, and of files, to keep by name in each sample; one row sums the others.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u16).range(0..=1000))]
    pub top: u16,
    /// Maximum size of all parts together, in bytes or with a unit; then the oldest part is deleted.
    #[arg(long, value_name = "SIZE", default_value = "64M", value_parser = parse_size)]
    pub max_size: Bytes,
    /// Number of parts, each a file of an equal share of --max-size.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub keep: u16,
    #[command(flatten)]
    pub selection: Selection,
    #[command(flatten)]
    pub labels: LabelFile,
    /// Count only the command and its descendants instead of the whole machine.
    #[arg(long, requires = "command", conflicts_with_all = ["pid", "cgroup", "unit", "container", "program"])]
    pub only: bool,
    /// Record the code that waits for storage or evicts: user and kernel stacks of missed reads and faults, direct I/O,
    /// fsync, throttled writes and evictions; see docs/stacks.md.
    #[arg(long)]
    pub stacks: bool,
    /// Omit the arguments of the command from the recording: they may hold secrets.
    #[arg(long)]
    pub redact_args: bool,
    /// Do not lock the memory of the recorder; samples may then be late when memory is short.
    #[arg(long)]
    pub no_lock: bool,
    /// Print only errors and warnings.
    #[arg(short, long)]
    pub quiet: bool,
}

fn parse_interval(text: &str) -> Result<Period, String> {
    let interval: Period = text
        .parse()
        .map_err(|error: cachewise_units::ParsePeriodError| error.to_string())?;
    if interval.get() < SHORTEST {
        return Err(
            "interval too short: below 100ms the recorder would mostly record itself".into(),
        );
    }
    Ok(interval)
}

fn parse_size(text: &str) -> Result<Bytes, String> {
    let size: Bytes = text
        .parse()
        .map_err(|error: cachewise_units::ParseBytesError| error.to_string())?;
    if size < SMALLEST {
        return Err(format!(
            "size too small: a recording needs at least {SMALLEST}"
        ));
    }
    Ok(size)
}
