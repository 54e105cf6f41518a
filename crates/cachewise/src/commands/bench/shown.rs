//! [`Shown`]: measurements as tables, JSON, JSON lines, CSV and OpenMetrics.

use std::io::Write;

use anyhow::Result;
use cachewise_bench::{Event, Summary, Workload};
use cachewise_model::{
    FIELDS, Field, INTERVAL_COLUMNS, LATENCY_COLUMNS, Measured, Row, TOTAL_COLUMNS,
};
use cachewise_view::{Format, RowOptions, RowWriter};

use super::arguments::Measure;
use super::lines::Lines;
use super::watcher::{Watcher, cannot_write};
use crate::columns::fields;
use crate::machine;
use cachewise_cli::output::{Sink, Stream};

/// Rows between two headers on a terminal.
const HEADER_EVERY: usize = 20;

/// Output of measurements.
pub struct Shown {
    name: String,
    format: Format,
    /// For intervals, and with machine formats for sums too; taken while the end of a table is
    /// written.
    writer: Option<RowWriter<Sink>>,
    /// Columns of `--columns`.
    picked: Option<Vec<&'static Field>>,
    options: RowOptions,
    fits: bool,
    totals: Vec<Row>,
    /// Writer of the log of `-l`.
    log: Lines,
    /// Whether there is more than one workload.
    are_several: bool,
    has_latency: bool,
}

impl Shown {
    /// # Errors
    /// The output or the log cannot be written to.
    pub fn open(arguments: &Measure, workloads: &[Workload]) -> Result<Shown> {
        let log = Lines::to_log(arguments)?;
        let sink = Sink::open(&arguments.output, Stream::Stdout)?;
        let options = RowOptions {
            header_every: sink.is_terminal.then_some(HEADER_EVERY),
            ..sink.row_options()
        };
        let format = sink.format;
        let fits = sink.is_terminal && arguments.columns.is_none();
        let name = sink.name().to_owned();
        let columns: Vec<&'static Field> = match (arguments.fields(), format) {
            (Some(asked), _) => asked.to_vec(),
            (None, Format::Table) => fields(&INTERVAL_COLUMNS),
            // Machine formats contain every field.
            (None, _) => FIELDS
                .iter()
                .filter(|field| field.is_of(&whole()))
                .collect(),
        };
        let writer = RowWriter::new(sink, format, &columns, options.clone());
        Ok(Shown {
            name,
            format,
            picked: arguments.fields().map(<[_]>::to_vec),
            writer: Some(writer),
            options,
            fits,
            totals: Vec::new(),
            log,
            are_several: workloads.len() > 1,
            has_latency: !arguments.no_latency,
        })
    }

    fn row(&mut self, mut row: Row) -> Result<()> {
        row.labels.time = Measured::Exact(machine::timestamp());
        let Some(writer) = &mut self.writer else {
            return Ok(());
        };
        writer.set_room(if self.fits {
            Stream::Stdout.width()
        } else {
            None
        });
        cannot_write(writer.write(&row), &self.name)
    }

    /// Writes the sums as tables: costs, and latencies.
    fn tables(&mut self, mut sink: Sink) -> Result<()> {
        let mut kinds = vec![fields(&TOTAL_COLUMNS), fields(&LATENCY_COLUMNS)];
        if !self.has_latency {
            kinds.truncate(1);
        }
        if let Some(picked) = &self.picked {
            kinds = vec![[fields(&["engine", "chunk_bytes"]), picked.clone()].concat()];
        }
        for columns in kinds {
            cannot_write(writeln!(sink), &self.name)?;
            let options = RowOptions {
                header_every: Some(usize::MAX),
                ..self.options.clone()
            };
            let mut writer = RowWriter::new(sink, self.format, &columns, options);
            writer.set_room(if self.fits {
                Stream::Stdout.width()
            } else {
                None
            });
            for row in &self.totals {
                writer.fit(row);
            }
            for row in &self.totals {
                cannot_write(writer.write(row), &self.name)?;
            }
            sink = cannot_write(writer.finish(None), &self.name)?;
        }
        cannot_write(sink.flush(), &self.name)
    }
}

/// A row with every field of measurements.
fn whole() -> Row {
    Row::of_measurement()
}

impl Watcher for Shown {
    fn begin(&mut self, workload: &Workload) -> Result<()> {
        self.log.begin(workload)?;
        if self.format == Format::Table && self.are_several {
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
            Event::Interval { figures, .. } => self.row(figures.row(workload)),
            _ => Ok(()),
        }
    }

    fn end(&mut self, summary: &Summary) -> Result<()> {
        self.log.end(summary)?;
        match self.format {
            Format::Table => self.totals.push(summary.row()),
            _ => self.row(summary.row())?,
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        let Some(writer) = self.writer.take() else {
            return Ok(());
        };
        let sink = cannot_write(writer.finish(None), &self.name)?;
        match (self.format, self.totals.is_empty()) {
            (Format::Table, false) => self.tables(sink),
            _ => Ok(()),
        }
    }
}
