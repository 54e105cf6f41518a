//! What can be typed. Parsing touches nothing: the second stage, in each command, opens and checks.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use cachewise_model::{FIELDS, Field, STAT_COLUMNS};
use cachewise_probe::Options;
use cachewise_units::Interval;
use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;

use crate::output::{FAILED, Target, printable};

/// See how programs use the page cache, exact to the page.
#[derive(Debug, Parser)]
#[command(name = "cachewise", version, max_term_width = 100)]
#[command(
    after_help = "Exit status: 0 done; 2 something could not be done, usage included. \
    `run` ends with the command's own status: 127 not found, 126 not executable, 128+N killed by signal N."
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a program, or follow one, and report how it used the caches.
    Run(Run),
    /// Show the whole system's page cache at work, a row an interval.
    Stat(Stat),
    /// List every column that there is, with what it means.
    Columns,
    /// Print a completion script for a shell.
    Completions {
        /// Which shell.
        shell: Shell,
    },
}

const OUTPUT_HELP: &str =
    "Format and file: table, json, jsonl, csv or openmetrics; FILE (by its ending); FORMAT=FILE";

/// `cachewise run`.
#[derive(Debug, Args)]
#[command(
    after_help = "The report goes to standard error, so that the program's own output stays whole; \
    machine formats and files are chosen with -o.\n\n\
    Examples:\n  \
    cachewise run -- dd if=FILE of=/dev/null bs=1M\n  \
    cachewise run -o report.json -- make -j8\n  \
    cachewise run -p 1234 -d 10"
)]
pub struct Run {
    /// The program and its arguments.
    #[arg(
        trailing_var_arg = true,
        value_name = "COMMAND",
        required_unless_present = "pid"
    )]
    pub command: Vec<OsString>,
    /// Follow this process instead, with those under it and those that they start.
    #[arg(short, long, value_name = "PID", conflicts_with = "command", value_parser = clap::value_parser!(u32).range(1..))]
    pub pid: Option<u32>,
    /// With -p: report after so long (10, 500ms, 2m) instead of when the process ends.
    #[arg(short, long, value_name = "SECONDS", allow_negative_numbers = true)]
    pub duration: Option<Interval>,
    /// How many files, processes and control groups to name in the table.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10)]
    pub top: usize,
    #[command(flatten)]
    pub output: Output,
    /// Room for so many rows (process x file); what does not fit is summed up on one, and said.
    #[arg(long, value_name = "N", default_value_t = Options::MAX_ROWS, value_parser = clap::value_parser!(u32).range(1..=4_194_304))]
    pub max_rows: u32,
}

/// `cachewise stat`.
#[derive(Debug, Args)]
#[command(
    after_help = "HITS + MISSES = TOTAL, in pages asked for by reads. HIT% leaves out the hits that \
    read-ahead had just fetched (READAHEAD): it is the share that cost no I/O.\n\n\
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
    #[arg(short, long, value_name = "PID", value_parser = clap::value_parser!(u32).range(1..))]
    pub pid: Option<u32>,
    /// Only what tasks under this control group do.
    #[arg(long, value_name = "PATH")]
    pub cgroup: Option<PathBuf>,
    /// Only what is done to this file; may be given again.
    #[arg(long, value_name = "PATH")]
    pub file: Vec<PathBuf>,
    /// Columns, separated by commas; `cachewise columns` lists them.
    #[arg(short, long, value_name = "LIST", value_parser = parse_columns)]
    pub columns: Option<Columns>,
    #[command(flatten)]
    pub output: Output,
}

/// Where the output goes, and how it looks.
#[derive(Debug, Args)]
pub struct Output {
    #[arg(short, long, value_name = "TARGET", help = OUTPUT_HELP)]
    pub output: Option<Target>,
    /// Short for -o json. With `run` it goes to standard error, where the program's own errors go too:
    /// for a clean document write -o FILE.json.
    #[arg(long, conflicts_with = "output")]
    pub json: bool,
    /// When to colour.
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = Color::Auto)]
    pub color: Color,
}

/// When to colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Color {
    /// On a terminal, unless `NO_COLOR` is set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// Columns that exist.
#[derive(Debug, Clone)]
pub struct Columns(pub Vec<&'static Field>);

fn parse_columns(list: &str) -> Result<Columns, String> {
    cachewise_model::columns(list).map(Columns)
}

impl Stat {
    /// The columns asked for, or those of the case study.
    pub fn fields(&self) -> Vec<&'static Field> {
        match &self.columns {
            Some(columns) => columns.0.clone(),
            None => STAT_COLUMNS
                .iter()
                .filter_map(|id| cachewise_model::field(id))
                .collect(),
        }
    }
}

/// What clap has to say: help and version as they are, errors with what was typed made printable.
pub fn answer(error: &clap::Error) -> ExitCode {
    if error.use_stderr() {
        let text = error.render().to_string();
        let _ = write!(io::stderr(), "{}", printable(&text));
        return ExitCode::from(FAILED);
    }
    // A reader that has gone wants no more help.
    let _ = error.print();
    ExitCode::SUCCESS
}

/// Prints the table of fields.
pub fn columns() -> Result<()> {
    let mut out = io::stdout().lock();
    let width = FIELDS
        .iter()
        .map(|field| field.id.len())
        .max()
        .unwrap_or_default();
    for field in FIELDS.iter() {
        let default = if STAT_COLUMNS.contains(&field.id) {
            "*"
        } else {
            " "
        };
        writeln!(
            out,
            "{default} {:width$}  {:12}  {}",
            field.id, field.header, field.help
        )?;
    }
    writeln!(out, "\n* shown by `stat` unless --columns says otherwise")?;
    Ok(())
}
