//! Where programs run: one probe on this process, a file system of each kind, and a memory group.

use std::collections::HashMap;
use std::path::PathBuf;

use cachewise_probe::{Detail, Options, Probe, Scope, Snapshot};

use crate::account::Disk;
use crate::group::Group;
use crate::image::{FileSystem, Mounted, NotMounted, Workshop};
use crate::problem::{Context, Problem, Result};
use crate::program::Program;

/// Rows of the probe's table above which a new probe is attached. A snapshot has all rows since the start.
const MOST_ROWS: usize = 4096;

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

    /// Attaches the probe, or another one if its table has many rows.
    pub fn renew(&mut self) -> Result<()> {
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

    /// A directory for a program, which is not there yet.
    pub fn next_directory(&mut self, program: &Program) -> Result<PathBuf> {
        self.made += 1;
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
