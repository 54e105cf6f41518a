//! `lock`: keeps files in memory for as long as it runs.

use std::fs::File;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::sync::mpsc::channel;

use anyhow::{Context, Result};
use cachewise_residency::{
    Counts, Error, Lock as Locked, LockOptions, Pick, Watch, lock as pin, query,
};
use cachewise_units::{ByteRange, Pages};

use super::pool::{Done, each_file};
use super::{cancelled_by_signals, follow, plan};
use crate::cli::Lock;
use crate::files::{Found, Show, reason};
use crate::output::{FAILED, tell};
use crate::signals::{self, Caught};

/// Locks them, shows what is locked, and waits to be ended.
pub fn lock(arguments: &Lock) -> Result<ExitCode> {
    if arguments.follow {
        return follow::follow(arguments);
    }
    let target = &arguments.target;
    let mut show = Show::open(
        &target.output,
        plan(target.fields(), target, &arguments.paths),
    )?;
    let cancel = cancelled_by_signals()?;
    let pick = if arguments.resident {
        Pick::Resident
    } else {
        Pick::All
    };
    let options = LockOptions {
        pick,
        watch: Watch {
            cancel: Some(&cancel),
            ..Watch::default()
        },
    };
    let work = |path: &Path, file: &File| {
        if target.dry_run {
            would(path, file, target.range(), pick).map(|found| (found, None))
        } else {
            one(path, file, target.range(), &options).map(|(found, lock)| (found, Some(lock)))
        }
    };
    let mut listing = show.begin()?;
    let mut locks: Vec<Locked> = Vec::new();
    each_file(
        &arguments.paths,
        &target.select,
        &cancel,
        work,
        |done| match done {
            Done::File((found, lock)) => {
                locks.extend(lock);
                listing.changed(found)
            }
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
    let status = if answer.failed > 0 {
        ExitCode::from(FAILED)
    } else {
        ExitCode::SUCCESS
    };
    if target.dry_run {
        show.line("nothing was locked")?;
        return Ok(status);
    }
    let pages: Pages = locks.iter().filter_map(|lock| lock.locked().ok()).sum();
    show.line(&format!("{pages} pages are locked"))?;
    if locks.is_empty() || cancel.load(Ordering::Relaxed) {
        return Ok(status);
    }
    tell("they stay locked as long as this runs; Ctrl-C lets them go");
    let (sender, interrupts) = channel::<Caught>();
    signals::catch_ending(sender)?;
    interrupts.recv().context("the thread for signals ended")?;
    drop(locks);
    Ok(status)
}

fn one(
    path: &Path,
    file: &File,
    range: ByteRange,
    options: &LockOptions<'_>,
) -> Result<(Found, Locked), Error> {
    let lock = pin(file, range, options)?;
    let locked = lock.locked()?;
    let size = file.metadata().map_or(0, |metadata| metadata.len());
    let counts = Counts {
        total: lock.pages(),
        cached: locked,
        states: None,
    };
    let found = Found {
        before: Some(lock.before().map(|pages| pages.0).map_err(reason)),
        note: Some(format!("{locked} pages locked")),
        ..Found::new(path.to_owned(), size, Ok(counts))
    };
    Ok((found, lock))
}

/// The same without doing it.
fn would(path: &Path, file: &File, range: ByteRange, pick: Pick) -> Result<Found, Error> {
    let counts = query(file, range)?;
    let size = file.metadata().map_or(0, |metadata| metadata.len());
    let pages = match pick {
        Pick::Resident => counts.cached,
        Pick::All => counts.total,
    };
    Ok(Found {
        before: Some(Ok(counts.cached.0)),
        note: Some(format!("{pages} pages would be locked")),
        ..Found::new(path.to_owned(), size, Ok(counts))
    })
}
