//! Prefetching and evicting.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};

use cachewise_residency::{Counts, Error, EvictOptions, Unknown, WarmOptions, Warmed, Watch};
use cachewise_units::Pages;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::file::{self, Named};
use crate::raise::{panicked, raise};
use crate::stream::{LOOK, wait_for};

fn known(pages: Result<Pages, Unknown>) -> Option<u64> {
    pages.ok().map(|pages| pages.0)
}

/// Result of warming: pages requested, resident before, resident after, inserted; bytes read; pages of holes; the reason
/// if fewer are resident than requested; the reason for missing numbers.
type WarmedParts = (
    u64,
    Option<u64>,
    Option<u64>,
    Option<u64>,
    u64,
    u64,
    Option<String>,
    Option<&'static str>,
);

/// Brings a part of a file in.
#[pyfunction]
#[pyo3(signature = (file, offset=0, length=None, threads=1))]
pub fn warm(
    file: &Bound<'_, PyAny>,
    offset: i64,
    length: Option<i64>,
    threads: usize,
) -> PyResult<WarmedParts> {
    let py = file.py();
    let (named, range) = (Named::of(file)?, file::range(offset, length)?);
    let threads = NonZeroUsize::new(threads)
        .filter(|threads| threads.get() <= 512)
        .ok_or_else(|| PyValueError::new_err(format!("1 to 512 threads, not {threads}")))?;
    let warmed = interruptible(py, |cancel| {
        let watch = Watch {
            cancel: Some(cancel),
            progress: None,
        };
        let options = WarmOptions {
            threads,
            limiter: None,
            watch,
        };
        named.act(|file| cachewise_residency::warm(file, &[range], &options))
    })?;
    let warmed: Warmed = warmed.map_err(|error| raise(py, &error))?;
    Ok((
        warmed.pages.0,
        known(warmed.before),
        known(warmed.after),
        known(warmed.inserted),
        warmed.read.0,
        warmed.holes.0,
        warmed.short.map(|short| short.to_string()),
        warmed.inserted.err().map(Unknown::id),
    ))
}

/// Works in another thread until it has ended, or Ctrl-C was typed.
pub fn interruptible<T: Send>(
    py: Python<'_>,
    work: impl FnOnce(&AtomicBool) -> Result<T, Error> + Send,
) -> PyResult<Result<T, Error>> {
    let cancel = AtomicBool::new(false);
    py.detach(|| {
        std::thread::scope(|scope| {
            let (done, is_done) = channel::<()>();
            let worker = || {
                // Dropped when the work ends, by a panic too.
                let _done = done;
                work(&cancel)
            };
            let worker = cachewise_sys::start_thread_in(scope, "cachewise", worker)?;
            let mut raised = None;
            while let Err(RecvTimeoutError::Timeout) = is_done.recv_timeout(LOOK) {
                if raised.is_none()
                    && let Err(error) = Python::attach(|py| py.check_signals())
                {
                    cancel.store(true, Ordering::Relaxed);
                    raised = Some(error);
                }
            }
            let answer = worker.join().map_err(|_| panicked())?;
            raised.map_or(Ok(answer), Err)
        })
    })
}

/// Pages that stayed, by the first reason that is true of each: only copy, dirty, under write-back, locked, mapped, edge
/// of the range, other.
type StayedParts = (u64, u64, u64, u64, u64, u64, u64);

/// Result of evicting: pages requested, resident before, resident after; pages that stayed; the reason for missing
/// numbers.
type EvictedParts = (
    u64,
    Option<u64>,
    Option<u64>,
    Option<StayedParts>,
    Option<&'static str>,
);

/// Puts a part of a file out.
#[pyfunction]
#[pyo3(signature = (file, offset=0, length=None, sync=false))]
pub fn evict(
    file: &Bound<'_, PyAny>,
    offset: i64,
    length: Option<i64>,
    sync: bool,
) -> PyResult<EvictedParts> {
    let py = file.py();
    let (named, range) = (Named::of(file)?, file::range(offset, length)?);
    let options = EvictOptions {
        sync,
        holders: false,
    };
    let work = move || named.act(|file| cachewise_residency::evict(file, range, &options));
    // Writing may take long, and needs a thread of its own to be left by Ctrl-C.
    let done = match sync {
        true => wait_for(py, work)?,
        false => py.detach(work),
    };
    let done = done.map_err(|error| raise(py, &error))?;
    let cached =
        |counts: &Result<Counts, Unknown>| counts.as_ref().ok().map(|counts| counts.cached.0);
    let stayed = done.stayed.as_ref().map(|stayed| {
        (
            stayed.only_copy.0,
            stayed.dirty.0,
            stayed.writeback.0,
            stayed.locked.0,
            stayed.mapped.0,
            stayed.edge.0,
            stayed.other.0,
        )
    });
    Ok((
        done.pages.0,
        cached(&done.before),
        cached(&done.after),
        stayed,
        done.after.err().map(Unknown::id),
    ))
}
