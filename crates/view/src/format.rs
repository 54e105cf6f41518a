//! The output formats, and their names on the command line.

use std::fmt;
use std::str::FromStr;

/// An output format.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Format {
    /// For people.
    #[default]
    Table,
    /// One JSON document.
    Json,
    /// One JSON object a line.
    JsonLines,
    /// Comma-separated values with a header.
    Csv,
    /// One OpenMetrics exposition.
    OpenMetrics,
}

impl Format {
    /// Every format.
    pub const ALL: [Format; 5] = [
        Format::Table,
        Format::Json,
        Format::JsonLines,
        Format::Csv,
        Format::OpenMetrics,
    ];

    /// The names, in the order of [`Format::ALL`].
    pub const NAMES: [&str; 5] = ["table", "json", "jsonl", "csv", "openmetrics"];

    /// The name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        Format::NAMES[self as usize]
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Error for a text that is not a format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseFormatError {
    input: String,
}

impl fmt::Display for ParseFormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is not an output format; one of: {}",
            self.input,
            Format::NAMES.join(", ")
        )
    }
}

impl std::error::Error for ParseFormatError {}

impl FromStr for Format {
    type Err = ParseFormatError;

    /// Parses a name in any case.
    ///
    /// # Errors
    /// Names the input and the valid formats.
    fn from_str(input: &str) -> Result<Self, Self::Err> {
        Format::ALL
            .into_iter()
            .find(|format| format.name().eq_ignore_ascii_case(input))
            .ok_or_else(|| ParseFormatError {
                input: input.to_owned(),
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_accepts_every_name() {
        for format in Format::ALL {
            assert_eq!(
                format.name().parse(),
                Ok(format),
                "{format} is found by its name"
            );
        }
        assert_eq!("JSON".parse(), Ok(Format::Json), "in any case");
        assert_eq!(
            Format::JsonLines.name(),
            "jsonl",
            "names and formats are in the same order"
        );
    }

    #[test]
    fn parse_error_lists_the_formats() {
        let error = "yaml".parse::<Format>().unwrap_err().to_string();
        assert_eq!(
            error, "\"yaml\" is not an output format; one of: table, json, jsonl, csv, openmetrics",
            "the input and the valid formats"
        );
    }
}
