//! `warm`: prefetches files.

pub mod arguments;

use std::fs::File;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use cachewise_residency::{
    Counts, Error, Inode, Limiter, Unknown, WarmOptions, WarmShortfall, Watch, warm as bring_in,
    would_warm,
};
use cachewise_units::{ByteRange, Bytes, Pages};

use crate::acting::listed::{Job, each_listed, open};
use crate::acting::pool::threads;
use crate::acting::{moving, status};
use crate::commands::files::{ListedFile, unknown_reason};
use crate::interrupt::Interrupt;
use crate::progress::Meter;
use arguments::Warm;
use cachewise_cli::output::{FAILED, tell};
use cachewise_units::counted;

/// Result for one file.
struct Warmed {
    found: ListedFile,
    read: Bytes,
    /// Bytes requested of a file whose earlier residency is unknown.
    asked: Bytes,
    /// Less of it is resident than requested.
    is_short: bool,
}

/// Warms all of them, and shows what was resident before and after.
pub fn warm(mut arguments: Warm) -> Result<ExitCode> {
    arguments.list.add_to(&mut arguments.paths)?;
    let arguments = &arguments;
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
    let (mut read, mut asked, mut short) = (Bytes::ZERO, Bytes::ZERO, 0u64);
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
            asked += warmed.asked;
            short += u64::from(warmed.is_short);
            warmed.found
        },
    )?;
    let Some(answer) = answer else {
        return Ok(ExitCode::from(FAILED));
    };
    show.line(&came_of_it(read, asked, answer.unknown, target.dry_run))?;
    show.keep()?;
    if short > 0 {
        tell(&format!(
            "less is resident than requested of {}: -o json has the full reasons",
            counted(short, "file")
        ));
    }
    let is_failed = answer.failed > 0 || answer.unknown > 0 || short > 0;
    Ok(status(&interrupt, is_failed))
}

/// The summary line. Files with unknown residency may have been resident before, so their bytes are only requested.
fn came_of_it(read: Bytes, asked: Bytes, unknown: u64, dry_run: bool) -> String {
    let of_unknown = format!(
        "{asked} of {}; how much of that was resident before is unknown",
        counted(unknown, "file")
    );
    match (dry_run, unknown) {
        (false, 0) => format!("read {read}"),
        (false, _) if read == Bytes::ZERO => format!("requested {of_unknown}"),
        (false, _) => format!("read {read}, and requested {of_unknown}"),
        (true, 0) => format!("would read {read}; nothing was read"),
        (true, _) if read == Bytes::ZERO => format!("would request {of_unknown}; nothing was read"),
        (true, _) => format!("would read {read}, and request {of_unknown}; nothing was read"),
    }
}

/// Bytes that were read, and bytes that were requested of files with unknown residency.
fn apart<T>(bytes: Bytes, before: Result<T, Unknown>) -> (Bytes, Bytes) {
    match before {
        Ok(_) => (bytes, Bytes::ZERO),
        Err(_) => (Bytes::ZERO, bytes),
    }
}

fn one(
    path: &Path,
    file: &File,
    inode: &Inode,
    range: ByteRange,
    options: &WarmOptions<'_>,
) -> Result<Warmed, Error> {
    let warmed = bring_in(file, &[range], options)?;
    let counts = warmed.after.map_err(unknown_reason).map(|after| Counts {
        total: warmed.pages,
        cached: after,
        states: None,
    });
    let note = match (&warmed.short, warmed.holes) {
        (Some(short), _) => Some(short.to_string()),
        (None, Pages::ZERO) => None,
        (None, holes) => Some(format!("{} in holes", counted(holes.0, "page"))),
    };
    let (read, asked) = apart(warmed.read, warmed.before);
    Ok(Warmed {
        found: ListedFile {
            brief: warmed.short.as_ref().map(WarmShortfall::brief),
            before: Some(warmed.before.map(|pages| pages.0).map_err(unknown_reason)),
            note,
            ..ListedFile::new(path.to_owned(), inode.size.0, counts)
        },
        read,
        asked,
        is_short: !matches!(warmed.short, None | Some(WarmShortfall::Cancelled)),
    })
}

/// The same without doing it.
fn would(path: &Path, file: &File, inode: &Inode, range: ByteRange) -> Result<Warmed, Error> {
    let missing = would_warm(file, &[range])?;
    let pages = missing.absent;
    let (read, asked) = apart(missing.read, missing.before);
    Ok(Warmed {
        found: ListedFile {
            before: Some(missing.before.map(|pages| pages.0).map_err(unknown_reason)),
            note: (pages > Pages::ZERO).then(|| match missing.before {
                Ok(_) => format!("{} would be read", counted(pages.0, "page")),
                Err(_) => format!("{} would be requested", counted(pages.0, "page")),
            }),
            ..ListedFile::new(
                path.to_owned(),
                inode.size.0,
                missing.before.map_err(unknown_reason).map(|before| Counts {
                    total: missing.pages,
                    cached: before,
                    states: None,
                }),
            )
        },
        read,
        asked,
        is_short: false,
    })
}
