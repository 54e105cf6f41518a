//! Demonstrations of the case study: `dd` through the page cache, and a program with direct I/O.
//!
//! Each reads under the probe, with the findings of `run`. Other tools showed these reads wrongly:
//! a cold read with 50 % hits, or direct I/O as nothing at all.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use cachewise_bench::{Made, Rounds, evict_all, make};
use cachewise_units::Bytes;

use super::arguments::{DemoDd, DemoDirect};
use super::bar::Bar;
use super::measurement_events::cannot_write;
use crate::commands::run::arguments::Run;
use crate::interrupt::Interrupt;
use cachewise_cli::output::{explain, tell};

/// Prefix of the temporary file's name.
const MADE: &str = "cachewise-demo";

/// Reads a file twice: cold, then warm.
pub fn dd(demo: &DemoDd) -> Result<ExitCode> {
    let interrupt = Interrupt::catch()?;
    let (path, _made) = file(demo.file.as_deref(), demo.size, &interrupt)?;
    evict_all(&path)?;
    for (title, what) in [
        ("cold: the page cache holds no page of the file", "cold"),
        (
            "warm: the page cache holds the file since the first read",
            "warm",
        ),
    ] {
        say(&format!("--- {title}"))?;
        let mut source = OsString::from("if=");
        source.push(&path);
        let command = vec!["dd".into(), source, "of=/dev/null".into(), "bs=1M".into()];
        let status = explained(command).with_context(|| format!("the {what} read"))?;
        if interrupt.status().is_some() || status != ExitCode::SUCCESS {
            return Ok(interrupt.status().unwrap_or(status));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Reads the beginning of a disk or file round after round.
pub fn direct(demo: &DemoDirect) -> Result<ExitCode> {
    let interrupt = Interrupt::catch()?;
    let (path, _made) = file(demo.disk.as_deref(), demo.size, &interrupt)?;
    if demo.unexplained {
        return rounds(demo, &path, &interrupt);
    }
    // An unreadable file is reported before the probe is attached.
    drop(Rounds::open(&path, demo.size, demo.cached)?);
    let program =
        std::env::current_exe().context("cannot find this program to run it under the probe")?;
    let mut command: Vec<OsString> = vec![program.into()];
    for word in ["bench", "demo", "direct", "--unexplained", "--disk"] {
        command.push(word.into());
    }
    command.push(path.into());
    let interval = format!("{}ms", demo.interval.get().as_millis());
    for (name, value) in [
        ("--size", demo.size.0.to_string()),
        ("--interval", interval),
    ] {
        command.extend([name.into(), value.into()]);
    }
    if demo.cached {
        command.push("--cached".into());
    }
    if let Some(rounds) = demo.rounds {
        command.extend(["--rounds".into(), rounds.to_string().into()]);
    }
    let status = explained(command)?;
    // Interrupting an endless demonstration is a success: the user gets a report.
    Ok(match interrupt.status() {
        Some(_) if demo.rounds.is_none() => ExitCode::SUCCESS,
        Some(ended) => ended,
        None => status,
    })
}

/// Reads, and prints the time as the program of the case study does.
fn rounds(demo: &DemoDirect, path: &Path, interrupt: &Interrupt) -> Result<ExitCode> {
    let mut rounds = Rounds::open(path, demo.size, demo.cached)?;
    say(&format!(
        "Reading data from disk {} with buffer size {}",
        cachewise_units::escaped(path),
        demo.size.0
    ))?;
    let mut done = 0;
    loop {
        let (time, bytes) = rounds.round()?;
        say(&format!(
            "Time used: {:.6} s to read {} bytes",
            time.as_secs_f64(),
            bytes.0
        ))?;
        if done == 0 && bytes < demo.size {
            tell(&format!(
                "note: the file ends after {bytes}: each round reads that much"
            ));
        }
        done += 1;
        if demo.rounds == Some(done) {
            return Ok(ExitCode::SUCCESS);
        }
        if interrupt.wait_for(demo.interval.get())? {
            return Ok(interrupt.status().unwrap_or(ExitCode::SUCCESS));
        }
    }
}

/// Runs a command under the probe, and reports.
fn explained(command: Vec<OsString>) -> Result<ExitCode> {
    crate::commands::run::run(Run::of(command))
}

/// The given file, or a temporary one that is removed on drop.
fn file(
    given: Option<&Path>,
    size: Bytes,
    interrupt: &Interrupt,
) -> Result<(PathBuf, Option<Made>)> {
    if let Some(path) = given {
        return Ok((path.to_owned(), None));
    }
    // Not in the directory for temporary files, which may be memory.
    let path = PathBuf::from(format!("{MADE}-{}", std::process::id()));
    let mut bar = Bar::new();
    let mut show = |done: Bytes| bar.show("writing a file to read", done.0, size.0);
    let made = make(&path, size, 0, &mut show, interrupt.flag());
    bar.end();
    match made {
        Ok(made) => Ok((path, Some(made))),
        Err(error) => bail!(
            "{}; name a file with {}",
            explain(&anyhow::Error::from(error)),
            "--file, or a disk with --disk"
        ),
    }
}

fn say(line: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    cannot_write(
        writeln!(out, "{line}").and_then(|()| out.flush()),
        "standard output",
    )
}
