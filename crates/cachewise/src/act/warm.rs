//! `warm`: brings files in.

use std::fs::File;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use cachewise_residency::{
    Counts, Error, Inode, Limiter, Short, WarmOptions, Watch, warm as bring_in, would_warm,
};
use cachewise_units::{ByteRange, Bytes, Pages};

use super::interrupt::Interrupt;
use super::listed::{Job, each_listed, open};
use super::pool::threads;
use super::{moving, number, status};
use crate::cli::Warm;
use crate::files::{Found, reason};
use crate::output::{FAILED, tell};
use crate::progress::Meter;

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
    let mut show = open(target, &arguments.paths)?;
    let limiter = arguments.rate.and_then(Limiter::new);
    let interrupt = Interrupt::catch()?;
    let meter = Meter::new();
    let progress = moving(&meter);
    let options = WarmOptions {
        threads: threads(target.select.threads),
        limiter: limiter.as_ref(),
        watch: Watch {
            cancel: Some(interrupt.flag()),
            progress: Some(&progress),
        },
    };
    let (mut read, mut short) = (Bytes::ZERO, 0u64);
    let job = Job {
        verb: "warm",
        target,
        paths: &arguments.paths,
        rank: u64::abs_diff,
        interrupt: &interrupt,
        meter: &meter,
    };
    let answer = each_listed(
        &job,
        &mut show,
        |path, file, inode| match target.dry_run {
            true => would(path, file, inode, target.range()),
            false => one(path, file, inode, target.range(), &options),
        },
        |warmed| {
            read += warmed.read;
            short += u64::from(warmed.is_short);
            warmed.found
        },
    )?;
    let Some(answer) = answer else {
        return Ok(ExitCode::from(FAILED));
    };
    show.line(&match target.dry_run {
        true => format!("would read {read}; nothing was read"),
        false => format!("read {read}"),
    })?;
    if short > 0 {
        tell(&format!(
            "of {} less is resident than was asked for: --columns note,path says why",
            number(short, "file")
        ));
    }
    Ok(status(&interrupt, answer.failed > 0 || short > 0))
}

fn one(
    path: &Path,
    file: &File,
    inode: &Inode,
    range: ByteRange,
    options: &WarmOptions<'_>,
) -> Result<Warmed, Error> {
    let warmed = bring_in(file, &[range], options)?;
    let counts = warmed.after.map_err(reason).map(|after| Counts {
        total: warmed.pages,
        cached: after,
        states: None,
    });
    let note = match (&warmed.short, warmed.holes) {
        (Some(short), _) => Some(short.to_string()),
        (None, Pages::ZERO) => None,
        (None, holes) => Some(format!("{} in holes", number(holes.0, "page"))),
    };
    Ok(Warmed {
        found: Found {
            before: Some(warmed.before.map(|pages| pages.0).map_err(reason)),
            note,
            ..Found::new(path.to_owned(), inode.size.0, counts)
        },
        read: warmed.read,
        is_short: !matches!(warmed.short, None | Some(Short::Cancelled)),
    })
}

/// The same without doing it.
fn would(path: &Path, file: &File, inode: &Inode, range: ByteRange) -> Result<Warmed, Error> {
    let missing = would_warm(file, &[range])?;
    let pages = missing.absent;
    Ok(Warmed {
        found: Found {
            before: Some(missing.before.map(|pages| pages.0).map_err(reason)),
            note: (pages > Pages::ZERO)
                .then(|| format!("{} would be read", number(pages.0, "page"))),
            ..Found::new(
                path.to_owned(),
                inode.size.0,
                missing.before.map_err(reason).map(|before| Counts {
                    total: missing.pages,
                    cached: before,
                    states: None,
                }),
            )
        },
        read: missing.read,
        is_short: false,
    })
}
