//! The commands of `cachewise-cpu`: the CPU's own caches.
//!
//! # Layout
//! - `columns`: the columns of all tables
//! - `topology`: caches, cores and nodes as a tree; `table`: measured sizes and latencies; `lab`: experiments
//! - `run`: cache use of a program; `sharing`: false sharing between its threads
//! - `quota`: a limit on CPU time that disturbed a measurement
//! - this file: output, the head of documents, and the lookup of programs

mod arguments;
mod columns;
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

use anyhow::{Result, bail};
use cachewise_cli::host::document;
use cachewise_units::escaped;
use cachewise_view::{Format, Sheet, SheetColumns, Style};
use serde_json::{Map, Value as Json};

use cachewise_cli::about::sheets;
use cachewise_cli::sinks::Sinks;
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
            cachewise_cli::about::about(about, Cli::command(), &sheets(&columns::SHEETS))
        }
    }
}

/// Result of a command, in each form of output.
struct CommandOutput {
    /// Text for people.
    text: String,
    /// The rows of CSV.
    sheet: Sheet,
    /// Members of JSON, after the common head of documents.
    members: Map<String, Json>,
}

/// Refuses formats that no command supports, before the measurement.
fn check_format(sinks: &Sinks) -> Result<()> {
    if sinks.have(Format::OpenMetrics) {
        bail!(
            "-o openmetrics is not supported, as these figures do not change over time: use -o json or -o csv"
        );
    }
    Ok(())
}

/// Writes a result in the format of each target. Rows of CSV have the chosen columns.
fn write(
    sinks: Sinks,
    columns: Option<&SheetColumns>,
    make: impl Fn(Style) -> CommandOutput,
) -> Result<()> {
    sinks.write(|sink| {
        let found = make(sink.style);
        let text = match sink.format {
            Format::Table => found.text,
            Format::Csv => found.sheet.chosen(columns).csv()?,
            Format::Json => format!("{:#}\n", document(found.members)),
            Format::JsonLines => format!("{}\n", document(found.members)),
            Format::OpenMetrics => bail!("cpu has no metrics"),
        };
        Ok(sink.write_all(text.as_bytes())?)
    })
}

/// Nanoseconds as seconds for machine formats.
fn seconds(ns: f64) -> f64 {
    // Not more digits than were measured, and those exact in decimal.
    format!("{ns:.3}e-9").parse().unwrap_or(ns * 1e-9)
}

/// Path of a program that the kernel can execute. Checked first, because valgrind and perf report a missing program late
/// and in other words, or pass a script without `#!` to a shell.
fn startable(program: &OsStr) -> io::Result<PathBuf> {
    let path = found(program)?;
    match is_program(&path) {
        true => Ok(path),
        false => Err(rustix::io::Errno::NOEXEC.into()),
    }
}

/// Whether the kernel itself can execute this file. A file that is executable but not readable counts as a program.
/// Formats registered with binfmt_misc do not count: there another program runs.
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

/// Path of a program, searched as by execvp(3).
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
