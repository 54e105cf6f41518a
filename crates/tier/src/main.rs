//! `cachewise-tier`: a block cache for many machines.

#![forbid(unsafe_code)]

mod commands;

use std::process::ExitCode;

fn main() -> ExitCode {
    let typed = match commands::typed(std::env::args_os()) {
        Ok(typed) => typed,
        Err(error) => return cachewise_cli::finish(Err(error)),
    };
    cachewise_cli::main(
        "cachewise-tier",
        typed.clone(),
        |_| None,
        |cli: commands::Cli| commands::run(&cli.command, &typed),
    )
}
