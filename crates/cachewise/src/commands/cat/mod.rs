//! `cat`: files to standard output, with the cache left as it was.

pub mod arguments;
mod room;
mod stdout;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::process::ExitCode;

use anyhow::{Context, Result};
use cachewise_cli::output::{status, tell};
use cachewise_residency::order::{Keep, Mode, Scanner, Survey};
use cachewise_units::escaped;

use crate::interrupt::Interrupt;
use arguments::Cat;
use stdout::Stdout;

/// Writes files to standard output, one after the other.
pub fn cat(arguments: &Cat) -> Result<ExitCode> {
    let keep = Keep::from(arguments.keep);
    // Where nothing is to be put right, a signal ends it as it ends cat(1).
    let interrupt = match keep {
        Keep::Share => None,
        Keep::Keep | Keep::AsFound => Some(Interrupt::catch()?),
    };
    let mut failed = 0u64;
    let mut paths = arguments.paths.clone();
    if let Some(output) = stdout::file() {
        // Reading it would never come to an end: each block that is read makes it longer.
        paths.retain(|path| {
            let is_output = fs::metadata(path)
                .is_ok_and(|found| (found.dev(), found.ino()) == output);
            if is_output {
                tell(&format!(
                    "cannot write {} to standard output: input file is output file; redirect to another file",
                    escaped(path)
                ));
            }
            failed += u64::from(is_output);
            !is_output
        });
        if paths.is_empty() {
            return Ok(status(failed > 0));
        }
    }
    let mut scanner = Scanner::new(&paths)
        .mode(Mode::Fixed)
        .keep(keep)
        .each_link()
        .headroom(room::room);
    let mut out = Stdout::new(interrupt.as_ref().map(Interrupt::flag));
    let mut scan = scanner.scan();
    if keep != Keep::Share {
        failed += cannot_keep(scan.survey());
    }
    for block in scan.by_ref() {
        match block {
            Ok(block) => out
                .write(block.bytes())
                .context("cannot write to standard output")?,
            Err(error) => {
                failed += 1;
                tell(&error.to_string());
            }
        }
        if out.is_interrupted() {
            break;
        }
    }
    let report = scan.finish();
    for error in &report.skipped {
        failed += 1;
        tell(&error.to_string());
    }
    if let Some(status) = interrupt.as_ref().and_then(Interrupt::status) {
        tell("interrupted: the rest was not written; inserted pages were evicted as --keep says");
        return Ok(status);
    }
    Ok(status(failed > 0))
}

/// Says of which files what was resident before is unknown, so that nothing of them is dropped: how many.
fn cannot_keep(survey: &Survey) -> u64 {
    let mut files = 0;
    for error in &survey.unknown {
        // Files that bypass the page cache leave no pages there.
        if error.unknown().is_none_or(|why| why.is_of_caller()) {
            files += 1;
            // Inserted pages cannot be distinguished from earlier ones.
            tell(&format!("{error}; its pages stay in the cache"));
        }
    }
    files
}
