//! From a program that fails to a short one that still does.

use std::time::{Duration, Instant};

use crate::call::{Argument, Call};
use crate::image::FileSystem;
use crate::program::{Kind, Program};

/// The most programs that are tried, and the longest time.
const ATTEMPTS: usize = 250;
const MOST_TIME: Duration = Duration::from_secs(60);

/// The shortest program found that still fails.
pub fn shrink(program: Program, mut fails: impl FnMut(&Program) -> bool) -> Program {
    let mut search = Search {
        best: program,
        left: ATTEMPTS,
        end: Instant::now() + MOST_TIME,
    };
    loop {
        let before = search.best.clone();
        search.tasks(&mut fails);
        search.operations(&mut fails);
        search.files(&mut fails);
        search.numbers(&mut fails);
        if search.best == before || search.left == 0 {
            return search.best;
        }
    }
}

/// Whether the fuzzer can say what a program must be counted as: blocks that copy_file_range(2) shares are no reads.
fn is_judged(program: &Program) -> bool {
    let shares = FileSystem::ALL
        .iter()
        .chain(&[FileSystem::XfsLargeBlocks])
        .any(|kind| kind.has_reflinks() && kind.name() == program.place);
    let is_aligned = |offset: Option<u64>| offset.is_some_and(|offset| offset % 512 == 0);
    !shares
        || program.operations().all(|operation| {
            operation.call != Call::Copy || !is_aligned(operation.all(Argument::Offset).nth(1))
        })
}

struct Search {
    best: Program,
    left: usize,
    end: Instant,
}

impl Search {
    /// Takes a candidate if it fails too; returns whether it does.
    fn take(&mut self, candidate: Program, fails: &mut impl FnMut(&Program) -> bool) -> bool {
        if Instant::now() >= self.end {
            self.left = 0;
        }
        if self.left == 0 || candidate == self.best || !is_judged(&candidate) {
            return false;
        }
        self.left -= 1;
        let takes = fails(&candidate);
        if takes {
            self.best = candidate;
        }
        takes
    }

    /// Whole tasks, and the memory group.
    fn tasks(&mut self, fails: &mut impl FnMut(&Program) -> bool) {
        for task in (0..self.best.tasks.len()).rev() {
            if self.best.tasks.len() > 1 {
                let mut candidate = self.best.clone();
                candidate.tasks.remove(task);
                self.take(candidate, fails);
            }
        }
        if matches!(self.best.kind, Kind::Within(_)) {
            let mut candidate = self.best.clone();
            candidate.kind = Kind::Together;
            self.take(candidate, fails);
        }
    }

    /// Runs of operations of each task, from halves down to single ones.
    fn operations(&mut self, fails: &mut impl FnMut(&Program) -> bool) {
        for task in 0..self.best.tasks.len() {
            let mut run = self.best.tasks[task].operations.len().div_ceil(2);
            while run > 0 {
                let mut end = self.best.tasks[task].operations.len();
                while end > 0 {
                    let start = end.saturating_sub(run);
                    let mut candidate = self.best.clone();
                    candidate.tasks[task].operations.drain(start..end);
                    self.take(candidate, fails);
                    end = start;
                }
                run = if run == 1 { 0 } else { run.div_ceil(2) };
            }
        }
    }

    /// Files that no operation names.
    fn files(&mut self, fails: &mut impl FnMut(&Program) -> bool) {
        for file in (0..self.best.files.len()).rev() {
            let mut candidate = self.best.clone();
            candidate.files.remove(file);
            let mut named = false;
            let tasks = candidate.tasks.iter_mut();
            for operation in tasks.flat_map(|task| &mut task.operations) {
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
        let tasks = self.best.tasks.iter().enumerate();
        let places: Vec<(usize, usize)> = tasks
            .flat_map(|(task, its)| (0..its.operations.len()).map(move |at| (task, at)))
            .collect();
        for (task, at) in places {
            let arguments = self.best.tasks[task].operations[at].call.arguments();
            for (place, argument) in arguments.iter().enumerate() {
                if *argument == Argument::File {
                    continue;
                }
                let number = self.best.tasks[task].operations[at].numbers[place];
                for simpler in [0, number / 2, number / 4096 * 4096, number / 512 * 512] {
                    let mut candidate = self.best.clone();
                    candidate.tasks[task].operations[at].numbers[place] = simpler;
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
