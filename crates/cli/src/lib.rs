//! The parts that the programs of cachewise share: output targets, formats, exit statuses, signals.
//!
//! # Layout
//! - `arguments`: options of several commands; `columns`: lists of columns; `about`: `columns`, `completions`, `man`; `completions`: scripts of
//!   shells; `man`: the manual's pages
//! - `output`: standard streams, files, exit statuses; `target`: the value of `-o`; `whole_file`: files that are replaced
//!   once complete; `messages`: messages on standard error; `host`: the head of documents
//! - `signals`, `interrupt`: Ctrl-C in the middle of work; `ticks`: the clock of commands with an interval
//! - `child`: a program that is started and watched; `followed`: a process that runs already
//! - `names`: units, containers and pods of control groups
//! - `caller`: the rights that a program with file capabilities gives up; `tools`: other programs in PATH
//! - `settings`: settings that files and the environment give; `plain`: reasons of other libraries in plain words
//! - `sibling`: the other programs of cachewise

#![forbid(unsafe_code)]

pub mod about;
pub mod arguments;
pub mod caller;
pub mod child;
pub mod columns;
mod completions;
pub mod followed;
pub mod host;
pub mod interrupt;
pub mod man;
mod messages;
pub mod names;
pub mod output;
mod plain;
pub mod settings;
pub mod sibling;
pub mod signals;
pub mod sinks;
mod target;
pub mod ticks;
pub mod tools;
mod whole_file;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;

/// Parses a command line and runs it: the `main` of each program.
///
/// `quick` parses the command lines that it can without the arguments of all commands, whose making takes longer than most
/// commands; the whole program parses those for which it returns `None`. `--version` alone is answered without either.
/// Errors go to standard error; a reader of the output that has gone is no error.
pub fn main<Cli: Parser>(
    name: &str,
    arguments: Vec<OsString>,
    quick: impl FnOnce(&[OsString]) -> Option<Cli>,
    run: impl FnOnce(Cli) -> Result<ExitCode>,
) -> ExitCode {
    if let [_, option] = &arguments[..]
        && (option == "--version" || option == "-V")
    {
        // A reader that has gone wants no version.
        let _ = std::io::stdout().write_all(version(name).as_bytes());
        return ExitCode::SUCCESS;
    }
    // A file at its size limit (`ulimit -f`) is an error with a message; SIGXFSZ would end the process.
    if let Err(error) = caller::use_rights().and_then(|()| signals::outlive_size_limit()) {
        output::tell(&output::explain(&error));
        return ExitCode::from(output::FAILED);
    }
    let cli = match quick(&arguments) {
        Some(cli) => cli,
        None => match Cli::try_parse_from(arguments) {
            Ok(cli) => cli,
            Err(error) => return about::answer(&error),
        },
    };
    finish(run(cli))
}

/// The text of `--version`. All programs have one version.
fn version(name: &str) -> String {
    format!("{name} {}\n", env!("CARGO_PKG_VERSION"))
}

/// The exit status of a program; an error goes to standard error.
pub fn finish(outcome: Result<ExitCode>) -> ExitCode {
    outcome.unwrap_or_else(|error| {
        if output::is_broken_pipe(&error) {
            return ExitCode::SUCCESS;
        }
        output::tell(&output::explain(&error));
        ExitCode::from(output::FAILED)
    })
}
