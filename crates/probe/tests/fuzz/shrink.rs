//! From a program that fails to a short one that still does.

use crate::program::{Argument, Program};

/// The most programs that are tried.
const ATTEMPTS: usize = 250;

/// The shortest program found that still fails.
pub fn shrink(program: Program, mut fails: impl FnMut(&Program) -> bool) -> Program {
    let mut search = Search {
        best: program,
        left: ATTEMPTS,
    };
    loop {
        let before = search.best.clone();
        search.operations(&mut fails);
        search.files(&mut fails);
        search.numbers(&mut fails);
        if search.best == before || search.left == 0 {
            return search.best;
        }
    }
}

struct Search {
    best: Program,
    left: usize,
}

impl Search {
    /// Takes a candidate if it fails too; returns whether it does.
    fn take(&mut self, candidate: Program, fails: &mut impl FnMut(&Program) -> bool) -> bool {
        if self.left == 0 || candidate == self.best {
            return false;
        }
        self.left -= 1;
        let takes = fails(&candidate);
        if takes {
            self.best = candidate;
        }
        takes
    }

    /// Runs of operations, from halves down to single ones.
    fn operations(&mut self, fails: &mut impl FnMut(&Program) -> bool) {
        let mut run = self.best.operations.len().div_ceil(2);
        while run > 0 {
            let mut end = self.best.operations.len();
            while end > 0 {
                let start = end.saturating_sub(run);
                let mut candidate = self.best.clone();
                candidate.operations.drain(start..end);
                self.take(candidate, fails);
                end = start;
            }
            run = if run == 1 { 0 } else { run.div_ceil(2) };
        }
    }

    /// Files that no operation names.
    fn files(&mut self, fails: &mut impl FnMut(&Program) -> bool) {
        for file in (0..self.best.files.len()).rev() {
            let mut candidate = self.best.clone();
            candidate.files.remove(file);
            let mut named = false;
            for operation in &mut candidate.operations {
                let arguments = operation.call.arguments().iter();
                for (argument, number) in arguments.zip(&mut operation.numbers) {
                    if *argument == Argument::File {
                        named |= *number == file as u64;
                        *number -= u64::from(*number > file as u64);
                    }
                }
            }
            if !named && !candidate.files.is_empty() {
                self.take(candidate, fails);
            }
        }
    }

    /// Smaller and rounder numbers.
    fn numbers(&mut self, fails: &mut impl FnMut(&Program) -> bool) {
        for at in 0..self.best.operations.len() {
            let arguments = self.best.operations[at].call.arguments();
            for (place, argument) in arguments.iter().enumerate() {
                if *argument == Argument::File {
                    continue;
                }
                let number = self.best.operations[at].numbers[place];
                for simpler in [0, number / 2, number / 4096 * 4096, number / 512 * 512] {
                    let mut candidate = self.best.clone();
                    candidate.operations[at].numbers[place] = simpler;
                    if self.take(candidate, fails) {
                        break;
                    }
                }
            }
        }
        for file in 0..self.best.files.len() {
            let bytes = self.best.files[file].bytes;
            for simpler in [bytes / 2, bytes.div_ceil(4096) * 4096] {
                let mut candidate = self.best.clone();
                candidate.files[file].bytes = simpler;
                if self.take(candidate, fails) {
                    break;
                }
            }
        }
    }
}
