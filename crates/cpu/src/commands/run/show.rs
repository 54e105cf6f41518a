//! Output of `cpu run`: tables, text and documents.

use std::fmt::Write;

use cachewise_cpu::program::sampling::{Samples, Tally, Unit};
use cachewise_cpu::program::{CostLocation, Rate};
use cachewise_model::{Datum, Exit, Missing, Reason};
use cachewise_units::{Bytes, Ratio};
use cachewise_view::{Sheet, SheetCell, SheetColumns, Style};
use serde_json::{Map, Value as Json, json};

use super::super::columns::{RUN, RUN_COUNTED, RUN_LINES, RUN_TIMED};
use super::{How, Lines, Usage};

const NO_COUNT: Missing = Missing::NotOffered(Reason::SeeNotes);
const NO_DEBUG: Missing = Missing::Unknown(Reason::NoDebugInformation);
const NO_SYMBOL: Missing = Missing::Unknown(Reason::NoSymbol);
const NO_ACCESS: Missing = Missing::NotOffered(Reason::NoAccesses);

fn ratio(part: u64, whole: u64) -> SheetCell {
    SheetCell::or_missing(Ratio::of(part, whole), NO_ACCESS, |ratio| {
        SheetCell::ratio(ratio)
    })
}

pub(super) fn rates(rates: &[Rate]) -> Sheet {
    let mut sheet = Sheet::new(&RUN);
    for rate in rates {
        let mut row = vec![SheetCell::text(rate.name)];
        row.extend(match &rate.counts {
            Ok((accesses, misses)) => [
                SheetCell::count(*accesses),
                SheetCell::count(*misses),
                ratio(*misses, *accesses),
            ],
            Err(_) => [(); 3].map(|()| SheetCell::missing(NO_COUNT)),
        });
        sheet.rows.push(row);
    }
    sheet
}

/// Where a place is, in the cells of the columns that all tables of lines end with.
fn place_cells<C>(place: &CostLocation<C>) -> [SheetCell; 4] {
    let at = match &place.line {
        Some((file, line)) => format!("{file}:{line}"),
        None => place.object.clone(),
    };
    let line = place.line.as_ref();
    [
        SheetCell::or_missing(place.function.as_ref(), NO_SYMBOL, |name| {
            SheetCell::text(name.clone())
        }),
        SheetCell::or_missing(line, NO_DEBUG, |(file, _)| SheetCell::text(file.clone())),
        SheetCell::or_missing(line, NO_DEBUG, |(_, line)| {
            SheetCell::of(&Datum::Id((*line).into()))
        }),
        SheetCell::with_text(place.object.clone(), at),
    ]
}

/// Lines by the misses that callgrind counted there.
fn simulated_lines(places: &[CostLocation], misses: u64) -> Sheet {
    let mut sheet = Sheet::new(&RUN_LINES);
    for place in places {
        let costs = &place.costs;
        let mut row = vec![
            SheetCell::count(costs.misses()),
            ratio(costs.misses(), misses),
            SheetCell::count(costs.reads()),
            ratio(costs.read_misses(), costs.reads()),
            SheetCell::bytes(Bytes(costs.wasted())),
        ];
        row.extend(place_cells(place));
        sheet.rows.push(row);
    }
    sheet
}

/// Lines by their samples.
fn sampled_lines(places: &[CostLocation<Tally>], samples: &Samples) -> Sheet {
    let unit = samples.event.unit;
    let mut sheet = Sheet::new(match unit {
        Unit::Times => &RUN_COUNTED,
        Unit::Nanoseconds => &RUN_TIMED,
    });
    for place in places {
        let tally = place.costs;
        let mut row = vec![
            match unit {
                Unit::Times => SheetCell::count(tally.events),
                Unit::Nanoseconds => {
                    let seconds = seconds(tally.events);
                    SheetCell::seconds(seconds)
                }
            },
            SheetCell::count(tally.samples),
            ratio(tally.samples, samples.taken.samples),
        ];
        row.extend(place_cells(place));
        sheet.rows.push(row);
    }
    sheet
}

fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}

pub(super) fn text(usage: &Usage, columns: Option<&SheetColumns>, style: Style) -> String {
    let mut text = String::new();
    let end = match usage.exit {
        Exit::Running => "still running".to_owned(),
        Exit::Unknown(_) => "it has ended".to_owned(),
        exit => format!("ended with {exit}"),
    };
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{}\n{end}", style.bold(&usage.head));
    // Of counters that are not there the notes say all there is to say.
    if usage.how != How::Kernel {
        let _ = write!(
            text,
            "\n{}",
            rates(&usage.rates).chosen(columns).table(style)
        );
    }
    match &usage.lines {
        Lines::Simulated { places, misses } => {
            let lines = simulated_lines(places, *misses).chosen(columns);
            if lines.is_shown() {
                let _ = write!(text, "\nwhere data was missed\n{}", lines.table(style));
            }
        }
        Lines::Sampled { places, samples } => {
            let lines = sampled_lines(places, samples).chosen(columns);
            if lines.is_shown() {
                let _ = write!(
                    text,
                    "\n{}, by line\n{}",
                    samples.event.what,
                    lines.table(style)
                );
            }
        }
        Lines::None => {}
    }
    text.push('\n');
    for note in &usage.notes {
        let _ = writeln!(text, "note: {note}");
    }
    text
}

pub(super) fn members(usage: &Usage) -> Map<String, Json> {
    let lines = match &usage.lines {
        Lines::Simulated { places, misses } => simulated_lines(places, *misses).json(),
        _ => json!([]),
    };
    let sampled = match &usage.lines {
        Lines::Sampled { places, samples } => sampled_member(places, samples),
        _ => Json::Null,
    };
    Map::from_iter([
        ("program".to_owned(), usage.head.clone().into()),
        ("exit".to_owned(), usage.exit.to_string().into()),
        ("counted_by".to_owned(), usage.how.id().into()),
        ("simulated".to_owned(), json!(usage.how == How::Callgrind)),
        ("caches".to_owned(), rates(&usage.rates).json()),
        ("lines".to_owned(), lines),
        ("sampled".to_owned(), sampled),
        ("notes".to_owned(), usage.notes.clone().into()),
    ])
}

/// The sampled event, its accuracy, and the lines.
fn sampled_member(places: &[CostLocation<Tally>], samples: &Samples) -> Json {
    let event = samples.event;
    // Machine formats have time in seconds.
    let (unit, amount): (_, fn(u64) -> Json) = match event.unit {
        Unit::Times => ("", |count| count.into()),
        Unit::Nanoseconds => ("_seconds", |time| seconds(time).into()),
    };
    let mut member = json!({
        "event": event.name,
        "what": event.what,
        "precise_ip": (!event.is_software()).then(|| samples.skid.level()),
        "samples": samples.taken.samples,
        "lost_records": samples.lost(),
        "throttled": samples.throttled(),
        "counted_ratio": samples.counted_ratio(),
        "threads_left_out": samples.left_out,
        "cpus_left_out": (!samples.without.is_empty()).then(|| samples.without.to_string()),
        "samples_in_further_places": samples.beyond().samples,
        "lines": sampled_lines(places, samples).json(),
    });
    if let Some(member) = member.as_object_mut() {
        member.insert(format!("period{unit}"), amount(samples.period));
        member.insert(
            format!("happened{unit}"),
            json!(samples.happened().map(amount)),
        );
    }
    member
}
