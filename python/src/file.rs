//! Files as Python names them: a path, an object with `fileno()`, or a descriptor.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use cachewise_residency::Error;
use cachewise_units::ByteRange;
use pyo3::exceptions::{PyOSError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyInt, PyString};

use crate::raise::raise_io;

/// A file that work can be done on without the interpreter's lock.
#[derive(Debug)]
pub enum Named {
    /// It is opened when it is needed.
    Path(PathBuf),
    /// A descriptor of our own of an open file.
    Open(File),
}

impl Named {
    /// Understands what Python was given.
    pub fn of(file: &Bound<'_, PyAny>) -> PyResult<Self> {
        if is_path(file)? {
            return path(file).map(Self::Path);
        }
        let is_number = |value: &Bound<'_, PyAny>| {
            value.is_instance_of::<PyInt>() && !value.is_instance_of::<PyBool>()
        };
        let number = match is_number(file) {
            true => file.clone(),
            false => match file.getattr_opt("fileno")? {
                // Of a closed file this raises ValueError, as every use of it does.
                Some(fileno) => fileno.call0()?,
                None => return Err(no_file(file)),
            },
        };
        if !is_number(&number) {
            return Err(no_file(file));
        }
        own(file.py(), number.extract()?).map(Self::Open)
    }

    /// Looks at the open file; errors know the path. A file of FUSE is not opened for that.
    pub fn look<T>(&self, work: impl FnOnce(&File) -> Result<T, Error>) -> Result<T, Error> {
        self.with(cachewise_residency::open, work)
    }

    /// Brings the file in or evicts it; errors know the path.
    pub fn act<T>(&self, work: impl FnOnce(&File) -> Result<T, Error>) -> Result<T, Error> {
        self.with(cachewise_residency::open_to_act, work)
    }

    fn with<T>(
        &self,
        open: fn(&Path) -> Result<File, Error>,
        work: impl FnOnce(&File) -> Result<T, Error>,
    ) -> Result<T, Error> {
        match self {
            Self::Open(file) => work(file),
            Self::Path(path) => {
                let file = open(path)?;
                work(&file).map_err(|error| error.with_path(path))
            }
        }
    }
}

fn no_file(found: &Bound<'_, PyAny>) -> PyErr {
    let kind = found.get_type().name();
    let kind = kind.map_or_else(|_| "that".to_owned(), |name| name.to_string());
    PyTypeError::new_err(format!(
        "expected a path, an open file or a descriptor, not {kind}"
    ))
}

/// A descriptor of our own of the file behind a number.
fn own(py: Python<'_>, number: RawFd) -> PyResult<File> {
    if number < 0 {
        return Err(PyValueError::new_err(format!(
            "a descriptor is not negative: {number}"
        )));
    }
    // With the interpreter's lock, so that Python closes nothing meanwhile.
    let owned = cachewise_sys::duplicate(number);
    owned.map(File::from).map_err(|error| raise_io(py, &error))
}

/// Whether `os.fspath` takes it.
fn is_path(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(value.is_instance_of::<PyString>()
        || value.is_instance_of::<PyBytes>()
        || value.hasattr("__fspath__")?)
}

/// A path: `str`, `bytes`, or anything with `__fspath__`.
pub fn path(value: &Bound<'_, PyAny>) -> PyResult<PathBuf> {
    let plain = match value.getattr_opt("__fspath__")? {
        Some(fspath) => fspath.call0()?,
        None => value.clone(),
    };
    let path = match plain.cast::<PyBytes>() {
        Ok(bytes) => OsStr::from_bytes(bytes.as_bytes()).to_owned(),
        Err(_) if plain.is_instance_of::<PyString>() => plain.extract::<OsString>()?,
        Err(_) => {
            let kind = value.get_type().name()?;
            return Err(PyTypeError::new_err(format!(
                "expected a path (str, bytes or os.PathLike), not {kind}"
            )));
        }
    };
    if path.as_bytes().contains(&0) {
        return Err(PyValueError::new_err("a path has no null byte"));
    }
    Ok(path.into())
}

/// Paths, from anything that can be iterated over, but one path.
pub fn paths(values: &Bound<'_, PyAny>) -> PyResult<Vec<PathBuf>> {
    if is_path(values)? {
        return Err(PyTypeError::new_err(
            "expected several paths, not one: put it into a list",
        ));
    }
    // Exceptions of the iterator go to the caller.
    values.try_iter()?.map(|value| path(&value?)).collect()
}

/// A part of a file; without a length to its end.
pub fn range(offset: i64, length: Option<i64>) -> PyResult<ByteRange> {
    let start = u64::try_from(offset)
        .map_err(|_| PyValueError::new_err(format!("an offset is not negative: {offset}")))?;
    let Some(length) = length else {
        return Ok(ByteRange::starting_at(start));
    };
    let len = u64::try_from(length)
        .map_err(|_| PyValueError::new_err(format!("a length is not negative: {length}")))?;
    if offset.checked_add(length).is_none() {
        // The kernel knows no larger offset.
        return Err(PyOSError::new_err((
            75,
            "beyond the largest offset that a file can have",
        )));
    }
    Ok(ByteRange { start, len })
}
