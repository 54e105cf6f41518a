//! What can be typed. Parsing touches nothing: the second stage, in each command, opens and checks.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use cachewise_model::{FIELDS, Field, Row, STAT_COLUMNS};
use cachewise_probe::Options;
use cachewise_units::Interval;
use clap::error::ErrorKind;
use clap::{Args, CommandFactory, Parser, Subcommand};
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

const OUTPUT_HELP: &str = "Format (table, json, jsonl, csv, openmetrics), FILE, or FORMAT=FILE. FILE alone: by its ending \
    .json, .jsonl, .ndjson, .csv, .prom, .om, .openmetrics; any other gets the table";

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
    /// Room for so many rows (process x file); what does not fit is summed up on one, and said.
    #[arg(long, value_name = "N", default_value_t = Options::MAX_ROWS, value_parser = clap::value_parser!(u32).range(1..=4_194_304))]
    pub max_rows: u32,
}

/// `cachewise stat`.
#[derive(Debug, Args)]
#[command(
    after_help = "HITS + MISSES = TOTAL, in pages asked for by reads. HIT% leaves out the hits that \
    read-ahead had just fetched (READAHEAD): it is the share that cost no I/O.\n\n\
    Ctrl-C ends with the totals; a second one ends at once. A terminal that is too narrow gets fewer \
    columns, and is told which are left out; --columns shows what it names, whatever the width.\n\n\
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
    #[arg(short, long, value_name = "PID", value_parser = parse_pid)]
    pub pid: Option<u32>,
    /// Only what tasks under this control group do.
    #[arg(long, value_name = "PATH")]
    pub cgroup: Option<PathBuf>,
    /// Only what is done to this file; may be given again.
    #[arg(long, value_name = "PATH")]
    pub file: Vec<PathBuf>,
    /// Columns, separated by commas: ids (read_hit_pages) or headings (HITS), in any case;
    /// `cachewise columns` lists them.
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
    cachewise_model::columns(list, &Row::of_system()).map(Columns)
}

fn parse_pid(text: &str) -> Result<u32, String> {
    text.parse().ok().filter(|pid| *pid > 0).ok_or_else(|| {
        "not a process id, which is a whole number from 1 on; `pgrep NAME` finds it".into()
    })
}

impl Run {
    /// Checks that there is either a command or a process: what clap would say of it helps nobody.
    ///
    /// # Errors
    /// Says what is missing or contradicts, and what to write.
    pub fn check(&self) -> Result<(), clap::Error> {
        let (kind, told) = match (self.pid, self.duration, &self.command[..]) {
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
        let mut all = Cli::command();
        all.build();
        Err(match all.find_subcommand_mut("run") {
            Some(run) => run.error(kind, told),
            None => all.error(kind, told),
        })
    }
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

/// Prints the table of fields: those of `stat`, and those that only single things have.
pub fn columns() -> Result<()> {
    let (of_stat, others): (Vec<&Field>, Vec<&Field>) = FIELDS
        .iter()
        .partition(|field| field.is_of(&Row::of_system()));
    let text = format!(
        "{}\n* shown by `stat` unless --columns says otherwise, which takes ids and headings\n\n\
         Only of a file, a process or a control group, in the reports of `run`:\n{}",
        listed(&of_stat),
        listed(&others)
    );
    io::stdout().write_all(text.as_bytes())?;
    Ok(())
}

/// A line a field.
fn listed(fields: &[&Field]) -> String {
    let ids = FIELDS.iter().map(|field| field.id.len());
    let width = ids.max().unwrap_or_default();
    let line = |field: &&Field| {
        let (id, header, help) = (field.id, field.header, field.help);
        let default = if STAT_COLUMNS.contains(&id) { "*" } else { " " };
        format!("{default} {id:width$}  {header:12}  {help}\n")
    };
    fields.iter().map(line).collect()
}
