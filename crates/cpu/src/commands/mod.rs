//! The commands of `cachewise-cpu`: the CPU's own caches.
//!
//! # Layout
//! - `topology`: caches, cores and nodes as a tree; `table`: what they measure; `lab`: experiments
//! - `run`: how a program uses them; `sharing`: where its threads are in each other's way
//! - `quota`: a limit on CPU time that was in the way of measuring
//! - this file: what the commands share: where output goes, the head of documents, and the program that is run

mod arguments;
mod lab;
mod quota;
mod run;
mod sharing;
mod table;
mod topology;

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use cachewise_cli::host::document;
use cachewise_units::escaped;
use cachewise_view::{Format, Sheet, SheetColumn, Style};
use serde_json::{Map, Value as Json};

use cachewise_cli::about::sheets;
use cachewise_cli::output::Sink;
use clap::CommandFactory;

pub use arguments::Cli;
use arguments::Command;

/// Runs a command.
pub fn run(command: &Command) -> Result<ExitCode> {
    match command {
        Command::Topology(arguments) => topology::topology(arguments),
        Command::Table(arguments) => table::table(arguments),
        Command::Lab(arguments) => lab::lab(arguments),
        Command::Run(arguments) => run::run(arguments),
        Command::Sharing(arguments) => sharing::sharing(arguments),
        Command::About(about) => {
            cachewise_cli::about::about(about, Cli::command(), &sheets(&SHEETS))
        }
    }
}

/// The columns of each command's rows, for the list of all columns.
const SHEETS: [(&str, &[SheetColumn]); 5] = [
    ("cpu topology", &topology::COLUMNS),
    ("cpu table", &table::COLUMNS),
    ("cpu lab", &lab::COLUMNS),
    ("cpu run", &run::COLUMNS),
    ("cpu sharing", &sharing::COLUMNS),
];

/// What a command found, in each form that it may be written in.
struct CommandOutput {
    /// For people.
    text: String,
    /// The rows of CSV.
    sheet: Sheet,
    /// What JSON has, below the head of every document.
    members: Map<String, Json>,
}

/// Refuses what there is no such thing of, before anything is measured.
fn check_format(sink: &Sink) -> Result<()> {
    if sink.format == Format::OpenMetrics {
        bail!(
            "cpu has no metrics to scrape, as what it shows does not change while a machine runs: \
             use -o json or -o csv"
        );
    }
    Ok(())
}

/// Writes it as was asked.
fn write(mut sink: Sink, make: impl FnOnce(Style) -> CommandOutput) -> Result<()> {
    let found = make(sink.style);
    let text = match sink.format {
        Format::Table => found.text,
        Format::Csv => found.sheet.csv()?,
        Format::Json => format!("{:#}\n", document(found.members)),
        Format::JsonLines => format!("{}\n", document(found.members)),
        Format::OpenMetrics => bail!("cpu has no metrics"),
    };
    let name = sink.name().to_owned();
    sink.write_all(text.as_bytes())
        .with_context(|| format!("cannot write to {name}"))?;
    sink.keep()
}

/// Nanoseconds as seconds for machine formats.
fn seconds(ns: f64) -> f64 {
    // Not more digits than were measured, and those exact in decimal.
    format!("{ns:.3}e-9").parse().unwrap_or(ns * 1e-9)
}

/// Where a program is, if there is such a one: other programs would say it in their own way, after much else, or have a
/// shell make of it what it can.
fn startable(program: &OsStr) -> io::Result<PathBuf> {
    let path = found(program)?;
    match is_program(&path) {
        true => Ok(path),
        false => Err(rustix::io::Errno::NOEXEC.into()),
    }
}

/// Whether the kernel by itself executes such a file. One that may be executed but not read is taken to be one; what
/// was told to binfmt_misc is not looked at, as it is another program that runs.
fn is_program(path: &Path) -> bool {
    /// The head of a program of 32 bits; of 64 bits it is longer.
    const HEAD: u64 = 52;
    let Ok(file) = fs::File::open(path) else {
        return true;
    };
    let mut head = Vec::new();
    match file.take(HEAD).read_to_end(&mut head) {
        Ok(_) => {
            head.starts_with(b"#!") || (head.starts_with(b"\x7fELF") && head.len() as u64 == HEAD)
        }
        Err(_) => true,
    }
}

/// Where it is, as execvp(3) looks for it.
fn found(program: &OsStr) -> io::Result<PathBuf> {
    let check = |path: &Path| -> io::Result<PathBuf> {
        let found = fs::metadata(path)?;
        match found.is_file() && found.permissions().mode() & 0o111 != 0 {
            true => Ok(path.to_owned()),
            false => Err(io::ErrorKind::PermissionDenied.into()),
        }
    };
    if program.as_bytes().contains(&b'/') {
        return check(Path::new(program));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut last = Err(io::ErrorKind::NotFound.into());
    for directory in std::env::split_paths(&path) {
        match check(&directory.join(program)) {
            Ok(found) => return Ok(found),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => last = Err(error),
            Err(_) => {}
        }
    }
    last
}

/// A command as one line.
fn line_of(command: &[OsString]) -> String {
    let words: Vec<_> = command
        .iter()
        .map(|word| escaped(word).into_owned())
        .collect();
    words.join(" ")
}
