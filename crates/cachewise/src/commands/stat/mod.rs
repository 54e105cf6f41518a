//! `stat`: hits and misses of the machine, a row per interval.
//!
//! # Layout
//! - `watched`: the watch options from the command line
//! - this file: the clock, and the reasons to stop; a `Watch` does the counting

pub mod arguments;
mod watched;

use std::io::Write;
use std::process::ExitCode;
use std::sync::mpsc::channel;

use anyhow::{Context, Result};
use cachewise_kstat::Kernel;
use cachewise_model::{Interval, Lost};
use cachewise_view::{Format, RowOptions, RowWriter, lost_text};

use crate::machine::Followed;
use crate::watch::Watch;
use arguments::Stat;
use cachewise_cli::output::{Stream, tell};
use cachewise_cli::signals::{self, Caught};
use cachewise_cli::sinks::Sinks;
use cachewise_cli::ticks::Ticks;

/// Rows between two headers on a terminal.
const HEADER_EVERY: usize = 20;

/// Shows rows until the count is reached, the process ends, or the user interrupts.
pub fn stat(arguments: Stat) -> Result<ExitCode> {
    let kernel = Kernel::new();
    let selected = arguments.selection.select(&kernel)?;
    let followed = selected.followed()?;
    let sinks = Sinks::open(&arguments.output, Stream::Stdout)?;
    let (sender, interrupts) = channel::<Caught>();
    signals::catch_ending(sender)?;
    let options = watched::options(&arguments, &selected, &kernel)?;
    let mut watch = Watch::open(&options, kernel.clone())?;
    for note in &watch.backend().notes {
        tell(&format!("note: {note}"));
    }
    let is_watched = sinks
        .iter()
        .any(|sink| sink.is_terminal && sink.format == Format::Table);
    let name = sinks.names();
    let cannot_write = || format!("cannot write to {name}");
    let fields = arguments.fields();
    let mut writer = sinks.writers(|sink| {
        // `--columns` overrides the terminal's width.
        let fits = sink.is_terminal && arguments.columns.is_none();
        let options = RowOptions {
            header_every: sink.is_terminal.then_some(HEADER_EVERY),
            room: fits.then_some(sink.style.width),
            ..sink.row_options()
        };
        let format = sink.format;
        RowWriter::new(sink, format, &fields, options)
    });

    let mut ticks = Ticks::new(&interrupts);
    let mut total: Option<Interval> = None;
    let mut lost: Vec<Lost> = Vec::new();
    for shown in 1.. {
        let interrupted = ticks.next(arguments.interval.get())?;
        if interrupted && is_watched {
            // The terminal shows ^C at the place of the next row, which would not fit behind it.
            let _ = std::io::stdout().write_all(b"\r");
        }
        let interval = watch.interval()?;
        tell_lost(&mut lost, &interval.lost);
        let over = interrupted || followed.as_ref().is_some_and(Followed::has_ended);
        let row = interval.row();
        match &mut total {
            Some(total) => total.append(interval),
            None => total = Some(interval),
        }
        // The size of the terminal may change.
        writer.set_room(Stream::Stdout.width());
        writer.write(&row).with_context(cannot_write)?;
        if over || arguments.count == Some(shown) {
            // Without a probe none would say that nothing is missing.
            if total.as_ref().and_then(Interval::parts_missing).is_none() {
                writer.set_lost(&lost);
            }
            let total = total.as_ref().map(Interval::row);
            writer.finish(total.as_ref()).with_context(cannot_write)?;
            break;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Reports lost events, added to those lost before.
fn tell_lost(so_far: &mut Vec<Lost>, lost: &[Lost]) {
    Lost::add(so_far, lost);
    let is_new = |known: &&Lost| lost.iter().any(|lost| lost.id == known.id);
    for lost in so_far.iter().filter(is_new) {
        tell(&lost_text(lost));
    }
}
