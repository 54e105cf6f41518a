//! Files of paths and trees, worked on by several threads: what is done takes longer than finding them.

use cachewise_model::Reason;
use std::fs::File;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result};
use cachewise_residency::{Counts, Error, Inode, Unknown, WalkItem, open, open_to_act};
use cachewise_sys::{ErrorKind, start_thread_in};

use crate::commands::files::{NotOpened, is_not_opened, plan};
use crate::options::Select;

/// How many files wait between the threads.
const WAITING: usize = 256;

/// Purpose of opening files. It decides whether a FUSE file is opened at all.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Reading residency: opening a FUSE file could drop its pages.
    Examine,
    /// Its pages are prefetched, evicted or locked.
    Act,
}

impl Purpose {
    /// The purpose of a command; a dry run only looks.
    pub fn of(dry_run: bool) -> Purpose {
        match dry_run {
            true => Purpose::Examine,
            false => Purpose::Act,
        }
    }
}

/// Result of work on a path.
pub enum Done<T> {
    /// It was worked on.
    File(T),
    /// A file of FUSE, which was not opened.
    NotOpened(PathBuf, Inode),
    /// A file of FUSE that was worked on, and what was resident before it was opened for that.
    Opened(T, Result<Counts, Reason>),
    /// It could not be, for this reason.
    Failed(String),
    /// It was gone when its turn came.
    Vanished,
    /// It ends before the part that is meant.
    Beyond,
    /// It is nothing that could have pages.
    Nothing,
}

/// Works on all files, several at a time, and hands over what came of them, in no particular order.
pub fn each_file<T: Send>(
    paths: &[PathBuf],
    select: &Select,
    purpose: Purpose,
    cancel: &AtomicBool,
    work: impl Fn(&Path, &File) -> Result<Done<T>, Error> + Sync,
    mut take: impl FnMut(Done<T>) -> Result<()>,
) -> Result<()> {
    let walk = plan(select, paths)?;
    let not_opened = &NotOpened::default();
    let failed = |error: &Error| {
        let is_named = error
            .path()
            .is_some_and(|path| paths.iter().any(|named| named == path));
        // Files without pages are errors only if the user named them: /proc and /sys are full of them.
        let is_nothing = matches!(
            error.unknown(),
            Some(Unknown::MadeUp | Unknown::NotAFile(_) | Unknown::Dax)
        );
        match error.kind() {
            _ if is_nothing && !is_named => Done::Nothing,
            ErrorKind::NotFound if !is_named => Done::Vanished,
            _ => Done::Failed(error.to_string()),
        }
    };
    let threads = threads(select.threads).get();
    let (found, waiting) = sync_channel::<PathBuf>(WAITING);
    let (done, results) = sync_channel::<Done<T>>(WAITING);
    // Only workers hold it: when none is left, sending fails, which ends the walk.
    let waiting = Arc::new(Mutex::new(waiting));
    let is_cancelled = || cancel.load(Ordering::Relaxed);
    std::thread::scope(|scope| {
        let sender = done.clone();
        let find = move || {
            walk.run(|met| {
                let is_taken = match met {
                    WalkItem::File(entry) => found.send(entry.path()).is_ok(),
                    WalkItem::Skipped(error) => sender.send(failed(error)).is_ok(),
                };
                if is_taken && !is_cancelled() {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                }
            });
        };
        start_thread_in(scope, "find", find).context("cannot start the thread that lists files")?;
        let mut workers = 0;
        let mut refused = None;
        for _ in 0..threads {
            let (done, waiting) = (done.clone(), Arc::clone(&waiting));
            let (work, failed) = (&work, &failed);
            let worker = start_thread_in(scope, "work", move || {
                loop {
                    // Poisoned if another worker panicked while it held the lock: then the others end too.
                    let Ok(path) = waiting.lock().map(|waiting| waiting.recv()) else {
                        return;
                    };
                    let Ok(path) = path else { return };
                    if is_cancelled() {
                        continue;
                    }
                    let result =
                        match open(&path) {
                            Ok(file) => work(&path, &file),
                            Err(error) if !is_not_opened(&error) => Err(error),
                            Err(_) if purpose == Purpose::Act => open_fuse(&path, not_opened)
                                .and_then(|(file, before)| match work(&path, &file)? {
                                    Done::File(done) => Ok(Done::Opened(done, before)),
                                    other => Ok(other),
                                }),
                            Err(_) => {
                                Inode::at(&path).map(|inode| Done::NotOpened(path.clone(), inode))
                            }
                        };
                    let result = match result {
                        Ok(result) => result,
                        Err(error) => failed(&error.with_path(&path)),
                    };
                    if done.send(result).is_err() {
                        return;
                    }
                }
            });
            match worker {
                Ok(_) => workers += 1,
                Err(error) => {
                    refused = Some(error);
                    break;
                }
            }
        }
        drop((waiting, done));
        // Fewer than wanted work as well, and none at all cannot.
        if let (0, Some(error)) = (workers, refused) {
            return Err(error).context("cannot start a worker thread");
        }
        let mut result = Ok(());
        for done in results {
            // Results of started work are drained even if the output has failed.
            if result.is_ok() {
                result = take(done);
            }
            if result.is_err() {
                cancel.store(true, Ordering::Relaxed);
            }
        }
        result
    })
}

/// Opens a file of FUSE, which may drop its pages: how many there are is counted before.
fn open_fuse(path: &Path, not_opened: &NotOpened) -> Result<(File, Result<Counts, Reason>), Error> {
    let before = not_opened.counts(&Inode::at(path)?);
    Ok((open_to_act(path)?, before))
}

/// How many threads work.
pub fn threads(asked: Option<u16>) -> NonZeroUsize {
    const MOST: NonZeroUsize = NonZeroUsize::MIN.saturating_add(7);
    let asked = asked.and_then(|asked| NonZeroUsize::new(asked.into()));
    asked.unwrap_or_else(|| {
        std::thread::available_parallelism().map_or(NonZeroUsize::MIN, |cpus| cpus.min(MOST))
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::*;

    #[test]
    fn walk_does_not_wait_for_ended_workers() {
        let directory = tempfile::tempdir().expect("a directory can be made");
        for number in 0..3 * WAITING {
            fs::write(directory.path().join(number.to_string()), "x").expect("it is ours");
        }
        let paths = [directory.path().to_owned()];
        let select = Select {
            one_file_system: false,
            include: Vec::new(),
            exclude: Vec::new(),
            threads: Some(2),
        };
        let (sender, ended) = channel();
        // Not joined: if it hangs, it is to be a failure.
        std::thread::spawn(move || {
            let work = |_: &Path, _: &File| -> Result<Done<()>, Error> {
                std::panic::resume_unwind(Box::new("a bug"))
            };
            let all = std::panic::AssertUnwindSafe(|| {
                let cancel = AtomicBool::new(false);
                each_file(&paths, &select, Purpose::Examine, &cancel, work, |_| Ok(()))
            });
            let _ = sender.send(std::panic::catch_unwind(all).is_err());
        });
        let panicked = ended.recv_timeout(Duration::from_secs(60));
        assert_eq!(panicked, Ok(true), "the panic is passed on");
        drop(directory);
    }
}
