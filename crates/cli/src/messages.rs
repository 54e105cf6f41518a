//! Messages on standard error.

use std::io::{self, Write};

use cachewise_units::escaped;

/// Writes a message to standard error. Names in it come from outside: control characters are escaped.
/// A closed or full standard error is ignored.
pub fn tell(message: &str) {
    let _ = writeln!(io::stderr(), "cachewise: {}", printable(message));
}

/// Failures that are printed one by one; the rest are counted.
const TOLD: u64 = 10;

/// The number of failures; the first few are printed.
#[derive(Debug, Default)]
pub struct Failures(u64);

impl Failures {
    /// Counts one, and prints it if it is one of the first.
    pub fn add(&mut self, error: &str, tell: impl FnOnce(&str)) {
        self.0 += 1;
        if self.0 <= TOLD {
            tell(error);
        }
    }

    /// Reports the number of omitted messages, and returns the number of all.
    pub fn end(&self, tell: impl FnOnce(&str)) -> u64 {
        if self.0 > TOLD {
            let more = self.0 - TOLD;
            tell(&match more {
                1 => "and 1 more that failed".to_owned(),
                _ => format!("and {more} more that failed"),
            });
        }
        self.0
    }
}

/// An error with its causes, each once: some errors contain the text of their cause already.
pub fn explain(error: &anyhow::Error) -> String {
    joined(error.chain().map(ToString::to_string))
}

/// An error of a library in one line, as [`explain`] has it.
pub fn explain_causes(error: &dyn std::error::Error) -> String {
    joined(std::iter::successors(Some(error), |error| error.source()).map(ToString::to_string))
}

fn joined(causes: impl Iterator<Item = String>) -> String {
    let mut text = String::new();
    for cause in causes {
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

/// The text with its control characters escaped, but for the ends of lines: some texts have several, so a name that
/// has them is escaped where it enters.
pub fn printable(text: &str) -> String {
    let lines: Vec<_> = text.split('\n').map(escaped).collect();
    lines.join("\n")
}

/// Whether the reader of our output has gone, which is not a failure.
pub fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause
            .downcast_ref::<io::Error>()
            .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
    })
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn what_a_terminal_would_act_on_is_shown() {
        assert_eq!(
            printable("a\x1b[31m\nb\u{9b}"),
            "a\\x1b[31m\nb\\u{9b}",
            "escaped, lines kept"
        );
    }

    #[test]
    fn a_cause_is_said_once() {
        let cause = io::Error::from_raw_os_error(13);
        let error = anyhow::Error::new(cause).context("read /x: Permission denied (os error 13)");
        assert_eq!(
            explain(&error),
            "read /x: Permission denied (os error 13)",
            "not twice"
        );
        let error = anyhow::anyhow!("inner").context("outer");
        assert_eq!(explain(&error), "outer: inner", "what is new is said");
    }
}
