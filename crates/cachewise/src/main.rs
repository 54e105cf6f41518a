//! `cachewise`: is my program getting the cache that it should, and what do I do about it?

#![forbid(unsafe_code)]

mod act;
mod cli;
mod columns;
mod drop;
mod files;
mod machine;
mod order;
mod output;
mod progress;
mod run;
mod signals;
mod stat;

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Context;
use clap::{CommandFactory, Parser};

use crate::cli::{Cli, Command};

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return cli::answer(&error),
    };
    let result = match cli.command {
        Command::Run(arguments) => run::run(arguments),
        Command::Stat(arguments) => stat::stat(arguments),
        Command::Files(arguments) => files::files(&arguments),
        Command::Warm(arguments) => act::warm(&arguments),
        Command::Evict(arguments) => act::evict(&arguments),
        Command::Lock(arguments) => act::lock(&arguments),
        Command::Snapshot(arguments) => act::snapshot(&arguments),
        Command::Order(arguments) => order::order(&arguments),
        Command::Cat(arguments) => order::cat(&arguments),
        Command::Drop(arguments) => drop::drop_caches(arguments),
        Command::Columns => columns::columns().map(|()| ExitCode::SUCCESS),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "cachewise", &mut script);
            let written = io::stdout().write_all(&script);
            written
                .map(|()| ExitCode::SUCCESS)
                .context("cannot write to standard output")
        }
    };
    result.unwrap_or_else(|error| {
        if output::is_broken_pipe(&error) {
            return ExitCode::SUCCESS;
        }
        output::tell(&output::explain(&error));
        ExitCode::from(output::FAILED)
    })
}
