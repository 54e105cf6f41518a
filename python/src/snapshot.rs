//! Snapshots: residency saved to a file, read and restored.

use std::fs::File;
use std::io::BufReader;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

use cachewise_residency::snapshot::{
    FileOutcome, Reader, RestoreOptions, Skip, SnapshotEntry, SnapshotError, SnapshotFault, Writer,
    restore,
};
use cachewise_residency::{ByteRange, Bytes, Error, Inode, Limiter, Unknown, WalkItem, Watch};
use cachewise_sys::page_size;
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;

use crate::act::interruptible;
use crate::raise::{raise, raise_io};
use crate::stream::lock;
use crate::walk::{copy, planned, threads_of};
use crate::{file, path_name};

/// Makes an exception of a fault: `OSError` of the kernel's number, `ValueError` of the content.
fn fault(py: Python<'_>, error: &SnapshotError) -> PyErr {
    match (&error.fault, &error.path) {
        (SnapshotFault::Io { source, .. }, path) => match (source.raw_os_error(), path) {
            (Some(number), Some(path)) => match path_name::name(py, path) {
                Ok(path) => PyOSError::new_err((
                    number,
                    raise_io(py, source)
                        .value(py)
                        .getattr("strerror")
                        .map(|text| text.to_string())
                        .unwrap_or_default(),
                    path,
                )),
                Err(raised) => raised,
            },
            _ => PyOSError::new_err(error.to_string()),
        },
        _ => PyValueError::new_err(error.to_string()),
    }
}

/// Files with resident pages, their pages, files without; what could not be looked at.
type SavedParts = (u64, u64, u64, Vec<PyErr>);

/// Saves what is resident of trees.
#[pyfunction]
#[pyo3(signature = (snapshot, roots, include, exclude, one_file_system=false))]
pub fn snapshot_save(
    snapshot: &Bound<'_, PyAny>,
    roots: &Bound<'_, PyAny>,
    include: Vec<String>,
    exclude: Vec<String>,
    one_file_system: bool,
) -> PyResult<SavedParts> {
    let py = roots.py();
    let path = file::path(snapshot)?;
    let walk = planned(roots, &include, &exclude, one_file_system, None)?;
    let (mut empty, mut skipped) = (0, Vec::new());
    let saved = interruptible(py, |cancel| {
        let saved = || {
            let mut writer = Writer::create(&path)?;
            let own = writer.own();
            let mut failed = None;
            walk.run(|one| {
                match one {
                    WalkItem::Skipped(error) => skipped.push(copy(error)),
                    WalkItem::File(file) => match entry(&file.path(), &own) {
                        Ok(Some(entry)) if entry.cached().0 > 0 => {
                            failed = writer.add(&entry).err();
                        }
                        Ok(Some(_)) => empty += 1,
                        Ok(None) => {}
                        // It was deleted since, or the kernel makes it up.
                        Err(error) if is_nothing(&error) => {}
                        Err(error) => skipped.push(error),
                    },
                }
                match failed.is_some() || cancel.load(Ordering::Relaxed) {
                    true => ControlFlow::Break(()),
                    false => ControlFlow::Continue(()),
                }
            });
            if let Some(failed) = failed {
                return Err(failed);
            }
            let totals = writer.totals();
            // After Ctrl-C the old one stays.
            if !cancel.load(Ordering::Relaxed) {
                writer.finish()?.commit()?;
            }
            Ok(totals)
        };
        Ok::<_, Error>(saved())
    })?;
    let saved = saved.map_err(|error| raise(py, &error))?;
    let totals = saved.map_err(|error| fault(py, &error))?;
    let skipped = skipped.iter().map(|error| raise(py, error)).collect();
    Ok((totals.files, totals.pages.0, empty, skipped))
}

fn is_nothing(error: &Error) -> bool {
    let unknown = error.unknown();
    error.kind() == cachewise_residency::ErrorKind::NotFound
        || matches!(
            unknown,
            Some(Unknown::MadeUp | Unknown::NotAFile(_) | Unknown::Dax)
        )
}

/// The resident pages of a file; `None` for the snapshot itself.
fn entry(path: &Path, own: &[Inode]) -> Result<Option<SnapshotEntry>, Error> {
    let look = || {
        let file = cachewise_residency::open(path)?;
        let inode = Inode::of_fd(file.as_fd())?;
        let is_same = |own: &Inode| (own.device, own.number) == (inode.device, inode.number);
        if own.iter().any(is_same) {
            return Ok(None);
        }
        let map = cachewise_residency::map(&file, ByteRange::starting_at(0))?;
        Ok(Some(SnapshotEntry::new(path, &inode, map)))
    };
    look().map_err(|error: Error| error.with_path(path))
}

/// Restored files; pages of the snapshot, resident before, resident after, inserted; bytes read; files of unknown
/// residency, files of which pages are missing, files that changed, that are gone; other errors.
type RestoredParts = (u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, Vec<PyErr>);

/// Reads the pages of a snapshot.
#[pyfunction]
#[pyo3(signature = (snapshot, anyway=false, threads=8, rate=None, most=None))]
pub fn snapshot_restore(
    snapshot: &Bound<'_, PyAny>,
    anyway: bool,
    threads: usize,
    rate: Option<u64>,
    most: Option<u64>,
) -> PyResult<RestoredParts> {
    let py = snapshot.py();
    let path = file::path(snapshot)?;
    let threads = threads_of(Some(threads))?.and_then(NonZeroUsize::new);
    let limiter = rate.and_then(|rate| Limiter::new(Bytes(rate)));
    let failed = Mutex::new(Vec::new());
    let each = |_: &SnapshotEntry, outcome: FileOutcome<'_>| {
        if let FileOutcome::Skipped(Skip::Failed(error)) = outcome {
            let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
            failed.push(copy(error));
        }
    };
    let restored = interruptible(py, |cancel| {
        let options = RestoreOptions {
            anyway,
            threads: threads.unwrap_or(NonZeroUsize::MIN),
            most: most.map(Bytes),
            limiter: limiter.as_ref(),
            watch: Watch {
                cancel: Some(cancel),
                progress: None,
            },
            each: Some(&each),
        };
        Ok::<_, Error>(Reader::open(&path).map(|reader| restore(reader, &options)))
    })?;
    let restored = restored.map_err(|error| raise(py, &error))?;
    let restored = restored.map_err(|error| fault(py, &error))?;
    if let Some(damage) = &restored.damage {
        return Err(fault(py, damage));
    }
    let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok((
        restored.files,
        restored.pages.0,
        restored.before.0,
        restored.after.0,
        restored.inserted.0,
        restored.read.0,
        restored.unknown,
        restored.short,
        restored.skipped.changed,
        restored.skipped.vanished,
        failed.iter().map(|error| raise(py, error)).collect(),
    ))
}

/// The entries of a snapshot: an iterator.
#[pyclass(frozen, module = "cachewise._native")]
pub struct SnapshotReader(Mutex<Reader<BufReader<File>>>);

/// A path, the size of the file in bytes, offset and length of each resident range in bytes.
type Entry = (Py<PyAny>, u64, Vec<(u64, u64)>);

#[pymethods]
impl SnapshotReader {
    #[new]
    fn new(snapshot: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = snapshot.py();
        let path = file::path(snapshot)?;
        let reader = py.detach(|| Reader::open(&path));
        let reader = reader.map_err(|error| fault(py, &error))?;
        Ok(Self(Mutex::new(reader)))
    }

    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Entry>> {
        let next = lock(&self.0, py).next();
        let Some(entry) = next.transpose().map_err(|error| fault(py, &error))? else {
            return Ok(None);
        };
        let bytes = entry.ranges.iter().map(|range| range.bytes(page_size()));
        let ranges = bytes.map(|range| (range.start, range.len)).collect();
        Ok(Some((
            path_name::name(py, &entry.path)?,
            entry.size.0,
            ranges,
        )))
    }
}
