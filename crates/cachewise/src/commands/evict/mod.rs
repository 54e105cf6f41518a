//! `evict`: evicts files, and reports the pages that stayed, with the reasons.

pub mod arguments;

use std::fs::File;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use cachewise_residency::{Error, EvictOptions, Inode, Stayed, evict as put_out, would_evict};
use cachewise_units::{ByteRange, Pages};

use crate::acting::listed::{Job, each_listed, open};
use crate::acting::status;
use crate::commands::files::{Answer, ListedFile, unknown_reason};
use crate::interrupt::Interrupt;
use crate::progress::Meter;
use arguments::Evict;
use cachewise_cli::output::{FAILED, tell};
use cachewise_units::{counted, grouped};

/// Maximum number of processes to name for a file.
const HOLDERS_NAMED: usize = 3;

/// Result for one file.
struct Done {
    found: ListedFile,
    /// A process maps it, or may map it: holders were not searched.
    is_in_use: bool,
}

/// Evicts all of them, and shows what was resident before and after.
pub fn evict(mut arguments: Evict) -> Result<ExitCode> {
    arguments.list.add_to(&mut arguments.paths)?;
    let arguments = &arguments;
    let target = &arguments.target;
    let mut show = open(target, &arguments.paths)?;
    let interrupt = Interrupt::catch()?;
    let options = EvictOptions {
        sync: arguments.sync,
        // Searching for holders costs milliseconds per file: only for named files.
        holders: !arguments.paths.iter().any(|path| path.is_dir()),
    };
    let mut in_use = 0u64;
    let job = Job {
        verb: "evict",
        target,
        paths: &arguments.paths,
        // Files whose pages stayed are shown too.
        rank: u64::max,
        interrupt: &interrupt,
        meter: &Meter::new(),
    };
    let answer = each_listed(
        &job,
        &mut show,
        |path, file, inode| match target.dry_run {
            true => would(path, file, inode, target.range(), &options),
            false => one(path, file, inode, target.range(), &options),
        },
        |done| {
            in_use += u64::from(done.is_in_use);
            done.found
        },
    )?;
    let Some(answer) = answer else {
        return Ok(ExitCode::from(FAILED));
    };
    show.line(&came_of_it(&answer, target.dry_run))?;
    show.keep()?;
    if target.dry_run && answer.unknown < answer.files {
        tell(match options.holders {
            true => {
                "note: a dry run cannot predict pages that are in use at that moment, or large folios that stay in part"
            }
            false => {
                "note: a dry run of a directory does not look for processes that map or lock its files: name the files; \
                 it cannot predict pages that are in use at that moment"
            }
        });
    } else if in_use > 0 && !options.holders {
        tell("note: name a file instead of its directory to see which processes use it");
    }
    let is_failed = answer.failed > 0 || answer.unknown > 0;
    Ok(status(&interrupt, is_failed))
}

fn came_of_it(answer: &Answer, dry_run: bool) -> String {
    const ASK: &str = "unknown to users who are not the owner: run it as the owner or as root";
    let (went, after) = match &answer.change {
        Some(change) => (change.went, change.after.pages),
        None => (0, 0),
    };
    if answer.files > 0 && answer.unknown == answer.files {
        return match dry_run {
            true => format!("residency is {ASK}; nothing was evicted"),
            false => format!(
                "asked the kernel to evict {}; the result is {ASK}",
                counted(answer.files, "file")
            ),
        };
    }
    if dry_run {
        let verb = if after == 1 { "is" } else { "are" };
        return format!(
            "{} {verb} resident; nothing was evicted",
            counted(after, "page")
        );
    }
    let went = counted(went, "page");
    let after = grouped(after);
    match answer.unknown {
        0 => format!("{went} evicted, {after} stayed"),
        unknown => format!(
            "{went} evicted, {after} stayed; the result of {} is {ASK}",
            counted(unknown, "other")
        ),
    }
}

fn one(
    path: &Path,
    file: &File,
    inode: &Inode,
    range: ByteRange,
    options: &EvictOptions,
) -> Result<Done, Error> {
    let evicted = put_out(file, range, options)?;
    let stayed = evicted.stayed.as_ref();
    Ok(Done {
        is_in_use: stayed.is_some_and(|stayed| stayed.other > Pages::ZERO),
        found: ListedFile {
            before: Some(
                evicted
                    .before
                    .map(|counts| counts.cached.0)
                    .map_err(unknown_reason),
            ),
            note: stayed.and_then(|stayed| why(stayed, options.sync)),
            ..ListedFile::new(
                path.to_owned(),
                inode.size.0,
                evicted.after.map_err(unknown_reason),
            )
        },
    })
}

/// The same without doing it.
fn would(
    path: &Path,
    file: &File,
    inode: &Inode,
    range: ByteRange,
    options: &EvictOptions,
) -> Result<Done, Error> {
    let would = would_evict(file, range, options)?;
    let dirty = would
        .before
        .ok()
        .and_then(|counts| counts.states)
        .map_or(0, |states| (states.dirty + states.writeback).0);
    let mut notes = Vec::new();
    if options.sync && dirty > 0 {
        let pages = counted(dirty, "dirty page");
        notes.push(format!("{pages} would be written first"));
    }
    if let Some(why) = would.stays.and_then(|stays| why(&stays, options.sync)) {
        notes.push(format!("would stay: {why}"));
    }
    let counts = would.before.map_err(unknown_reason);
    Ok(Done {
        is_in_use: false,
        found: ListedFile {
            before: Some(counts.map(|counts| counts.cached.0)),
            note: (!notes.is_empty()).then(|| notes.join("; ")),
            ..ListedFile::new(path.to_owned(), inode.size.0, counts)
        },
    })
}

/// Why pages stayed; nothing where none did.
fn why(stayed: &Stayed, synced: bool) -> Option<String> {
    let (dirty, writeback) = match synced {
        true => ("dirty again", "being written again"),
        false => (
            "dirty (--sync writes them)",
            "being written (--sync waits for it)",
        ),
    };
    let reasons: Vec<String> = [
        (stayed.only_copy, "in memory only"),
        (stayed.dirty, dirty),
        (stayed.writeback, writeback),
        (stayed.edge, "at the range's edge"),
        (stayed.other, "in use"),
        (stayed.locked, "locked"),
        (stayed.mapped, "mapped"),
    ]
    .into_iter()
    .filter(|(pages, _)| *pages > Pages::ZERO)
    .map(|(pages, reason)| format!("{} {reason}", grouped(pages.0)))
    .collect();
    let mut text = reasons.join(", ");
    if let (Some(found), false) = (&stayed.holders, reasons.is_empty()) {
        let named: Vec<String> = found
            .holders
            .iter()
            .take(HOLDERS_NAMED)
            .map(|holder| format!("{} ({})", holder.name, holder.pid))
            .collect();
        if !named.is_empty() {
            // Dirty pages may also be mapped.
            let is_said = stayed.locked + stayed.mapped > Pages::ZERO;
            text += if is_said { " by " } else { ", mapped by " };
            text += &named.join(", ");
        }
        let more = found.holders.len().saturating_sub(HOLDERS_NAMED);
        if more > 0 {
            text += &format!(" and {more} more");
        }
        if found.hidden > 0 && stayed.other > Pages::ZERO {
            let processes = match found.hidden {
                1 => "1 process".to_owned(),
                hidden => format!("{hidden} processes"),
            };
            text += &format!(", {processes} could not be examined");
        }
    }
    (!text.is_empty()).then_some(text)
}
