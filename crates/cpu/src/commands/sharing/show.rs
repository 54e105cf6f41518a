//! What came of it, for people and for programs.

use std::fmt::Write;

use cachewise_cpu::measure::estimate::Estimate;
use cachewise_cpu::sharing::{Answer, Arm, Cpus, Heap, PADDED_HEAP, Proof, costs, verdict};
use cachewise_model::{Missing, Reason};
use cachewise_units::escaped;
use cachewise_view::{Sheet, SheetCell, SheetColumn, Style};
use serde_json::{Map, Value as Json, json};

use super::{Sharing, Touched};

/// A row is a proof.
pub const COLUMNS: [SheetColumn; 6] = [
    SheetColumn::new("proof", "PROOF", false, "How it was looked for"),
    SheetColumn::new(
        "answer",
        "ANSWER",
        false,
        "What that says: found, mixed (with true sharing), not_found or unknown",
    ),
    SheetColumn::new(
        "ratio",
        "TIMES",
        true,
        "CPU time over what it is compared with: all CPUs over one; the heap plain over padded, on all CPUs over on one",
    ),
    SheetColumn::new("ratio_low", "FROM", true, "The quarter of the rounds below"),
    SheetColumn::new("ratio_high", "TO", true, "The quarter of the rounds above"),
    SheetColumn::new(
        "says",
        "WHICH SAYS",
        false,
        "What was seen, or why it cannot tell",
    ),
];

/// A row is a way to run the program; in JSON and for people.
const RUNS: [SheetColumn; 9] = [
    SheetColumn::new("cpus", "CPUS", false, "One CPU, or all that it may use"),
    SheetColumn::new(
        "heap",
        "HEAP",
        false,
        "As it is, or each object in lines of its own",
    ),
    SheetColumn::new(
        "cpu_seconds",
        "CPU TIME",
        true,
        "CPU time: the middle round",
    ),
    SheetColumn::new(
        "cpu_low_seconds",
        "FROM",
        true,
        "The quarter of the rounds below",
    ),
    SheetColumn::new(
        "cpu_high_seconds",
        "TO",
        true,
        "The quarter of the rounds above",
    ),
    SheetColumn::new(
        "wall_seconds",
        "WALL TIME",
        true,
        "From start to end: the middle round",
    ),
    SheetColumn::new(
        "wall_low_seconds",
        "FROM",
        true,
        "The quarter of the rounds below",
    ),
    SheetColumn::new(
        "wall_high_seconds",
        "TO",
        true,
        "The quarter of the rounds above",
    ),
    SheetColumn::new(
        "at_once",
        "AT ONCE",
        true,
        "How many CPUs it had at the same time, on average",
    ),
];

/// A row is what a thread did to bytes of a line; in JSON and for people.
const TOUCHES: [SheetColumn; 8] = [
    SheetColumn::new(
        "line_address",
        "LINE",
        false,
        "The address of the line's first byte",
    ),
    SheetColumn::new("offset", "BYTE", true, "The first of the bytes, from there"),
    SheetColumn::new("bytes", "BYTES", true, "How many"),
    SheetColumn::new("thread", "THREAD", true, "The thread's id"),
    SheetColumn::new("name", "NAME", false, "The thread's name"),
    SheetColumn::new(
        "writes",
        "WRITES",
        true,
        "How often it was seen to write, with what reads and writes at once",
    ),
    SheetColumn::new("reads", "READS", true, "How often it was seen only to read"),
    SheetColumn::new("by", "SEEN BY", false, "The proof that saw it"),
];

const NO_RATIO: Missing = Missing::NotOffered(Reason::NothingCompared);
const NO_NAME: Missing = Missing::Unknown(Reason::EndedUnnamed);

/// A row for each proof.
pub fn proofs(sharing: &Sharing) -> Sheet {
    let mut sheet = Sheet::new(&COLUMNS);
    for Proof {
        name,
        answer,
        ratio,
        says,
    } in &sharing.proofs
    {
        let of = |part: fn(&Estimate) -> f64| {
            SheetCell::or_missing(ratio.as_ref(), NO_RATIO, |ratio| {
                SheetCell::number(rounded(part(ratio)), format!("{:.2}", part(ratio)))
            })
        };
        sheet.rows.push(vec![
            SheetCell::text(*name),
            SheetCell::number(answer.id(), words(*answer)),
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
    let mut sheet = Sheet::new(&RUNS);
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
            row.extend(
                [value, low, high]
                    .map(|seconds| SheetCell::number(rounded(seconds), format!("{seconds:.3} s"))),
            );
        }
        row.push(SheetCell::number(
            rounded(at_once.value),
            format!("{:.2}", at_once.value),
        ));
        sheet.rows.push(row);
    }
    sheet
}

fn touches(touched: &[Touched]) -> Sheet {
    let mut sheet = Sheet::new(&TOUCHES);
    let number = |number: u64| SheetCell::number(number, number.to_string());
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
            number(touch.thread.into()),
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

/// What there is to do about it, or where else to look.
fn advice(sharing: &Sharing) -> Option<&'static str> {
    let padded = |answer: Answer| {
        let mut proofs = sharing.proofs.iter();
        proofs.any(|proof| proof.name == PADDED_HEAP && proof.answer == answer)
    };
    match verdict(&sharing.proofs) {
        Answer::Found if padded(Answer::Found) => Some(
            "give what each thread writes to lines of its own: crossbeam's CachePadded, alignas(128), or count in a \
             local variable and write it out once; `perf c2c`, where there is a PMU, tells which objects",
        ),
        Answer::Found => Some(
            "put what one thread writes 128 bytes from what others use: crossbeam's CachePadded, alignas(128), or \
             count in a local variable and write it out once",
        ),
        Answer::Mixed => Some(
            "put what only one thread uses 128 bytes from what threads share; what they share costs as before: use it less \
             often, as by a count for each thread that is added up at the end",
        ),
        Answer::NotFound | Answer::Unknown
            if costs(&sharing.proofs) && padded(Answer::NotFound) =>
        {
            Some(
                "not between heap objects. What running at the same time costs may be fields of one object or statics \
             (look at them with --symbol or --address), the same bytes used by all, or locks",
            )
        }
        Answer::Unknown if costs(&sharing.proofs) => Some(
            "what running at the same time costs may be fields of one object or statics (look at them with --symbol or \
             --address), heap objects that were not padded, the same bytes used by all, or locks",
        ),
        _ => None,
    }
}

/// For people.
pub fn text(sharing: &Sharing, style: Style) -> String {
    let mut text = String::new();
    let verdict = match verdict(&sharing.proofs) {
        Answer::Found => "found",
        Answer::Mixed => "mixed (beside true sharing)",
        Answer::NotFound => "not found",
        Answer::Unknown if costs(&sharing.proofs) => {
            "? (running at the same time costs, and no proof could tell what of)"
        }
        Answer::Unknown => "? (no proof could tell)",
    };
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{}", style.bold(&sharing.head));
    let _ = writeln!(text, "false sharing: {}\n", style.bold(verdict));
    text += &proofs(sharing).table(style);
    let (runs, touches) = (runs(sharing), touches(&sharing.touches));
    if !runs.rows.is_empty() {
        let _ = writeln!(text, "\n{} rounds", sharing.runs.rounds.len());
        text += &runs.table(style);
    }
    if !touches.rows.is_empty() {
        text += "\nwho used which bytes\n";
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
