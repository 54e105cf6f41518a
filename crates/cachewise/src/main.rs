//! `cachewise`: is my program getting the cache that it should, and what do I do about it?

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]
#![forbid(unsafe_code)]

mod act;
mod bench;
mod cli;
mod columns;
mod compat;
mod dispatch;
mod doctor;
mod drop;
mod files;
mod guard;
mod interrupt;
mod machine;
mod order;
mod progress;
mod record;
mod report;
mod run;
mod serve;
mod stat;
mod ticks;
mod top;
mod watch;

use std::process::ExitCode;

use cachewise_cli::{output, signals};

fn main() -> ExitCode {
    let typed = cli::help_of_siblings(compat::typed(std::env::args_os()));
    cachewise_cli::main(typed, |cli: cli::Cli| dispatch::run(cli.command))
}
