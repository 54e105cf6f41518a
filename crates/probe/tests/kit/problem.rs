//! Errors of the tests themselves: a sentence, with what was being done in front.

use std::error::Error;
use std::fmt;

/// Why a case could not be done; a case that was done and came out wrong is a [`Problem`] too.
#[derive(Debug)]
pub struct Problem(String);

/// The result of a step of a test.
pub type Result<T, E = Problem> = std::result::Result<T, E>;

impl Problem {
    /// A problem in words.
    pub fn new(what: impl Into<String>) -> Self {
        Problem(what.into())
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// Says what was being done when an error came.
pub trait Context<T> {
    /// `what`, a colon, and the error.
    fn context(self, what: impl fmt::Display) -> Result<T>;
}

impl<T, E: Error> Context<T> for std::result::Result<T, E> {
    fn context(self, what: impl fmt::Display) -> Result<T> {
        self.map_err(|error| Problem(format!("{what}: {error}")))
    }
}
