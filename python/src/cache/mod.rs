//! The block cache between machines, for Python.
//!
//! # Layout
//! - here: [`Cache`], what Python calls; [`Object`]
//! - `alive`: the threads and the cache of this process, and why a child of `fork` has its own
//! - `error`: errors as exceptions

mod alive;
mod error;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use cachewise_tier::{
    BlockCache, Error, File, Kind, LONGEST_READ, SETTINGS, SettingsBuilder, Tree, WarmFrom,
};
use cachewise_units::ByteRange;
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use rustix::io::Errno;

use crate::file;
use alive::Process;
use error::raise;

/// Bytes to read at a time: enough to fetch several blocks in parallel.
const STEP: u64 = 8 << 20;

/// Maximum number of attempts to read a file that changes meanwhile.
const TRIES: u32 = 4;

/// A file of the origin in one state.
#[pyclass(frozen, module = "cachewise._native")]
pub struct Object(File);

#[pymethods]
impl Object {
    #[getter]
    fn size(&self) -> u64 {
        self.0.meta().size
    }
}

/// Result of warming: files, their bytes, errors.
type WarmedParts = (u64, u64, Vec<PyErr>);

/// A cache of an origin's blocks. It works in the process that calls it; a child of `fork` has one of its own.
#[pyclass(frozen, module = "cachewise._native")]
pub struct Cache {
    process: Process,
}

#[pymethods]
impl Cache {
    /// Opens the origin and checks all settings; threads are started by the first call that needs them.
    #[new]
    fn new(origin: &Bound<'_, PyAny>, settings: Vec<(String, String)>) -> PyResult<Self> {
        let py = origin.py();
        let path = file::path(origin)?;
        let mut wanted = SettingsBuilder::default();
        for (name, value) in settings {
            wanted
                .take(&name, &value)
                .map_err(|why| PyValueError::new_err(format!("{name}: {why}")))?;
        }
        // The environment is read with the interpreter's lock, under which Python changes it.
        let wanted = wanted
            .finish(str::to_owned)
            .map_err(|error| raise(py, &error))?;
        // A directory stays the one that it was, wherever the process goes; a server is asked over connections of its own
        // in each process.
        let is_url = path.to_str().is_some_and(|name| name.contains("://"));
        let origin = match is_url {
            true => wanted.origin(&path),
            false => py.detach(|| wanted.origin(&path)),
        };
        let origin = origin.map_err(|error| raise(py, &error))?;
        let (settings, here) = (wanted.cache.clone(), std::process::id());
        let opens = move || match is_url && std::process::id() != here {
            true => wanted.origin(&path),
            false => Ok(Arc::clone(&origin)),
        };
        Ok(Self {
            process: Process::new(settings, Arc::new(opens)),
        })
    }

    /// The bytes of a part of a file, as it is now.
    fn get<'py>(
        &self,
        path: &Bound<'py, PyAny>,
        offset: i64,
        length: Option<i64>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let py = path.py();
        let (path, range) = (file::path(path)?, file::range(offset, length)?);
        let parts = self.process.run(py, |cache| async move {
            let mut tries = 1;
            loop {
                let file = looked(&cache, &path).await?;
                match parts_of(&cache, &file, range).await {
                    // The new state of the file is an answer too.
                    Err(Error::Changed { .. }) if tries < TRIES => tries += 1,
                    read => return read,
                }
            }
        })?;
        joined(py, parts.map_err(|error| raise(py, &error))?)
    }

    /// Looks at a file.
    fn look(&self, path: &Bound<'_, PyAny>) -> PyResult<Object> {
        let py = path.py();
        let path = file::path(path)?;
        let looked = self
            .process
            .run(py, |cache| async move { looked(&cache, &path).await })?;
        looked.map(Object).map_err(|error| raise(py, &error))
    }

    /// The bytes of a part of a file, in the state in which it was looked at.
    fn read<'py>(
        &self,
        py: Python<'py>,
        object: &Object,
        offset: i64,
        length: Option<i64>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let range = file::range(offset, length)?;
        let file = object.0.clone();
        let parts = self.process.run(
            py,
            |cache| async move { parts_of(&cache, &file, range).await },
        )?;
        joined(py, parts.map_err(|error| raise(py, &error))?)
    }

    /// Reads files, and all that are below directories, so that the cache has them.
    fn warm(&self, paths: &Bound<'_, PyAny>) -> PyResult<WarmedParts> {
        let py = paths.py();
        let paths = file::paths(paths)?;
        if paths.is_empty() {
            return Ok((0, 0, Vec::new()));
        }
        let (files, bytes, failed, lost) = self
            .process
            .run(py, |cache| async move { warmed(&cache, &paths).await })?;
        let lost = lost
            .into_iter()
            .map(|why| PyOSError::new_err((Errno::IO.raw_os_error(), why)));
        let failed = failed.iter().map(|error| raise(py, error)).chain(lost);
        Ok((files, bytes, failed.collect()))
    }

    /// Counters of this process, as JSON.
    fn table(&self, py: Python<'_>) -> PyResult<String> {
        let table = self.process.run(py, |cache| async move { cache.table() })?;
        serde_json::to_string(&table).map_err(|error| PyValueError::new_err(error.to_string()))
    }

    /// Warnings about harmful settings.
    fn warnings(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        self.process
            .run(py, |cache| async move { cache.warnings() })
    }

    /// Writes to the disk what waits to be written, and ends the threads.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.process.close(py)
    }
}

/// The settings of a cache: name, unit, help, default.
#[pyfunction]
pub fn cache_settings() -> Vec<(&'static str, &'static str, &'static str, String)> {
    let of_cache = SETTINGS.iter().filter(|setting| setting.part == "cache");
    let rows = of_cache.map(|one| (one.name, one.unit, one.help(), one.default()));
    rows.collect()
}

async fn looked(cache: &BlockCache, path: &Path) -> Result<File, Error> {
    let file = cache.stat(path).await?;
    match file.meta().kind {
        Kind::File => Ok(file),
        kind => Err(error::not_a_file(path, kind)),
    }
}

/// A part of a file, in pieces.
async fn parts_of(cache: &BlockCache, file: &File, range: ByteRange) -> Result<Vec<Bytes>, Error> {
    let end = range.end().min(file.meta().size);
    let mut start = range.start;
    let mut parts = Vec::new();
    while start < end {
        let len = STEP.min(LONGEST_READ).min(end.saturating_sub(start));
        parts.push(cache.get(file, ByteRange { start, len }).await?);
        start = start.saturating_add(len);
    }
    Ok(parts)
}

fn joined(py: Python<'_>, parts: Vec<Bytes>) -> PyResult<Bound<'_, PyBytes>> {
    if let [part] = parts.as_slice() {
        return Ok(PyBytes::new(py, part));
    }
    let length = parts.iter().map(Bytes::len).sum();
    PyBytes::new_with(py, length, |mut place| {
        for part in parts {
            let (here, rest) = place.split_at_mut(part.len());
            here.copy_from_slice(&part);
            place = rest;
        }
        Ok(())
    })
}

/// Files, their bytes, what could not be read, and what was read and did not get to where it is kept.
async fn warmed(cache: &BlockCache, paths: &[PathBuf]) -> (u64, u64, Vec<Error>, Vec<String>) {
    let (mut files, mut bytes, mut failed) = (0, 0, Vec::new());
    let before = cache.table().totals;
    let mut tree = Tree::new(paths);
    while let Some(next) = tree.next(cache).await {
        let why = match next {
            Ok(file) => {
                let warmed = cache.warm(file, WarmFrom::Nearest).await;
                if warmed.why.is_none() {
                    files += 1;
                    bytes += warmed.file.meta().size;
                }
                if warmed.is_disk_stuck() {
                    failed.extend(warmed.why);
                    break;
                }
                warmed.why
            }
            Err(why) => Some(why),
        };
        failed.extend(why);
    }
    (
        files,
        bytes,
        failed,
        cache.lost_since(&before),
    )
}
