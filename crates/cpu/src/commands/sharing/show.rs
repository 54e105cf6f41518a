//! Output of `cpu sharing`: text and documents.

use std::fmt::Write;

use cachewise_cpu::measure::estimate::Estimate;
use cachewise_cpu::sharing::{Answer, Arm, Cpus, Heap, PADDED_HEAP, Proof, costs, verdict};
use cachewise_model::{Datum, Missing, Reason};
use cachewise_units::escaped;
use cachewise_view::{Sheet, SheetCell, SheetColumns, Style};
use serde_json::{Map, Value as Json, json};

use super::super::columns::{SHARING, SHARING_RUNS, SHARING_TOUCHES};
use super::{Sharing, Touched};

const NO_RATIO: Missing = Missing::NotOffered(Reason::NothingCompared);
const NO_NAME: Missing = Missing::Unknown(Reason::EndedUnnamed);

/// A row for each proof.
pub fn proofs(sharing: &Sharing) -> Sheet {
    let mut sheet = Sheet::new(&SHARING);
    for Proof {
        name,
        answer,
        ratio,
        says,
    } in &sharing.proofs
    {
        let of = |part: fn(&Estimate) -> f64| {
            SheetCell::or_missing(ratio.as_ref(), NO_RATIO, |ratio| {
                SheetCell::factor(rounded(part(ratio)))
            })
        };
        sheet.rows.push(vec![
            SheetCell::text(*name),
            SheetCell::with_text(answer.id(), words(*answer)),
            of(|ratio| ratio.value),
            of(|ratio| ratio.low),
            of(|ratio| ratio.high),
            SheetCell::text(says.clone()),
        ]);
    }
    sheet
}

fn words(answer: Answer) -> &'static str {
    match answer {
        Answer::Found => "found",
        Answer::Mixed => "mixed",
        Answer::NotFound => "not found",
        Answer::Unknown => "?",
    }
}

/// No more digits than were measured.
fn rounded(figure: f64) -> f64 {
    (figure * 1e6).round() / 1e6
}

fn runs(sharing: &Sharing) -> Sheet {
    let mut sheet = Sheet::new(&SHARING_RUNS);
    for arm in Arm::ALL {
        let Some([cpu, wall, at_once]) = sharing.runs.figures_of(arm) else {
            continue;
        };
        let cpus = match arm.cpus {
            Cpus::One => "one",
            Cpus::All => "all",
        };
        let heap = match arm.heap {
            Heap::Plain => "plain",
            Heap::Padded => "padded",
        };
        let mut row = vec![SheetCell::text(cpus), SheetCell::text(heap)];
        for Estimate { value, low, high } in [cpu, wall] {
            row.extend([value, low, high].map(|seconds| SheetCell::seconds(rounded(seconds))));
        }
        row.push(SheetCell::factor(rounded(at_once.value)));
        sheet.rows.push(row);
    }
    sheet
}

fn touches(touched: &[Touched]) -> Sheet {
    let mut sheet = Sheet::new(&SHARING_TOUCHES);
    let number = SheetCell::count;
    for Touched {
        line,
        touch,
        name,
        by,
    } in touched
    {
        sheet.rows.push(vec![
            SheetCell::text(format!("{line:#x}")),
            number(touch.at - line),
            number(touch.len),
            SheetCell::of(&Datum::Id(touch.thread.into())),
            SheetCell::or_missing(name.as_ref(), NO_NAME, |name| {
                SheetCell::text(escaped(name))
            }),
            number(touch.writes),
            number(touch.reads),
            SheetCell::text(*by),
        ]);
    }
    sheet
}

/// The fix, or the next place to search.
fn advice(sharing: &Sharing) -> Option<&'static str> {
    let padded = |answer: Answer| {
        let mut proofs = sharing.proofs.iter();
        proofs.any(|proof| proof.name == PADDED_HEAP && proof.answer == answer)
    };
    match verdict(&sharing.proofs) {
        Answer::Found if padded(Answer::Found) => Some(
            "place the data that each thread writes in separate cache lines: crossbeam's CachePadded, alignas(128), or \
             count in a local variable and store it once; on a machine with a PMU `perf c2c` names the objects",
        ),
        Answer::Found => Some(
            "place the data that one thread writes 128 bytes apart from data of others: crossbeam's CachePadded, \
             alignas(128), or count in a local variable and store it once",
        ),
        Answer::Mixed => Some(
            "place data of a single thread 128 bytes apart from shared data; shared data still costs: access it less \
             often, for example by a counter per thread that is summed up at the end",
        ),
        Answer::NotFound | Answer::Unknown
            if costs(&sharing.proofs) && padded(Answer::NotFound) =>
        {
            Some(
                "no false sharing between heap objects. The cost of running at the same time may come from fields of \
                 one object or statics (watch them with --symbol or --address), from shared bytes, or from locks",
            )
        }
        Answer::Unknown if costs(&sharing.proofs) => Some(
            "the cost of running at the same time may come from fields of one object or statics (watch them with \
             --symbol or --address), from heap objects that were not padded, from shared bytes, or from locks",
        ),
        _ => None,
    }
}

/// For people.
pub fn text(sharing: &Sharing, columns: Option<&SheetColumns>, style: Style) -> String {
    let mut text = String::new();
    let verdict = match verdict(&sharing.proofs) {
        Answer::Found => "found",
        Answer::Mixed => "mixed (beside true sharing)",
        Answer::NotFound => "not found",
        Answer::Unknown if costs(&sharing.proofs) => {
            "? (running at the same time costs, and no proof shows why)"
        }
        Answer::Unknown => "? (no proof has an answer)",
    };
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{}", style.bold(&sharing.head));
    let _ = writeln!(text, "false sharing: {}\n", style.bold(verdict));
    text += &proofs(sharing).chosen(columns).table(style);
    let runs = runs(sharing).chosen(columns);
    let touches = touches(&sharing.touches).chosen(columns);
    if runs.is_shown() {
        let _ = writeln!(text, "\n{} rounds", sharing.runs.rounds.len());
        text += &runs.table(style);
    }
    if touches.is_shown() {
        text += "\naccesses by thread\n";
        text += &touches.table(style);
    }
    text.push('\n');
    for note in &sharing.notes {
        let _ = writeln!(text, "note: {note}");
    }
    if let Some(advice) = advice(sharing) {
        let _ = writeln!(text, "do: {advice}");
    }
    text
}

/// For programs.
pub fn members(sharing: &Sharing) -> Map<String, Json> {
    let verdict = verdict(&sharing.proofs);
    Map::from_iter([
        ("program".to_owned(), sharing.head.clone().into()),
        ("verdict".to_owned(), verdict.id().into()),
        ("proofs".to_owned(), proofs(sharing).json()),
        ("rounds".to_owned(), sharing.runs.rounds.len().into()),
        ("runs".to_owned(), runs(sharing).json()),
        ("touches".to_owned(), touches(&sharing.touches).json()),
        ("notes".to_owned(), json!(sharing.notes)),
        ("advice".to_owned(), advice(sharing).into()),
    ])
}
