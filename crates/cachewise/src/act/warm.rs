//! `warm`: brings files in.

use std::fs::File;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::Ordering;

use anyhow::Result;
use cachewise_residency::{
    Counts, Error, Limiter, Short, WarmOptions, Watch, query, warm as bring_in,
};
use cachewise_units::{ByteRange, Bytes, Pages};

use super::pool::{Done, each_file, threads};
use super::{INTERRUPTED, cancelled_by_signals, plan};
use crate::cli::Warm;
use crate::files::{Found, Show, reason};
use crate::output::{FAILED, tell};

/// What came of a file.
struct Warmed {
    found: Found,
    read: Bytes,
    /// Less of it is resident than was asked for.
    is_short: bool,
}

/// Warms all of them, and shows what was resident before and after.
pub fn warm(arguments: &Warm) -> Result<ExitCode> {
    let target = &arguments.target;
    let mut show = Show::open(
        &target.output,
        plan(target.fields(), target, &arguments.paths),
    )?;
    let limiter = arguments.rate.and_then(Limiter::new);
    let cancel = cancelled_by_signals()?;
    let options = WarmOptions {
        threads: threads(target.select.threads)
            .try_into()
            .unwrap_or(std::num::NonZeroUsize::MIN),
        limiter: limiter.as_ref(),
        watch: Watch {
            cancel: Some(&cancel),
            ..Watch::default()
        },
    };
    let work = |path: &Path, file: &File| {
        if target.dry_run {
            would(path, file, target.range())
        } else {
            one(path, file, target.range(), &options)
        }
    };
    let mut listing = show.begin()?;
    let (mut read, mut short) = (Bytes(0), 0u64);
    each_file(
        &arguments.paths,
        &target.select,
        &cancel,
        work,
        |done| match done {
            Done::File(warmed) => {
                read += warmed.read;
                short += u64::from(warmed.is_short);
                listing.changed(warmed.found)
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
    show.line(&if target.dry_run {
        format!("would read {read}; nothing was read")
    } else {
        format!("read {read}")
    })?;
    if short > 0 {
        tell(&format!(
            "of {short} files less is resident than was asked for: --columns note,path says why"
        ));
    }
    Ok(if cancel.load(Ordering::Relaxed) {
        ExitCode::from(INTERRUPTED)
    } else if answer.failed > 0 || short > 0 {
        ExitCode::from(FAILED)
    } else {
        ExitCode::SUCCESS
    })
}

fn one(
    path: &Path,
    file: &File,
    range: ByteRange,
    options: &WarmOptions<'_>,
) -> Result<Warmed, Error> {
    let warmed = bring_in(file, &[range], options)?;
    let size = file.metadata().map_or(0, |metadata| metadata.len());
    let counts = warmed.after.map_err(reason).map(|after| Counts {
        total: warmed.pages,
        cached: after,
        states: None,
    });
    let note = match (&warmed.short, warmed.holes) {
        (Some(short), _) => Some(short.to_string()),
        (None, Pages::ZERO) => None,
        (None, holes) => Some(format!("{holes} pages of holes")),
    };
    Ok(Warmed {
        found: Found {
            before: Some(warmed.before.map(|pages| pages.0).map_err(reason)),
            note,
            ..Found::new(path.to_owned(), size, counts)
        },
        read: warmed.read,
        is_short: !matches!(warmed.short, None | Some(Short::Cancelled)),
    })
}

/// The same without doing it.
fn would(path: &Path, file: &File, range: ByteRange) -> Result<Warmed, Error> {
    let counts = query(file, range)?;
    let size = file.metadata().map_or(0, |metadata| metadata.len());
    let missing = counts.total.saturating_sub(counts.cached);
    Ok(Warmed {
        found: Found {
            before: Some(Ok(counts.cached.0)),
            note: (missing > Pages::ZERO).then(|| format!("{missing} pages would be read")),
            ..Found::new(path.to_owned(), size, Ok(counts))
        },
        read: missing.bytes(cachewise_sys::page_size()),
        is_short: false,
    })
}
