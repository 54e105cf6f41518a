//! From the command that was typed to the module that does it.

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Result;
use cachewise_cli::sibling;
use clap::CommandFactory;

use crate::cli::{Cli, Command, Sibling};
use crate::{
    act, bench, columns, compat, doctor, drop, files, guard, order, record, report, run, serve,
    stat, top,
};

/// Runs a command.
pub fn run(command: Command) -> Result<ExitCode> {
    match command {
        Command::Run(arguments) => run::run(arguments),
        Command::Stat(arguments) => stat::stat(arguments),
        Command::Top(arguments) => top::top(*arguments),
        Command::Doctor(arguments) => doctor::doctor(&arguments),
        Command::Record(arguments) => record::record(&arguments),
        Command::Report(arguments) => report::report(&arguments),
        Command::Files(arguments) => files::files(&arguments),
        Command::Warm(arguments) => act::warm(&arguments),
        Command::Evict(arguments) => act::evict(&arguments),
        Command::Lock(arguments) => act::lock(&arguments),
        Command::Snapshot(arguments) => act::snapshot(&arguments),
        Command::Order(arguments) => order::order(&arguments),
        Command::Cat(arguments) => order::cat(&arguments),
        Command::Guard(arguments) => guard::guard(&arguments),
        Command::Drop(arguments) => drop::drop_caches(arguments),
        Command::Bench(arguments) => bench::bench(&arguments),
        Command::Serve(arguments) => serve::serve(*arguments),
        Command::Cpu(sibling) => start("cachewise-cpu", None, &sibling),
        Command::Mount(sibling) => start("cachewise-tier", Some("mount"), &sibling),
        Command::Tier(sibling) => start("cachewise-tier", None, &sibling),
        Command::About(about) => {
            cachewise_cli::about::about(&about, Cli::command(), &columns::columns())
        }
        Command::Compat(arguments) => compat::compat(arguments),
    }
}

/// Replaces this process with a program of its own, with its subcommand in front of the typed arguments.
fn start(program: &str, subcommand: Option<&str>, sibling: &Sibling) -> Result<ExitCode> {
    let subcommand = subcommand.map(OsString::from);
    let never = sibling::start(program, subcommand.iter().chain(&sibling.arguments))?;
    match never {}
}
