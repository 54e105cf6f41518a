//! The command line. Parsing touches nothing: the second stage, in each command, opens and checks.

mod act;
mod bench;
mod compat;
mod doctor;
mod drop;
mod files;
mod guard;
mod matrix;
mod order;
mod output;
mod record;
mod report;
mod run;
mod select;
mod serve;
mod stat;
mod top;

use std::ffi::OsString;

use cachewise_cli::about::About;
use clap::{Args, Parser, Subcommand};

pub use act::{Evict, Lock, Snapshot, SnapshotCommand, Target, Warm};
pub use bench::{Bench, BenchCommand, Demo, DemoDd, DemoDirect, Measure};
pub use compat::{Called, Compat};
pub use doctor::Doctor;
pub use drop::Drop;
pub use files::{Files, SortKey};
pub use guard::{By, Guard, KeptOf};
pub use matrix::{Matrix, Restore};
pub use order::{Cat, OrderFiles, Unit};
pub use output::{Color, Output};
pub use record::Record;
pub use report::{Of, Report};
pub use run::Run;
pub use select::Select;
pub use serve::{NamedGlob, Serve};
pub use stat::Stat;
pub use top::Top;

/// Measure how programs use the page cache, to the page.
#[derive(Debug, Parser)]
#[command(name = "cachewise", version, max_term_width = 100)]
#[command(
    after_help = "Exit status: 0 done; 1 the answer is no (files --fail-below, drop); 2 something could not be done or is \
    not known, usage included; 128+N ended by signal N. \
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
    /// Run a program, or follow one, and report how it used the caches.
    Run(Run),
    /// Show hits and misses of the whole machine, a row per interval.
    Stat(Stat),
    /// Show page-cache use live, by process, file, control group or device.
    Top(Box<Top>),
    /// Tell what this machine offers for looking at its caches, and what is wrong on it.
    Doctor(Doctor),
    /// Record what the machine does, to be looked at later.
    Record(Box<Record>),
    /// Look at a recording: figures, gaps, time lost to waiting, who did most; every sample; a page with plots.
    Report(Box<Report>),
    /// Show what of files, directories, processes or the whole machine is in the page cache.
    Files(Box<Files>),
    /// Bring files into the page cache, but for what is there already.
    Warm(Box<Warm>),
    /// Put files out of the page cache, and say what stayed and why.
    Evict(Box<Evict>),
    /// Keep files in memory for as long as this runs.
    Lock(Box<Lock>),
    /// Keep in a file what is resident, bring it back, or compare.
    Snapshot(Snapshot),
    /// Print files, or ranges of them, in the order in which reading costs the least I/O.
    Order(OrderFiles),
    /// Write files to standard output, and leave the cache as it was.
    Cat(Cat),
    /// Keep memory available by reclaiming from the control groups that you name.
    Guard(Box<Guard>),
    /// Drop the clean page cache of the whole machine, after writing dirty pages back.
    Drop(Drop),
    /// Measure reads or writes of a file, with or without memory pressure.
    Bench(Box<Bench>),
    /// Serve metrics, a live web page and JSON over HTTP.
    Serve(Box<Serve>),
    /// See the CPU's own caches: what they are, what they cost, and how a program uses them (cachewise-cpu).
    #[command(disable_help_flag = true)]
    Cpu(Sibling),
    /// Show a directory through a block cache: memory, disk, servers that machines share (cachewise-tier).
    #[command(disable_help_flag = true)]
    Mount(Sibling),
    /// Use a block cache without a mount, look at it, and try it out (cachewise-tier).
    #[command(disable_help_flag = true)]
    Tier(Sibling),
    #[command(flatten)]
    About(About),
    /// Run as another tool, or list the supported names and options of other tools.
    Compat(Compat),
}

/// `help NAME ...` of a command that is a program of its own: its own help shows more than this program's table.
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

/// Arguments of a command that is a program of its own.
#[derive(Debug, Args)]
pub struct Sibling {
    /// Its arguments; --help lists them.
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "ARGUMENTS"
    )]
    pub arguments: Vec<OsString>,
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
