//! `lock --follow`: the programs and libraries of running processes, for as long as they run.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::Write;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use cachewise_kstat::{Device, ErrorKind, Kernel};
use cachewise_residency::{
    Counts, Error, Inode, Lock as Locked, LockOptions, Patterns, Pick, Watch, lock as pin, open,
    query, would_warm,
};
use cachewise_sys::page_size;
use cachewise_units::{ByteRange, Bytes, Pages, escaped};

use super::arguments::Lock;
use super::dump::Dump;
use super::room::{self, MemoryNeed};
use crate::acting::listed::plan;
use crate::commands::files::{ListedFile, Show, is_not_opened};
use crate::interrupt::Interrupt;
use crate::machine;
use cachewise_cli::output::{self, tell};
use cachewise_units::counted;

/// Device and inode number of a file.
type Identity = ((u32, u32), u64);

/// Locked and omitted files.
struct Guard<'a> {
    arguments: &'a Lock,
    patterns: Patterns,
    interrupt: &'a Interrupt,
    held: HashMap<Identity, Held>,
    scan: Scan,
}

/// A file that is, or would be, locked.
struct Held {
    path: PathBuf,
    counts: Counts,
    /// Bytes that count for `--max-total`, resident or not.
    size: Bytes,
    /// `None` in a dry run.
    lock: Option<Locked>,
}

/// Result of a scan of all processes.
#[derive(Default)]
struct Scan {
    in_use: HashSet<Identity>,
    /// Number of processes that may not be examined, and the first of them.
    hidden: u64,
    hidden_one: Option<u32>,
    /// Files that could not be locked, and why the first could not.
    refused: u64,
    why: Option<String>,
    /// Files that were omitted, for their size or for the total.
    too_large: u64,
    no_room: u64,
}

/// Locks, and looks again after each period, until it is ended.
pub fn follow(arguments: &Lock) -> Result<ExitCode> {
    let target = &arguments.target;
    let output = &target.output;
    let is_table = !output.output.is_empty() || output.json;
    if !target.dry_run && (is_table || target.columns.is_some() || target.top.is_some()) {
        bail!("--follow prints a line when something changes: -o, --columns and -n need --dry-run");
    }
    let interrupt = Interrupt::catch()?;
    let patterns = target.select.patterns()?.unwrap_or_default();
    let mut guard = Guard {
        arguments,
        patterns,
        interrupt: &interrupt,
        held: HashMap::new(),
        scan: Scan::default(),
    };
    let kernel = Kernel::new();
    if target.dry_run {
        guard.look(&kernel)?;
        return guard.would();
    }
    let mut dump = None;
    if let Some(path) = &arguments.dump {
        let (opened, paths) = Dump::open(path)?;
        for path in &paths {
            // Refusals of these are kept: the first look adds to them.
            if guard.patterns.takes(path) {
                guard.add(path, path, Pick::All);
            }
        }
        dump = Some(opened);
    }
    let (mut told, mut is_told) = (None, false);
    // Programs in the dump may not run yet: they are unlocked after the first period.
    let mut is_first = arguments.dump.is_some();
    loop {
        if !is_first {
            guard.scan = Scan::default();
        }
        guard.look(&kernel)?;
        if !std::mem::take(&mut is_first) {
            guard.let_go();
        }
        let line = guard.line();
        if told.as_ref() != Some(&line) {
            // Errors are ignored: the locks matter, not the line.
            let _ = writeln!(std::io::stdout(), "{line}");
            told = Some(line);
        }
        // Once, until all is well again: the numbers change with each process.
        let refused = guard.refused();
        if let (Some(refused), false) = (&refused, is_told) {
            tell(refused);
        }
        is_told = refused.is_some();
        if let Some(dump) = &mut dump {
            let kept = dump.keep(guard.held.values().map(|held| held.path.as_path()));
            match kept {
                // Later the locks are worth more than the dump.
                Err(error) if dump.is_kept() => {
                    tell(&output::explain(&error));
                }
                kept => kept?,
            }
        }
        if interrupt.wait_for(arguments.period.get())? {
            return Ok(ExitCode::SUCCESS);
        }
    }
}

impl Guard<'_> {
    /// Locks what processes have mapped to be executed.
    fn look(&mut self, kernel: &Kernel) -> Result<()> {
        let own = std::process::id();
        let mut seen: HashSet<(Device, u64)> = HashSet::new();
        for entry in fs::read_dir("/proc").context("cannot list processes in /proc")? {
            if self.is_interrupted() {
                break;
            }
            let name = entry.map(|entry| entry.file_name()).unwrap_or_default();
            let Some(pid) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else {
                continue;
            };
            if pid == own {
                continue;
            }
            let files = match kernel.process_files(pid) {
                Ok(files) => files.files,
                // Processes end meanwhile.
                Err(error) => {
                    if error.kind() == ErrorKind::Denied {
                        self.scan.hidden += 1;
                        self.scan.hidden_one.get_or_insert(pid);
                    }
                    continue;
                }
            };
            for file in files.iter().filter(|file| file.executable && !file.deleted) {
                let is_new = file.identity.is_none_or(|identity| seen.insert(identity));
                if is_new && self.patterns.takes(&file.path) {
                    self.add(&file.path, &file.link, Pick::Resident);
                }
            }
        }
        Ok(())
    }

    /// Locks pages of a file, or those that have become resident since.
    fn add(&mut self, path: &Path, link: &Path, pick: Pick) {
        if self.is_interrupted() {
            return;
        }
        // A file that is gone is none that could be kept.
        // A file of FUSE would lose its pages at each period.
        let file = match open(link) {
            Ok(file) => file,
            Err(error) if is_not_opened(&error) => {
                self.scan.refused += 1;
                let error = error.with_path(path);
                self.scan.why.get_or_insert_with(|| error.to_string());
                return;
            }
            Err(_) => return,
        };
        let Ok(inode) = Inode::of_fd(file.as_fd()) else {
            return;
        };
        let identity = (inode.device, inode.number);
        if inode.size == Bytes::ZERO || !self.scan.in_use.insert(identity) {
            return;
        }
        let limits = self.arguments;
        if inode.size > limits.max_file {
            self.scan.too_large += 1;
            return;
        }
        if let Some(held) = self.held.get_mut(&identity) {
            if let Some(lock) = &held.lock {
                // If additional pages cannot be locked, the earlier ones stay locked.
                held.counts.cached = lock.extend(&file).unwrap_or(held.counts.cached);
            }
            return;
        }
        let all: Bytes = self.held.values().map(|held| held.size).sum();
        if all + inode.size > limits.max_total {
            self.scan.no_room += 1;
            return;
        }
        let held = match limits.target.dry_run {
            true => query(&file, ByteRange::starting_at(0)).map(|counts| (counts, None)),
            false => match self.no_room(&file, pick) {
                Ok(None) => self.pin(&file, pick),
                Ok(Some(why)) => {
                    self.scan.refused += 1;
                    let why = format!("{}: {why}", escaped(path));
                    self.scan.why.get_or_insert(why);
                    return;
                }
                Err(error) => Err(error),
            },
        };
        match held {
            Ok((counts, lock)) => {
                let held = Held {
                    path: path.to_owned(),
                    counts,
                    size: inode.size,
                    lock,
                };
                self.held.insert(identity, held);
            }
            Err(error) => {
                self.scan.refused += 1;
                let error = error.with_path(path);
                self.scan.why.get_or_insert_with(|| error.to_string());
            }
        }
    }

    /// Why there is no memory for a file, if there is none.
    fn no_room(&self, file: &fs::File, pick: Pick) -> Result<Option<String>, Error> {
        if self.arguments.force {
            return Ok(None);
        }
        let missing = would_warm(file, &[ByteRange::starting_at(0)])?;
        // A group or a machine whose memory cannot be read limits nothing.
        let found = room::look(MemoryNeed::to_lock(&missing, pick)).unwrap_or(None);
        Ok(found.map(|no_room| no_room.to_string()))
    }

    fn pin(&self, file: &fs::File, pick: Pick) -> Result<(Counts, Option<Locked>), Error> {
        let options = LockOptions {
            pick,
            watch: Watch {
                cancel: Some(self.interrupt.flag()),
                ..Watch::default()
            },
        };
        let lock = pin(file, ByteRange::starting_at(0), &options)?;
        let counts = Counts {
            total: lock.pages(),
            cached: lock.locked()?,
            states: None,
        };
        Ok((counts, Some(lock)))
    }

    fn is_interrupted(&self) -> bool {
        self.interrupt.status().is_some()
    }

    /// Lets go what no process has any more.
    fn let_go(&mut self) {
        if !self.is_interrupted() {
            let in_use = &self.scan.in_use;
            self.held.retain(|identity, _| in_use.contains(identity));
        }
    }

    /// The locked pages, in one line.
    fn line(&self) -> String {
        let pages: Pages = self.held.values().map(|held| held.counts.cached).sum();
        let verb = match self.arguments.target.dry_run {
            true => "would be",
            false => "are",
        };
        let mut line = format!(
            "{} of {} {verb} locked, {}",
            counted(pages.0, "page"),
            counted(self.held.len() as u64, "file"),
            pages.bytes(page_size())
        );
        for (files, option) in [
            (self.scan.too_large, "--max-file"),
            (self.scan.no_room, "--max-total"),
        ] {
            if files > 0 {
                line += &format!("; {} omitted by {option}", counted(files, "file"));
            }
        }
        line
    }

    /// A message about files that could not be locked, or processes that could not be read.
    fn refused(&self) -> Option<String> {
        let Scan {
            hidden,
            hidden_one,
            refused,
            why,
            ..
        } = &self.scan;
        if let Some(why) = why {
            let files = counted(*refused, "file");
            return Some(format!("{files} could not be locked; the first: {why}"));
        }
        let hidden_one = (*hidden_one)?;
        let one = machine::named(hidden_one);
        let left_out = match hidden {
            1 => format!("process {one} is omitted"),
            _ => format!("{hidden} processes are omitted, for example {one}"),
        };
        let who = machine::who_may_look(hidden_one);
        Some(format!("note: {left_out}: {who}"))
    }

    /// Shows what would be locked.
    fn would(self) -> Result<ExitCode> {
        let target = &self.arguments.target;
        let line = self.line();
        let (refused, is_failed) = (self.refused(), self.scan.refused > 0);
        let mut plan = plan(target.fields(), target.top);
        plan.columns_are_chosen = target.columns.is_some();
        let mut show = Show::open(&target.output, plan)?;
        let mut listing = show.begin()?;
        for (_, held) in self.held {
            let note = format!("{} would be locked", counted(held.counts.cached.0, "page"));
            listing.changed(
                ListedFile {
                    before: Some(Ok(held.counts.cached.0)),
                    note: Some(note),
                    ..ListedFile::new(held.path, held.size.0, Ok(held.counts))
                },
                u64::max,
            )?;
        }
        listing.finish()?;
        show.line(&format!("{line}; nothing was locked"))?;
        show.keep()?;
        if let Some(refused) = refused {
            tell(&refused);
        }
        Ok(output::status(is_failed))
    }
}
