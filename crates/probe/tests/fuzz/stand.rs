//! Where programs run: one probe on this process, a file system of each kind, and a memory group.

use std::collections::HashMap;
use std::path::PathBuf;

use cachewise_model::{Counter, Ledger};
use cachewise_probe::{Detail, Options, Probe, Scope, Snapshot};

use crate::account::Disk;
use crate::bounds::{Difference, Tally};
use crate::expect::{CONTRADICTION, contradiction};
use crate::group::Group;
use crate::image::{FileSystem, Mounted, NotMounted, Workshop};
use crate::open::OPEN;
use crate::problem::{Context, Problem, Result};
use crate::program::{Kind, Program};
use crate::{alone, together};

/// How often a program is run again because the machine reclaimed pages of its files: then nothing tells what its
/// reads found. Only what the kernel itself reports as reclaimed is a reason.
const REPEATS: usize = 11;

/// How often in a row a program may lose events, which the probe itself reports: once more and it fails.
const LOSSES: usize = 4;

/// Rows of the probe's table above which a new probe is attached. A snapshot has all rows since the start.
const MOST_ROWS: usize = 4096;

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
    /// Rows that contradict themselves, which reports mark, in words.
    pub contradictions: Vec<String>,
    /// Pages of a program of several tasks that were reclaimed while it ran.
    pub reclaimed: u64,
    /// Comparisons made, and not made because the figure is marked.
    pub tally: Tally,
}

/// How a run of a program ended.
#[derive(Debug)]
pub enum Attempt {
    /// It was compared.
    Done(Box<Verdict>),
    /// The machine reclaimed pages of its files.
    Reclaimed,
    /// The probe says that it lost events.
    Lost,
    /// The kernel killed one of its processes because its memory group was full.
    Killed,
}

/// See the module. Fields are dropped in this order: mounts before the directory that they are in.
pub struct Stand {
    probe: Option<Probe>,
    rows: usize,
    mounted: HashMap<FileSystem, (Mounted, Option<Disk>)>,
    group: Option<Group>,
    workshop: Workshop,
    made: u64,
}

impl Stand {
    /// Makes it, without a file system.
    pub fn set_up() -> Result<Self> {
        let group = match Group::new()? {
            Ok(group) => Some(group),
            Err(reason) => {
                println!("\nskipped: fuzz within a memory group: {reason}");
                None
            }
        };
        Ok(Stand {
            probe: None,
            rows: 0,
            mounted: HashMap::new(),
            group,
            workshop: Workshop::open("fuzz")?,
            made: 0,
        })
    }

    /// Whether programs can run in a memory group.
    pub fn has_group(&self) -> bool {
        self.group.is_some()
    }

    /// Sets the limit of the memory group; gives its directory and its number.
    pub fn group(&self, limit: u64) -> Result<(PathBuf, u32)> {
        let group = self.group.as_ref();
        let group = group.ok_or_else(|| Problem::new("there is no memory group here"))?;
        group.limit(limit)?;
        Ok((group.path().clone(), group.id()?))
    }

    /// Mounts a file system; what this machine lacks is a reason to leave it out.
    pub fn mount(&mut self, kind: FileSystem) -> Result<Option<String>> {
        match self.workshop.mount(kind) {
            Ok(mounted) => {
                let disk = Disk::below(mounted.directory())?;
                if disk.is_none() {
                    println!(
                        "\nskipped: fuzz: bytes read from the device of {kind}: no account of it"
                    );
                }
                self.mounted.insert(kind, (mounted, disk));
                Ok(None)
            }
            Err(NotMounted::Missing(reason)) => Ok(Some(reason)),
            Err(NotMounted::Failed(problem)) => Err(problem),
        }
    }

    /// Runs a program and compares.
    pub fn run(&mut self, program: &Program) -> Result<Verdict> {
        let mut losses = 0;
        for repeats in 0..=REPEATS {
            self.renew()?;
            self.made += 1;
            let directory = self.directory(program)?;
            std::fs::create_dir(&directory).context("make a directory for the program")?;
            let ran = match program.kind {
                Kind::Alone => alone::attempt(self, program, &directory),
                _ => together::attempt(self, program, &directory),
            };
            std::fs::remove_dir_all(&directory).context("remove the program's directory")?;
            match ran? {
                Attempt::Done(verdict) => {
                    return Ok(Verdict {
                        repeats,
                        ..*verdict
                    });
                }
                Attempt::Reclaimed | Attempt::Killed => losses = 0,
                Attempt::Lost => {
                    losses += 1;
                    if losses > LOSSES {
                        let mut verdict = Verdict::default();
                        verdict.find(
                            "program",
                            "losses in a row",
                            (0, LOSSES as u64),
                            losses as u64,
                        );
                        return Ok(Verdict { repeats, ..verdict });
                    }
                }
            }
        }
        Err(Problem::new(format!(
            "the machine was in the way during each of {} attempts",
            REPEATS + 1
        )))
    }

    /// Attaches the probe, or another one if its table has many rows.
    fn renew(&mut self) -> Result<()> {
        if self.probe.is_some() && self.rows <= MOST_ROWS {
            return Ok(());
        }
        self.probe = None;
        let mut options = Options::new(Scope::Process(std::process::id()), Detail::Rows);
        options.cgroup_v1 = self.group.as_ref().is_some_and(Group::is_v1);
        self.probe = Some(Probe::attach(&options).context("attach the probe")?);
        self.rows = 0;
        Ok(())
    }

    /// Which file system a program runs on, and the device below it.
    pub fn place(&self, program: &Program) -> Result<(FileSystem, Option<Disk>)> {
        let (kind, (_, disk)) = self.found(program)?;
        Ok((*kind, disk.clone()))
    }

    fn found(&self, program: &Program) -> Result<(&FileSystem, &(Mounted, Option<Disk>))> {
        let mut mounted = self.mounted.iter();
        let found = mounted.find(|(kind, _)| kind.name() == program.place);
        found.ok_or_else(|| {
            Problem::new(format!("there is no file system called {}", program.place))
        })
    }

    fn directory(&self, program: &Program) -> Result<PathBuf> {
        let (_, (mounted, _)) = self.found(program)?;
        Ok(mounted.directory().join(format!("program-{}", self.made)))
    }

    /// All that is counted up to now.
    pub fn snapshot(&mut self) -> Result<Snapshot> {
        let probe = self.probe.as_mut();
        let probe = probe.ok_or_else(|| Problem::new("there is no probe"))?;
        let snapshot = probe.snapshot().context("read the probe")?;
        self.rows = snapshot.rows.len();
        Ok(snapshot)
    }
}

/// The counters of a row that are not 0, and the marks on them.
pub fn in_words(of: &str, ledger: &Ledger) -> String {
    let counters = Counter::ALL.iter().filter(|counter| ledger[**counter] != 0);
    let words = counters.map(|counter| {
        let mark = match ledger.get(*counter).exact() {
            Some(_) => "",
            None => "~",
        };
        format!("{} {mark}{}", counter.id(), ledger[*counter])
    });
    format!("{of}: {}", words.collect::<Vec<_>>().join(", "))
}

impl Verdict {
    /// Notes a figure that is not within its bounds.
    pub fn find(&mut self, of: &str, what: &'static str, expected: (u64, u64), counted: u64) {
        self.tally.count(what, false);
        self.differences
            .extend(Difference::find(of, what, expected, counted));
    }

    /// Notes whether a row of racing tasks contradicts itself. That is wrong unless it is `documented`:
    /// reports mark the row. Readahead hits can always be more than hits: two CPUs change the same pages' bookkeeping
    /// at the same moment.
    pub fn note_contradiction(&mut self, of: &str, ledger: &Ledger, documented: bool) {
        let found = contradiction(of, ledger);
        let hits = ledger[Counter::ReadHitPages];
        let is_ahead = ledger[Counter::ReadaheadHitPages] > hits
            && hits + ledger[Counter::ReadMissedPages] + ledger[Counter::ReadUnservedPages]
                == ledger[Counter::ReadRequestedPages];
        let is_marked = found.is_some() && (documented || is_ahead);
        self.tally.count(CONTRADICTION, is_marked);
        match found {
            Some(_) if is_marked => self.contradictions.push(in_words(of, ledger)),
            found => self.differences.extend(found),
        }
    }
}
