//! Row by row against column by column.

use std::hint::black_box;

use super::experiment::{Check, Experiment, Outcome};
use super::rounds::{Rounds, seen, timed};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "rows",
    about: "a matrix of numbers, row by row and column by column",
    why: "A column takes 8 bytes of each line and a new line for each number; rows that are a power of two long put all of a column into a few sets of the cache as well.",
    advice: "Let the inner loop go along memory; transpose or work in blocks where both directions are needed; make rows longer by a line where their length is a power of two.",
    run,
};

/// 64 MiB: more than a core has for itself.
const ROWS: usize = 2048;
const COLUMNS: usize = 4096;

/// A row that is a line longer.
const PADDED: usize = COLUMNS + 8;

const ROUNDS: usize = 7;

#[inline(never)]
fn by_rows(matrix: &[u64], length: usize) -> u64 {
    let mut sum = 0u64;
    for row in 0..ROWS {
        for column in 0..COLUMNS {
            sum = sum.wrapping_add(matrix[row * length + column]);
        }
    }
    sum
}

#[inline(never)]
fn by_columns(matrix: &[u64], length: usize) -> u64 {
    let mut sum = 0u64;
    for column in 0..COLUMNS {
        for row in 0..ROWS {
            sum = sum.wrapping_add(matrix[row * length + column]);
        }
        // Else a compiler may exchange the loops.
        sum = black_box(sum);
    }
    sum
}

fn run() -> Result<Outcome, String> {
    let count = ROWS * COLUMNS;
    let matrix: Vec<u64> = (0..ROWS * PADDED).map(|place| place as u64 % 251).collect();
    let same = by_rows(&matrix, PADDED) == by_columns(&matrix, PADDED);
    let mut rounds = Rounds::new("number");
    rounds.case("row by row", || {
        timed(count, || by_rows(black_box(&matrix), COLUMNS))
    });
    rounds.case("column by column", || {
        timed(count, || by_columns(black_box(&matrix), COLUMNS))
    });
    rounds.control("row by row, rows a line longer", || {
        timed(count, || by_rows(black_box(&matrix), PADDED))
    });
    rounds.control("column by column, rows a line longer", || {
        timed(count, || by_columns(black_box(&matrix), PADDED))
    });
    rounds.run(ROUNDS);
    let effects: Vec<_> = [
        rounds.ratio("column against row", 1, 0),
        rounds.ratio("of that, rows of a power of two", 1, 3),
        rounds.ratio("column against row, without that", 3, 2),
    ]
    .into_iter()
    .flatten()
    .collect();
    Ok(Outcome {
        not_tried: Vec::new(),
        checks: vec![
            Check {
                holds: same,
                what: "both directions give the same sum".into(),
            },
            seen(
                &effects,
                0,
                2.0,
                "the compiler exchanged the loops, or the cache holds all of it",
            ),
        ],
        cases: rounds.cases(),
        effects,
    })
}
