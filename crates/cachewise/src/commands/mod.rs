//! The commands: one folder each, with its arguments, its work and its output.
//!
//! Parsing opens no files: each command opens and checks its own.

pub mod bench;
pub mod cat;
pub mod compat;
pub mod doctor;
pub mod drop;
pub mod evict;
pub mod files;
pub mod first_steps;
pub mod guard;
pub mod lock;
pub mod order;
pub mod quick;
pub mod record;
pub mod report;
pub mod run;
pub mod serve;
pub mod shield;
pub mod size;
pub mod snapshot;
pub mod stat;
pub mod top;
pub mod r#try;
pub mod warm;

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Result;
use cachewise_cli::about::{self, About};
use cachewise_cli::sibling;
use cachewise_view::{CHECK_COLUMNS, SheetColumn};
use clap::error::ErrorKind;
use clap::{Args, CommandFactory, Parser, Subcommand};

use crate::columns;
use bench::arguments::Bench;
use cat::arguments::Cat;
use compat::Outcome;
use compat::arguments::Compat;
use doctor::arguments::Doctor;
use drop::arguments::Drop;
use evict::arguments::Evict;
use files::arguments::Files;
use guard::arguments::Guard;
use lock::arguments::Lock;
use order::arguments::OrderFiles;
use record::arguments::Record;
use report::arguments::Report;
use run::arguments::Run;
use serve::arguments::Serve;
use shield::arguments::Shield;
use size::arguments::Size;
use snapshot::arguments::Snapshot;
use stat::arguments::Stat;
use top::arguments::Top;
use r#try::arguments::Try;
use warm::arguments::Warm;

/// Measure how programs use the page cache, to the page.
#[derive(Debug, Parser)]
#[command(name = "cachewise", version, max_term_width = 100)]
#[command(
    after_help = "Exit status: 0 done; 1 a check failed (files --fail-below, --fail-if, doctor --check), or you \
    declined (drop); 2 something could not be done or is not known, usage included; 128+N ended by signal N. \
    `run` ends with the command's own status: 127 not found, 126 not executable, 128+N killed by signal N."
)]
pub struct Cli {
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run or follow a program and report how it used the page cache.
    Run(Run),
    /// Show how much memory a program, group or machine needs for its files: miss ratios by memory size.
    Size(Box<Size>),
    /// Show hits and misses of the whole machine, one row per interval.
    Stat(Stat),
    /// Show page-cache use live, by process, file, control group or device.
    Top(Box<Top>),
    /// Report what can be measured on this machine, and its cache problems with fixes.
    Doctor(Doctor),
    /// Record cache activity of the machine to a file.
    Record(Box<Record>),
    /// Summarize a recording, list its samples, or plot it.
    Report(Box<Report>),
    /// Show which files, or files of a process or the whole machine, are in the page cache.
    Files(Box<Files>),
    /// Prefetch files into the page cache.
    Warm(Box<Warm>),
    /// Evict files from the page cache and report what remained and why.
    Evict(Box<Evict>),
    /// Lock files in memory until interrupted.
    Lock(Box<Lock>),
    /// Save, restore or compare page-cache residency.
    Snapshot(Snapshot),
    /// Print files, or ranges of files, in the order that needs the least I/O to read them.
    Order(OrderFiles),
    /// Write files to standard output; with --keep, leave the cache as it was.
    Cat(Cat),
    /// Keep memory available by reclaiming from the control groups that you name.
    Guard(Box<Guard>),
    /// Drop pages behind a program that reads files once, so that it does not evict those of others.
    Shield(Box<Shield>),
    /// Drop the clean page cache of the whole machine, after writing dirty pages back.
    Drop(Drop),
    /// Measure reads or writes of a file, with or without memory pressure.
    Bench(Box<Bench>),
    /// Run a command with fixes for its cache use and without, and compare.
    Try(Box<Try>),
    /// Serve metrics, a live web page and JSON over HTTP.
    Serve(Box<Serve>),
    /// Show and measure CPU caches, and how a program uses them (cachewise-cpu).
    #[command(disable_help_flag = true)]
    Cpu(Sibling),
    /// Mount a directory or URL through a block cache in memory, on disk and on shared servers (cachewise-tier).
    #[command(disable_help_flag = true)]
    Mount(Sibling),
    /// Fill, verify and inspect a block cache that machines share, and publish signed versions (cachewise-tier).
    #[command(disable_help_flag = true)]
    Tier(Sibling),
    #[command(flatten)]
    About(About),
    /// Run as another tool, or list the supported names and options of other tools.
    Compat(Compat),
}

/// Rewrites `help NAME ...` of a sibling program to that program's own `--help`, which is complete.
pub fn help_of_siblings(mut arguments: Vec<OsString>) -> Vec<OsString> {
    let words: Vec<_> = arguments.iter().map(|word| word.to_str()).collect();
    match words[..] {
        [_, Some("help"), Some("mount"), ..] => {
            arguments.splice(1.., ["mount", "--help"].map(OsString::from));
        }
        [_, Some("help"), Some("cpu" | "tier"), ..] => arguments.swap(1, 2),
        _ => {}
    }
    arguments
}

/// Arguments of a command that a sibling program runs.
#[derive(Debug, Args)]
pub struct Sibling {
    /// Arguments of that program; --help lists them.
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "ARGUMENTS"
    )]
    pub arguments: Vec<OsString>,
}

/// Runs a command.
pub fn run(command: Command) -> Result<ExitCode> {
    match command {
        Command::Run(arguments) => match arguments.check() {
            Ok(()) => run::run(arguments),
            Err((kind, reason)) => Ok(about::answer(&usage_error("run", kind, reason))),
        },
        Command::Size(arguments) => match arguments.check() {
            Ok(()) => size::size(&arguments),
            Err((kind, reason)) => Ok(about::answer(&usage_error("size", kind, reason))),
        },
        Command::Stat(arguments) => stat::stat(arguments),
        Command::Top(arguments) => top::top(*arguments),
        Command::Doctor(arguments) => doctor::doctor(&arguments),
        Command::Record(arguments) => record::record(&arguments),
        Command::Report(arguments) => report::report(&arguments),
        Command::Files(arguments) => files::files(*arguments),
        Command::Warm(arguments) => warm::warm(*arguments),
        Command::Evict(arguments) => evict::evict(*arguments),
        Command::Lock(arguments) => lock::lock(*arguments),
        Command::Snapshot(arguments) => snapshot::snapshot(arguments),
        Command::Order(arguments) => order::order(arguments),
        Command::Cat(arguments) => cat::cat(&arguments),
        Command::Guard(arguments) => guard::guard(&arguments),
        Command::Shield(arguments) => match arguments.check() {
            Ok(()) => shield::shield(&arguments),
            Err((kind, reason)) => Ok(about::answer(&usage_error("shield", kind, reason))),
        },
        Command::Drop(arguments) => drop::drop_caches(arguments),
        Command::Bench(arguments) => bench::bench(&arguments),
        Command::Try(arguments) => r#try::try_fixes(&arguments),
        Command::Serve(_) => serve::serve(Serve::with_settings()?),
        Command::Cpu(sibling) => start("cachewise-cpu", None, &sibling),
        Command::Mount(sibling) => start("cachewise-tier", Some("mount"), &sibling),
        Command::Tier(sibling) => start("cachewise-tier", None, &sibling),
        Command::About(about) => about::about(&about, Cli::command(), &columns::columns(&SHEETS)),
        Command::Compat(arguments) => match compat::compat(arguments)? {
            Outcome::Done => Ok(ExitCode::SUCCESS),
            Outcome::Command(words) => match Cli::try_parse_from(words) {
                Ok(cli) => run(cli.command),
                Err(error) => Ok(about::answer(&error)),
            },
        },
    }
}

/// The columns of tables that have their own, by command.
const SHEETS: [(&str, &[SheetColumn]); 5] = [
    ("doctor", &CHECK_COLUMNS),
    ("try", &r#try::arguments::COLUMNS),
    ("report --compare", &report::COMPARED_COLUMNS),
    ("bench matrix", &bench::MATRIX_COLUMNS),
    ("guard", &guard::COLUMNS),
];

/// Replaces this process with a sibling program, with `subcommand` before the typed arguments.
fn start(program: &str, subcommand: Option<&str>, sibling: &Sibling) -> Result<ExitCode> {
    let subcommand = subcommand.map(OsString::from);
    let never = sibling::start(program, subcommand.iter().chain(&sibling.arguments))?;
    match never {}
}

/// A usage error of one command, as clap shows it.
fn usage_error(command: &str, kind: ErrorKind, reason: String) -> clap::Error {
    let mut all = Cli::command();
    all.build();
    match all.find_subcommand_mut(command) {
        Some(command) => command.error(kind, reason),
        None => all.error(kind, reason),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn every_command_has_a_page_with_all_of_its_options() {
        let pages = cachewise_cli::man::pages(Cli::command()).expect("writing into memory works");
        let first = pages.first().map(|(name, _)| name.as_str());
        assert_eq!(first, Some("cachewise.1"), "the first is of all commands");
        let mut root = Cli::command().disable_help_subcommand(true);
        root.build();
        let mut waiting = vec![root];
        let mut seen = 0;
        while let Some(command) = waiting.pop() {
            let name = format!(
                "{}.1",
                command.get_display_name().unwrap_or(command.get_name())
            );
            let page = pages.iter().find(|(page, _)| *page == name);
            let (_, page) = page.unwrap_or_else(|| panic!("there is no {name}"));
            let page = String::from_utf8_lossy(page).replace("\\-", "-");
            for option in command
                .get_arguments()
                .filter(|option| !option.is_hide_set())
            {
                if let Some(long) = option.get_long() {
                    assert!(page.contains(&format!("--{long}")), "{name}: --{long}");
                }
            }
            for heading in ["NAME", "SYNOPSIS", "DESCRIPTION", "SEE ALSO"] {
                assert!(page.contains(heading), "{name}: {heading}");
            }
            seen += 1;
            let below = command.get_subcommands().cloned();
            waiting.extend(below.filter(|one| !one.is_disable_help_flag_set()));
        }
        assert_eq!(pages.len(), seen, "and there is none beside");
    }
}
