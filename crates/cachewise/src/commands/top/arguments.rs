//! Arguments of `cachewise top`.

use std::io::IsTerminal;

use cachewise_cli::columns::ColumnsParser;
use cachewise_model::Field;
use cachewise_tui::{Filter, ViewKind};
use cachewise_units::Period;
use clap::{Args, ValueEnum};

use crate::options::{LabelFile, Output, any_columns, any_ids};
use crate::selection::Selection;

/// `cachewise top`.
#[derive(Debug, Args)]
#[command(
    after_help = "On a terminal, ? shows the keys. With -b, or if standard output is no terminal, top writes rows for each \
    interval: counts of the interval, in pages, which can be summed up; ELAPSED is its length. Ctrl-C ends with the \
    current interval. A pipe, a file and -o have all columns that the screen offers.\n\n\
    -o openmetrics writes one exposition at the end, for the whole time: processes by program name, files by file \
    system, to keep labels few.\n\n\
    Exit status: 0 done, also by q or Ctrl-C; 2 something could not be done.\n\n\
    Examples:\n  \
    cachewise top\n  \
    cachewise top -b -n 3 -d 1 --top 10\n  \
    cachewise top -b -n 1 --view file --sort direct_bytes -o csv\n  \
    cachewise top --view cgroup --filter 'glob:*.service'"
)]
pub struct Top {
    /// Time between screens, in seconds or with a unit: 0.5, 100ms, 1m [default: 1].
    #[arg(allow_negative_numbers = true)]
    pub interval: Option<Period>,
    /// Write rows instead of a screen.
    #[arg(short, long)]
    pub batch: bool,
    /// Number of intervals [default: until interrupted].
    #[arg(short = 'n', long, value_name = "COUNT", allow_negative_numbers = true,
        value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// Same as INTERVAL.
    #[arg(
        short,
        long,
        value_name = "SECONDS",
        allow_negative_numbers = true,
        conflicts_with = "interval"
    )]
    pub delay: Option<Period>,
    /// Kind of rows.
    #[arg(long, value_name = "KIND", value_enum, default_value_t = View::Process)]
    pub view: View,
    /// Column to sort by: an id (read_missed_pages) or a heading (MISSED); numbers largest first, names A to Z
    /// [default: bytes read from disk (FETCHED), then seconds waited for them (WAITED), then requested pages].
    #[arg(short, long, value_name = "COLUMN", value_parser = ColumnsParser { parse: parse_column, ids: any_ids }, hide_possible_values = true)]
    pub sort: Option<Name>,
    /// Show only rows with this text in their names, on the screen in names that it shows; also re:REGEX, glob:PATTERN.
    #[arg(short, long, value_name = "TEXT", value_parser = Filter::new)]
    pub filter: Option<Filter>,
    #[command(flatten)]
    pub selection: Selection,
    #[command(flatten)]
    pub labels: LabelFile,
    /// Write at most the first N rows of each interval [default: all].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub top: Option<u64>,
    /// Columns of rows, comma-separated ids or headings; see `cachewise columns`.
    #[arg(short, long, value_name = "LIST", value_parser = any_columns(), hide_possible_values = true)]
    pub columns: Option<String>,
    /// Disable warming and evicting on the screen.
    #[arg(long)]
    pub readonly: bool,
    /// Leave the mouse to the terminal, so that text can be selected.
    #[arg(long)]
    pub no_mouse: bool,
    /// Draw the screen in ASCII [default: if the locale is not UTF-8].
    #[arg(long)]
    pub ascii: bool,
    #[command(flatten)]
    pub output: Output,
}

/// Kind of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum View {
    /// Processes.
    Process,
    /// Files.
    File,
    /// Control groups; counters of a group without page-cache activity can be up to 30 s old.
    Cgroup,
    /// Storage devices, and file systems without one.
    Device,
}

impl View {
    /// The matching kind of the screen's views.
    pub fn kind(self) -> ViewKind {
        match self {
            View::Process => ViewKind::Process,
            View::File => ViewKind::File,
            View::Cgroup => ViewKind::Cgroup,
            View::Device => ViewKind::Device,
        }
    }
}

/// A field, identified by its id.
#[derive(Debug, Clone, Copy)]
pub struct Name(pub &'static Field);

fn parse_column(text: &str) -> Result<Name, String> {
    let found = cachewise_model::field(text.trim());
    found.map(Name).ok_or_else(|| {
        format!(
            "no column `{}`; `cachewise columns` lists them",
            text.escape_debug()
        )
    })
}

impl Top {
    /// Whether rows are a table on a terminal, and not for another program.
    pub fn is_table_on_terminal(&self) -> bool {
        let has_format = !self.output.output.is_empty() || self.output.json;
        !has_format && std::io::stdout().is_terminal()
    }

    /// Time between screens or rows.
    pub fn pace(&self) -> Period {
        self.delay.or(self.interval).unwrap_or(Period::SECOND)
    }
}
