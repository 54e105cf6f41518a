//! `cachewise`: is my program getting the cache that it should, and what do I do about it?

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]
#![forbid(unsafe_code)]

mod account;
mod acting;
mod blame;
mod columns;
mod commands;
mod comparison;
mod copies;
mod interrupt;
mod machine;
mod options;
mod progress;
mod repeatable;
mod row_kinds;
mod selection;
mod touched;
mod watch;
mod with_snapshot;

use std::process::ExitCode;

use commands::{Cli, compat, first_steps};

fn main() -> ExitCode {
    let typed = commands::help_of_siblings(compat::typed(std::env::args_os()));
    if first_steps::are_wanted(typed.len()) {
        return cachewise_cli::finish(first_steps::run());
    }
    cachewise_cli::main("cachewise", typed, commands::quick::parse, |cli: Cli| {
        commands::run(cli.command)
    })
}
