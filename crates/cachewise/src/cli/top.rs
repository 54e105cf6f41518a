//! `cachewise top`, as typed.

use std::path::PathBuf;

use cachewise_model::Field;
use cachewise_tui::{Filter, Kind};
use cachewise_units::Interval;
use clap::{Args, ValueEnum};

use super::output::{Output, parse_pid};

/// `cachewise top`.
#[derive(Debug, Args)]
#[command(
    after_help = "On a terminal: ? shows the keys. With -b, or where standard output is no terminal, rows are written \
    interval by interval: counts are those of the interval, to the page, so that they can be summed up; \
    ELAPSED is its length. Ctrl-C ends with the interval begun.\n\n\
    -o openmetrics writes one exposition at the end, of the whole time: processes by the name of their program, files by \
    their file system, so that labels are few.\n\n\
    Examples:\n  \
    cachewise top\n  \
    cachewise top -b -n 3 -d 1 --top 10\n  \
    cachewise top -b -n 1 --view file --sort direct_bytes -o csv\n  \
    cachewise top --view cgroup --filter 'glob:*.service'"
)]
pub struct Top {
    /// Time from screen to screen: 1, 0.5, 100ms, 1m.
    #[arg(allow_negative_numbers = true)]
    pub interval: Option<Interval>,
    /// Write rows instead of a screen.
    #[arg(short, long)]
    pub batch: bool,
    /// How many intervals; without it, until interrupted.
    #[arg(short = 'n', long, value_name = "COUNT", allow_negative_numbers = true,
        value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// The same as INTERVAL.
    #[arg(
        short,
        long,
        value_name = "SECONDS",
        allow_negative_numbers = true,
        conflicts_with = "interval"
    )]
    pub delay: Option<Interval>,
    /// Rows of what.
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = View::Process)]
    pub view: View,
    /// Sort by this column, largest first, names from A: an id (read_missed_pages) or a heading (MISSED).
    /// Without it by misses, then by what the disk had to read (FETCHED), then by what was asked for.
    #[arg(short, long, value_name = "COLUMN", value_parser = parse_column)]
    pub sort: Option<Name>,
    /// Only rows with this text in their names; `re:REGEX`, `glob:PATTERN`.
    #[arg(short, long, value_name = "TEXT", value_parser = Filter::new)]
    pub filter: Option<Filter>,
    /// Only what this process, those under it and those that they start do.
    #[arg(short, long, value_name = "PID", value_parser = parse_pid)]
    pub pid: Option<u32>,
    /// Only what tasks under this control group do.
    #[arg(long, value_name = "PATH")]
    pub cgroup: Option<PathBuf>,
    /// In rows: no more than the first N of each interval.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub top: Option<u64>,
    /// In rows: columns, separated by commas, ids or headings; `cachewise columns` lists them.
    #[arg(short, long, value_name = "LIST")]
    pub columns: Option<String>,
    /// On a screen: nothing can be done to the cache.
    #[arg(long)]
    pub readonly: bool,
    /// On a screen: leave the mouse to the terminal, so that text can be selected.
    #[arg(long)]
    pub no_mouse: bool,
    /// On a screen: only ASCII characters, as where the locale is not UTF-8.
    #[arg(long)]
    pub ascii: bool,
    #[command(flatten)]
    pub output: Output,
}

/// Rows of what.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum View {
    /// Processes.
    Process,
    /// Files.
    File,
    /// Control groups; where nobody uses the page cache, their own counts come up to 30 s late.
    Cgroup,
    /// Storage devices, and file systems without one.
    Device,
}

impl View {
    /// As the terminal's views know it.
    pub fn kind(self) -> Kind {
        match self {
            View::Process => Kind::Process,
            View::File => Kind::File,
            View::Cgroup => Kind::Cgroup,
            View::Device => Kind::Device,
        }
    }
}

/// A field, which is found again by its id.
#[derive(Debug, Clone, Copy)]
pub struct Name(pub &'static Field);

fn parse_column(text: &str) -> Result<Name, String> {
    let found = cachewise_model::field(text.trim());
    found.map(Name).ok_or_else(|| {
        format!(
            "no column `{}`; `cachewise columns` lists all",
            text.escape_debug()
        )
    })
}

impl Top {
    /// The time from screen to screen, or from row to row.
    pub fn pace(&self) -> Interval {
        self.delay.or(self.interval).unwrap_or(Interval::SECOND)
    }
}
