//! `cachewise-tier`: a block cache for many machines.

#![forbid(unsafe_code)]

mod commands;

use std::process::ExitCode;

fn main() -> ExitCode {
    cachewise_cli::main(std::env::args_os(), |cli: commands::Cli| {
        commands::run(&cli.command)
    })
}
