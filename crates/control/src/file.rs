//! Kernel files that take one value at a time.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use crate::Error;

/// Writes a value in one call, as these files require and `echo` does; never creates a file.
pub(crate) fn write(path: &Path, value: &str) -> Result<(), Error> {
    let written = OpenOptions::new()
        .write(true)
        .truncate(true)
        .open(path)
        .and_then(|mut file| file.write_all(value.as_bytes()));
    written.map_err(|source| Error::io(format!("write {value} to"), path, source))
}

/// Reads a value without the newline; `None` if the file does not exist.
pub(crate) fn read(path: &Path) -> Result<Option<String>, Error> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).trim_end().to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(Error::io("read", path, source)),
    }
}

/// The chosen word in a file like `always [madvise] never`; a single value is returned unchanged.
pub(crate) fn chosen(text: &str) -> &str {
    text.split_once('[')
        .and_then(|(_, rest)| rest.split_once(']'))
        .map_or(text.trim(), |(chosen, _)| chosen)
}

/// Reads the value; `None` if the file does not exist.
pub(crate) fn value(path: &Path) -> Result<Option<String>, Error> {
    Ok(read(path)?.map(|text| chosen(&text).to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chosen_returns_the_bracketed_word() {
        for (text, value) in [
            ("always [madvise] never", "madvise"),
            ("[always] madvise never", "always"),
            ("none mq-deadline kyber [bfq]", "bfq"),
            ("60", "60"),
            ("0x0007", "0x0007"),
            ("max", "max"),
            ("", ""),
        ] {
            assert_eq!(chosen(text), value, "{text:?}");
        }
    }
}
