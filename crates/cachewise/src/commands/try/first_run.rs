//! [`FirstRun`]: the files of the command, from its first run, and whether it may run again.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use cachewise_kstat::Kernel;
use cachewise_model::{Counter, Exit, FileRow};
use cachewise_units::escaped;

use super::arguments::Try;
use super::once::{Once, is_success};
use crate::repeatable::{is_unlinked, written};

/// Files and calls that a message names.
const NAMED: usize = 3;

/// Facts of the first run.
#[derive(Debug)]
pub struct FirstRun {
    /// Files that it read or mapped, and that still exist.
    pub files: Vec<PathBuf>,
}

impl FirstRun {
    /// Judges the first run.
    ///
    /// # Errors
    /// The command failed, left processes running, or changed files without `--prepare` or `--yes`.
    pub fn of(once: &Once, arguments: &Try, kernel: &Kernel) -> Result<FirstRun> {
        let interval = &once.interval;
        let exit = interval.run().exit;
        if !is_success(exit) && !arguments.ignore_failure {
            bail!(
                "the command failed ({}): correct it, or add --ignore-failure",
                in_words(exit)
            );
        }
        let outlived = interval.processes.iter();
        let outlived = outlived
            .filter(|process| process.exit == Exit::Running)
            .count();
        if outlived > 0 || once.killed > 0 {
            bail!(
                "the command leaves {} of its processes running: try a command that waits for them",
                outlived.max(once.killed)
            );
        }
        let changes = changes(once);
        if arguments.prepare.is_none() && !arguments.yes && !changes.is_empty() {
            bail!(
                "the command may not do the same again, as it {}: restore its files with --prepare COMMAND, or add --yes",
                changes.join(", and ")
            );
        }
        let mut files: Vec<PathBuf> = interval
            .files
            .iter()
            .filter(|file| !file.deleted && is_read(file))
            .filter_map(|file| file.path.as_ref().exact().cloned())
            .filter(|path| path.is_file() && !is_of_kernel(path, kernel))
            .collect();
        files.sort();
        files.dedup();
        Ok(FirstRun { files })
    }
}

fn in_words(exit: Exit) -> String {
    match exit {
        Exit::Code(code) => format!("status {code}"),
        other => other.to_string(),
    }
}

/// Files below these are made by the kernel as they are read.
fn is_of_kernel(path: &Path, kernel: &Kernel) -> bool {
    path.starts_with(kernel.proc("")) || path.starts_with(kernel.sys(""))
}

fn is_read(file: &FileRow) -> bool {
    [
        Counter::ReadRequestedPages,
        Counter::FaultRequests,
        Counter::DirectReadRequests,
        Counter::PrefetchPages,
    ]
    .iter()
    .any(|counter| file.ledger[*counter] > 0)
}

/// Changes that the command made, each as the rest of a sentence about it.
fn changes(once: &Once) -> Vec<String> {
    let mut changes = Vec::new();
    let written = written(&once.interval);
    if !written.is_empty() {
        let paths = written
            .iter()
            .take(NAMED)
            .filter_map(|file| file.path.as_ref().known());
        let paths: Vec<String> = paths.map(|path| escaped(path).into_owned()).collect();
        changes.push(format!("wrote {}", counted(written.len(), "file", &paths)));
    }
    let calls = &once.traces.changes;
    if !calls.is_empty() {
        let names: Vec<String> = calls
            .keys()
            .take(NAMED)
            .map(|name| (*name).to_owned())
            .collect();
        changes.push(format!("called {}", names.join(", ")));
    } else if is_unlinked(&once.interval) {
        changes.push("removed or truncated files".to_owned());
    }
    changes
}

fn counted(number: usize, noun: &str, named: &[String]) -> String {
    let count = cachewise_units::counted(number as u64, noun);
    let more = if number > named.len() { ", ..." } else { "" };
    match named {
        [] => count,
        _ => format!("{count} ({}{more})", named.join(", ")),
    }
}
