//! Output of `guard`: events as they happen.

use std::collections::BTreeMap;
use std::io::Write;

use anyhow::{Context, Result};
use cachewise_cli::output::{Sink, Stream, printable, tell};
use cachewise_cli::sinks::Sinks;
use cachewise_control::{Guard, GuardEvent, GuardOptions};
use cachewise_kstat::Kernel;
use cachewise_model::{Kind, Missing, NOT_APPLICABLE, Reason, SCHEMA_VERSION, Unit};
use cachewise_view::{Exposition, Format, Labels, MetricNumber, Sheet, SheetCell, SheetColumn};
use serde_json::{Value, json};

use super::arguments::Guard as Arguments;
use crate::machine;

/// Columns of events in CSV. For people an event is a sentence.
pub const COLUMNS: [SheetColumn; 16] = [
    column("timestamp", "Time of the event"),
    column(
        "event",
        "started, joined, stalled, reclaimed, would_reclaim, backed_off, released, left, refused or gone",
    ),
    column("kept", "Kind of the kept memory: available or free"),
    column("kept_bytes", "Its amount after the event"),
    column("mark_bytes", "Its mark"),
    column("target_bytes", "Its target; only of started"),
    column("cgroup", "Control group of the event"),
    column("means", "Means of reclaim"),
    column("wanted_bytes", "Requested amount"),
    column("reclaimed_bytes", "Fall of the group's charge"),
    column("gained_bytes", "Rise of the kept memory"),
    column(
        "stall_ratio",
        "Share of the time in which other tasks waited for memory",
    ),
    column("seconds", "Length of the wait; only of backed_off"),
    column("reason", "Reason of the wait or refusal, and the fix"),
    column("path", "File of a limit"),
    column("value", "Value of that limit"),
];

const fn column(id: &'static str, help: &'static str) -> SheetColumn {
    SheetColumn::new(id, "", false, help)
}

const NOT_REPORTED: Missing = Missing::Unknown(Reason::NotReported);

/// Writes events to each target, in its format.
pub struct EventWriter {
    sinks: Vec<Sink>,
    /// Number of events so far.
    written: usize,
    sums: Sums,
}

/// Amounts since the start, for OpenMetrics.
#[derive(Default)]
struct Sums {
    events: BTreeMap<String, u64>,
    reclaimed: u64,
    gained: u64,
    kept: u64,
    mark: u64,
}

impl EventWriter {
    /// Opens the targets.
    pub fn open(arguments: &Arguments) -> Result<EventWriter> {
        let sinks = Sinks::open(&arguments.output, Stream::Stdout)?;
        Ok(EventWriter {
            sinks: sinks.into_iter().collect(),
            written: 0,
            sums: Sums::default(),
        })
    }

    /// Writes what is kept, of which groups.
    pub fn begin(&mut self, guard: &Guard, options: &GuardOptions) -> Result<()> {
        let kept = guard.kept()?;
        if self.sinks.iter().any(|sink| sink.format == Format::Table) {
            for watched in guard.watched() {
                let would = if options.dry_run { "would be" } else { "is" };
                tell(&format!(
                    "{} {would} reclaimed by {}",
                    watched.group.name, watched.means
                ));
            }
            tell(&format!(
                "keeps {} {} (up to {}); {kept} now",
                options.mark, options.kept, options.target
            ));
        }
        let groups: Vec<Value> = guard
            .watched()
            .iter()
            .map(|watched| json!({"cgroup": watched.group.name, "means": watched.means}))
            .collect();
        self.add(
            None,
            json!({
                "event": "started",
                "schema_version": SCHEMA_VERSION,
                "hostname": machine::hostname(&Kernel::new()),
                "page_size_bytes": cachewise_sys::page_size().get(),
                "dry_run": options.dry_run,
                "kept": options.kept,
                "kept_bytes": kept.0,
                "mark_bytes": options.mark.0,
                "target_bytes": options.target.0,
                "cgroups": groups,
            }),
        )
    }

    /// Writes an event.
    pub fn write(&mut self, event: &GuardEvent) -> Result<()> {
        let document = serde_json::to_value(event).context("cannot write the event as JSON")?;
        let text = printable(&format!("{} {event}", machine::timestamp()));
        self.add(Some(&text), document)
    }

    /// Writes the ends of documents, and metrics.
    pub fn end(self) -> Result<()> {
        let (is_empty, sums) = (self.written == 0, self.sums);
        Sinks::from(self.sinks).write(|sink| {
            let text = match sink.format {
                Format::Json if is_empty => json_start() + "]}\n",
                Format::Json => "\n]}\n".to_owned(),
                Format::OpenMetrics => sums.exposition()?,
                Format::Table | Format::JsonLines | Format::Csv => String::new(),
            };
            Ok(sink.write_all(text.as_bytes())?)
        })
    }

    /// Flushed line by line: another program may wait for it.
    fn add(&mut self, text: Option<&str>, mut document: Value) -> Result<()> {
        document["timestamp"] = json!(machine::timestamp().to_string());
        self.sums.add(&document);
        for sink in &mut self.sinks {
            let line = match (sink.format, text) {
                (Format::Table, None) | (Format::OpenMetrics, _) => continue,
                (Format::Table, Some(text)) => format!("{text}\n"),
                (Format::JsonLines, _) => format!("{document}\n"),
                (Format::Json, _) if self.written == 0 => format!("{}\n{document}", json_start()),
                (Format::Json, _) => format!(",\n{document}"),
                (Format::Csv, _) if self.written == 0 => row(&document).csv()?,
                (Format::Csv, _) => row(&document).csv_rows()?,
            };
            let written = sink.write_all(line.as_bytes()).and_then(|()| sink.flush());
            written.with_context(|| format!("cannot write to {}", sink.name()))?;
        }
        self.written += 1;
        Ok(())
    }
}

/// The document up to its events, still open.
fn json_start() -> String {
    let head = cachewise_cli::host::document(serde_json::Map::new()).to_string();
    format!("{},\"events\":[", head.strip_suffix('}').unwrap_or(&head))
}

/// An event as a sheet of one row.
fn row(document: &Value) -> Sheet {
    let mut sheet = Sheet::new(&COLUMNS);
    let cell = |column: &SheetColumn| match document.get(column.id) {
        None => SheetCell::missing(NOT_APPLICABLE),
        Some(Value::Null) => SheetCell::missing(NOT_REPORTED),
        Some(value) => SheetCell::with_text(value.clone(), ""),
    };
    sheet.rows.push(COLUMNS.iter().map(cell).collect());
    sheet
}

impl Sums {
    fn add(&mut self, document: &Value) {
        let number = |id: &str| document[id].as_u64().unwrap_or(0);
        let event = document["event"].as_str().unwrap_or_default();
        *self.events.entry(event.to_owned()).or_default() += 1;
        self.reclaimed += number("reclaimed_bytes");
        self.gained += number("gained_bytes");
        (self.kept, self.mark) = (number("kept_bytes"), number("mark_bytes"));
    }

    fn exposition(&self) -> std::io::Result<String> {
        let mut exposition = Exposition::default();
        let events = self.events.iter();
        let events = events
            .map(|(event, count)| (vec![("event", event.clone())], MetricNumber::Whole(*count)));
        let count = (Unit::Count, Kind::Counter);
        exposition.add(
            "guard_events",
            "Events by kind",
            count,
            None,
            events.collect(),
        );
        for (id, help, kind, number) in [
            (
                "guard_reclaimed_bytes",
                "Fall of the charges of groups",
                Kind::Counter,
                self.reclaimed,
            ),
            (
                "guard_gained_bytes",
                "Rise of the kept memory",
                Kind::Counter,
                self.gained,
            ),
            (
                "guard_kept_bytes",
                "Amount of the kept memory",
                Kind::Gauge,
                self.kept,
            ),
            (
                "guard_mark_bytes",
                "Mark of the kept memory",
                Kind::Gauge,
                self.mark,
            ),
        ] {
            let series = vec![(Labels::new(), MetricNumber::Whole(number))];
            exposition.add(id, help, (Unit::Bytes, kind), None, series);
        }
        exposition.text()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csv_has_a_row_per_event_with_reasons() {
        let document = json!({
            "event": "reclaimed", "timestamp": "now", "kept": "free", "kept_bytes": 5, "mark_bytes": 4,
            "cgroup": "/a,b", "means": "memory.reclaim", "wanted_bytes": 1, "reclaimed_bytes": 2,
            "gained_bytes": 1, "stall_ratio": null,
        });
        let csv = row(&document).csv().unwrap();
        let (header, line) = csv.trim_end().split_once('\n').unwrap();
        assert!(
            header.starts_with("timestamp,event,kept,kept_bytes,"),
            "{header}"
        );
        assert!(
            line.starts_with("now,reclaimed,free,5,4,,\"/a,b\",memory.reclaim,1,2,1,,"),
            "{line}"
        );
        assert!(line.contains("stall_ratio: not_reported"), "{line}");
    }

    #[test]
    fn metrics_sum_up_events() {
        let mut sums = Sums::default();
        for gained in [3, 4] {
            sums.add(&json!({"event": "reclaimed", "gained_bytes": gained, "kept_bytes": 9, "mark_bytes": 8}));
        }
        let text = sums.exposition().unwrap();
        for line in [
            "cachewise_guard_events_total{event=\"reclaimed\"} 2",
            "cachewise_guard_gained_bytes_total 7",
            "cachewise_guard_kept_bytes 9",
        ] {
            assert!(text.lines().any(|known| known == line), "{line}: {text}");
        }
    }
}
