//! `order --simulate`: what orders would cost with so much memory, without reading anything.

use anyhow::{Context, Result};
use cachewise_model::{Labels, Ledger, Measured, NOT_APPLICABLE, Row, Subject};
use cachewise_residency::order::{Keep, Mode, PlanOptions, SimulatedOrder, Survey, simulate};
use cachewise_units::Bytes;

use super::arguments::OrderFiles;
use super::rows::row_writer;
use crate::columns::fields;
use cachewise_cli::output::Stream;
use cachewise_cli::sinks::Sinks;

/// Cycles that are simulated; the first ones fill the cache, and are left out.
const CYCLES: usize = 12;
const FILLING: usize = 4;

/// Memory that a group charges beside pages of files while a program like cat(1) reads them: memory of the program,
/// page tables and each CPU's share of charges taken in advance.
const OF_PROGRAM: Bytes = Bytes(2 << 20);
/// The part of the memory that the kernel's trees of cached pages take: 1/512 with folios of a few pages.
const TREES: u64 = 512;

/// The part of a limit that pages of files can have.
fn for_files(limit: Bytes) -> Bytes {
    limit.saturating_sub(OF_PROGRAM + Bytes(limit.0 / TREES))
}

/// A row for each strategy, with what a cycle reads from the device (median), and the bound below.
pub fn show(arguments: &OrderFiles, survey: &Survey, memory: Bytes) -> Result<()> {
    let sizes: Vec<Bytes> = survey.snapshot.files.iter().map(|file| file.size).collect();
    let total: Bytes = sizes.iter().copied().sum();
    let memory = for_files(memory);
    let planned = |mode, keep| {
        SimulatedOrder::Planned(PlanOptions {
            mode,
            keep,
            ..PlanOptions::default()
        })
    };
    let seed = arguments.shuffle.unwrap_or(1);
    let strategies = [
        ("as given", SimulatedOrder::Given),
        ("files, most cached first", SimulatedOrder::FilesByCached),
        ("resident ranges first", SimulatedOrder::ExtentsFirst),
        ("free", planned(Mode::Free, Keep::Share)),
        ("free, misses dropped", planned(Mode::Free, Keep::Keep)),
        ("as given, misses dropped", planned(Mode::Fixed, Keep::Keep)),
        ("shuffled", planned(Mode::Shuffle(seed), Keep::Share)),
    ];
    let sinks = Sinks::open_whole(&arguments.output, Stream::Stdout)?;
    let name = sinks.names();
    let cannot_write = || format!("cannot write to {name}");
    let columns = fields(&["device_read_bytes", "note"]);
    let mut writer = sinks.writers(|sink| row_writer(sink, &columns));
    for (strategy, order) in strategies {
        let mut read = simulate(&sizes, memory, order, CYCLES).split_off(FILLING);
        read.sort_unstable();
        writer
            .write(&row(strategy, read[read.len() / 2]))
            .with_context(cannot_write)?;
    }
    let bound = Bytes(total.0.saturating_sub(memory.0));
    writer
        .write(&row("the bound: what does not fit", bound))
        .with_context(cannot_write)?;
    let sinks = writer.finish(None).with_context(cannot_write)?;
    Sinks::from(sinks).keep()
}

fn row(strategy: &str, read: Bytes) -> Row {
    Row {
        labels: Labels {
            note: Measured::Exact(strategy.to_owned()),
            ..Labels::default()
        },
        ledger: Ledger::all_missing(NOT_APPLICABLE),
        subject: Subject {
            device_read_bytes: Measured::Exact(read.0),
            ..Subject::default()
        },
        ..Row::default()
    }
}
