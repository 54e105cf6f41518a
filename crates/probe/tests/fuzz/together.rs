//! Programs of several tasks: starts their processes, and compares what their calls returned, summed up, with what
//! the probe counted.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStdout, Stdio};

use cachewise_model::{Counter, Ledger};
use cachewise_probe::{ProcessId, Snapshot};
use rustix::process::{Pid, WaitId, WaitIdOptions};

use crate::account::Account;
use crate::image::FileSystem;
use crate::invariants::conserved;
use crate::problem::{Context, Problem, Result};
use crate::program::{Kind, Program};
use crate::request::accounted;
use crate::stand::Stand;
use crate::sums::{self, Row, SUMMED};
use crate::verdict::{Attempt, Verdict, in_words};
use crate::watch::Watched;
use crate::worker::{Log, Order, read_report};

/// Pages whose readahead state the probe keeps together.
const SHARED_PAGES: u64 = 64;

/// A process of a program.
struct Worker {
    number: u64,
    child: Child,
    output: BufReader<ChildStdout>,
    /// Its account while its tasks ran.
    account: Account,
    /// Its account from its start to its end.
    whole: Account,
}

impl Worker {
    fn start(order: &Order, start: Stdio) -> Result<Worker> {
        let mut child = order.start(start)?;
        let output = child.stdout.take();
        let output = output.ok_or_else(|| Problem::new("a worker has no output"))?;
        Ok(Worker {
            number: order.process,
            child,
            output: BufReader::new(output),
            account: Account::default(),
            whole: Account::default(),
        })
    }

    fn wait_until_ready(&mut self) -> Result<()> {
        let mut line = String::new();
        self.output
            .read_line(&mut line)
            .context("read a worker's report")?;
        if line != "ready\n" {
            return Err(Problem::new(format!("a worker is not ready: {line:?}")));
        }
        Ok(())
    }

    /// Reads its report and its last account, and takes it out of the process table. `false`: it was killed, which
    /// only the kernel does where memory is short.
    fn finish(&mut self, logs: &mut [Log]) -> Result<bool> {
        let mut report = String::new();
        self.output
            .read_to_string(&mut report)
            .context("read a worker's report")?;
        let pid = Pid::from_child(&self.child);
        rustix::process::waitid(
            WaitId::Pid(pid),
            WaitIdOptions::EXITED | WaitIdOptions::NOWAIT,
        )
        .context("wait for a worker")?;
        self.whole = Account::read(&format!("/proc/{}/io", pid.as_raw_nonzero()))?;
        let status = self.child.wait().context("wait for a worker")?;
        if std::os::unix::process::ExitStatusExt::signal(&status) == Some(libc::SIGKILL) {
            return Ok(false);
        }
        if !status.success() {
            return Err(Problem::new(format!("a worker failed: {status}")));
        }
        self.account = read_report(&report, logs)?;
        Ok(true)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Its own child, which has a number until it is waited for.
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Residency of the files, for which two looks agree.
fn residency(files: &[Watched]) -> Result<Vec<u64>> {
    let look = |file: &Watched| {
        let mut most = 0;
        for _ in 0..3 {
            most = file.subject().residency()?.cached.max(most);
        }
        Ok(most)
    };
    files.iter().map(look).collect()
}

/// Runs a program once.
pub fn attempt(stand: &mut Stand, program: &Program, directory: &Path) -> Result<Attempt> {
    let (kind, disk) = stand.place(program)?;
    let files = Watched::all(program, directory)?;
    let group = match program.kind {
        Kind::Within(limit) => Some(stand.group(limit)?),
        _ => None,
    };
    let (reader, writer) = std::io::pipe().context("pipe")?;
    let mut workers = Vec::new();
    for process in program.processes() {
        let order = Order {
            program,
            process,
            directory,
            group: group.as_ref().map(|(path, _)| path),
            fixed_and_direct: kind != FileSystem::Btrfs,
        };
        let start = reader.try_clone().context("dup")?;
        workers.push(Worker::start(&order, start.into())?);
    }
    drop(reader);
    for worker in &mut workers {
        worker.wait_until_ready()?;
    }
    let taken_before: Result<Vec<_>> = files.iter().map(|file| file.subject().taken()).collect();
    let taken_before = taken_before?;
    let resident = residency(&files)?;
    let before = stand.snapshot()?;
    let is_quiet = residency(&files)? == resident;
    let disk_before = disk.as_ref().map(|disk| disk.read_bytes()).transpose()?;
    drop(writer);
    let mut logs = vec![Log::default(); program.tasks.len()];
    let mut killed = false;
    for worker in &mut workers {
        killed |= !worker.finish(&mut logs)?;
    }
    let disk_after = disk.as_ref().map(|disk| disk.read_bytes()).transpose()?;
    let resident_after = residency(&files)?;
    let after = stand.snapshot()?;
    if killed {
        return Ok(Attempt::Killed);
    }
    if after.lost != before.lost {
        return Ok(Attempt::Lost);
    }
    if !is_quiet || residency(&files)? != resident_after {
        return Ok(Attempt::Reclaimed);
    }
    let run = Run {
        kind,
        program,
        files: &files,
        workers: (workers.iter())
            .filter_map(|worker| process_id(&after, &worker.child))
            .collect(),
        before,
        after,
        group: group.map(|(_, id)| id),
        came: resident
            .iter()
            .zip(&resident_after)
            .map(|(before, after)| *after as i64 - *before as i64)
            .collect(),
    };
    let mut verdict = Verdict::default();
    let rows = sums::expect(kind, program, &logs);
    let mut fetched = 0;
    for worker in &workers {
        fetched += run.compare_process(worker, &rows, &mut verdict);
    }
    for (number, file) in files.iter().enumerate() {
        let reclaimed = run.compare_file(number, file, &mut verdict);
        verdict.reclaimed += reclaimed;
        // Only the probe says that pages were reclaimed, and the probe is under test. The kernel keeps an entry for
        // each, but not where the file was cut.
        if program.kind == Kind::Together && !program.operations().any(|one| one.call.cuts()) {
            let most = file.subject().taken_since(taken_before[number])?;
            let what = Counter::EvictedReclaimPages.id();
            verdict.find(&format!("file {number}"), what, (0, most), reclaimed);
        }
    }
    for (number, log) in logs.iter().enumerate() {
        let of = format!("task {number}");
        let mut accounted = accounted(&program.tasks[number].operations, log);
        accounted.add_read(0); // it waited for the start
        if accounted.compare(&of, &log.account, &mut verdict) {
            return Ok(Attempt::Restarted);
        }
    }
    if let (Some(before), Some(after), Some(slack)) =
        (disk_before, disk_after, sums::storage_slack(kind, program))
    {
        let read = after - before;
        verdict.find(
            "device",
            "bytes fetched",
            (read.saturating_sub(slack), read),
            fetched,
        );
    }
    Ok(Attempt::Done(Box::new(verdict)))
}

/// A program that has run.
struct Run<'p> {
    kind: FileSystem,
    program: &'p Program,
    files: &'p [Watched],
    before: Snapshot,
    after: Snapshot,
    group: Option<u32>,
    workers: Vec<ProcessId>,
    came: Vec<i64>,
}

impl Run<'_> {
    /// Compares the rows of a process; gives the bytes that it had storage read by the probe's count.
    fn compare_process(
        &self,
        worker: &Worker,
        rows: &BTreeMap<(u64, usize), Row>,
        verdict: &mut Verdict,
    ) -> u64 {
        let name = format!("process {}", worker.number);
        let id = process_id(&self.after, &worker.child);
        let Some(process) = self.after.processes.iter().find(|one| Some(one.id) == id) else {
            verdict.find(&name, "processes counted", (1, 1), 0);
            return 0;
        };
        let account = worker.whole;
        for (what, must, counted) in [
            ("rchar", account.read_calls, process.read_call_bytes.0),
            ("wchar", account.write_calls, process.write_call_bytes.0),
            ("read_bytes", account.device_read, process.device_read.0),
            (
                "write_bytes",
                account.device_written.saturating_sub(account.cancelled),
                process.device_written.0,
            ),
        ] {
            verdict.find(&name, what, (must, must), counted);
        }
        let mut fetched = 0;
        for (number, file) in self.files.iter().enumerate() {
            let of = format!("{name}, file {number}");
            let ledger = self.rows_of(process.id, file);
            verdict.counted.push(in_words(&of, &ledger));
            let documented = sums::may_contradict(self.kind, self.program);
            verdict.note_contradiction(&of, &ledger, documented);
            let row = rows
                .get(&(worker.number, number))
                .cloned()
                .unwrap_or_default();
            row.compare(&of, &ledger, verdict);
            if self.program.files[number].is_on_disk() {
                fetched += sums::fetched(&ledger);
            }
        }
        if let Some(slack) = sums::storage_slack(self.kind, self.program) {
            let read = worker.account.device_read;
            verdict.find(
                &name,
                "bytes fetched",
                (read.saturating_sub(slack), read),
                fetched,
            );
        }
        fetched
    }

    /// The sum of the rows of one process on a file, in the group that it is in.
    fn rows_of(&self, process: ProcessId, file: &Watched) -> Ledger {
        let rows = self.after.rows.iter().filter(|row| {
            row.process == Some(process)
                && file.is_of(row.file)
                && self.group.is_none_or(|group| row.cgroup == group)
        });
        rows.map(|row| &row.ledger).sum()
    }

    /// Compares the sums over all rows of a file; gives the pages of it that memory reclaim evicted.
    fn compare_file(&self, number: usize, file: &Watched, verdict: &mut Verdict) -> u64 {
        let of = format!("file {number}");
        let ledger = file.ledger(&self.after).since(&file.ledger(&self.before));
        verdict.counted.push(in_words(&of, &ledger));
        let found = conserved(&of, &ledger, self.came[number]);
        verdict.differences.extend(found);
        let ahead = ledger[Counter::ReadaheadPages]
            + ledger[Counter::PrefetchPages]
            + ledger[Counter::FaultReadaheadPages];
        let used = ledger[Counter::ReadaheadHitPages] + ledger[Counter::ReadaheadWastedPages];
        // Two CPUs that change the same 64 pages' bookkeeping at the same moment can take others for read ahead.
        let most = ahead
            + if self.program.tasks.len() > 1 {
                SHARED_PAGES
            } else {
                0
            };
        verdict.find(&of, "readahead hits and waste", (0, most), used);
        let inserted =
            ledger.inserted_pages().known().unwrap_or(0) + ledger[Counter::ReadaheadCancelledPages];
        let refaults = ledger[Counter::RefaultPages];
        verdict.find(&of, Counter::RefaultPages.id(), (0, inserted), refaults);
        // All of it is of the program's processes.
        let others = self
            .others(&self.after, file)
            .since(&self.others(&self.before, file));
        for counter in SUMMED {
            let of = format!("{of}, other processes");
            verdict.find(&of, counter.id(), (0, 0), others[*counter]);
        }
        ledger[Counter::EvictedReclaimPages]
    }

    /// The sum of the rows of processes that are not of the program on a file.
    fn others(&self, snapshot: &Snapshot, file: &Watched) -> Ledger {
        let rows = snapshot.rows.iter().filter(|row| {
            let process = row.process.as_ref();
            process.is_some_and(|id| !self.workers.contains(id)) && file.is_of(row.file)
        });
        rows.map(|row| &row.ledger).sum()
    }
}

/// The probe's number for a child.
fn process_id(snapshot: &Snapshot, child: &Child) -> Option<ProcessId> {
    let of_child = snapshot
        .processes
        .iter()
        .filter(|one| one.pid == child.id());
    // Process numbers are used again.
    of_child.map(|one| one.id).max_by_key(|id| id.start)
}
