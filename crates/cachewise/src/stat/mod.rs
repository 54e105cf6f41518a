//! `stat`: the page cache at work, a row an interval.
//!
//! # Layout
//! - `source`: where the numbers come from: the probe, or vmstat where there is none
//! - this file: the clock, and what ends it

mod source;

use std::io::Write;
use std::process::ExitCode;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use cachewise_kstat::Kernel;
use cachewise_model::{Labels, Measured, Row, Subject};
use cachewise_view::{Format, RowOptions, RowWriter};

use crate::cli::Stat;
use crate::machine::Followed;
use crate::output::{Sink, Stream};
use crate::signals::{self, Caught};
use source::Source;

/// The header is written again after so many rows, on a terminal.
const HEADER_EVERY: usize = 20;

/// Shows rows until the count is reached, the process ends, or the user has seen enough.
pub fn stat(arguments: Stat) -> Result<ExitCode> {
    let kernel = Kernel::new();
    let followed = arguments.pid.map(Followed::open).transpose()?;
    let sink = Sink::open(&arguments.output, Stream::Stdout)?;
    let (sender, interrupts) = channel::<Caught>();
    signals::catch_ending(sender)?;
    let mut source = Source::open(&arguments, &kernel)?;
    let options = RowOptions {
        header_every: sink.is_terminal.then_some(HEADER_EVERY),
        ..sink.row_options()
    };
    let is_watched = sink.is_terminal && sink.format == Format::Table;
    // Who asks for columns gets them, however long the lines are.
    let fits = sink.is_terminal && arguments.columns.is_none();
    let name = sink.name().to_owned();
    let format = sink.format;
    let cannot_write = || format!("cannot write to {name}");
    let mut writer = RowWriter::new(sink, format, &arguments.fields(), options);

    let begin = Instant::now();
    let first = source.sample(&kernel)?;
    let (mut earlier, mut earlier_at) = (first.clone(), begin);
    let mut due = begin;
    for shown in 1.. {
        due += arguments.interval.get();
        let wait = due.saturating_duration_since(Instant::now());
        let interrupted = match interrupts.recv_timeout(wait) {
            Ok(_) => true,
            Err(RecvTimeoutError::Timeout) => false,
            Err(RecvTimeoutError::Disconnected) => bail!("the thread for signals ended"),
        };
        if interrupted && is_watched {
            // The terminal shows ^C where the row goes, which would not fit behind it.
            let _ = std::io::stdout().write_all(b"\r");
        }
        let now = Instant::now();
        let sample = source.sample(&kernel)?;
        let over = interrupted || followed.as_ref().is_some_and(Followed::has_ended);
        let row = sample.row_since(&earlier, now - earlier_at);
        // Terminals change their size.
        writer.set_room(if fits { Stream::Stdout.width() } else { None });
        writer.write(&row).with_context(cannot_write)?;
        if over || arguments.count == Some(shown) {
            let total = sample.row_since(&first, now - begin);
            writer.finish(Some(&total)).with_context(cannot_write)?;
            break;
        }
        (earlier, earlier_at) = (sample, now);
        // A machine that slept, or an interval shorter than a sample takes: no rush to catch up.
        due = due.max(now);
    }
    Ok(ExitCode::SUCCESS)
}

impl source::Sample {
    fn row_since(&self, earlier: &source::Sample, elapsed: std::time::Duration) -> Row {
        Row {
            labels: Labels {
                time: Measured::Exact(self.time.clone()),
                ..Labels::default()
            },
            ledger: self.ledger.since(&earlier.ledger),
            subject: Subject {
                device_read_bytes: self.device_read.minus(earlier.device_read),
                device_write_bytes: self.device_written.minus(earlier.device_written),
                ..Subject::default()
            },
            system: self.system.since(&earlier.system),
            elapsed,
            ..Row::default()
        }
    }
}
