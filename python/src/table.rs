//! Residency of trees as an Arrow table.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow_array::builder::{StringBuilder, UInt64Builder};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{ArrayRef, RecordBatch, RecordBatchIterator, RecordBatchReader};
use arrow_schema::ArrowError;
use cachewise_residency::{Counts, Error, Source, Unknown, WalkItem, WalkedFile};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::act::interruptible;
use crate::raise::raise;
use crate::walk::{copy, planned};

/// Files of trees with their residency, in columns.
#[pyclass(frozen, module = "cachewise._native")]
pub struct Table(RecordBatch);

#[pymethods]
impl Table {
    /// Walks over the trees; returns the table and what could not be visited.
    #[staticmethod]
    #[pyo3(signature = (roots, include, exclude, one_file_system=false, threads=None))]
    fn of(
        roots: &Bound<'_, PyAny>,
        include: Vec<String>,
        exclude: Vec<String>,
        one_file_system: bool,
        threads: Option<usize>,
    ) -> PyResult<(Self, Vec<PyErr>)> {
        let py = roots.py();
        let walk = planned(roots, &include, &exclude, one_file_system, threads)?;
        let mut columns = Columns::default();
        let mut skipped = Vec::new();
        let walked = interruptible(py, |cancel: &AtomicBool| {
            walk.run(|one| {
                match one {
                    WalkItem::File(file) => columns.add(&file),
                    WalkItem::Skipped(error) => skipped.push(copy(error)),
                }
                match cancel.load(Ordering::Relaxed) {
                    true => ControlFlow::Break(()),
                    false => ControlFlow::Continue(()),
                }
            });
            Ok::<(), Error>(())
        })?;
        walked.map_err(|error| raise(py, &error))?;
        let table = columns.finish().map_err(|error| wrong(&error))?;
        let skipped = skipped.iter().map(|error| raise(py, error));
        Ok((Self(table), skipped.collect()))
    }

    fn __len__(&self) -> usize {
        self.0.num_rows()
    }

    /// The names of the columns.
    #[getter]
    fn column_names(&self) -> Vec<String> {
        let schema = self.0.schema();
        let names = schema.fields().iter().map(|field| field.name().clone());
        names.collect()
    }

    /// Exports the table by the C stream interface. It is not cast: `requested_schema` may be ignored.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        drop(requested_schema);
        let batches = [Ok::<_, ArrowError>(self.0.clone())];
        let reader: Box<dyn RecordBatchReader + Send> =
            Box::new(RecordBatchIterator::new(batches, self.0.schema()));
        let stream = FFI_ArrowArrayStream::new(reader);
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }
}

fn wrong(error: &ArrowError) -> PyErr {
    PyRuntimeError::new_err(error.to_string())
}

/// The columns while they grow.
#[derive(Default)]
struct Columns {
    path: StringBuilder,
    size: UInt64Builder,
    pages: [UInt64Builder; 6],
    source: StringBuilder,
    reason: StringBuilder,
}

/// The names of [`Columns::pages`].
const PAGES: [&str; 6] = [
    "total_pages",
    "resident_pages",
    "dirty_pages",
    "writeback_pages",
    "evicted_pages",
    "recently_evicted_pages",
];

impl Columns {
    fn add(&mut self, file: &WalkedFile<'_>) {
        self.path.append_value(printable(file));
        self.size.append_value(file.size.0);
        let counts: Result<Counts, Unknown> = file.counts;
        let known = counts.as_ref().ok();
        let states = known.and_then(|counts| counts.states);
        let pages = [
            known.map(|counts| counts.total.0),
            known.map(|counts| counts.cached.0),
            states.map(|states| states.dirty.0),
            states.map(|states| states.writeback.0),
            states.map(|states| states.evicted.0),
            states.map(|states| states.recently_evicted.0),
        ];
        for (column, pages) in self.pages.iter_mut().zip(pages) {
            column.append_option(pages);
        }
        self.source
            .append_option(known.map(|counts| match counts.source() {
                Source::Cachestat => "cachestat",
                Source::Mincore => "mincore",
            }));
        self.reason.append_option(counts.err().map(Unknown::id));
    }

    fn finish(mut self) -> Result<RecordBatch, ArrowError> {
        let mut columns: Vec<(&str, ArrayRef, bool)> = vec![
            ("path", Arc::new(self.path.finish()), false),
            ("size_bytes", Arc::new(self.size.finish()), false),
        ];
        for (name, column) in PAGES.iter().zip(&mut self.pages) {
            columns.push((name, Arc::new(column.finish()), true));
        }
        columns.push(("source", Arc::new(self.source.finish()), true));
        columns.push(("reason", Arc::new(self.reason.finish()), true));
        RecordBatch::try_from_iter_with_nullable(columns)
    }
}

/// The path as `printable()` of the package has it: bytes that are not UTF-8 become `\xNN`.
fn printable(file: &WalkedFile<'_>) -> String {
    use std::fmt::Write as _;
    use std::os::unix::ffi::OsStrExt;
    let path = file.path();
    let mut text = String::new();
    for chunk in path.as_os_str().as_bytes().utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            // A String takes everything.
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}
