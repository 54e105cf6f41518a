//! Prefetching and evicting trees of files.

use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use cachewise_residency::{
    ByteRange, Bytes, Error, ErrorKind, EvictOptions, Limiter, WalkItem, WarmOptions, Watch, evict,
    open_to_act, warm,
};
use pyo3::prelude::*;

use crate::act::interruptible;
use crate::raise::raise;
use crate::walk::{copy, planned, threads_of};

const WHOLE: ByteRange = ByteRange::starting_at(0);

/// Sums over the files of trees.
#[derive(Default)]
struct Sums {
    files: u64,
    /// Files of unknown residency, which are in no sum but `total`, `read` and `holes`.
    unknown: u64,
    /// Files with fewer resident pages than requested.
    short: u64,
    total: u64,
    before: u64,
    after: u64,
    inserted: u64,
    read: u64,
    holes: u64,
    errors: Vec<Error>,
}

/// Files, files of unknown residency, files of which pages are missing; pages in all, resident before, after, inserted;
/// bytes read; pages of holes; errors.
type Parts = (u64, u64, u64, u64, u64, u64, u64, u64, u64, Vec<PyErr>);

impl Sums {
    fn parts(self, py: Python<'_>) -> Parts {
        let errors = self.errors.iter().map(|error| raise(py, error)).collect();
        (
            self.files,
            self.unknown,
            self.short,
            self.total,
            self.before,
            self.after,
            self.inserted,
            self.read,
            self.holes,
            errors,
        )
    }
}

/// Brings the files of trees in.
#[pyfunction]
#[pyo3(signature = (roots, include, exclude, one_file_system=false, threads=None, rate=None))]
pub fn warm_trees(
    roots: &Bound<'_, PyAny>,
    include: Vec<String>,
    exclude: Vec<String>,
    one_file_system: bool,
    threads: Option<usize>,
    rate: Option<u64>,
) -> PyResult<Parts> {
    let py = roots.py();
    let limiter = rate.and_then(|rate| Limiter::new(Bytes(rate)));
    let walk = planned(roots, &include, &exclude, one_file_system, None)?;
    let sums = each(py, walk, threads, |path, cancel, sums| {
        let file = open_to_act(path)?;
        let watch = Watch {
            cancel: Some(cancel),
            progress: None,
        };
        let options = WarmOptions {
            threads: NonZeroUsize::MIN,
            limiter: limiter.as_ref(),
            watch,
        };
        let warmed = warm(&file, &[WHOLE], &options).map_err(|error| error.with_path(path))?;
        let mut sums = locked(sums);
        sums.files += 1;
        sums.total += warmed.pages.0;
        sums.read += warmed.read.0;
        sums.holes += warmed.holes.0;
        sums.short += u64::from(warmed.short.is_some());
        match (warmed.before, warmed.after, warmed.inserted) {
            (Ok(before), Ok(after), Ok(inserted)) => {
                sums.before += before.0;
                sums.after += after.0;
                sums.inserted += inserted.0;
            }
            _ => sums.unknown += 1,
        }
        Ok(())
    })?;
    Ok(sums.parts(py))
}

/// Evicts the files of trees.
#[pyfunction]
#[pyo3(signature = (roots, include, exclude, one_file_system=false, threads=None, sync=false))]
pub fn evict_trees(
    roots: &Bound<'_, PyAny>,
    include: Vec<String>,
    exclude: Vec<String>,
    one_file_system: bool,
    threads: Option<usize>,
    sync: bool,
) -> PyResult<Parts> {
    let py = roots.py();
    let walk = planned(roots, &include, &exclude, one_file_system, None)?;
    let options = EvictOptions {
        sync,
        holders: false,
    };
    let sums = each(py, walk, threads, |path, _, sums| {
        let file = open_to_act(path)?;
        let evicted = evict(&file, WHOLE, &options).map_err(|error| error.with_path(path))?;
        let mut sums = locked(sums);
        sums.files += 1;
        sums.total += evicted.pages.0;
        match (evicted.before, evicted.after) {
            (Ok(before), Ok(after)) => {
                sums.before += before.cached.0;
                sums.after += after.cached.0;
                sums.short += u64::from(after.cached.0 > 0);
            }
            _ => sums.unknown += 1,
        }
        Ok(())
    })?;
    Ok(sums.parts(py))
}

/// Walks, and then works on each file, by several threads.
fn each(
    py: Python<'_>,
    walk: cachewise_residency::Walk,
    threads: Option<usize>,
    work: impl Fn(&Path, &AtomicBool, &Mutex<Sums>) -> Result<(), Error> + Sync,
) -> PyResult<Sums> {
    /// Files that are read at once: a disk answers several requests at a time.
    const THREADS: usize = 8;
    let threads = threads_of(threads)?.unwrap_or(THREADS);
    let done = interruptible(py, |cancel| {
        let (mut paths, mut sums) = (Vec::new(), Sums::default());
        walk.run(|one| {
            match one {
                WalkItem::File(file) => paths.push(file.path()),
                WalkItem::Skipped(error) => sums.errors.push(copy(error)),
            }
            match cancel.load(Ordering::Relaxed) {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        });
        paths.sort_unstable();
        let (next, sums) = (AtomicUsize::new(0), Mutex::new(sums));
        let run = || {
            while let Some(path) = following(&paths, &next, cancel) {
                match work(path, cancel, &sums) {
                    // It was deleted since the walk.
                    Err(error) if error.kind() == ErrorKind::NotFound => {}
                    Err(error) => locked(&sums).errors.push(error),
                    Ok(()) => {}
                }
            }
        };
        std::thread::scope(|scope| {
            let _others: Vec<_> = (1..threads.min(paths.len()))
                .map_while(|_| cachewise_sys::start_thread_in(scope, "cachewise", run).ok())
                .collect();
            run();
        });
        Ok::<Sums, Error>(sums.into_inner().unwrap_or_else(PoisonError::into_inner))
    })?;
    done.map_err(|error| raise(py, &error))
}

fn following<'p>(
    paths: &'p [PathBuf],
    next: &AtomicUsize,
    cancel: &AtomicBool,
) -> Option<&'p PathBuf> {
    match cancel.load(Ordering::Relaxed) {
        true => None,
        false => paths.get(next.fetch_add(1, Ordering::Relaxed)),
    }
}

fn locked(sums: &Mutex<Sums>) -> std::sync::MutexGuard<'_, Sums> {
    sums.lock().unwrap_or_else(PoisonError::into_inner)
}
