//! Errors of the cache as exceptions: `OSError` with the kernel's number where there is one, `ValueError` of arguments.

use std::path::Path;

use cachewise_tier::{Error, ErrorKind, Kind};
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use rustix::io::Errno;

use crate::path_name::name;

/// The error of reading what has no bytes.
pub fn not_a_file(path: &Path, kind: Kind) -> Error {
    let number = match kind {
        Kind::Directory => Errno::ISDIR,
        _ => Errno::INVAL,
    };
    Error::Origin {
        path: path.to_owned(),
        operation: "read",
        source: std::sync::Arc::new(number.into()),
    }
}

/// Makes an exception of it.
pub fn raise(py: Python<'_>, error: &Error) -> PyErr {
    made(py, error).unwrap_or_else(|raised| raised)
}

fn made(py: Python<'_>, error: &Error) -> PyResult<PyErr> {
    let (path, number, text) = match error {
        Error::Setting { setting, why } => {
            return Ok(PyValueError::new_err(format!("{setting}: {why}")));
        }
        Error::Unversioned { path, file_system } => {
            return Ok(PyValueError::new_err(format!(
                "identity: {} is on {file_system}, which does not store the time of last change: name the state of its files, \
                 and use a new name when they change",
                path.display()
            )));
        }
        Error::Path { path, why } => (path, Errno::INVAL, (*why).to_owned()),
        Error::NotFound { path } => (path, Errno::NOENT, "not found at the origin".to_owned()),
        Error::Denied { path, source } => (
            path,
            Errno::ACCESS,
            format!("the origin refuses access ({source}); check its permissions and credentials"),
        ),
        Error::NotListed { path, why } => (
            path,
            Errno::OPNOTSUPP,
            format!("the origin does not list directories ({why}); name files by their paths"),
        ),
        Error::Changed { path, what } => (
            path,
            Errno::STALE,
            format!("changed at the origin while it was read ({what}); open it again"),
        ),
        Error::Deadline {
            path,
            after,
            waiting_for,
        } => (
            path,
            Errno::TIMEDOUT,
            format!(
                "no answer within {} ms ({waiting_for}); try again, or raise read_deadline",
                after.as_millis()
            ),
        ),
        Error::Locked { path, .. } => (
            path,
            Errno::BUSY,
            format!(
                "{error}. Each process of a data loader needs one of its own; all can share what `cachewise mount` shows"
            ),
        ),
        Error::Origin {
            path,
            operation,
            source,
        }
        | Error::Directory {
            path,
            operation,
            source,
        } => (path, number_of(source), format!("{operation}: {source}")),
        other => {
            let number = match other.kind() {
                ErrorKind::Invalid => Errno::INVAL,
                _ => Errno::IO,
            };
            return Ok(PyOSError::new_err((
                number.raw_os_error(),
                other.to_string(),
            )));
        }
    };
    let path = name(py, path)?;
    Ok(PyOSError::new_err((number.raw_os_error(), text, path)))
}

fn number_of(error: &std::io::Error) -> Errno {
    error
        .raw_os_error()
        .map_or(Errno::IO, Errno::from_raw_os_error)
}
