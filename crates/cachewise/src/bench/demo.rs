//! The two demonstrations of the case study: what the page cache does to `dd`, and to a program that goes around it.
//!
//! Each reads under the probe, so that what the tools of that time showed wrongly (a cold read with 50 % hits, direct
//! I/O that nobody sees) is shown beside what it really was, with the findings of `run`.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use cachewise_bench::{Made, Rounds, evict_all, make};
use cachewise_units::Bytes;

use super::bar::Bar;
use super::cannot_write;
use crate::cli::{DemoDd, DemoDirect, Run};
use crate::interrupt::Interrupt;
use crate::output::{explain, tell};

/// What is made where no file is given.
const MADE: &str = "cachewise-demo";

/// A file read twice: cold, and warm.
pub fn dd(demo: &DemoDd) -> Result<ExitCode> {
    let interrupt = Interrupt::catch()?;
    let (path, _made) = file(demo.file.as_deref(), demo.size, &interrupt)?;
    evict_all(&path)?;
    for (title, what) in [
        ("cold: nothing of the file is in the page cache", "cold"),
        (
            "warm: the same again, when the first reading has left it there",
            "warm",
        ),
    ] {
        say(&format!("--- {title}"))?;
        let mut source = OsString::from("if=");
        source.push(&path);
        let command = vec!["dd".into(), source, "of=/dev/null".into(), "bs=1M".into()];
        let status = explained(command).with_context(|| format!("the {what} reading"))?;
        if interrupt.status().is_some() || status != ExitCode::SUCCESS {
            return Ok(interrupt.status().unwrap_or(status));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The beginning of a disk or file, read round after round.
pub fn direct(demo: &DemoDirect) -> Result<ExitCode> {
    let interrupt = Interrupt::catch()?;
    let (path, _made) = file(demo.disk.as_deref(), demo.size, &interrupt)?;
    if demo.unexplained {
        return rounds(demo, &path, &interrupt);
    }
    // What cannot be read is said before the probe is attached.
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
    // Who ends what is endless has what he wanted: a report.
    Ok(match interrupt.status() {
        Some(_) if demo.rounds.is_none() => ExitCode::SUCCESS,
        Some(ended) => ended,
        None => status,
    })
}

/// Reads, and says how long it took, as the program of the case study does.
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
                "note: it ends after {bytes}: that is what each round reads"
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
    crate::run::run(Run::of(command))
}

/// The file that is given, or one that is made and goes when it is dropped.
fn file(
    given: Option<&Path>,
    size: Bytes,
    interrupt: &Interrupt,
) -> Result<(PathBuf, Option<Made>)> {
    if let Some(path) = given {
        return Ok((path.to_owned(), None));
    }
    // Here, and not where temporary files go: that may be memory.
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
