//! Files of the kernel that take one value at a time.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use crate::Error;

/// Writes a value in one call, as these files want it; never makes a file.
pub(crate) fn write(path: &Path, value: &str) -> Result<(), Error> {
    let written = OpenOptions::new()
        .write(true)
        .open(path)
        .and_then(|mut file| file.write_all(value.as_bytes()));
    written.map_err(|source| Error::io(format!("write {value} to"), path, source))
}

/// Reads a value without the newline; `None` where there is no such file.
pub(crate) fn read(path: &Path) -> Result<Option<String>, Error> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).trim_end().to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(Error::io("read", path, source)),
    }
}
