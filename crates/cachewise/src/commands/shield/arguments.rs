//! Arguments of `cachewise shield`.

use std::ffi::OsString;
use std::path::PathBuf;

use cachewise_units::{Bytes, Period};
use cachewise_view::Format;
use clap::Args;
use clap::error::ErrorKind;

use crate::options::{Output, SeparatedPathList};
use crate::selection::Selection;

const SHIELD_USAGE: &str = "cachewise shield [OPTIONS] [--] COMMAND [ARGUMENT]...
       cachewise shield [OPTIONS] --pid PID
       cachewise shield [OPTIONS] --cgroup PATH
       cachewise shield [OPTIONS] --auto";

/// `cachewise shield`.
#[derive(Debug, Args)]
#[command(
    override_usage = SHIELD_USAGE,
    after_help = "Drops pages of files behind a program that reads them once, such as a backup or a scan, so that it does not \
    evict the pages of others. A page is dropped only if the program itself brought it in and has gone on from it. It stays \
    if it was resident before, if another process has used it, if it is dirty, locked or mapped, if it shares a folio with a \
    page that stays, and from when the program comes back to its file while the pages would still be in memory. Files on \
    FUSE are never opened, so their pages stay. The program runs as it is, also if it is static or runs already.\n\n\
    It needs Linux 6.12, and root or CAP_BPF, CAP_PERFMON and CAP_DAC_READ_SEARCH. Nothing has to be undone, also after \
    kill -9.\n\n\
    The result of a command goes to standard error, separate from its output; with -p, --cgroup and --auto it goes to \
    standard output, and Ctrl-C ends the shield.\n\n\
    Exit status: 0 done; 2 programs could not be shielded; 130 ended by Ctrl-C, after the result; with a command its own \
    status.\n\n\
    Examples:\n  \
    cachewise shield -- tar cf /backup/home.tar /home\n  \
    cachewise shield --writes -- cp big.img /srv\n  \
    cachewise shield -p $(pidof rsync)\n  \
    cachewise shield --cgroup backup.slice -d 1h -o json"
)]
pub struct Shield {
    /// Program to run, and its arguments.
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
    #[command(flatten)]
    pub selection: Selection,
    /// Shield every process that streams through a file, each for itself.
    #[arg(long)]
    pub auto: bool,
    /// Also write back and drop pages that the program has written.
    #[arg(long)]
    pub writes: bool,
    /// With --auto: bytes of a file that a process has to insert one after the other before the rest is dropped.
    #[arg(long, value_name = "BYTES", default_value = "64M")]
    pub stream: Bytes,
    #[command(flatten)]
    pub list: SeparatedPathList,
    /// Stop after this time, in seconds or with a unit (500ms, 2m), not with a command [default: until interrupted].
    #[arg(short, long, value_name = "SECONDS", allow_negative_numbers = true)]
    pub duration: Option<Period>,
    /// Replace each -o openmetrics=FILE at this interval while the shield runs, as for the textfile collector of
    /// node_exporter; not with a command [default: at the end only].
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    pub interval: Option<Period>,
    /// Maximum files to show, most dropped pages first; 0 shows all.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10)]
    pub top: usize,
    #[command(flatten)]
    pub output: Output,
}

impl Shield {
    /// Checks that there is exactly one thing to shield, with clearer errors than those of clap.
    ///
    /// # Errors
    /// Names the missing or conflicting argument, and the fix.
    pub fn check(&self) -> Result<(), (ErrorKind, String)> {
        self.selection.exactly_one(
            &self.command,
            (self.auto, "--auto"),
            self.duration.is_some(),
            ("shield", "cachewise shield -- tar cf x.tar dir"),
        )?;
        if self.interval.is_none() {
            return Ok(());
        }
        if !self.command.is_empty() {
            let error = "--interval is for running programs: remove it, a command has its metrics at the end";
            return Err((ErrorKind::ArgumentConflict, error.into()));
        }
        if self.metric_files().is_empty() {
            let error = "--interval has no file to replace: add -o openmetrics=FILE";
            return Err((ErrorKind::MissingRequiredArgument, error.into()));
        }
        Ok(())
    }

    /// The files of `-o openmetrics=FILE`.
    pub fn metric_files(&self) -> Vec<PathBuf> {
        let targets = self.output.output.iter();
        let targets = targets.filter(|target| target.format() == Format::OpenMetrics);
        targets
            .filter_map(|target| target.file().map(PathBuf::from))
            .collect()
    }
}
