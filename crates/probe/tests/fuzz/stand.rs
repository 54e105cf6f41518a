//! Where programs run: one probe on this process, and a file system of each kind.

use std::collections::HashMap;
use std::fs::File;
use std::path::PathBuf;

use cachewise_model::{Counter, Ledger};
use cachewise_probe::{Detail, Options, Probe, Scope, Snapshot};

use crate::expect::{Difference, Expected, Moment};
use crate::image::{FileSystem, Mounted, NotMounted, Workshop};
use crate::open::{OF_RESULTS, OPEN};
use crate::oracle::{Taken, faults};
use crate::problem::{Context, Problem, Result};
use crate::program::{Argument, Call, Operation, Program};
use crate::task::{RING_ENTRIES, Task};
use crate::watch::{Seen, Watched};

/// How often a program is run again because the machine reclaimed pages of its files: then nothing tells what its
/// reads found. Only what the kernel itself reports as reclaimed is a reason.
const REPEATS: usize = 11;

/// The result of a program.
#[derive(Debug, Default)]
pub struct Verdict {
    /// The figures that are wrong.
    pub differences: Vec<Difference>,
    /// Times that it was repeated.
    pub repeats: usize,
    /// How often it met each documented gap.
    pub met: [usize; OPEN.len()],
    /// The counters of each file, in words.
    pub counted: Vec<String>,
}

/// See the module. Fields are dropped in this order: mounts before the directory that they are in.
pub struct Stand {
    probe: Probe,
    mounted: HashMap<FileSystem, Mounted>,
    workshop: Workshop,
    made: u64,
}

impl Stand {
    /// Attaches the probe.
    pub fn set_up() -> Result<Self> {
        let workshop = Workshop::open("fuzz")?;
        let options = Options::new(Scope::Process(std::process::id()), Detail::Rows);
        let probe = Probe::attach(&options).context("attach the probe")?;
        Ok(Stand {
            probe,
            mounted: HashMap::new(),
            workshop,
            made: 0,
        })
    }

    /// Mounts a file system; what this machine lacks is a reason to leave it out.
    pub fn mount(&mut self, kind: FileSystem) -> Result<Option<String>> {
        match self.workshop.mount(kind) {
            Ok(mounted) => {
                self.mounted.insert(kind, mounted);
                Ok(None)
            }
            Err(NotMounted::Missing(reason)) => Ok(Some(reason)),
            Err(NotMounted::Failed(problem)) => Err(problem),
        }
    }

    /// Runs a program and compares.
    pub fn run(&mut self, program: &Program) -> Result<Verdict> {
        for repeats in 0..=REPEATS {
            self.made += 1;
            let directory = self.directory(program)?;
            std::fs::create_dir(&directory).context("make a directory for the program")?;
            let ran = self.attempt(program, &directory);
            std::fs::remove_dir_all(&directory).context("remove the program's directory")?;
            if let Some(verdict) = ran? {
                return Ok(Verdict { repeats, ..verdict });
            }
        }
        Err(Problem::new(format!(
            "pages were reclaimed during each of {} attempts",
            REPEATS + 1
        )))
    }

    fn place(&self, program: &Program) -> Result<(FileSystem, &Mounted)> {
        let found = self
            .mounted
            .iter()
            .find(|(kind, _)| kind.name() == program.place);
        let (kind, mounted) = found.ok_or_else(|| {
            Problem::new(format!("there is no file system called {}", program.place))
        })?;
        Ok((*kind, mounted))
    }

    fn directory(&self, program: &Program) -> Result<PathBuf> {
        let (_, mounted) = self.place(program)?;
        Ok(mounted.directory().join(format!("program-{}", self.made)))
    }

    fn snapshot(&mut self) -> Result<Snapshot> {
        self.probe.snapshot().context("read the probe")
    }

    /// `None`: the machine was in the way.
    fn attempt(
        &mut self,
        program: &Program,
        directory: &std::path::Path,
    ) -> Result<Option<Verdict>> {
        let (kind, _) = self.place(program)?;
        let made: Result<Vec<Watched>> = program
            .files
            .iter()
            .enumerate()
            .map(|(number, made)| Watched::make(directory.join(number.to_string()), made))
            .collect();
        let files = made?;
        let paths: Vec<_> = files.iter().map(Watched::path).collect();
        let mut task = Task::new(&paths, kind != FileSystem::Btrfs)?;
        let taken: Result<Vec<Taken>> = files.iter().map(|file| file.subject().taken()).collect();
        let taken = taken?;
        let before = self.snapshot()?;
        let seen: Result<Vec<Seen>> = files.iter().map(|file| file.see(0)).collect();
        let mut work = Work {
            kind,
            files: &files,
            first: seen?,
            seen: Vec::new(),
            expected: vec![Expected::default(); files.len()],
            filler: None,
            spoiled: false,
            queue: Vec::new(),
            short: None,
            met: [0; OPEN.len()],
        };
        work.seen = work.first.clone();
        for operation in &program.operations {
            work.step(&mut task, operation)?;
        }
        let after = self.snapshot()?;
        if let Some(filler) = work.filler.take() {
            std::fs::remove_file(filler).context("remove the filler")?;
        }
        let mut spoiled = work.spoiled || after.lost != before.lost;
        let (mut differences, mut counted) = (Vec::new(), Vec::new());
        for (number, file) in files.iter().enumerate() {
            let (major, minor, inode) = file.subject().id();
            let ledger = after
                .file(major, minor, inode)
                .since(&before.file(major, minor, inode));
            let reclaimed = ledger[Counter::EvictedReclaimPages];
            if reclaimed > 0 {
                // Only the probe says that pages were reclaimed, and the probe is under test.
                let most = file.subject().taken_since(taken[number])?;
                let rewritten = ledger[Counter::WriteNewPages];
                if most.saturating_add(rewritten) < reclaimed {
                    differences.push(Difference {
                        file: number,
                        what: Counter::EvictedReclaimPages.id(),
                        expected: (0, most),
                        counted: reclaimed,
                    });
                } else {
                    spoiled = true;
                }
            }
            let came = work.seen[number].count() as i64 - work.first[number].count() as i64;
            counted.push(in_words(number, &ledger));
            differences.extend(work.expected[number].compare(number, &ledger, came));
        }
        let verdict = Verdict {
            differences,
            repeats: 0,
            met: work.met,
            counted,
        };
        Ok((!spoiled).then_some(verdict))
    }
}

/// The counters of a file that are not 0, and the marks on them.
fn in_words(file: usize, ledger: &Ledger) -> String {
    let counters = Counter::ALL.iter().filter(|counter| ledger[**counter] != 0);
    let words = counters.map(|counter| {
        let mark = match ledger.get(*counter).exact() {
            Some(_) => "",
            None => "~",
        };
        format!("{} {mark}{}", counter.id(), ledger[*counter])
    });
    format!("file {file}: {}", words.collect::<Vec<_>>().join(", "))
}

/// A program that runs, with what it must be counted as.
struct Work<'f> {
    kind: FileSystem,
    files: &'f [Watched],
    first: Vec<Seen>,
    seen: Vec<Seen>,
    expected: Vec<Expected>,
    filler: Option<PathBuf>,
    spoiled: bool,
    /// Requests that `uring-enter` would submit.
    queue: Vec<Operation>,
    /// The file of the latest read, if that ended short.
    short: Option<usize>,
    met: [usize; OPEN.len()],
}

impl Work<'_> {
    fn step(&mut self, task: &mut Task, operation: &Operation) -> Result<()> {
        if operation.call == Call::Fill {
            return self.fill(operation.get(Argument::Size));
        }
        if matches!(operation.call, Call::UringRead | Call::UringWrite) {
            if self.queue.len() < RING_ENTRIES as usize {
                self.queue.push(operation.clone());
            }
            return task.run(operation).map(drop);
        }
        let queue = match operation.call {
            Call::UringEnter => std::mem::take(&mut self.queue),
            _ => vec![operation.clone()],
        };
        let mut named: Vec<usize> = queue.iter().flat_map(Operation::files).collect();
        named.sort_unstable();
        named.dedup();
        for file in &named {
            let now = self.see(*file, &queue)?;
            self.spoiled |= self.seen[*file].new_since(&now).next().is_some();
            self.seen[*file] = now;
        }
        let faults_before = faults();
        let outcomes = task.run(operation)?;
        let faults = faults() - faults_before;
        let after: Result<Vec<Seen>> = named.iter().map(|file| self.see(*file, &queue)).collect();
        let after: Vec<(usize, Seen)> = named.iter().copied().zip(after?).collect();
        let seen_after = |file: usize| {
            let found = after.iter().find(|(one, _)| *one == file);
            found.map_or(&self.seen[file], |(_, seen)| seen).clone()
        };
        for (request, outcome) in queue.iter().zip(&outcomes) {
            for (second, file) in request.files().enumerate() {
                let moment = Moment {
                    operation: request,
                    outcome: *outcome,
                    before: &self.seen[file].clone(),
                    after: &seen_after(file),
                    faults,
                    kind: self.kind,
                    inside: request.call == Call::Copy && named.len() == 1,
                };
                let met = if queue.len() > 1 {
                    self.expected[file].note_one_of_several(&moment)
                } else {
                    self.expected[file].note(&moment, second == 1)
                };
                for gap in &met {
                    self.met[*gap] += 1;
                }
                if met.iter().any(|gap| OPEN[*gap].hides) {
                    if let Some(before) = self.short {
                        self.expected[before].free(OF_RESULTS);
                    }
                } else if second == 0 && request.call.is_read() {
                    self.short = moment.ends_short().then_some(file);
                }
            }
        }
        for (file, after) in after {
            if queue.len() > 1 {
                self.expected[file].note_several(&Moment {
                    operation,
                    outcome: 0,
                    before: &self.seen[file].clone(),
                    after: &after,
                    faults: 0,
                    kind: self.kind,
                    inside: false,
                });
            }
            self.seen[file] = after;
        }
        Ok(())
    }

    /// A look at a file, as far as requests for it go.
    fn see(&self, file: usize, queue: &[Operation]) -> Result<Seen> {
        self.files[file].see_as_far(&self.seen[file], queue)
    }

    /// Takes the space of the file system but for `left` bytes.
    fn fill(&mut self, left: u64) -> Result<()> {
        let Some(path) = self.files[0].path().parent() else {
            return Ok(());
        };
        let path = path.with_extension("filler");
        let file = File::create(&path).context("create the filler")?;
        let room = rustix::fs::fstatvfs(&file).context("statvfs")?;
        let mut piece = (room.f_bavail * room.f_frsize).saturating_sub(left);
        let flags = rustix::fs::FallocateFlags::empty();
        while piece >= 4096 && rustix::fs::fallocate(&file, flags, 0, piece).is_err() {
            piece /= 2;
        }
        self.filler = Some(path);
        Ok(())
    }
}
