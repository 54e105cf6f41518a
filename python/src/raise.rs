//! Errors as exceptions: all are `OSError`, or the subclass that Python has for the kernel's number.

use std::path::Path;

use cachewise_residency::Error;
use cachewise_sys::ErrorKind;
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::import_exception;
use pyo3::prelude::*;

use crate::path_name::name;

import_exception!(cachewise._errors, ResidencyUnknown);
import_exception!(cachewise._errors, ResidencyDenied);

/// Numbers for errors without one of their own, as on Linux on every architecture but MIPS, SPARC, Alpha and PA-RISC.
mod errno {
    pub const EPERM: i32 = 1;
    pub const EINVAL: i32 = 22;
    pub const EOPNOTSUPP: i32 = 95;
}

/// Makes an exception of it.
pub fn raise(py: Python<'_>, error: &Error) -> PyErr {
    made(py, error).unwrap_or_else(|raised| raised)
}

fn made(py: Python<'_>, error: &Error) -> PyResult<PyErr> {
    let path = error.path().map(|path| name(py, path)).transpose()?;
    if let Some(why) = error.unknown() {
        let number = match error.kind() {
            ErrorKind::Denied => errno::EPERM,
            ErrorKind::Invalid => errno::EINVAL,
            _ => errno::EOPNOTSUPP,
        };
        let text = format!("{why}; {}", why.advice());
        let arguments = (number, text, path);
        let raised = match error.kind() {
            ErrorKind::Denied => ResidencyDenied::new_err(arguments),
            _ => ResidencyUnknown::new_err(arguments),
        };
        raised.value(py).setattr("reason", why.id())?;
        return Ok(raised);
    }
    Ok(match error {
        Error::Pattern { .. } => PyValueError::new_err(error.to_string()),
        Error::Sys(of_kernel) => {
            let number = of_kernel.os_error().unwrap_or(errno::EINVAL);
            let text = match of_kernel {
                // The path is said by the exception, and the number has words of its own.
                cachewise_sys::Error::Io { .. } => strerror(py, number)?,
                other => other.to_string(),
            };
            PyOSError::new_err((number, text, path))
        }
        other => PyOSError::new_err((errno::EINVAL, other.to_string(), path)),
    })
}

/// Makes an exception of an error of the standard library, with the kernel's number.
pub fn raise_io(py: Python<'_>, error: &std::io::Error) -> PyErr {
    let number = error.raw_os_error().unwrap_or(errno::EINVAL);
    match strerror(py, number) {
        Ok(text) => PyOSError::new_err((number, text)),
        Err(raised) => raised,
    }
}

fn strerror(py: Python<'_>, number: i32) -> PyResult<String> {
    py.import("os")?
        .call_method1("strerror", (number,))?
        .extract()
}

/// A thread of ours that panicked: a mistake of this program.
pub fn panicked() -> PyErr {
    PyRuntimeError::new_err("a thread of cachewise panicked; what it said is on standard error")
}

/// That a path was not there to be opened, for what has only its name.
pub fn skipped(py: Python<'_>, path: &Path) -> PyErr {
    match name(py, path) {
        Ok(path) => PyOSError::new_err((errno::EINVAL, "could not be looked at", path)),
        Err(raised) => raised,
    }
}
