//! Work on files, with a row for each.

use std::fs::File;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use anyhow::Result;
use cachewise_model::Field;
use cachewise_residency::{Error, Inode};
use cachewise_units::{ByteRange, Bytes, escaped};

use super::pool::{Done, Purpose, each_file};
use crate::acting::Target;
use crate::commands::files::arguments::SortKey;
use crate::commands::files::{Answer, ListedFile, NotOpened, Order, Plan, Show};
use crate::interrupt::Interrupt;
use crate::options::Select;
use crate::progress::Meter;
use cachewise_cli::output::tell;

/// How the work is shown: the largest changes first.
pub fn plan(columns: Vec<&'static Field>, top: Option<usize>) -> Plan {
    Plan {
        are_files: Some(false),
        columns,
        columns_are_chosen: false,
        all_are_named: false,
        // The order is by change, which only the listing knows.
        order: Order {
            key: SortKey::Resident,
            reverse: false,
        },
        order_is_chosen: false,
        top,
        only_cached: false,
        maps: false,
        strips: false,
        repeated: false,
        labels: None,
    }
}

/// Opens the output of a command.
pub fn open(target: &Target, paths: &[PathBuf]) -> Result<Show> {
    let all_are_named = !paths.iter().any(|path| path.is_dir());
    let plan = Plan {
        columns_are_chosen: target.columns.is_some(),
        all_are_named,
        // Several work at once: as they come would be in no order.
        order_is_chosen: all_are_named,
        ..plan(target.fields(), target.top)
    };
    Show::open(&target.output, plan)
}

/// Work on the files of a command.
pub struct Job<'a> {
    /// For messages.
    pub verb: &'a str,
    pub target: &'a Target,
    pub paths: &'a [PathBuf],
    /// Of the pages before and after: rows of the highest come first.
    pub rank: fn(u64, u64) -> u64,
    pub interrupt: &'a Interrupt,
    pub meter: &'a Meter,
}

/// Works on all files, and shows a row for each. `None`, with a message, if there was no file.
pub fn each_listed<T: Send>(
    job: &Job<'_>,
    show: &mut Show,
    work: impl Fn(&Path, &File, &Inode) -> Result<T, Error> + Sync,
    mut row: impl FnMut(T) -> ListedFile,
) -> Result<Option<Answer>> {
    let Job {
        target,
        paths,
        rank,
        interrupt,
        meter,
        ..
    } = *job;
    let streams = show.keeps_order();
    let mut listing = show.begin()?;
    listing.counting().quietly();
    let mut beyond = 0u64;
    let work = |path: &Path, file: &File| {
        let inode = Inode::of_fd(file.as_fd())?;
        Ok(match is_beyond(target.range(), inode.size) {
            false => Done::File(work(path, file, &inode)?),
            true if paths.iter().any(|named| named == path) => Done::Failed(format!(
                "{}: --range begins at byte {}, beyond the size of the file, {} bytes: choose a smaller offset",
                escaped(path),
                target.range().start,
                inode.size.0
            )),
            true => Done::Beyond,
        })
    };
    let not_opened = NotOpened::default();
    let purpose = Purpose::of(target.dry_run);
    each_file(
        paths,
        &target.select,
        purpose,
        interrupt.flag(),
        work,
        |done| {
            meter.file();
            match done {
                Done::Opened(done, before) => {
                    let found = ListedFile {
                        before: Some(before.map(|counts| counts.cached.0)),
                        ..row(done)
                    };
                    meter.aside(|| listing.changed(found, rank))
                }
                Done::File(done) if streams => meter.aside(|| listing.changed(row(done), rank)),
                Done::File(done) => listing.changed(row(done), rank),
                Done::NotOpened(path, inode) => {
                    let counts = not_opened.counts(&inode);
                    let found = ListedFile {
                        before: Some(counts.map(|counts| counts.cached.0)),
                        note: Some("a FUSE file, not opened for a dry run".to_owned()),
                        ..ListedFile::new(path, inode.size.0, counts)
                    };
                    meter.aside(|| listing.changed(found, rank))
                }
                Done::Failed(error) => {
                    meter.aside(|| listing.failed(&error));
                    Ok(())
                }
                Done::Vanished => {
                    listing.counting().vanished();
                    Ok(())
                }
                Done::Beyond => {
                    beyond += 1;
                    Ok(())
                }
                Done::Nothing => Ok(()),
            }
        },
    )?;
    meter.end();
    let answer = listing.finish()?;
    if beyond > 0 {
        tell(&format!(
            "note: {} before --range begins, and {} skipped",
            match beyond {
                1 => "1 file ends".to_owned(),
                _ => format!("{beyond} files end"),
            },
            if beyond == 1 { "was" } else { "were" },
        ));
    }
    if answer.files > 0 || interrupt.status().is_some() {
        return Ok(Some(answer));
    }
    if answer.failed == 0 {
        tell(&nothing(job.verb, &target.select, paths));
    }
    Ok(None)
}

/// Whether the range is beyond the end of the file. An empty file has no pages in any case.
fn is_beyond(range: ByteRange, size: Bytes) -> bool {
    range.start > 0 && range.start >= size.0
}

/// There is no file, which a script would take for success.
pub fn nothing(verb: &str, select: &Select, paths: &[PathBuf]) -> String {
    let picked = select.picked();
    let place = match paths {
        [one] => escaped(one).into_owned(),
        [first, others @ ..] => format!("{} and {} other paths", escaped(first), others.len()),
        [] => "nowhere".to_owned(),
    };
    format!("nothing to {verb}: there is no file{picked} under {place}")
}
