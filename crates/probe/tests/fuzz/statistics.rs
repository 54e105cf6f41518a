//! Sums over a run of the fuzzer: programs by kind, comparisons, and those that were not made.

use crate::bounds::Tally;
use crate::invariants::CONTRADICTION;
use crate::open::{Handling, OPEN};
use crate::program::{Kind, Program};
use crate::verdict::Verdict;

/// The largest part of the comparisons of a figure that may not be made because the figure is marked: one in five.
const ONE_MARKED_IN: u64 = 5;

/// The same of rows that contradict themselves where that is documented, and that reports therefore mark: one in fifty.
const ONE_CONTRADICTS_IN: u64 = 50;

/// Fewer comparisons of a figure say nothing about that part.
const ENOUGH: u64 = 400;

/// See the module.
#[derive(Debug, Default)]
pub struct Sums {
    programs: [usize; Kind::NAMES.len()],
    operations: usize,
    repeats: usize,
    reclaimed: u64,
    met: [usize; OPEN.len()],
    tally: Tally,
}

impl Sums {
    /// Adds a program.
    pub fn add(&mut self, program: &Program, verdict: &Verdict) {
        self.programs[program.kind.number()] += 1;
        self.operations += program.operations().count();
        self.repeats += verdict.repeats;
        self.reclaimed += verdict.reclaimed;
        for (sum, times) in self.met.iter_mut().zip(verdict.met) {
            *sum += times;
        }
        self.tally.add(&verdict.tally);
    }

    /// Prints them.
    pub fn print(&self, seed: u64, failures: usize) {
        for (gap, times) in OPEN.iter().zip(self.met).filter(|(_, times)| *times > 0) {
            let effect = match gap.handling {
                Handling::Marked => "marked",
                Handling::NotCompared | Handling::HidesResults => "not compared",
            };
            println!("fuzz: {effect} {times} times: {}: {}", gap.name, gap.reason);
        }
        for (what, all, marked) in self.tally.figures().filter(|(_, _, marked)| *marked > 0) {
            println!("fuzz: not compared because marked: {what}, {marked} of {all} times");
        }
        let kinds = Kind::NAMES.iter().zip(self.programs);
        let kinds: Vec<String> = kinds
            .map(|(kind, count)| format!("{count} {kind}"))
            .collect();
        println!(
            "fuzz: seed {seed}, {} programs ({}), {} operations, {} comparisons, {} pages reclaimed, {} repeated, {failures} failures",
            self.programs.iter().sum::<usize>(),
            kinds.join(", "),
            self.operations,
            self.tally.comparisons(),
            self.reclaimed,
            self.repeats,
        );
    }

    /// Figures that are marked too often to be of use.
    pub fn too_many_marked(&self) -> Vec<String> {
        let figures = self.tally.figures();
        figures
            .filter(|(what, all, marked)| {
                let one_in = match *what {
                    CONTRADICTION => ONE_CONTRADICTS_IN,
                    _ => ONE_MARKED_IN,
                };
                *all >= ENOUGH && marked * one_in > *all
            })
            .map(|(what, all, marked)| {
                format!("{what} was marked as inexact in {marked} of {all} comparisons")
            })
            .collect()
    }
}
