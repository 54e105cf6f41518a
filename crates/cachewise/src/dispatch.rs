//! From the command that was typed to the module that does it.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::CommandFactory;

use crate::cli::{Cli, Command};
use crate::{
    act, bench, columns, compat, cpu, doctor, drop, files, guard, man, mount, order, record,
    report, run, serve, stat, tier, top,
};

/// Does it.
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
        Command::Cpu(arguments) => cpu::cpu(&arguments),
        Command::Mount(arguments) => mount::mount(&arguments),
        Command::Tier(arguments) => tier::tier(&arguments),
        Command::Columns => columns::columns().map(|()| ExitCode::SUCCESS),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "cachewise", &mut script);
            let written = io::stdout().write_all(&script);
            written
                .map(|()| ExitCode::SUCCESS)
                .context("cannot write to standard output")
        }
        Command::Man { directory } => man::man(directory.as_deref()).map(|()| ExitCode::SUCCESS),
        Command::Compat(arguments) => compat::compat(arguments),
    }
}
