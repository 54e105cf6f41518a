//! `evict`: puts files out, and says what stayed and why.

use std::fs::File;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::Ordering;

use anyhow::Result;
use cachewise_residency::{Error, EvictOptions, Stayed, evict as put_out, query};
use cachewise_units::{ByteRange, Pages};

use super::pool::{Done, each_file};
use super::{INTERRUPTED, cancelled_by_signals, plan};
use crate::cli::Evict;
use crate::files::{Found, Show, reason};
use crate::output::FAILED;

/// Processes that hold a file are named up to so many.
const HOLDERS_NAMED: usize = 3;

/// Evicts all of them, and shows what was resident before and after.
pub fn evict(arguments: &Evict) -> Result<ExitCode> {
    let target = &arguments.target;
    let mut show = Show::open(
        &target.output,
        plan(target.fields(), target, &arguments.paths),
    )?;
    let cancel = cancelled_by_signals()?;
    let options = EvictOptions {
        sync: arguments.sync,
        // Who holds what costs milliseconds a file: for those that were named.
        holders: !arguments.paths.iter().any(|path| path.is_dir()),
    };
    let work = |path: &Path, file: &File| {
        if target.dry_run {
            would(path, file, target.range(), arguments.sync)
        } else {
            one(path, file, target.range(), &options)
        }
    };
    let mut listing = show.begin()?;
    each_file(
        &arguments.paths,
        &target.select,
        &cancel,
        work,
        |done| match done {
            Done::File(found) => listing.changed(found),
            Done::Failed(error) => {
                listing.failed(&error);
                Ok(())
            }
            Done::Vanished => {
                listing.counting().vanished();
                Ok(())
            }
            Done::Nothing => Ok(()),
        },
    )?;
    let answer = listing.finish()?;
    let (before, after) = (answer.before.unwrap_or(0), answer.counts.cached.0);
    show.line(&if target.dry_run {
        format!("{after} pages are resident; nothing was put out")
    } else {
        format!(
            "{} pages went, {after} stayed",
            before.saturating_sub(after)
        )
    })?;
    Ok(if cancel.load(Ordering::Relaxed) {
        ExitCode::from(INTERRUPTED)
    } else if answer.failed > 0 {
        ExitCode::from(FAILED)
    } else {
        ExitCode::SUCCESS
    })
}

fn one(path: &Path, file: &File, range: ByteRange, options: &EvictOptions) -> Result<Found, Error> {
    let evicted = put_out(file, range, options)?;
    let size = file.metadata().map_or(0, |metadata| metadata.len());
    Ok(Found {
        before: Some(evicted.before.map(|counts| counts.cached.0).map_err(reason)),
        note: evicted.stayed.as_ref().and_then(why),
        ..Found::new(path.to_owned(), size, evicted.after.map_err(reason))
    })
}

/// The same without doing it.
fn would(path: &Path, file: &File, range: ByteRange, sync: bool) -> Result<Found, Error> {
    let counts = query(file, range)?;
    let size = file.metadata().map_or(0, |metadata| metadata.len());
    let dirty = counts.states.map(|states| states.dirty + states.writeback);
    Ok(Found {
        before: Some(Ok(counts.cached.0)),
        note: dirty.filter(|dirty| *dirty > Pages::ZERO).map(|dirty| {
            if sync {
                format!("{dirty} dirty pages would be written first")
            } else {
                format!("{dirty} dirty pages would stay; --sync writes them")
            }
        }),
        ..Found::new(path.to_owned(), size, Ok(counts))
    })
}

/// Why pages stayed; nothing where none did.
fn why(stayed: &Stayed) -> Option<String> {
    let mut reasons: Vec<String> = [
        (stayed.only_copy, "in memory only"),
        (stayed.dirty, "dirty (--sync writes them)"),
        (stayed.writeback, "being written"),
        (stayed.locked, "locked"),
        (stayed.mapped, "mapped"),
        (stayed.edge, "at the range's edge"),
        (stayed.other, "in use"),
    ]
    .into_iter()
    .filter(|(pages, _)| *pages > Pages::ZERO)
    .map(|(pages, reason)| format!("{pages} {reason}"))
    .collect();
    if reasons.is_empty() {
        return None;
    }
    if let Some(holders) = &stayed.holders {
        let named: Vec<String> = holders
            .holders
            .iter()
            .take(HOLDERS_NAMED)
            .map(|holder| format!("{} ({})", holder.name, holder.pid))
            .collect();
        let more = holders.holders.len().saturating_sub(HOLDERS_NAMED);
        if !named.is_empty() {
            let more = if more > 0 {
                format!(" and {more} more")
            } else {
                String::new()
            };
            reasons.push(format!("by {}{more}", named.join(", ")));
        }
        if holders.hidden > 0 {
            reasons.push(format!(
                "{} processes could not be looked at",
                holders.hidden
            ));
        }
    }
    Some(reasons.join(", "))
}
