//! `cachewise`: is my program getting the cache that it should, and what do I do about it?

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]
#![forbid(unsafe_code)]

mod act;
mod bench;
mod cache;
mod caller;
mod cli;
mod columns;
mod compat;
mod cpu;
mod dispatch;
mod doctor;
mod drop;
mod files;
mod guard;
mod interrupt;
mod machine;
mod man;
mod mount;
mod order;
mod output;
mod progress;
mod record;
mod report;
mod run;
mod serve;
mod signals;
mod stat;
mod ticks;
mod tier;
mod top;
mod watch;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    // A file at its size limit (`ulimit -f`) is an error with a message; SIGXFSZ would end the process.
    if let Err(error) = caller::use_rights().and_then(|()| signals::outlive_size_limit()) {
        output::tell(&output::explain(&error));
        return ExitCode::from(output::FAILED);
    }
    let cli = match cli::Cli::try_parse_from(compat::typed(std::env::args_os())) {
        Ok(cli) => cli,
        Err(error) => return cli::answer(&error),
    };
    dispatch::run(cli.command).unwrap_or_else(|error| {
        if output::is_broken_pipe(&error) {
            return ExitCode::SUCCESS;
        }
        output::tell(&output::explain(&error));
        ExitCode::from(output::FAILED)
    })
}
