//! [`Secret`]: a password that no log, error or debug output shows.

use std::env::VarError;
use std::fmt;
use std::path::Path;

use cachewise_units::{Bytes, escaped};

use crate::{Error, secret_file};

/// Maximum length of a file with a password.
const LONGEST: Bytes = Bytes(64 << 10);

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

    /// Takes it from the first line of a file. The mode of the file grants no access to others, and access of its group only
    /// for reading a file of root.
    ///
    /// # Errors
    /// [`Error::Setting`] for what is no file or cannot be read, for a file that others can access, and for an empty line.
    pub fn from_file(path: &Path) -> Result<Self, Error> {
        const SETTING: &str = "engine_password_file";
        let wrong = |why: &str| Error::Setting {
            setting: SETTING,
            why: format!("{}: {why}", escaped(path)),
        };
        let bytes = secret_file::read(SETTING, path, "password", LONGEST)?;
        let text = std::str::from_utf8(&bytes).map_err(|_| wrong("is no text in UTF-8"))?;
        let password = text.lines().next().unwrap_or_default();
        if text.trim_ascii().is_empty() {
            return Err(wrong("is empty: write the password to its first line"));
        }
        if password.trim_ascii().is_empty() {
            return Err(wrong("its first line, which is the password, is empty"));
        }
        Ok(Self(password.to_owned()))
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
