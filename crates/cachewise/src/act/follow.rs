//! `lock --follow`: the programs and libraries of running processes, for as long as they run.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::{RecvTimeoutError, channel};

use anyhow::{Context, Result, bail};
use cachewise_kstat::{Hold, Kernel};
use cachewise_residency::{
    Error, Inode, Lock as Locked, LockOptions, Patterns, Pick, lock as pin, open,
};
use cachewise_units::{ByteRange, Bytes, Pages};

use crate::cli::Lock;
use crate::output::tell;
use crate::signals::{self, Caught};

/// Who a file is.
type Identity = ((u32, u32), u64);

/// What is locked, by file.
struct Held {
    locks: HashMap<Identity, (PathBuf, Locked)>,
    /// The limit stood in the way: said once.
    is_limited: bool,
}

/// Locks, and looks again after each period, until it is ended.
pub fn follow(arguments: &Lock) -> Result<ExitCode> {
    let kernel = Kernel::new();
    let (sender, interrupts) = channel::<Caught>();
    signals::catch_ending(sender)?;
    let select = &arguments.target.select;
    let mut patterns = Patterns::default();
    for pattern in &select.include {
        patterns.include(pattern)?;
    }
    for pattern in &select.exclude {
        patterns.exclude(pattern)?;
    }
    let mut held = Held {
        locks: HashMap::new(),
        is_limited: false,
    };
    if let Some(dump) = &arguments.dump {
        for path in dumped(dump)? {
            held.add(&path, Pick::All, arguments, &mut HashSet::new(), &path);
        }
    }
    let mut told = Pages::ZERO;
    // What the dump names may not run yet: it is let go after the first period.
    let mut is_first = arguments.dump.is_some();
    loop {
        let in_use = scan(&kernel, arguments, &patterns, &mut held)?;
        if !std::mem::take(&mut is_first) {
            held.locks.retain(|identity, _| in_use.contains(identity));
        }
        let pages = held.pages();
        if pages != told {
            told = pages;
            println(&format!(
                "{} pages of {} files are locked, {}",
                pages,
                held.locks.len(),
                pages.bytes(cachewise_sys::page_size())
            ));
            if let Some(dump) = &arguments.dump {
                write_dump(dump, &held)?;
            }
        }
        match interrupts.recv_timeout(arguments.period.get()) {
            Ok(_) => return Ok(ExitCode::SUCCESS),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => bail!("the thread for signals ended"),
        }
    }
}

/// Locks what processes have mapped executable or as a library, and returns all that they have.
fn scan(
    kernel: &Kernel,
    arguments: &Lock,
    patterns: &Patterns,
    held: &mut Held,
) -> Result<HashSet<Identity>> {
    let mut in_use = HashSet::new();
    let own = std::process::id();
    for entry in fs::read_dir("/proc").context("cannot list processes in /proc")? {
        let Ok(entry) = entry else { continue };
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        // Processes end meanwhile, and those of others are closed to whoever is not root.
        let Ok(files) = kernel.process_files(pid) else {
            continue;
        };
        if pid == own {
            continue;
        }
        for file in files.files.iter().filter(|file| file.hold == Hold::Mapping) {
            if !file.deleted && patterns.takes(&file.path) {
                held.add(
                    &file.path,
                    Pick::Resident,
                    arguments,
                    &mut in_use,
                    &file.link,
                );
            }
        }
    }
    Ok(in_use)
}

impl Held {
    /// Locks pages of a file, or those that have become resident since.
    fn add(
        &mut self,
        path: &Path,
        pick: Pick,
        arguments: &Lock,
        in_use: &mut HashSet<Identity>,
        link: &Path,
    ) {
        // A file that cannot be opened or locked is none that could be kept.
        let Ok(file) = open(link) else { return };
        let Ok(inode) = Inode::of(file.as_fd()) else {
            return;
        };
        let identity = (inode.device, inode.number);
        if !in_use.insert(identity) || inode.size > arguments.max_file {
            return;
        }
        if let Some((_, lock)) = self.locks.get(&identity) {
            // What fails to be locked in addition stays as it is.
            let _ = lock.extend(&file);
            return;
        }
        let room = Bytes(
            arguments
                .max_total
                .0
                .saturating_sub(self.pages().bytes(cachewise_sys::page_size()).0),
        );
        if inode.size > room {
            return;
        }
        let options = LockOptions {
            pick,
            ..LockOptions::default()
        };
        match pin(&file, ByteRange::starting_at(0), &options) {
            Ok(lock) => {
                self.locks.insert(identity, (path.to_owned(), lock));
            }
            Err(error @ Error::Memlock(_)) if !self.is_limited => {
                self.is_limited = true;
                tell(&error.to_string());
            }
            Err(_) => {}
        }
    }

    fn pages(&self) -> Pages {
        self.locks.values().map(|(_, lock)| lock.pages()).sum()
    }
}

/// The paths of a dump; none where there is none so far.
fn dumped(dump: &Path) -> Result<Vec<PathBuf>> {
    match fs::read(dump) {
        Ok(bytes) => Ok(bytes
            .split(|&byte| byte == 0)
            .filter(|path| !path.is_empty())
            .map(|path| PathBuf::from(OsStr::from_bytes(path)))
            .collect()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => {
            Err(error).with_context(|| format!("cannot read the dump {}", dump.display()))
        }
    }
}

/// Paths end in a zero byte: they may hold anything else.
fn write_dump(dump: &Path, held: &Held) -> Result<()> {
    let mut paths: Vec<&Path> = held
        .locks
        .values()
        .map(|(path, _)| path.as_path())
        .collect();
    paths.sort_unstable();
    let mut bytes = Vec::new();
    for path in paths {
        bytes.extend_from_slice(path.as_os_str().as_bytes());
        bytes.push(0);
    }
    let beside = dump.with_extension("new");
    fs::write(&beside, bytes)
        .and_then(|()| fs::rename(&beside, dump))
        .with_context(|| format!("cannot write the dump {}", dump.display()))
}

fn println(text: &str) {
    // Whoever does not read it does not need it: the locks are the work.
    let _ = writeln!(std::io::stdout(), "{text}");
}
