//! Programs of one thread: runs each operation, looks at its files before and after it, and compares all figures.

use std::fs::File;
use std::path::{Path, PathBuf};

use cachewise_model::Counter;

use crate::account::{Account, Disk};
use crate::call::{Argument, Call, Operation, RING_ENTRIES};
use crate::expect::Expected;
use crate::image::FileSystem;
use crate::moment::Moment;
use crate::open::{Handling, OPEN};
use crate::oracle::{Taken, faults};
use crate::problem::{Context, Problem, Result};
use crate::program::Program;
use crate::request::Accounted;
use crate::stand::Stand;
use crate::sums::{fetched, storage_slack};
use crate::task::Task;
use crate::verdict::{Attempt, Verdict, in_words};
use crate::watch::{Seen, Watched};

/// The accounts of this process, of its thread that runs programs, and of the device.
struct Accounts {
    process: Account,
    thread: Account,
    /// Bytes read from the device, where that is known.
    device: Option<u64>,
}

impl Accounts {
    /// Reads them by another thread: a read could hide the result of a short one before it.
    fn read(disk: Option<&Disk>) -> Result<Self> {
        let id = rustix::thread::gettid().as_raw_nonzero();
        let read = || {
            Ok(Accounts {
                device: disk.map(Disk::read_bytes).transpose()?,
                process: Account::read("/proc/self/io")?,
                thread: Account::read(&format!("/proc/self/task/{id}/io"))?,
            })
        };
        std::thread::scope(|scope| {
            let reader = scope.spawn(read);
            reader
                .join()
                .map_err(|_| Problem::new("the reader of accounts panicked"))?
        })
    }
}

/// Runs a program once.
pub fn attempt(stand: &mut Stand, program: &Program, directory: &Path) -> Result<Attempt> {
    let (kind, disk) = stand.place(program)?;
    let files = Watched::all(program, directory)?;
    let paths: Vec<_> = files.iter().map(Watched::path).collect();
    let mut task = Task::new(&paths, kind != FileSystem::Btrfs)?;
    let taken: Result<Vec<Taken>> = files.iter().map(|file| file.subject().taken()).collect();
    let taken = taken?;
    let before = stand.snapshot()?;
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
        short_write: None,
        met: [0; OPEN.len()],
        accounted: Accounted::default(),
    };
    work.seen = work.first.clone();
    let accounts_before = Accounts::read(disk.as_ref())?;
    for operation in &program.tasks[0].operations {
        work.step(&mut task, operation)?;
    }
    let accounts = Accounts::read(disk.as_ref())?;
    let after = stand.snapshot()?;
    if let Some(filler) = work.filler.take() {
        std::fs::remove_file(filler).context("remove the filler")?;
    }
    if after.lost != before.lost {
        return Ok(Attempt::Lost);
    }
    let mut verdict = Verdict {
        met: work.met,
        ..Verdict::default()
    };
    let mut storage = 0;
    for (number, file) in files.iter().enumerate() {
        let of = format!("file {number}");
        let ledger = file.ledger(&after).since(&file.ledger(&before));
        let reclaimed = ledger[Counter::EvictedReclaimPages];
        if reclaimed > 0 {
            // Only the probe says that pages were reclaimed, and the probe is under test.
            let most = file.subject().taken_since(taken[number])?;
            let rewritten = ledger[Counter::WriteNewPages];
            if most.saturating_add(rewritten) < reclaimed {
                let what = Counter::EvictedReclaimPages.id();
                verdict.find(&of, what, (0, most), reclaimed);
            } else {
                work.spoiled = true;
            }
        }
        let came = work.seen[number].count() as i64 - work.first[number].count() as i64;
        verdict.counted.push(in_words(&of, &ledger));
        let found = work.expected[number].compare(&of, &ledger, came, &mut verdict.tally);
        verdict.differences.extend(found);
        if program.files[number].is_on_disk() {
            storage += fetched(&ledger);
        }
    }
    if work.spoiled {
        return Ok(Attempt::Reclaimed);
    }
    let thread = accounts.thread.since(accounts_before.thread);
    if work.accounted.compare("thread", &thread, &mut verdict) {
        return Ok(Attempt::Restarted);
    }
    if let Some(slack) = storage_slack(kind, program) {
        let mut compare = |of: &str, read: u64| {
            let bounds = (read.saturating_sub(slack), read);
            verdict.find(of, "bytes fetched", bounds, storage);
        };
        let process = accounts.process.since(accounts_before.process);
        compare("process", process.device_read);
        if let (Some(before), Some(after)) = (accounts_before.device, accounts.device) {
            compare("device", after - before);
        }
    }
    Ok(Attempt::Done(Box::new(verdict)))
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
    /// The same of the latest write.
    short_write: Option<usize>,
    met: [usize; OPEN.len()],
    /// Calls and bytes that the kernel adds to the account of reads, and of writes.
    accounted: Accounted,
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
            self.accounted.add(request.call, *outcome);
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
                if request.is_direct() && !self.kind.bypasses_cache() {
                    // A write of the cache's dirty pages has no event: it hides the result of a write before it.
                    if let Some(before) = self.short_write.filter(|_| request.call.writes()) {
                        self.expected[before].hide_written();
                    }
                } else if request.call.writes() {
                    let is_short = moment.outcome < request.length() as i64;
                    self.short_write = is_short.then_some(file);
                }
                if met
                    .iter()
                    .any(|gap| OPEN[*gap].handling == Handling::HidesResults)
                {
                    if let Some(before) = self.short {
                        self.expected[before].hide_results();
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
