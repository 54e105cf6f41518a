//! `lock`: keeps files in memory for as long as it runs.

pub mod arguments;
mod dump;
mod follow;
mod room;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, bail};
use cachewise_residency::{
    Counts, Error, Inode, Lock as Locked, LockOptions, MemlockLimit, Pick, Watch, lock as pin,
    may_lock, would_warm,
};
use cachewise_sys::page_size;
use cachewise_units::{ByteRange, Pages, escaped};

use crate::acting::listed::{Job, each_listed, open};
use crate::acting::pool::{self, Purpose, each_file};
use crate::acting::{moving, status};
use crate::commands::files::{ListedFile, unknown_reason};
use crate::interrupt::Interrupt;
use crate::progress::Meter;
use arguments::Lock;
use cachewise_cli::output::{self, FAILED, tell};
use cachewise_units::counted;
use room::MemoryNeed;

/// Result for one file.
struct Done {
    found: ListedFile,
    /// Pages that are, or would be, locked.
    pages: Pages,
    /// The same, by what is resident.
    wanted: MemoryNeed,
    lock: Option<Locked>,
    refused: Option<MemlockLimit>,
}

/// Files beyond the limit of locked memory: the necessary limit is reported once for all of them, at the end.
#[derive(Default)]
struct Refused {
    files: u64,
    pages: Pages,
    first: Option<(PathBuf, MemlockLimit)>,
}

impl Refused {
    fn add(&mut self, path: &Path, limit: MemlockLimit) {
        self.files += 1;
        self.pages += limit.wanted.pages_ceil(page_size());
        self.first.get_or_insert_with(|| (path.to_owned(), limit));
    }

    /// The message with the limit that would allow all of them.
    fn told(self) -> Option<String> {
        let (path, first) = self.first?;
        let limit = match may_lock(self.pages) {
            // With what is locked by now.
            Err(Error::Memlock(limit)) => limit,
            _ => MemlockLimit {
                wanted: self.pages.bytes(page_size()),
                ..first
            },
        };
        Some(match self.files {
            1 => format!("{} could not be locked: {limit}", escaped(&path)),
            files => format!(
                "{files} files could not be locked, the first is {}: {limit}",
                escaped(&path)
            ),
        })
    }
}

/// Locks them, shows what is locked, and waits to be ended.
pub fn lock(mut arguments: Lock) -> Result<ExitCode> {
    arguments.list.add_to(&mut arguments.paths)?;
    let arguments = &arguments;
    if arguments.follow {
        return follow::follow(arguments);
    }
    let target = &arguments.target;
    let mut show = open(target, &arguments.paths)?;
    let interrupt = Interrupt::catch()?;
    let pick = match arguments.resident {
        true => Pick::Resident,
        false => Pick::All,
    };
    if !target.dry_run && !arguments.force {
        let wanted = planned(arguments, pick, &interrupt)?;
        if let Some(no_room) = room::look(wanted)? {
            bail!("{no_room}");
        }
    }
    let meter = Meter::new();
    let progress = moving(&meter);
    let options = LockOptions {
        pick,
        watch: Watch {
            cancel: Some(interrupt.flag()),
            progress: Some(&progress),
        },
    };
    let mut locks: Vec<Locked> = Vec::new();
    let (mut pages, mut wanted) = (Pages::ZERO, MemoryNeed::default());
    let mut refused = Refused::default();
    let job = Job {
        verb: "lock",
        target,
        paths: &arguments.paths,
        rank: u64::max,
        interrupt: &interrupt,
        meter: &meter,
    };
    let answer = each_listed(
        &job,
        &mut show,
        |path, file, inode| match target.dry_run {
            true => would(path, file, inode, target.range(), pick),
            false => one(path, file, inode, target.range(), &options),
        },
        |done| {
            pages += done.pages;
            wanted.add(done.wanted);
            if let Some(limit) = done.refused {
                refused.add(&done.found.path, limit);
            }
            locks.extend(done.lock);
            done.found
        },
    )?;
    let Some(answer) = answer else {
        return Ok(ExitCode::from(FAILED));
    };
    let is_failed = answer.failed > 0 || refused.files > 0;
    let is_unknown = answer.unknown > 0;
    let locked = counted(pages.0, "page");
    if target.dry_run {
        show.line(&format!("{locked} would be locked; nothing was locked"))?;
        show.keep()?;
        let allowed = may_lock(pages);
        if let Err(error) = &allowed {
            tell(&error.to_string());
        }
        let no_room = match arguments.force {
            true => None,
            false => room::look(wanted)?,
        };
        if let Some(no_room) = &no_room {
            tell(&no_room.to_string());
        }
        let is_failed = is_failed || is_unknown || allowed.is_err() || no_room.is_some();
        return Ok(status(&interrupt, is_failed));
    }
    let verb = if pages == Pages(1) { "is" } else { "are" };
    // A reader of the line may end this process at once, and that is the usual end, not an interruption.
    let interrupted = interrupt.status();
    show.line(&format!("{locked} {verb} locked"))?;
    // It is waited for the end now.
    show.keep()?;
    if let Some(refused) = refused.told() {
        tell(&refused);
    }
    if let Some(status) = interrupted {
        tell("interrupted: all pages were unlocked");
        return Ok(status);
    }
    if pages == Pages::ZERO {
        match arguments.resident {
            _ if is_failed => {}
            true => tell(
                "there is nothing to lock: no page is resident; without --resident they are read first",
            ),
            false => tell("there is nothing to lock"),
        }
        return Ok(ExitCode::from(FAILED));
    }
    tell("pages stay locked until this process ends; Ctrl-C unlocks them");
    interrupt.wait()?;
    drop(locks);
    Ok(output::status(is_failed))
}

/// Sums up all files before any of them is locked. A file that cannot be opened is reported by the lock itself.
fn planned(arguments: &Lock, pick: Pick, interrupt: &Interrupt) -> Result<MemoryNeed> {
    let target = &arguments.target;
    let mut wanted = MemoryNeed::default();
    let look = |_: &Path, file: &File| {
        let missing = would_warm(file, &[target.range()])?;
        Ok(pool::Done::File(MemoryNeed::to_lock(&missing, pick)))
    };
    let (paths, select) = (&arguments.paths, &target.select);
    each_file(
        paths,
        select,
        Purpose::Examine,
        interrupt.flag(),
        look,
        |done| {
            wanted.add(match done {
                pool::Done::File(wanted) => wanted,
                pool::Done::NotOpened(_, inode) => MemoryNeed {
                    absent: inode.size,
                    ..MemoryNeed::default()
                },
                _ => MemoryNeed::default(),
            });
            Ok(())
        },
    )?;
    Ok(wanted)
}

fn one(
    path: &Path,
    file: &File,
    inode: &Inode,
    range: ByteRange,
    options: &LockOptions<'_>,
) -> Result<Done, Error> {
    let lock = match pin(file, range, options) {
        Ok(lock) => lock,
        Err(Error::Memlock(limit)) => return refused(path, file, inode, range, limit),
        Err(error) => return Err(error),
    };
    let locked = lock.locked()?;
    let counts = Counts {
        total: lock.pages(),
        cached: locked,
        states: None,
    };
    Ok(Done {
        found: ListedFile {
            before: Some(lock.before().map(|pages| pages.0).map_err(unknown_reason)),
            note: Some(format!("{} locked", counted(locked.0, "page"))),
            ..ListedFile::new(path.to_owned(), inode.size.0, Ok(counts))
        },
        pages: locked,
        wanted: MemoryNeed::default(),
        lock: Some(lock),
        refused: None,
    })
}

/// A file that the limit has no room for: it is as it was.
fn refused(
    path: &Path,
    file: &File,
    inode: &Inode,
    range: ByteRange,
    limit: MemlockLimit,
) -> Result<Done, Error> {
    let missing = would_warm(file, &[range])?;
    let counts = missing.before.map_err(unknown_reason).map(|before| Counts {
        total: missing.pages,
        cached: before,
        states: None,
    });
    Ok(Done {
        found: ListedFile {
            before: Some(counts.map(|counts| counts.cached.0)),
            note: Some("not locked: RLIMIT_MEMLOCK is too small".to_owned()),
            ..ListedFile::new(path.to_owned(), inode.size.0, counts)
        },
        pages: Pages::ZERO,
        wanted: MemoryNeed::default(),
        lock: None,
        refused: Some(limit),
    })
}

/// The same without doing it.
fn would(
    path: &Path,
    file: &File,
    inode: &Inode,
    range: ByteRange,
    pick: Pick,
) -> Result<Done, Error> {
    let missing = would_warm(file, &[range])?;
    let wanted = MemoryNeed::to_lock(&missing, pick);
    let pages = match pick {
        Pick::All => missing.pages,
        Pick::Resident => missing.before?,
    };
    let counts = missing.before.map_err(unknown_reason).map(|before| Counts {
        total: missing.pages,
        cached: before,
        states: None,
    });
    Ok(Done {
        found: ListedFile {
            before: Some(counts.map(|counts| counts.cached.0)),
            note: Some(format!("{} would be locked", counted(pages.0, "page"))),
            ..ListedFile::new(path.to_owned(), inode.size.0, counts)
        },
        pages,
        wanted,
        lock: None,
        refused: None,
    })
}
