//! [`MeasurementOutput`]: measurements as tables, JSON, JSON lines, CSV and OpenMetrics.

use std::io::Write;

use anyhow::Result;
use cachewise_bench::{Event, Summary, Workload};
use cachewise_model::{
    FIELDS, Field, INTERVAL_COLUMNS, LATENCY_COLUMNS, Measured, Row, TOTAL_COLUMNS,
};
use cachewise_view::{Format, RowOptions, RowWriter, RowWriters};

use super::arguments::Measure;
use super::line_writer::LineWriter;
use super::measurement_events::{MeasurementEvents, cannot_write};
use crate::columns::fields;
use crate::machine;
use cachewise_cli::output::{Sink, Stream};
use cachewise_cli::sinks::Sinks;

/// Rows between two headers on a terminal.
const HEADER_EVERY: usize = 20;

/// Output of measurements.
pub struct MeasurementOutput {
    name: String,
    /// For intervals; taken while the end of the tables is written.
    tables: Option<RowWriters<Sink>>,
    /// Other formats, for intervals and sums.
    documents: Option<RowWriters<Sink>>,
    /// Columns of `--columns`.
    picked: Option<Vec<&'static Field>>,
    totals: Vec<Row>,
    /// Writer of the log of `-l`.
    log: LineWriter,
    /// Whether there is more than one workload.
    are_several: bool,
    has_latency: bool,
}

impl MeasurementOutput {
    /// # Errors
    /// The output or the log cannot be written to.
    pub fn open(arguments: &Measure, workloads: &[Workload]) -> Result<MeasurementOutput> {
        let log = LineWriter::to_log(arguments)?;
        let sinks = Sinks::open(&arguments.output, Stream::Stdout)?;
        let name = sinks.names();
        let picked = arguments.fields().map(<[_]>::to_vec);
        let fits = picked.is_none();
        let (tables, documents): (Vec<Sink>, Vec<Sink>) = sinks
            .into_iter()
            .partition(|sink| sink.format == Format::Table);
        let columns = picked.clone().unwrap_or_else(|| fields(&INTERVAL_COLUMNS));
        let tables = tables
            .into_iter()
            .map(|sink| writer(sink, &columns, Some(HEADER_EVERY), fits));
        // Machine formats contain every field.
        let all = || {
            FIELDS
                .iter()
                .filter(|field| field.is_of(&whole()))
                .collect()
        };
        let columns = picked.clone().unwrap_or_else(all);
        let documents = documents
            .into_iter()
            .map(|sink| writer(sink, &columns, None, false));
        Ok(MeasurementOutput {
            name,
            tables: Some(RowWriters::new(tables)),
            documents: Some(RowWriters::new(documents)),
            picked,
            totals: Vec::new(),
            log,
            are_several: workloads.len() > 1,
            has_latency: !arguments.no_latency,
        })
    }

    fn has_table(&self) -> bool {
        self.tables
            .as_ref()
            .is_some_and(|tables| !tables.is_empty())
    }

    fn row(&mut self, mut row: Row, is_total: bool) -> Result<()> {
        row.labels.time = Measured::Exact(machine::timestamp());
        let (mut shown, mut written) = (Ok(()), Ok(()));
        if let Some(tables) = self.tables.as_mut().filter(|_| !is_total) {
            tables.set_room(Stream::Stdout.width());
            shown = tables.write(&row);
        }
        if let Some(documents) = &mut self.documents {
            written = documents.write(&row);
        }
        cannot_write(shown.and(written), &self.name)
    }

    /// Writes the sums as tables: costs, and latencies.
    fn sums(&self, mut sink: Sink) -> std::io::Result<()> {
        let mut kinds = vec![fields(&TOTAL_COLUMNS), fields(&LATENCY_COLUMNS)];
        if !self.has_latency {
            kinds.truncate(1);
        }
        if let Some(picked) = &self.picked {
            kinds = vec![[fields(&["engine", "chunk_bytes"]), picked.clone()].concat()];
        }
        for columns in kinds {
            writeln!(sink)?;
            let mut writer = writer(sink, &columns, Some(usize::MAX), self.picked.is_none());
            for row in &self.totals {
                writer.fit(row);
            }
            for row in &self.totals {
                writer.write(row)?;
            }
            sink = writer.finish(None)?;
        }
        sink.flush()
    }
}

fn writer(
    sink: Sink,
    columns: &[&'static Field],
    header_every: Option<usize>,
    fits: bool,
) -> RowWriter<Sink> {
    let fits = sink.is_terminal && fits;
    let options = RowOptions {
        header_every: header_every.filter(|every| sink.is_terminal || *every == usize::MAX),
        room: fits.then(|| Stream::Stdout.width()).flatten(),
        ..sink.row_options()
    };
    let format = sink.format;
    RowWriter::new(sink, format, columns, options)
}

/// A row with every field of measurements.
fn whole() -> Row {
    Row::of_measurement()
}

impl MeasurementEvents for MeasurementOutput {
    fn begin(&mut self, workload: &Workload) -> Result<()> {
        self.log.begin(workload)?;
        if self.has_table() && self.are_several {
            // Progress goes to the same stream as the table's rows.
            cachewise_cli::output::tell(&format!(
                "{}, {} at a time, {}, seed {}",
                workload.engine, workload.chunk, workload.access, workload.seed
            ));
        }
        Ok(())
    }

    fn event(&mut self, workload: &Workload, event: &Event<'_>) -> Result<()> {
        self.log.event(workload, event)?;
        match event {
            Event::Interval { figures, .. } => self.row(figures.row(workload), false),
            _ => Ok(()),
        }
    }

    fn end(&mut self, summary: &Summary) -> Result<()> {
        self.log.end(summary)?;
        self.totals.push(summary.row());
        self.row(summary.row(), true)
    }

    fn finish(&mut self) -> Result<()> {
        let mut written = Ok(());
        if let Some(documents) = self.documents.take() {
            written = documents.finish(None).map(|_| ());
        }
        if let Some(tables) = self.tables.take() {
            let shown = tables.finish(None).and_then(|sinks| {
                let sinks = sinks.into_iter().filter(|_| !self.totals.is_empty());
                sinks.into_iter().try_for_each(|sink| self.sums(sink))
            });
            written = written.and(shown);
        }
        cannot_write(written, &self.name)
    }
}
