//! Programs of the fuzzer: a file system, files, tasks and their operations, one a line, that can be printed and parsed.
//!
//! ```text
//! on xfs
//! run together 0 0 1
//! file 300000 cold
//! task 0
//! pread 0 4096 100000
//! task 1
//! pwrite 0 8192 100
//! task 2
//! fsync 0
//! ```
//! Files and tasks are numbered in the order of their lines. `run` has the kind and, for each task, the number of its
//! process: here tasks 0 and 1 are threads of one process, and task 2 is in another. `run alone` is one thread, also
//! without that line; `run within 2097152 0 1` runs two processes in a memory group of 2 MiB. A task does its
//! operations in their order. `#` begins a remark.

use std::fmt;

use crate::call::{Call, Operation};
use crate::problem::{Problem, Result};

/// How a file is when the program begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Initial {
    /// On the disk only.
    Cold,
    /// Just written: in the cache, and maybe dirty.
    Written,
    /// A hole.
    Hole,
}

impl Initial {
    /// All of them.
    pub const ALL: [Initial; 3] = [Initial::Cold, Initial::Written, Initial::Hole];

    fn name(self) -> &'static str {
        match self {
            Initial::Cold => "cold",
            Initial::Written => "written",
            Initial::Hole => "hole",
        }
    }
}

/// A file of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Made {
    /// Its size.
    pub bytes: u64,
    /// Its state.
    pub initial: Initial,
}

impl Made {
    /// Whether its pages are read from storage.
    pub fn is_on_disk(self) -> bool {
        self.initial != Initial::Hole
    }
}

/// How the tasks of a program run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// One thread: each operation is compared.
    Alone,
    /// Several threads and processes at once: sums are compared.
    Together,
    /// The same in a memory group with a limit in bytes.
    Within(u64),
}

impl Kind {
    /// The names, in the order of [`Kind::number`].
    pub const NAMES: [&'static str; 3] = ["alone", "together", "within"];

    /// The kind's place in [`Kind::NAMES`].
    pub fn number(self) -> usize {
        match self {
            Kind::Alone => 0,
            Kind::Together => 1,
            Kind::Within(_) => 2,
        }
    }
}

/// A task of a program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sequence {
    /// The number of its process; tasks of one process are threads.
    pub process: u64,
    /// Its operations.
    pub operations: Vec<Operation>,
}

/// A program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// The name of the file system that it runs on.
    pub place: String,
    /// How it runs.
    pub kind: Kind,
    /// Its files.
    pub files: Vec<Made>,
    /// Its tasks, at least one.
    pub tasks: Vec<Sequence>,
}

impl Program {
    /// Reads a program's text.
    pub fn parse(text: &str) -> Result<Program> {
        let mut program = Program {
            place: String::new(),
            kind: Kind::Alone,
            files: Vec::new(),
            tasks: vec![Sequence::default()],
        };
        let mut task = 0;
        for (at, line) in text.lines().enumerate() {
            let words: Vec<&str> = line
                .split('#')
                .next()
                .unwrap_or("")
                .split_whitespace()
                .collect();
            if let [head, rest @ ..] = words.as_slice() {
                program
                    .line(head, rest, &mut task)
                    .ok_or_else(|| Problem::new(format!("line {} is none: {line}", at + 1)))?;
            }
        }
        let files = program.files.len();
        let known = |operation: &Operation| operation.files().all(|file| file < files);
        if program.place.is_empty() || !program.operations().all(known) {
            return Err(Problem::new(
                "a program names its place and all its files first",
            ));
        }
        Ok(program)
    }

    fn line(&mut self, head: &str, rest: &[&str], task: &mut usize) -> Option<()> {
        let number = |text: &str| text.parse::<u64>().ok();
        match (head, rest) {
            ("on", [place]) => self.place = (*place).to_owned(),
            ("file", [bytes, initial]) => self.files.push(Made {
                bytes: number(bytes)?,
                initial: Initial::ALL
                    .into_iter()
                    .find(|one| one.name() == *initial)?,
            }),
            ("run", ["alone"]) => self.kind = Kind::Alone,
            ("run", ["together", processes @ ..]) => self.run(Kind::Together, processes)?,
            ("run", ["within", bytes, processes @ ..]) => {
                self.run(Kind::Within(number(bytes)?), processes)?;
            }
            ("task", [task_number]) => {
                *task = number(task_number)? as usize;
                self.tasks.get(*task)?;
            }
            _ => {
                let call = *Call::ALL.iter().find(|call| call.name() == head)?;
                let numbers: Option<Vec<u64>> = rest.iter().map(|text| number(text)).collect();
                let numbers = numbers.filter(|all| all.len() == call.arguments().len())?;
                let task = self.tasks.get_mut(*task)?;
                task.operations.push(Operation { call, numbers });
            }
        }
        Some(())
    }

    /// Takes the line that names kind and tasks; `None`: it names no task, or operations came before it.
    fn run(&mut self, kind: Kind, processes: &[&str]) -> Option<()> {
        if processes.is_empty() || self.operations().next().is_some() {
            return None;
        }
        let tasks = processes.iter().map(|process| {
            let process = process.parse().ok()?;
            let operations = Vec::new();
            Some(Sequence {
                process,
                operations,
            })
        });
        self.tasks = tasks.collect::<Option<_>>()?;
        self.kind = kind;
        Some(())
    }

    /// The operations of all tasks.
    pub fn operations(&self) -> impl Iterator<Item = &Operation> {
        self.tasks.iter().flat_map(|task| &task.operations)
    }

    /// The numbers of its processes, each once.
    pub fn processes(&self) -> Vec<u64> {
        let mut processes: Vec<u64> = self.tasks.iter().map(|task| task.process).collect();
        processes.sort_unstable();
        processes.dedup();
        processes
    }
}

impl fmt::Display for Program {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "on {}", self.place)?;
        write!(formatter, "run {}", Kind::NAMES[self.kind.number()])?;
        if let Kind::Within(bytes) = self.kind {
            write!(formatter, " {bytes}")?;
        }
        if self.kind != Kind::Alone {
            for task in &self.tasks {
                write!(formatter, " {}", task.process)?;
            }
        }
        writeln!(formatter)?;
        for file in &self.files {
            writeln!(formatter, "file {} {}", file.bytes, file.initial.name())?;
        }
        for (number, task) in self.tasks.iter().enumerate() {
            if self.kind != Kind::Alone {
                writeln!(formatter, "task {number}")?;
            }
            task.operations
                .iter()
                .try_for_each(|operation| writeln!(formatter, "{operation}"))?;
        }
        Ok(())
    }
}
