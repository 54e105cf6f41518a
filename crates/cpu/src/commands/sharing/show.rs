//! Output of `cpu sharing`: text and documents.

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
    SheetColumn::new("proof", "PROOF", false, "Method of the proof"),
    SheetColumn::new(
        "answer",
        "ANSWER",
        false,
        "Answer of the proof: found, mixed (with true sharing), not_found or unknown",
    ),
    SheetColumn::new(
        "ratio",
        "TIMES",
        true,
        "Ratio of CPU times: all CPUs over one; plain over padded heap, on all CPUs over on one",
    ),
    SheetColumn::new(
        "ratio_low",
        "TIMES FROM",
        true,
        "Lower quartile of the rounds",
    ),
    SheetColumn::new(
        "ratio_high",
        "TIMES TO",
        true,
        "Upper quartile of the rounds",
    ),
    SheetColumn::new(
        "says",
        "WHICH SAYS",
        false,
        "Evidence, or the reason why the answer is unknown",
    ),
];

/// A row is a variant of the run; in JSON and text.
const RUNS: [SheetColumn; 9] = [
    SheetColumn::new("cpus", "CPUS", false, "One CPU, or all permitted ones"),
    SheetColumn::new(
        "heap",
        "HEAP",
        false,
        "Plain, or padded: each object in its own cache lines",
    ),
    SheetColumn::new(
        "cpu_seconds",
        "CPU TIME",
        true,
        "CPU time: median of the rounds",
    ),
    SheetColumn::new(
        "cpu_low_seconds",
        "CPU FROM",
        true,
        "Lower quartile of the rounds",
    ),
    SheetColumn::new(
        "cpu_high_seconds",
        "CPU TO",
        true,
        "Upper quartile of the rounds",
    ),
    SheetColumn::new(
        "wall_seconds",
        "WALL TIME",
        true,
        "Time from start to end: median of the rounds",
    ),
    SheetColumn::new(
        "wall_low_seconds",
        "WALL FROM",
        true,
        "Lower quartile of the rounds",
    ),
    SheetColumn::new(
        "wall_high_seconds",
        "WALL TO",
        true,
        "Upper quartile of the rounds",
    ),
    SheetColumn::new(
        "at_once",
        "AT ONCE",
        true,
        "Number of CPUs in use at the same time, on average",
    ),
];

/// A row is the accesses of a thread to bytes of a line; in JSON and text.
const TOUCHES: [SheetColumn; 8] = [
    SheetColumn::new(
        "line_address",
        "LINE",
        false,
        "The address of the line's first byte",
    ),
    SheetColumn::new(
        "offset",
        "BYTE",
        true,
        "Offset of the first byte in the line",
    ),
    SheetColumn::new("bytes", "BYTES", true, "Number of bytes"),
    SheetColumn::new("thread", "THREAD", true, "The thread's id"),
    SheetColumn::new("name", "THREAD-NAME", false, "The thread's name"),
    SheetColumn::new(
        "writes",
        "WRITES",
        true,
        "Number of observed writes, including accesses that read and write",
    ),
    SheetColumn::new(
        "reads",
        "READS",
        true,
        "Number of observed reads without a write",
    ),
    SheetColumn::new("by", "SEEN BY", false, "Proof that observed it"),
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
pub fn text(sharing: &Sharing, style: Style) -> String {
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
    text += &proofs(sharing).table(style);
    let (runs, touches) = (runs(sharing), touches(&sharing.touches));
    if !runs.rows.is_empty() {
        let _ = writeln!(text, "\n{} rounds", sharing.runs.rounds.len());
        text += &runs.table(style);
    }
    if !touches.rows.is_empty() {
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
