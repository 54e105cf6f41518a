//! `drop`: drops the machine's clean page cache and reports the change in memory.

pub mod arguments;

use std::fs;
use std::io::{self, BufRead, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use cachewise_kstat::Kernel;
use cachewise_model::{Labels, Ledger, Measured, NOT_APPLICABLE, Row, System};
use cachewise_units::Bytes;
use cachewise_view::RowWriter;

use crate::columns::fields;
use crate::machine;
use arguments::Drop;
use cachewise_cli::output::{self, Stream, tell};
use cachewise_cli::signals::{self, Caught};
use cachewise_cli::sinks::Sinks;

const DROP_CACHES: &str = "/proc/sys/vm/drop_caches";

const COLUMNS: [&str; 7] = [
    "note",
    "buffers_bytes",
    "cached_bytes",
    "slab_reclaimable_bytes",
    "dirty_bytes",
    "free_bytes",
    "available_bytes",
];

/// A longer write-back is announced on standard error.
const SILENCE: Duration = Duration::from_millis(500);

/// Events that end the wait for `sync(2)`.
enum Event {
    Synced,
    Interrupted,
}

impl From<Caught> for Event {
    fn from(_: Caught) -> Self {
        Event::Interrupted
    }
}

/// Drops the caches after confirmation, and shows the memory before and after.
pub fn drop_caches(arguments: Drop) -> Result<ExitCode> {
    let kernel = Kernel::new();
    let sinks = Sinks::open_whole(&arguments.output, Stream::Stdout)?;
    let columns = match &arguments.columns {
        Some(columns) => columns.0.clone(),
        None => fields(&COLUMNS),
    };
    let what = What::of(arguments.what, !arguments.no_sync);
    let before = state(&kernel)?;
    if !arguments.dry_run {
        // Checked before the question: a question followed by "permission denied" is useless.
        is_allowed()?;
        if !arguments.yes && !agreed(&what, &before)? {
            tell("nothing was dropped");
            return Ok(ExitCode::from(output::NO));
        }
    }
    let mut rows = vec![row("before", before.clone())];
    if !arguments.dry_run {
        if !arguments.no_sync {
            write_back(&kernel)?;
        }
        fs::write(DROP_CACHES, arguments.what.to_string())
            .with_context(|| format!("cannot write to {DROP_CACHES}"))?;
        rows.push(row("after", state(&kernel)?));
    }
    sinks.write(|sink| {
        let (format, options) = (sink.format, sink.row_options());
        let mut writer = RowWriter::new(sink, format, &columns, options);
        rows.iter().for_each(|row| writer.fit(row));
        rows.iter().try_for_each(|row| writer.write(row))?;
        writer.finish(None)?;
        Ok(())
    })?;
    tell(&match &rows[..] {
        [before, after] => what.went(&before.system, &after.system),
        _ => format!(
            "nothing was dropped; at most {} of {} would be dropped, excluding {}",
            amount(what.of_machine(&before)),
            what.name,
            what.stays()
        ),
    });
    if arguments.dry_run
        && let Err(error) = is_allowed()
    {
        tell(&format!(
            "note: without --dry-run: {}",
            output::explain(&error)
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// Whether this process may drop caches.
fn is_allowed() -> Result<()> {
    fs::OpenOptions::new()
        .write(true)
        .open(DROP_CACHES)
        .with_context(|| {
            format!(
                "cannot drop anything: {DROP_CACHES} needs root outside of containers; `cachewise evict` evicts \
                 files of your own"
            )
        })?;
    Ok(())
}

/// The amount as text, `?` if unknown.
fn amount(bytes: Option<Bytes>) -> String {
    bytes.map_or_else(|| "?".to_owned(), |bytes| bytes.to_string())
}

fn row(note: &str, system: System) -> Row {
    Row {
        labels: Labels {
            note: Measured::Exact(note.into()),
            ..Labels::default()
        },
        ledger: Ledger::all_missing(NOT_APPLICABLE),
        system: system.into(),
        ..Row::default()
    }
}

/// The caches to drop.
struct What {
    name: &'static str,
    /// Dirty pages are written back first and dropped, too.
    is_synced: bool,
    pages: bool,
    slab: bool,
}

impl What {
    /// From the number written to /proc/sys/vm/drop_caches.
    fn of(number: u8, is_synced: bool) -> What {
        let (pages, slab) = (number & 1 != 0, number & 2 != 0);
        let name = match (pages, slab) {
            (_, false) => "page cache",
            (false, _) => "cached names and inodes",
            (true, _) => "page cache, names and inodes",
        };
        What {
            name,
            is_synced,
            pages,
            slab,
        }
    }

    /// Parts of these caches that stay.
    fn stays(&self) -> String {
        let reasons = [
            (self.pages, "mapped"),
            (self.pages, "locked"),
            (self.pages && !self.is_synced, "dirty"),
            (self.pages, "shared memory"),
            (self.slab, "in use"),
        ];
        let true_ones: Vec<&str> = reasons
            .into_iter()
            .filter_map(|(is_true, reason)| is_true.then_some(reason))
            .collect();
        match &true_ones[..] {
            [others @ .., last] if !others.is_empty() => {
                format!("{} or {last}", others.join(", "))
            }
            all => all.concat(),
        }
    }

    /// Size of these caches on the machine; `None` where the kernel does not report it.
    fn of_machine(&self, system: &System) -> Option<Bytes> {
        let wanted = [
            (self.pages, system.cached_bytes),
            (self.pages, system.buffers_bytes),
            (self.slab, system.slab_reclaimable_bytes),
        ];
        let wanted = wanted.into_iter().filter(|(is_wanted, _)| *is_wanted);
        wanted
            .map(|(_, count)| count.known())
            .sum::<Option<u64>>()
            .map(Bytes)
    }

    fn went(&self, before: &System, after: &System) -> String {
        let (had, has) = (self.of_machine(before), self.of_machine(after));
        let went = had.zip(has).map(|(had, has)| had.saturating_sub(has));
        format!(
            "dropped {} of {} {}; {} stayed or was inserted again: {}",
            amount(went),
            amount(had),
            self.name,
            amount(has),
            self.stays()
        )
    }
}

/// Asks at the terminal; without one, `--yes` is required.
fn agreed(what: &What, before: &System) -> Result<bool> {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        bail!(
            "no terminal to ask for confirmation: use --yes, or --dry-run to see how much could be dropped"
        );
    }
    let _ = write!(
        io::stderr(),
        "Drop the {} of the whole machine, {}? Programs will read from disk again. [y/N] ",
        what.name,
        amount(what.of_machine(before))
    );
    let mut answer = String::new();
    io::stdin()
        .lock()
        .read_line(&mut answer)
        .context("cannot read the answer")?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes" | "Yes"))
}

/// Writes all dirty pages back. If a disk hangs, Ctrl-C ends the wait.
fn write_back(kernel: &Kernel) -> Result<()> {
    let (sender, events) = channel::<Event>();
    signals::catch_ending(sender.clone())?;
    cachewise_sys::start_thread("sync", move || synced(&sender))
        .context("cannot start the thread that writes dirty pages back")?;
    let mut told = false;
    loop {
        match events.recv_timeout(SILENCE) {
            Ok(Event::Synced) => return Ok(()),
            Ok(Event::Interrupted) => {
                bail!("interrupted while writing dirty pages back; nothing was dropped")
            }
            Err(RecvTimeoutError::Timeout) if !told => {
                let dirty = kernel.meminfo().map(|memory| memory.dirty);
                tell(&format!(
                    "writing {} back first; Ctrl-C stops it, --no-sync skips it",
                    dirty.unwrap_or_default()
                ));
                told = true;
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                bail!("the thread that writes dirty pages back ended")
            }
        }
    }
}

fn state(kernel: &Kernel) -> Result<System> {
    machine::system(kernel, &kernel.vmstat().unwrap_or_default())
}

fn synced(sender: &Sender<Event>) {
    rustix::fs::sync();
    // The receiver may have gone.
    let _ = sender.send(Event::Synced);
}

#[cfg(test)]
mod tests {
    use cachewise_model::Reason;

    use super::*;

    fn system(slab: Measured<u64>) -> System {
        System {
            cached_bytes: Measured::Exact(5 << 20),
            buffers_bytes: Measured::Exact(1 << 20),
            slab_reclaimable_bytes: slab,
            ..System::default()
        }
    }

    #[test]
    fn drop_shows_unreported_slab_as_unknown() {
        let untold = system(Measured::not_offered(Reason::NotToldApart));
        assert_eq!(
            What::of(1, true).of_machine(&untold),
            Some(Bytes(6 << 20)),
            "pages are known"
        );
        for number in [2, 3] {
            let what = What::of(number, true);
            assert_eq!(what.of_machine(&untold), None, "slab is not");
            let line = what.went(&untold, &untold);
            assert!(line.starts_with("dropped ? of ? "), "{line}");
        }
        let told = system(Measured::Exact(1 << 20));
        assert_eq!(What::of(3, true).of_machine(&told), Some(Bytes(7 << 20)));
    }

    #[test]
    fn stays_lists_dirty_pages_only_without_sync() {
        let stays = |number, is_synced| What::of(number, is_synced).stays();
        assert_eq!(stays(1, true), "mapped, locked or shared memory");
        assert_eq!(stays(1, false), "mapped, locked, dirty or shared memory");
        assert_eq!(stays(2, false), "in use");
        assert_eq!(stays(3, true), "mapped, locked, shared memory or in use");
    }
}
