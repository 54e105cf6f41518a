//! [`Secret`]: a password that no log, error or debug output shows.

use std::env::VarError;
use std::fmt;
use std::path::Path;

use cachewise_units::escaped;

use crate::Error;

/// A password. It comes from the environment or from a file, never from an argument, which every
/// user of the machine can read in `/proc`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Takes it from a variable of the environment.
    ///
    /// # Errors
    /// [`Error::Setting`] where it is not set, or is no text.
    pub fn from_environment(variable: &str) -> Result<Self, Error> {
        // The library's own error would show what is no text.
        let why = match std::env::var(variable) {
            Ok(text) => return Ok(Self(text)),
            Err(VarError::NotPresent) => "is not set",
            Err(VarError::NotUnicode(_)) => "is no text in UTF-8",
        };
        Err(Error::Setting {
            setting: "environment",
            why: format!("{variable} {why}"),
        })
    }

    /// Takes it from the first line of a file.
    ///
    /// # Errors
    /// [`Error::Setting`] where the file cannot be read.
    pub fn from_file(path: &Path) -> Result<Self, Error> {
        let text = std::fs::read_to_string(path).map_err(|error| Error::Setting {
            setting: "engine_password_file",
            why: format!("{}: {error}", escaped(path)),
        })?;
        Ok(Self(text.lines().next().unwrap_or_default().to_owned()))
    }

    /// Takes it from where the program has it already.
    #[must_use]
    pub fn new(text: String) -> Self {
        Self(text)
    }

    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(...)")
    }
}
