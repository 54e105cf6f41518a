//! `drop`: the whole machine's clean page cache, and what of it really went.

use std::fs;
use std::io::{self, BufRead, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use cachewise_kstat::Kernel;
use cachewise_model::{Labels, Ledger, Measured, NOT_HERE, Row, System};
use cachewise_units::Bytes;
use cachewise_view::RowWriter;

use crate::cli::Drop;
use crate::columns::fields;
use crate::machine;
use crate::output::{Sink, Stream, tell};
use crate::signals::{self, Caught};

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

/// How long a write-back may take before it is said what is waited for.
const SILENCE: Duration = Duration::from_millis(500);

/// What ends the waiting for `sync(2)`.
enum Event {
    Synced,
    Interrupted,
}

impl From<Caught> for Event {
    fn from(_: Caught) -> Self {
        Event::Interrupted
    }
}

/// Drops, unless the user says no, and shows the memory before and after.
pub fn drop_caches(arguments: Drop) -> Result<ExitCode> {
    let kernel = Kernel::new();
    let sink = Sink::open(&arguments.output, Stream::Stdout)?;
    let what = What::of(arguments.what);
    let before = machine::system(&kernel)?;
    if !arguments.dry_run {
        // Asked first: a question that ends in "permission denied" is no question.
        fs::OpenOptions::new()
            .write(true)
            .open(DROP_CACHES)
            .with_context(|| {
                format!(
                    "cannot drop anything: {DROP_CACHES} takes root, outside of containers; `cachewise evict` \
                     puts out files of your own"
                )
            })?;
        if !arguments.yes && !agreed(&what, &before)? {
            tell("nothing was dropped");
            return Ok(ExitCode::SUCCESS);
        }
    }
    let mut rows = vec![row("before", before.clone())];
    if !arguments.dry_run {
        if !arguments.no_sync {
            write_back(&kernel)?;
        }
        fs::write(DROP_CACHES, arguments.what.to_string())
            .with_context(|| format!("cannot write to {DROP_CACHES}"))?;
        rows.push(row("after", machine::system(&kernel)?));
    }
    let (name, format) = (sink.name().to_owned(), sink.format);
    let options = sink.row_options();
    let mut writer = RowWriter::new(sink, format, &fields(&COLUMNS), options);
    rows.iter()
        .try_for_each(|row| writer.write(row))
        .and_then(|()| writer.finish(None))
        .with_context(|| format!("cannot write to {name}"))?;
    tell(&match &rows[..] {
        [before, after] => what.went(&before.system, &after.system),
        _ => format!(
            "nothing was dropped; at most {} of {} would go, less what is {}",
            what.of_machine(&before),
            what.name,
            what.stays
        ),
    });
    Ok(ExitCode::SUCCESS)
}

fn row(note: &str, system: System) -> Row {
    Row {
        labels: Labels {
            note: Measured::Exact(note.into()),
            ..Labels::default()
        },
        ledger: Ledger::all_missing(NOT_HERE),
        system,
        ..Row::default()
    }
}

/// What is dropped.
struct What {
    name: &'static str,
    /// Of its own, what stays.
    stays: &'static str,
    pages: bool,
    slab: bool,
}

impl What {
    /// As /proc/sys/vm/drop_caches numbers it.
    fn of(number: u8) -> What {
        let (pages, slab) = (number & 1 != 0, number & 2 != 0);
        let (name, stays) = match (pages, slab) {
            (_, false) => ("page cache", "mapped, locked, dirty or shared memory"),
            (false, _) => ("cached names and inodes", "in use"),
            (true, _) => (
                "page cache, names and inodes",
                "mapped, locked, dirty, shared memory or in use",
            ),
        };
        What {
            name,
            stays,
            pages,
            slab,
        }
    }

    /// How much there is of it.
    fn of_machine(&self, system: &System) -> Bytes {
        let known = |count: Measured<u64>| count.known().unwrap_or_default();
        let pages = known(system.cached_bytes) + known(system.buffers_bytes);
        let slab = known(system.slab_reclaimable_bytes);
        Bytes(u64::from(self.pages) * pages + u64::from(self.slab) * slab)
    }

    fn went(&self, before: &System, after: &System) -> String {
        let (had, has) = (self.of_machine(before), self.of_machine(after));
        format!(
            "dropped {} of {had} {}; {has} stayed, or came anew: {}",
            had.saturating_sub(has),
            self.name,
            self.stays
        )
    }
}

/// Asks at the terminal; without one the answer has to be given beforehand.
fn agreed(what: &What, before: &System) -> Result<bool> {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        bail!(
            "there is no terminal to ask at: say --yes, or --dry-run to see what there is to drop"
        );
    }
    let _ = write!(
        io::stderr(),
        "Drop the {} of the whole machine, {}? Programs will read from disk again. [y/N] ",
        what.name,
        what.of_machine(before)
    );
    let mut answer = String::new();
    io::stdin()
        .lock()
        .read_line(&mut answer)
        .context("cannot read the answer")?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes" | "Yes"))
}

/// Writes all dirty pages back. A disk that hangs does not hang us: Ctrl-C ends the waiting.
fn write_back(kernel: &Kernel) -> Result<()> {
    let (sender, events) = channel::<Event>();
    signals::catch_ending(sender.clone())?;
    std::thread::Builder::new()
        .name("sync".into())
        .spawn(move || synced(&sender))
        .context("cannot start the thread that writes dirty pages back")?;
    let mut told = false;
    loop {
        match events.recv_timeout(SILENCE) {
            Ok(Event::Synced) => return Ok(()),
            Ok(Event::Interrupted) => {
                bail!("interrupted while dirty pages were written back; nothing was dropped")
            }
            Err(RecvTimeoutError::Timeout) if !told => {
                let dirty = machine::system(kernel)?
                    .dirty_bytes
                    .known()
                    .unwrap_or_default();
                tell(&format!(
                    "writing {} back first; Ctrl-C ends it, --no-sync leaves it out",
                    Bytes(dirty)
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

fn synced(sender: &Sender<Event>) {
    rustix::fs::sync();
    // Whoever waited may have gone.
    let _ = sender.send(Event::Synced);
}
