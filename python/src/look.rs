//! Residency of files.

use std::collections::HashMap;
use std::path::PathBuf;

use cachewise_residency::order::survey;
use cachewise_residency::{Counts, Source, map, query};
use cachewise_sys::page_size;
use cachewise_units::ByteRange;
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyTuple};

use crate::file::{self, Named};
use crate::raise::{raise, skipped};

/// Pages: all, resident, and, where they are known, dirty, under write-back, evicted, recently evicted; who told.
pub type Told = (
    u64,
    u64,
    Option<u64>,
    Option<u64>,
    Option<u64>,
    Option<u64>,
    &'static str,
);

/// Counts as Python gets them.
pub fn told(counts: &Counts) -> Told {
    let states = counts.states;
    (
        counts.total.0,
        counts.cached.0,
        states.map(|states| states.dirty.0),
        states.map(|states| states.writeback.0),
        states.map(|states| states.evicted.0),
        states.map(|states| states.recently_evicted.0),
        match counts.source() {
            Source::Cachestat => "cachestat",
            Source::Mincore => "mincore",
        },
    )
}

/// How many pages of a part of a file are resident.
#[pyfunction]
#[pyo3(signature = (file, offset=0, length=None))]
pub fn residency(file: &Bound<'_, PyAny>, offset: i64, length: Option<i64>) -> PyResult<Told> {
    let py = file.py();
    let (named, range) = (Named::of(file)?, file::range(offset, length)?);
    let found = py.detach(|| named.look(|file| query(file, range)));
    found
        .map(|counts| told(&counts))
        .map_err(|error| raise(py, &error))
}

/// Which parts are: offset and length in bytes of each, whole pages.
#[pyfunction]
#[pyo3(signature = (file, offset=0, length=None))]
pub fn ranges(
    file: &Bound<'_, PyAny>,
    offset: i64,
    length: Option<i64>,
) -> PyResult<Vec<(u64, u64)>> {
    let py = file.py();
    let (named, range) = (Named::of(file)?, file::range(offset, length)?);
    let found = py.detach(|| named.look(|file| map(file, range)));
    let found = found.map_err(|error| raise(py, &error))?;
    let bytes = found.ranges.iter().map(|range| range.bytes(page_size()));
    Ok(bytes.map(|range| (range.start, range.len)).collect())
}

/// The size of each sample in bytes, and its resident bytes, `None` if unknown. A sample is a path, or (path, offset,
/// length).
#[pyfunction]
pub fn samples(samples: &Bound<'_, PyAny>) -> PyResult<Vec<(u64, Option<u64>)>> {
    let py = samples.py();
    let mut numbers: HashMap<PathBuf, usize> = HashMap::new();
    let mut paths = Vec::new();
    let mut wanted = Vec::new();
    for sample in samples.try_iter()? {
        let sample = sample?;
        let (path, range) = match sample.cast::<PyTuple>() {
            Ok(parts) => {
                let (path, offset, length): (Bound<'_, PyAny>, i64, Option<i64>) =
                    parts.extract()?;
                (file::path(&path)?, file::range(offset, length)?)
            }
            Err(_) => (file::path(&sample)?, ByteRange::starting_at(0)),
        };
        let number = *numbers.entry(path).or_insert_with_key(|path| {
            paths.push(path.clone());
            paths.len() - 1
        });
        wanted.push((number, range));
    }
    let survey = py.detach(|| survey(&paths, None));
    if let Some(error) = survey.skipped.first() {
        return Err(raise(py, error));
    }
    let bytes = |(number, range): &(usize, ByteRange)| {
        let Some(file) = survey.snapshot.files.get(*number) else {
            let path = paths.get(*number).cloned().unwrap_or_default();
            return Err(skipped(py, &path));
        };
        let whole = ByteRange {
            start: 0,
            len: file.size.0,
        };
        let range = range.intersection(whole).unwrap_or_default();
        Ok((range.len, file.resident_in(range).map(|bytes| bytes.0)))
    };
    wanted.iter().map(bytes).collect()
}
