//! Paths as Python has them.

use std::os::unix::ffi::OsStringExt;

use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// A path as Python's `str`; bytes that are not UTF-8 are escaped as `os.fsdecode` does.
pub fn name(py: Python<'_>, path: &std::path::Path) -> PyResult<Py<PyAny>> {
    let bytes = path.as_os_str().to_owned().into_vec();
    let os = py.import("os")?;
    let name = os.call_method1("fsdecode", (PyBytes::new(py, &bytes),))?;
    Ok(name.unbind())
}
