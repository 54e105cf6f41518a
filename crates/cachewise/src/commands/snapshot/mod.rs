//! `snapshot`: saves, restores and compares residency.

pub mod arguments;

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};
use cachewise_model::Reason;
use cachewise_residency::snapshot::{
    Fate, FileDiff, FileOutcome, Reader, RestoreOptions, Skip, Skipped, SnapshotEntry,
    SnapshotError, Writer, diff, diff_now, restore,
};
use cachewise_residency::{Counts, Error, Inode, Limiter, Unknown, WarmShortfall, Watch, map};
use cachewise_sys::{ErrorKind, page_size};
use cachewise_units::{ByteRange, Bytes, Pages, escaped};

use crate::acting::listed::{nothing, plan};
use crate::acting::pool::{Done, Purpose, each_file, threads};
use crate::acting::{moving, status};
use crate::columns::fields;
use crate::commands::files::{ListedFile, Show, unknown_reason};
use crate::interrupt::{Interrupt, Stop};
use crate::options::{Output, Select};
use crate::progress::Meter;
use arguments::{Snapshot, SnapshotCommand};
use cachewise_cli::output::{self, FAILED, Failures, tell};
use cachewise_units::counted;

/// Saves, restores or compares.
pub fn snapshot(arguments: &Snapshot) -> Result<ExitCode> {
    match &arguments.command {
        SnapshotCommand::Save {
            file,
            paths,
            select,
        } => save(file, paths, select),
        SnapshotCommand::Restore {
            file,
            anyway,
            rate,
            threads,
            dry_run,
        } => {
            if *dry_run {
                return would_restore(file, *anyway);
            }
            bring_back(file, *anyway, *rate, *threads)
        }
        SnapshotCommand::Diff {
            file,
            other,
            top,
            output,
        } => compare(file, other.as_deref(), *top, output),
    }
}

/// Tells what could not be done to files, with the bar out of its way.
struct Telling<'a> {
    failures: Mutex<Failures>,
    meter: &'a Meter,
}

impl<'a> Telling<'a> {
    fn new(meter: &'a Meter) -> Self {
        Telling {
            failures: Mutex::default(),
            meter,
        }
    }

    fn tell(&self, text: &str) {
        locked(&self.failures).add(text, |text| self.meter.aside(|| tell(text)));
    }

    /// Ends it, and returns how many there were.
    fn end(self) -> u64 {
        self.meter.end();
        locked(&self.failures).end(tell)
    }
}

/// The name that stands for a standard stream.
const STREAM: &str = "-";

fn save(file: &Path, paths: &[PathBuf], select: &Select) -> Result<ExitCode> {
    let interrupt = Interrupt::catch()?;
    let among = (paths, select, &interrupt);
    if file == Path::new(STREAM) {
        let out = BufWriter::with_capacity(1 << 16, io::stdout());
        let name = "the snapshot on standard output";
        return write(Writer::new(out)?, &[], name, among, |_| Ok(()));
    }
    let writer = Writer::create(file)?;
    let own = writer.own();
    let name = escaped(file).into_owned();
    write(writer, &own, &name, among, |whole| whole.commit())
}

/// Writes what is resident, and has the whole take its place.
fn write<W: Write>(
    mut writer: Writer<W>,
    own: &[Inode],
    name: &str,
    (paths, select, interrupt): (&[PathBuf], &Select, &Interrupt),
    commit: impl FnOnce(W) -> Result<(), SnapshotError>,
) -> Result<ExitCode> {
    let meter = Meter::new();
    let telling = Telling::new(&meter);
    let mut empty = 0u64;
    let look = |path: &Path, file: &std::fs::File| {
        let inode = Inode::of_fd(file.as_fd())?;
        // Of itself, and of the one whose place it takes, a snapshot would have nothing to bring back.
        if own
            .iter()
            .any(|own| (own.device, own.number) == (inode.device, inode.number))
        {
            return Ok(Done::Nothing);
        }
        let map = map(file, ByteRange::starting_at(0))?;
        Ok(Done::File(SnapshotEntry::new(path, &inode, map)))
    };
    each_file(
        paths,
        select,
        Purpose::Examine,
        interrupt.flag(),
        look,
        |done| {
            meter.file();
            match done {
                Done::File(entry) if entry.cached() > Pages::ZERO => writer.add(&entry)?,
                Done::File(_) | Done::Opened(..) => empty += 1,
                Done::NotOpened(path, _) => {
                    let why = Unknown::FuseNotOpened;
                    let error = Error::Unknown {
                        path: Some(path),
                        why,
                    };
                    telling.tell(&error.to_string());
                }
                Done::Vanished | Done::Nothing | Done::Beyond => {}
                Done::Failed(error) => telling.tell(&error),
            }
            Ok(())
        },
    )?;
    let failed = telling.end();
    let totals = writer.totals();
    if let Some(status) = interrupt.status() {
        tell(&format!(
            "interrupted: {} resident in {} so far; {name} was not written",
            counted(totals.pages.0, "page"),
            counted(totals.files + empty, "file"),
        ));
        return Ok(status);
    }
    if totals.files + empty == 0 {
        if failed == 0 {
            tell(&nothing("save", select, paths));
        }
        tell(&format!("{name} was not written"));
        return Ok(ExitCode::from(FAILED));
    }
    commit(writer.finish()?)?;
    tell(&format!(
        "{name}: {} resident ({}), of {}; {} had none",
        counted(totals.pages.0, "page"),
        totals.pages.bytes(page_size()),
        counted(totals.files, "file"),
        counted(empty, "file")
    ));
    Ok(output::status(failed > 0))
}

/// Opens a snapshot. Whatever has to be waited for is waited for before signals are caught: one of them ends it.
fn read(file: &Path) -> Result<Reader<BufReader<File>>> {
    if file != Path::new(STREAM) {
        return Ok(Reader::open(file)?);
    }
    // Whether it is complete is known at its end, and something is done before that.
    let mut all = tempfile::tempfile().context("cannot make a temporary file")?;
    io::copy(&mut io::stdin().lock(), &mut all).context("cannot read standard input")?;
    Reader::from_file(all).context("cannot use the snapshot on standard input")
}

fn bring_back(
    file: &Path,
    anyway: bool,
    rate: Option<Bytes>,
    asked: Option<u16>,
) -> Result<ExitCode> {
    let reader = read(file)?;
    let interrupt = Interrupt::catch()?;
    let limiter = rate.and_then(Limiter::new);
    let meter = Meter::new();
    let progress = moving(&meter);
    let telling = Telling::new(&meter);
    let unknown_residency = Mutex::new(None);
    let each = |entry: &SnapshotEntry, outcome: FileOutcome<'_>| {
        meter.file();
        match outcome {
            FileOutcome::Skipped(why) => telling.tell(&skipped(&entry.path, why)),
            FileOutcome::Warmed(warmed) => {
                // The interruption is reported once, at the end.
                if let Some(short) = &warmed.short
                    && !matches!(short, WarmShortfall::Cancelled)
                {
                    telling.tell(&format!("{}: {short}", escaped(&entry.path)));
                }
                if let Err(why) = warmed.after.and(warmed.before) {
                    *locked(&unknown_residency) = Some(why);
                }
            }
        }
    };
    let options = RestoreOptions {
        anyway,
        threads: threads(asked),
        limiter: limiter.as_ref(),
        watch: Watch {
            cancel: Some(interrupt.flag()),
            progress: Some(&progress),
        },
        each: Some(&each),
    };
    let restored = restore(reader, &options);
    telling.end();
    let known = |pages: Pages| match restored.unknown {
        0 => pages.to_string(),
        _ => "?".to_owned(),
    };
    let mut line = format!(
        "{} of {} resident again, {} were before; read {} of {}",
        known(restored.after),
        counted(restored.pages.0, "page"),
        known(restored.before),
        restored.read,
        counted(restored.files, "file")
    );
    line += &beyond(restored.beyond);
    tell(&line);
    if let Some(why) = *locked(&unknown_residency) {
        tell(&unknown_of(restored.unknown, why));
    }
    left_alone(&restored.skipped);
    if let Some(damage) = restored.damage {
        return Err(damage).context("the rest of the snapshot was not restored");
    }
    Ok(status(
        &interrupt,
        restored.skipped.total() + restored.short + restored.unknown > 0,
    ))
}

/// Pages of the snapshot beyond the end of truncated files.
fn beyond(pages: Pages) -> String {
    match pages {
        Pages::ZERO => String::new(),
        Pages(1) => "; 1 is beyond the end of a truncated file".to_owned(),
        pages => format!("; {pages} are beyond the end of truncated files"),
    }
}

/// Why numbers are `?`.
fn unknown_of(files: u64, why: Unknown) -> String {
    format!(
        "residency of {} is unknown: {why}; {}",
        counted(files, "file"),
        why.advice()
    )
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // The value stays valid after a panic.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Errors know their files; other reasons do not.
fn skipped(path: &Path, why: &Skip) -> String {
    match why {
        Skip::Failed(error) => error.to_string(),
        other => format!("{}: {other}", escaped(path)),
    }
}

fn left_alone(skipped: &Skipped) {
    let kinds = [
        (skipped.vanished, "gone"),
        (skipped.changed, "changed (--anyway restores them)"),
        (skipped.denied, "not permitted to open"),
        (skipped.failed, "failed"),
    ];
    let kinds: Vec<String> = kinds
        .into_iter()
        .filter(|(files, _)| *files > 0)
        .map(|(files, kind)| format!("{files} {kind}"))
        .collect();
    if !kinds.is_empty() {
        tell(&format!(
            "not restored: {}: {}",
            counted(skipped.total(), "file"),
            kinds.join(", ")
        ));
    }
}

fn would_restore(file: &Path, anyway: bool) -> Result<ExitCode> {
    let meter = Meter::new();
    let telling = Telling::new(&meter);
    let (mut pages, mut absent, mut cut) = (Pages::ZERO, Pages::ZERO, Pages::ZERO);
    let (mut files, mut unknown, mut unknown_residency) = (0u64, 0u64, None);
    let mut left = Skipped::default();
    let reader = read(file)?;
    let interrupt = Interrupt::catch()?;
    diff_now(reader.cancelled_by(interrupt.shared()), |difference| {
        meter.file();
        let path = escaped(&difference.path);
        match &difference.fate {
            Fate::Changed if !anyway => {
                left.changed += 1;
                telling.tell(&format!("{path}: it has changed"));
                return;
            }
            Fate::Gone | Fate::Renamed(_) => {
                left.vanished += 1;
                telling.tell(&format!("{path}: it is gone"));
                return;
            }
            Fate::Unknown(error) => match error.unknown() {
                Some(why) if why.is_of_caller() => {
                    unknown += 1;
                    unknown_residency = Some(why);
                    absent += difference.before;
                }
                _ => {
                    match error.kind() {
                        ErrorKind::Denied => left.denied += 1,
                        _ => left.failed += 1,
                    }
                    telling.tell(&error.to_string());
                    return;
                }
            },
            _ => {
                cut += difference.beyond;
                absent += difference.lost.saturating_sub(difference.beyond);
            }
        }
        files += 1;
        pages += difference.before;
    })?;
    telling.end();
    left_alone(&left);
    let all_of_unknown = match unknown {
        0 => String::new(),
        unknown => format!(
            "; {}: residency unknown, so all of it",
            counted(unknown, "file")
        ),
    };
    tell(&format!(
        "would read {} of {} ({}) in {}{all_of_unknown}{}; nothing was read",
        absent,
        counted(pages.0, "page"),
        absent.bytes(page_size()),
        counted(files, "file"),
        beyond(cut)
    ));
    if let Some(why) = unknown_residency {
        tell(&unknown_of(unknown, why));
    }
    Ok(status(&interrupt, left.total() + unknown > 0))
}

fn compare(
    file: &Path,
    other: Option<&Path>,
    top: Option<usize>,
    output: &Output,
) -> Result<ExitCode> {
    const COLUMNS: [&str; 4] = [
        "resident_before_pages",
        "resident_after_pages",
        "note",
        "path",
    ];
    let first = read(file)?;
    let second = other.map(read).transpose()?;
    let interrupt = Interrupt::catch()?;
    let first = first.cancelled_by(interrupt.shared());
    let mut show = Show::open(output, plan(fields(&COLUMNS), top))?;
    show.end_early(Stop::at(&interrupt));
    let mut listing = show.begin()?;
    let mut result = Ok(());
    let each = |difference: FileDiff| {
        let is_same = difference.gained + difference.lost == Pages::ZERO
            && matches!(difference.fate, Fate::Same | Fate::Changed);
        if result.is_ok() && !is_same {
            result = listing.changed(found(difference), u64::abs_diff);
        }
    };
    let totals = match second {
        Some(second) => diff(first, second, each),
        None => diff_now(first, each),
    }?;
    result?;
    listing.finish()?;
    let when = match other {
        Some(_) => "in the other",
        None => "now",
    };
    let (before, different) = (totals.before, totals.different);
    show.line(&match totals.unknown {
        0 => format!(
            "{different} of {} differ: {} gained, {} lost; {before} resident then, {} {when}",
            counted(totals.files, "file"),
            counted(totals.gained.0, "page"),
            totals.lost,
            totals.after,
        ),
        // Of some of them a sum would look like one of all.
        unknown => format!(
            "{different} of {} differ, {} unknown: ? pages gained, ? lost; {before} resident then, ? {when}",
            counted(totals.files, "known file"),
            counted(unknown, "other"),
        ),
    })?;
    if let Some(status) = interrupt.status() {
        tell("interrupted: the result so far is shown, the rest was not compared");
        return Ok(status);
    }
    show.keep()?;
    Ok(output::status(totals.unknown > 0))
}

fn found(difference: FileDiff) -> ListedFile {
    let mut notes = Vec::new();
    let mut counts = Ok(Counts {
        total: difference.after,
        cached: difference.after,
        states: None,
    });
    match &difference.fate {
        Fate::Added => notes.push("only in the other".to_owned()),
        Fate::Gone => notes.push("gone".to_owned()),
        Fate::Changed => notes.push("changed".to_owned()),
        Fate::Renamed(path) => notes.push(format!("renamed to {}", escaped(path))),
        Fate::Unknown(error) => {
            let why = error.unknown();
            counts = Err(why.map_or(Reason::CannotBeLookedAt, unknown_reason));
            if why.is_none() {
                notes.push(error.to_string());
            }
        }
        _ => {}
    }
    if difference.gained > Pages::ZERO {
        notes.push(format!("+{}", difference.gained));
    }
    if difference.lost > Pages::ZERO {
        notes.push(format!("-{}", difference.lost));
    }
    ListedFile {
        before: Some(Ok(difference.before.0)),
        note: (!notes.is_empty()).then(|| notes.join(", ")),
        ..ListedFile::new(difference.path, 0, counts)
    }
}
