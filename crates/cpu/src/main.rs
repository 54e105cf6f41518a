//! `cachewise-cpu`: the CPU's caches, and how a program uses them.

#![forbid(unsafe_code)]

mod commands;

use std::process::ExitCode;

fn main() -> ExitCode {
    let typed = std::env::args_os().collect();
    cachewise_cli::main(
        "cachewise-cpu",
        typed,
        |_| None,
        |cli: commands::Cli| commands::run(&cli.command),
    )
}
