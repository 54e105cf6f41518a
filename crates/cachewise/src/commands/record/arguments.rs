//! Arguments of `cachewise record`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use cachewise_units::{Bytes, Interval};
use clap::Args;

use crate::options::parse_pid;

const RECORD_USAGE: &str = "cachewise record [OPTIONS] FILE
       cachewise record [OPTIONS] FILE -- COMMAND [ARGUMENT]...";

/// The probe is asked at each sample: more often it would be seen in what it measures.
const SHORTEST: Duration = Duration::from_millis(100);
/// A part has room for some samples of a busy machine.
const SMALLEST: Bytes = Bytes(1 << 20);

/// `cachewise record`.
#[derive(Debug, Args)]
#[command(
    override_usage = RECORD_USAGE,
    after_help = "Each sample is written as soon as it is taken: what is killed leaves all but the last. A recording \
    that is there is gone on with, and the time between is marked. FILE.1, FILE.2, ... are its older \
    parts; the oldest goes when there is no more room.\n\n\
    Ctrl-C ends the recording. With a command it goes to the command, and the recording ends with it; \
    the exit status is the command's.\n\n\
    Examples:\n  \
    cachewise record night.rec\n  \
    cachewise record --interval 100ms build.rec -- make -j8\n  \
    cachewise record --duration 1h --max-size 16M -p 1234 db.rec"
)]
pub struct Record {
    /// The recording: made, or gone on with.
    pub file: PathBuf,
    /// Record until this command has ended.
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
    /// Time from sample to sample: 1, 0.5, 100ms, 1m; 100ms at least.
    #[arg(short, long, default_value = "1", allow_negative_numbers = true, value_parser = parse_interval)]
    pub interval: Interval,
    /// Record for so long: 90, 10m, 8h.
    #[arg(short, long, allow_negative_numbers = true)]
    pub duration: Option<Interval>,
    /// So many of the most active processes and files are kept by name at each sample; one row has all
    /// others.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u16).range(0..=1000))]
    pub top: u16,
    /// The recording grows to this, all parts together; then the oldest part goes.
    #[arg(long, value_name = "SIZE", default_value = "64M", value_parser = parse_size)]
    pub max_size: Bytes,
    /// Into so many parts: files of a size of their own.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub keep: u16,
    /// Count only what this process, those under it and those that they start ask of the cache; ends with it.
    #[arg(short, long, value_name = "PID", value_parser = parse_pid, conflicts_with = "cgroup")]
    pub pid: Option<u32>,
    /// Count only what tasks under this control group ask of the cache.
    #[arg(long, value_name = "PATH")]
    pub cgroup: Option<PathBuf>,
    /// With a command: count only what it and what it starts ask of the cache, instead of everybody.
    #[arg(long, requires = "command", conflicts_with_all = ["pid", "cgroup"])]
    pub only: bool,
    /// Keep the arguments of the command out of the recording: they may hold secrets.
    #[arg(long)]
    pub redact_args: bool,
    /// Do not lock the recorder's memory: without it samples may come late when memory is short.
    #[arg(long)]
    pub no_lock: bool,
    /// Say nothing but what goes wrong.
    #[arg(short, long)]
    pub quiet: bool,
}

fn parse_interval(text: &str) -> Result<Interval, String> {
    let interval: Interval = text
        .parse()
        .map_err(|error: cachewise_units::ParseIntervalError| error.to_string())?;
    if interval.get() < SHORTEST {
        return Err("shorter than 100ms a recorder would mostly record itself".into());
    }
    Ok(interval)
}

fn parse_size(text: &str) -> Result<Bytes, String> {
    let size: Bytes = text
        .parse()
        .map_err(|error: cachewise_units::ParseBytesError| error.to_string())?;
    if size < SMALLEST {
        return Err(format!("a recording needs {SMALLEST} at least"));
    }
    Ok(size)
}
