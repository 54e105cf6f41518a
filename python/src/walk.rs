//! Trees of files.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Mutex;

use cachewise_residency::{Counts, Error, Unknown, WalkItem};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::look::{Told, told};
use crate::raise::raise;
use crate::stream::{self, Stream, lock};
use crate::{file, path_name};

/// How many findings wait for Python.
const AHEAD: usize = 1024;

enum Met {
    File(PathBuf, u64, Result<Counts, Unknown>),
    Skipped(Error),
}

/// A walk that is under way: an iterator.
#[pyclass(frozen, module = "cachewise._native")]
pub struct Walk(Mutex<Stream<Met, ()>>);

/// A path, its size, and its counts or why there are none; or an exception.
type Item = (
    Option<Py<PyAny>>,
    u64,
    Option<Told>,
    Option<&'static str>,
    Option<PyErr>,
);

#[pymethods]
impl Walk {
    /// Starts it.
    #[new]
    #[pyo3(signature = (roots, include, exclude, one_file_system=false, threads=None))]
    fn new(
        roots: &Bound<'_, PyAny>,
        include: Vec<String>,
        exclude: Vec<String>,
        one_file_system: bool,
        threads: Option<usize>,
    ) -> PyResult<Self> {
        let py = roots.py();
        let walk = planned(roots, &include, &exclude, one_file_system, threads)?;
        let stream = Stream::start(py, AHEAD, move |found| {
            walk.run(|one| {
                let met = match one {
                    WalkItem::File(entry) => Met::File(entry.path(), entry.size.0, entry.counts),
                    WalkItem::Skipped(error) => Met::Skipped(copy(error)),
                };
                match found.send(met) {
                    Ok(()) => ControlFlow::Continue(()),
                    Err(_) => ControlFlow::Break(()),
                }
            });
        })?;
        Ok(Self(Mutex::new(stream)))
    }

    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Item>> {
        Ok(match stream::next(&self.0, py)? {
            None => None,
            Some(Met::Skipped(error)) => Some((None, 0, None, None, Some(raise(py, &error)))),
            Some(Met::File(path, size, counts)) => {
                let (counts, why) = match counts {
                    Ok(counts) => (Some(told(&counts)), None),
                    Err(why) => (None, Some(why.id())),
                };
                Some((Some(path_name::name(py, &path)?), size, counts, why, None))
            }
        })
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        lock(&self.0, py).close(py)
    }
}

/// Plans a walk as Python describes it.
pub fn planned(
    roots: &Bound<'_, PyAny>,
    include: &[String],
    exclude: &[String],
    one_file_system: bool,
    threads: Option<usize>,
) -> PyResult<cachewise_residency::Walk> {
    let wrong = |error: Error| raise(roots.py(), &error);
    let mut walk =
        cachewise_residency::Walk::new(file::paths(roots)?).one_file_system(one_file_system);
    for pattern in include {
        walk = walk.include(pattern).map_err(wrong)?;
    }
    for pattern in exclude {
        walk = walk.exclude(pattern).map_err(wrong)?;
    }
    if let Some(threads) = threads_of(threads)? {
        walk = walk.threads(threads);
    }
    Ok(walk)
}

/// Refuses a number of threads that is out of range.
pub fn threads_of(threads: Option<usize>) -> PyResult<Option<usize>> {
    match threads {
        Some(threads) if !(1..=512).contains(&threads) => Err(PyValueError::new_err(format!(
            "1 to 512 threads, not {threads}"
        ))),
        threads => Ok(threads),
    }
}

/// An error of the same number and path: the walk keeps its own.
pub fn copy(error: &Error) -> Error {
    let path = error.path().map(PathBuf::from);
    match error {
        Error::Unknown { why, .. } => Error::Unknown { path, why: *why },
        Error::Sys(of_kernel) => {
            let source = match of_kernel.os_error() {
                Some(number) => std::io::Error::from_raw_os_error(number),
                None => std::io::Error::other(of_kernel.to_string()),
            };
            Error::Sys(match (of_kernel, path) {
                (cachewise_sys::Error::NotAFile { path, kind }, _) => {
                    cachewise_sys::Error::NotAFile {
                        path: path.clone(),
                        kind: *kind,
                    }
                }
                (_, path) => cachewise_sys::Error::Io {
                    operation: "walk",
                    path,
                    source,
                },
            })
        }
        other => Error::Sys(cachewise_sys::Error::Io {
            operation: "walk",
            path,
            source: std::io::Error::other(other.to_string()),
        }),
    }
}
