//! The test stand: one probe on this process, the file systems, and how a case is done.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

use cachewise_model::{Counter, Ledger, Reason};
use cachewise_probe::{BackEnd, Detail, Options, Probe, Row, Scope, Snapshot};
use libtest_mimic::{Completion, Failed, Trial};

use crate::image::{Device, FileSystem, Mounted, NotMounted, Workshop};
use crate::oracle::{Folios, Subject, page_size};
use crate::problem::{Context, Problem, Result};
use crate::reader::{Call, Tools, Way};
use crate::table::{Comparison, Label, Report};

/// How often a case is repeated because pages of its file were evicted while it ran: some hosts
/// take idle pages out of the cache all the time, and then no oracle can tell what a read found. Only
/// what the kernel itself counts as taken is a reason.
const REPEATS: usize = 11;

/// A trial that fails says so for this many of its cases.
const FAILURES_SHOWN: usize = 12;

thread_local! {
    /// Made by the first trial that runs. All of them run on the main thread, one after another:
    /// what is counted belongs to the process.
    static STAND: RefCell<Option<Stand>> = const { RefCell::new(None) };
}

/// Whether evictions spoil a case or belong to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Evictions {
    /// The case is repeated.
    Spoil,
    /// The case makes them itself; by reclaim they still spoil it.
    Belong,
    /// The case has pages reclaimed.
    Reclaim,
}

/// Result of a case.
#[derive(Debug)]
pub struct Measured<E> {
    /// Result of the work: the counts that the oracle expects.
    pub expected: E,
    /// Counters of the file during the case.
    pub ledger: Ledger,
    /// Pages inserted into the file during the case: residency after minus before, plus evictions.
    pub inserted: u64,
    /// Residency before minus after, for cases that insert no page.
    pub gone: u64,
    /// The counters before, and after, for what is not about one file.
    pub snapshots: (Snapshot, Snapshot),
}

/// The counts of a file between two snapshots, row by row: a row that has not changed belongs to an earlier file with
/// this inode number, whose marks are not of this one.
fn counted(before: &Snapshot, after: &Snapshot, id: (u32, u32, u64)) -> Ledger {
    let is_of_file = |row: &&Row| {
        row.file
            .as_ref()
            .is_some_and(|file| (file.major, file.minor, file.inode) == id)
    };
    let changed = after.rows.iter().filter(is_of_file).filter_map(|row| {
        let is_same = |earlier: &&Row| {
            (&earlier.process, &earlier.file, earlier.cgroup)
                == (&row.process, &row.file, row.cgroup)
        };
        match before.rows.iter().find(is_same) {
            Some(earlier) if earlier.ledger == row.ledger => None,
            Some(earlier) => Some(row.ledger.since(&earlier.ledger)),
            None => Some(row.ledger.clone()),
        }
    });
    changed.sum()
}

/// See the module. Fields are dropped in this order: mounts before the directory that they are in.
pub struct Stand {
    probe: Probe,
    tools: Tools,
    device: Option<Device>,
    /// Or why there is none here.
    mounted: HashMap<FileSystem, Result<Mounted, String>>,
    workshop: Workshop,
    report: Report,
}

impl Stand {
    fn set_up() -> Result<Self> {
        let workshop = Workshop::open("ground-truth")?;
        let tools = Tools::new()?;
        let options = Options::new(Scope::Process(std::process::id()), Detail::Rows);
        let probe = Probe::attach(&options).context("attach the probe")?;
        println!("\nground truth by {}", probe.back_end().id());
        for part in probe.groups() {
            let by = part.back_end.map_or("nothing", |by| by.id());
            println!("by {by}: {}", part.name);
        }
        let (mounted, report) = (HashMap::new(), Report::default());
        Ok(Stand {
            probe,
            tools,
            device: None,
            mounted,
            workshop,
            report,
        })
    }

    /// The mount point of a file system, made at the first call, or the reason that there is none.
    fn directory(&mut self, kind: FileSystem) -> Result<Result<PathBuf, String>> {
        if !self.mounted.contains_key(&kind) {
            let mounted = match self.workshop.mount(kind) {
                Ok(mounted) => Ok(mounted),
                Err(NotMounted::Missing(reason)) => {
                    println!("\nskipped: ground truth on {kind}: {reason}");
                    Err(reason)
                }
                Err(NotMounted::Failed(problem)) => return Err(problem),
            };
            self.mounted.insert(kind, mounted);
        }
        let mounted = &self.mounted[&kind];
        Ok(mounted
            .as_ref()
            .map(|mounted| mounted.directory().to_owned())
            .map_err(Clone::clone))
    }

    /// A loop device with random data.
    pub fn device(&mut self) -> Result<&Path> {
        if self.device.is_none() {
            self.device = Some(self.workshop.device()?);
        }
        self.device
            .as_ref()
            .map(Device::path)
            .ok_or_else(|| Problem::new("there is no device"))
    }

    /// Does a case: prepares, works, and compares the counters before the work and after it.
    pub fn measure<P, E>(
        &mut self,
        label: &Label,
        subject: &Subject,
        evictions: Evictions,
        mut prepare: impl FnMut() -> Result<P>,
        mut work: impl FnMut(P, &mut Tools) -> Result<E>,
    ) -> Result<Measured<E>> {
        let (major, minor, inode) = subject.id();
        for _ in 0..=REPEATS {
            let found = self.snapshot()?;
            let prepared = prepare()?;
            let taken = subject.taken()?;
            let before = self.snapshot()?;
            let meanwhile = before
                .file(major, minor, inode)
                .since(&found.file(major, minor, inode));
            let gone_again = meanwhile[Counter::EvictedReclaimPages];
            if gone_again > 0 && evictions != Evictions::Reclaim {
                self.report.note(format!(
                    "repeated, for {gone_again} pages were evicted while it was prepared: {}",
                    label.line()
                ));
                continue;
            }
            let resident_before = subject.residency()?.cached;
            let expected = work(prepared, &mut self.tools)?;
            let resident = subject.residency()?.cached;
            let after = self.snapshot()?;
            if subject.residency()?.cached != resident {
                self.report.note(format!(
                    "repeated, for pages came or went while it was looked at: {}",
                    label.line()
                ));
                continue;
            }
            let ledger = counted(&before, &after, subject.id());
            let reclaimed = ledger[Counter::EvictedReclaimPages];
            let evicted = reclaimed + ledger[Counter::EvictedOtherPages];
            let spoiled = match evictions {
                Evictions::Spoil => evicted,
                Evictions::Belong => reclaimed,
                Evictions::Reclaim => 0,
            };
            if spoiled > 0 {
                // That pages were evicted is the probe's word, which is what is tested. A page that is taken
                // and then written anew leaves no trace: the kernel counts no refault there, and direct I/O
                // clears the entry.
                let rewritten = ledger[Counter::WriteNewPages]
                    + ledger[Counter::DirectWriteBytes].div_ceil(page_size());
                let most = subject.taken_since(taken)?.saturating_add(rewritten);
                if most < spoiled {
                    return Err(Problem::new(format!(
                        "{spoiled} pages were counted as evicted, and reclaim took {most} at most"
                    )));
                }
                self.report.note(format!(
                    "repeated, for {spoiled} pages were evicted while it ran: {}",
                    label.line()
                ));
                continue;
            }
            // Of this file or of one that shares its slot, by whatever runs beside: what came in ahead is then unknown.
            let used = ledger.get(Counter::ReadaheadHitPages);
            if matches!(
                used,
                cachewise_model::Measured::Estimated(_, Reason::EvictedMeanwhile)
            ) && evictions == Evictions::Spoil
            {
                self.report.note(format!(
                    "repeated, for pages left the cache before a short read was known: {}",
                    label.line()
                ));
                continue;
            }
            // With an eviction that was not counted this would be negative; 0 makes the case fail.
            let inserted = (resident + evicted).saturating_sub(resident_before);
            let gone = resident_before.saturating_sub(resident);
            let snapshots = (before, after);
            return Ok(Measured {
                expected,
                ledger,
                inserted,
                gone,
                snapshots,
            });
        }
        Err(Problem::new(format!(
            "pages were evicted during each of {} attempts",
            REPEATS + 1
        )))
    }

    /// Counts up to now; lost events are an error.
    pub fn snapshot(&mut self) -> Result<Snapshot> {
        let snapshot = self.probe.snapshot().context("read the probe")?;
        if snapshot.lost.is_nothing() {
            Ok(snapshot)
        } else {
            Err(Problem::new(format!(
                "the probe lost something: {:?}",
                snapshot.lost
            )))
        }
    }

    /// The back-end that counts reads.
    pub fn back_end(&self) -> BackEnd {
        self.probe.back_end()
    }

    /// Buffer and pipe.
    pub fn tools(&mut self) -> &mut Tools {
        &mut self.tools
    }
}

/// Resources of a trial: the stand, a directory of its own, and the list of failures.
pub struct Room<'s> {
    /// The test stand.
    pub stand: &'s mut Stand,
    /// The file system that the trial is about; for the bare device, where no file is made.
    pub kind: FileSystem,
    directory: PathBuf,
    failures: Vec<String>,
}

impl Room<'_> {
    /// A path in the file system, for a file that is gone when the trial ends.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// A file of random data, clean and on the disk.
    pub fn file(&self, name: &str, bytes: u64) -> Result<Subject> {
        Subject::create(self.path(name), bytes)
    }

    /// Reading by a call. copy_file_range is made to copy where it could share blocks.
    pub fn way(&self, call: Call, folios: Folios) -> Way {
        let sink_offset = u64::from(self.kind.has_reflinks());
        Way {
            call,
            folios,
            sink: self.path("sink"),
            sink_offset,
        }
    }

    /// Takes a comparison into the table, and among the failures if it is one.
    pub fn judge(&mut self, label: Label, comparison: Comparison) {
        let wrong = comparison.wrong();
        if !wrong.is_empty() {
            self.failures
                .push(format!("{}: {}", label.line(), wrong.join("; ")));
        }
        self.stand.report.add(label, comparison);
    }

    /// Counts a case that could not be done among the failures, and goes on.
    pub fn failed(&mut self, label: &Label, problem: &Problem) {
        self.failures.push(format!("{}: {problem}", label.line()));
    }

    /// Puts a remark under the table.
    pub fn note(&mut self, note: String) {
        self.stand.report.note(note);
    }
}

/// A trial about a file system, named `fs::name`.
pub fn trial(
    kind: FileSystem,
    name: &str,
    body: impl FnOnce(&mut Room) -> Result<()> + Send + 'static,
) -> Trial {
    let folder = name.to_owned();
    Trial::ignorable_test(format!("{kind}::{name}"), move || {
        with_stand(|stand| {
            let directory = match stand.directory(kind)? {
                Ok(directory) => directory.join(folder),
                Err(reason) => return Ok(Completion::ignored_with(reason)),
            };
            std::fs::create_dir(&directory).context("make a directory for the trial")?;
            let result = enter(stand, kind, directory.clone(), body);
            std::fs::remove_dir_all(&directory).context("remove the trial's directory")?;
            result
        })
    })
}

/// A trial about a bare loop device, named `device::name`.
pub fn device_trial(
    name: &str,
    body: impl FnOnce(&mut Room) -> Result<()> + Send + 'static,
) -> Trial {
    Trial::ignorable_test(format!("device::{name}"), move || {
        with_stand(|stand| enter(stand, FileSystem::Ext4, PathBuf::new(), body))
    })
}

fn enter(
    stand: &mut Stand,
    kind: FileSystem,
    directory: PathBuf,
    body: impl FnOnce(&mut Room) -> Result<()>,
) -> Result<Completion> {
    let mut room = Room {
        stand,
        kind,
        directory,
        failures: Vec::new(),
    };
    let done = body(&mut room);
    let mut failures = room.failures;
    if let Err(problem) = done {
        failures.push(problem.to_string());
    }
    if failures.is_empty() {
        return Ok(Completion::Completed);
    }
    let more = failures.len().saturating_sub(FAILURES_SHOWN);
    failures.truncate(FAILURES_SHOWN);
    if more > 0 {
        failures.push(format!("... and {more} more"));
    }
    Err(Problem::new(failures.join("\n")))
}

fn with_stand(body: impl FnOnce(&mut Stand) -> Result<Completion>) -> Result<Completion, Failed> {
    STAND.with_borrow_mut(|slot| {
        if slot.is_none() {
            *slot = Some(Stand::set_up()?);
        }
        match slot {
            Some(stand) => Ok(body(stand)?),
            None => Err(Failed::from("there is no test stand")),
        }
    })
}

/// Takes the stand down, and gives what it has reported.
pub fn take_down() -> Option<Report> {
    let stand = STAND.take()?;
    Some(stand.report)
}
