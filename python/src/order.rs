//! Orders, and reading by them.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use cachewise_residency::Error;
use cachewise_residency::order::{
    Block, FileId, History, Keep, Mode, ScanReport, Scanner as Files, survey,
};
use cachewise_units::Bytes;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyBytes};

use crate::raise::raise;
use crate::stream::{self, Stream, lock};
use crate::{file, path_name};

/// Indices of paths in the given list, in the order with the most hits. Unreadable files come last.
#[pyfunction]
pub fn order(paths: &Bound<'_, PyAny>) -> PyResult<Vec<usize>> {
    let py = paths.py();
    let paths = file::paths(paths)?;
    Ok(py.detach(|| ordered(&paths)))
}

fn ordered(paths: &[PathBuf]) -> Vec<usize> {
    let survey = survey(paths, None);
    // The survey lists readable files in the given order, without skipped ones.
    let mut looked_at = survey.paths.iter().zip(&survey.snapshot.files).peekable();
    let mut places: HashMap<FileId, Vec<usize>> = HashMap::new();
    let mut last = Vec::new();
    for (place, path) in paths.iter().enumerate() {
        match looked_at.next_if(|(found, _)| ***found == **path) {
            Some((_, file)) => places.entry(file.id).or_default().push(place),
            None => last.push(place),
        }
    }
    let hottest = survey.snapshot.hottest_first(&History::default());
    let mut order = Vec::with_capacity(paths.len());
    for index in hottest {
        let id = survey.snapshot.files.get(index).map(|file| file.id);
        // Other names of the same file right behind it.
        order.extend(id.and_then(|id| places.remove(&id)).unwrap_or_default());
    }
    order.extend(last);
    order
}

/// Files that are read again and again.
#[pyclass(frozen, module = "cachewise._native")]
pub struct Scanner(Arc<Shared>);

struct Shared {
    scanner: Mutex<Files>,
    /// Whether a scan is under way: a second one would wait for it, and for ever where one thread reads both.
    is_read: AtomicBool,
}

/// As long as this is there, a scan is under way.
struct Reading(Arc<Shared>);

impl Reading {
    fn begin(shared: &Arc<Shared>) -> Option<Self> {
        let before = shared.is_read.swap(true, Ordering::AcqRel);
        (!before).then(|| Self(Arc::clone(shared)))
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.0.is_read.store(false, Ordering::Release);
    }
}

#[pymethods]
impl Scanner {
    #[new]
    #[pyo3(signature = (paths, mode, keep, seed=0, chunk=None, block=None))]
    fn new(
        paths: &Bound<'_, PyAny>,
        mode: &str,
        keep: &str,
        seed: u64,
        chunk: Option<u64>,
        block: Option<u64>,
    ) -> PyResult<Self> {
        let mut scanner = Files::new(file::paths(paths)?)
            .mode(mode_of(mode, seed)?)
            .keep(keep_of(keep)?);
        if let Some(chunk) = chunk {
            scanner = scanner.chunk(Bytes(size("chunk", chunk)?));
        }
        if let Some(block) = block {
            scanner = scanner.block(Bytes(size("block", block)?));
        }
        Ok(Self(Arc::new(Shared {
            scanner: Mutex::new(scanner),
            is_read: AtomicBool::new(false),
        })))
    }

    /// Starts to read.
    fn scan(&self, py: Python<'_>, mode: &str, seed: u64) -> PyResult<Scan> {
        let mode = mode_of(mode, seed)?;
        let Some(reading) = Reading::begin(&self.0) else {
            return Err(PyRuntimeError::new_err(
                "a scan of these files is under way: read it to its end, or close() it",
            ));
        };
        // One block is ready while another one is worked on.
        let stream = Stream::start(py, 1, move |blocks| {
            let scanner = reading.0.scanner.lock();
            let mut scanner = scanner.unwrap_or_else(PoisonError::into_inner);
            scanner.set_mode(mode);
            let mut scan = scanner.scan();
            for block in &mut scan {
                if blocks.send(block).is_err() {
                    break;
                }
            }
            scan.finish()
        })?;
        Ok(Scan(Mutex::new(stream)))
    }
}

/// A size that memory can be taken for.
fn size(what: &str, bytes: u64) -> PyResult<u64> {
    const MOST: u64 = 1 << 30;
    match bytes {
        1..=MOST => Ok(bytes),
        _ => Err(PyValueError::new_err(format!(
            "{what}: 1 byte to 1 GiB, not {bytes}"
        ))),
    }
}

fn mode_of(word: &str, seed: u64) -> PyResult<Mode> {
    match word {
        "free" => Ok(Mode::Free),
        "fixed" => Ok(Mode::Fixed),
        "shuffle" => Ok(Mode::Shuffle(seed)),
        other => Err(PyValueError::new_err(format!(
            "mode: free, fixed or shuffle, not {other:?}"
        ))),
    }
}

fn keep_of(word: &str) -> PyResult<Keep> {
    match word {
        "share" => Ok(Keep::Share),
        "keep" => Ok(Keep::Keep),
        "as-found" => Ok(Keep::AsFound),
        other => Err(PyValueError::new_err(format!(
            "keep: share, keep or as-found, not {other:?}"
        ))),
    }
}

/// A reading of all files that is under way: an iterator of blocks.
#[pyclass(frozen, module = "cachewise._native")]
pub struct Scan(Mutex<Stream<Result<Block, Error>, ScanReport>>);

/// Path, offset, bytes.
type Part<'py> = (Py<PyAny>, u64, Bound<'py, PyBytes>);

/// Bytes read, read from devices, hit, planned to hit, in all, that no order can save; files that changed; why it kept
/// to the caller's order; what was skipped.
type ReportParts = (
    u64,
    u64,
    u64,
    u64,
    u64,
    u64,
    u64,
    Option<String>,
    Vec<PyErr>,
);

#[pymethods]
impl Scan {
    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Part<'py>>> {
        match stream::next(&self.0, py)? {
            None => Ok(None),
            Some(Err(error)) => Err(raise(py, &error)),
            Some(Ok(block)) => Ok(Some((
                path_name::name(py, block.path())?,
                block.offset(),
                PyBytes::new(py, block.bytes()),
            ))),
        }
    }

    /// Ends it, if it has not ended.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        lock(&self.0, py).close(py)
    }

    /// The result; `None` before the end of the scan.
    fn report(&self, py: Python<'_>) -> Option<ReportParts> {
        // Converting it below runs Python, so no lock may be held.
        let report = lock(&self.0, py).end()?;
        Some((
            report.read.0,
            report.device_read.0,
            report.hits.0,
            report.prediction.planned_hits.0,
            report.prediction.total.0,
            report.prediction.bound.0,
            report.changed,
            report.fell_back.map(|why| why.to_string()),
            report
                .skipped
                .iter()
                .map(|error| raise(py, error))
                .collect(),
        ))
    }
}
