//! [`Target`]: the value of `-o`, a format, a file, or both.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use cachewise_units::escaped;
use cachewise_view::Format;

/// `-o`: a format, a file, or both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    pub(crate) format: Format,
    pub(crate) file: Option<PathBuf>,
    pub(crate) ending: Ending,
    /// Tables are written as Markdown.
    pub(crate) is_markdown: bool,
}

/// Whether a file's ending had a say in the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// It is a format's, or the format was given, or there is none.
    Clear,
    /// It is no format's: the table is a guess.
    Unknown,
}

impl Target {
    pub(crate) fn new(format: Format, file: Option<PathBuf>, ending: Ending) -> Target {
        Target {
            format,
            file,
            ending,
            is_markdown: false,
        }
    }

    /// Its format.
    #[must_use]
    pub fn format(&self) -> Format {
        self.format
    }

    /// Its file; `None`: the usual stream.
    #[must_use]
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    fn markdown(file: Option<PathBuf>) -> Target {
        Target {
            is_markdown: true,
            ..Target::new(Format::Table, file, Ending::Clear)
        }
    }
}

/// The name of tables in Markdown.
const MARKDOWN: &str = "markdown";

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_markdown = |name: &str| name.eq_ignore_ascii_case(MARKDOWN);
        if let Ok(format) = text.parse() {
            return Ok(Target::new(format, None, Ending::Clear));
        }
        if is_markdown(text) {
            return Ok(Target::markdown(None));
        }
        let (format, file, ending) = match text.split_once('=') {
            Some((name, file)) if is_markdown(name) && !file.is_empty() => {
                return Ok(Target::markdown((file != "-").then(|| file.into())));
            }
            Some((name, file)) if !name.contains('/') => {
                let format = name
                    .parse::<Format>()
                    .map_err(|error| format!("{error}, {MARKDOWN}"))?;
                (format, file, Ending::Clear)
            }
            _ if is_markdown_file(text) => return Ok(Target::markdown(Some(text.into()))),
            _ => {
                let (format, ending) = of_file(Path::new(text))?;
                (format, text, ending)
            }
        };
        if file.is_empty() {
            return Err("the file's name is empty".into());
        }
        let file = (file != "-").then(|| PathBuf::from(file));
        Ok(Target::new(format, file, ending))
    }
}

/// Whether the file's name is that of a file in Markdown.
fn is_markdown_file(text: &str) -> bool {
    let ending = Path::new(text).extension();
    ending.is_some_and(|ending| ending.eq_ignore_ascii_case("md"))
}

/// The format that a file's name ends in; nothing if the ending is not one of a format's.
fn by_ending(file: &Path) -> Option<Format> {
    let ending = file.extension()?.to_str()?.to_ascii_lowercase();
    match ending.as_str() {
        "json" => Some(Format::Json),
        "jsonl" | "ndjson" => Some(Format::JsonLines),
        "csv" => Some(Format::Csv),
        "om" | "prom" | "openmetrics" => Some(Format::OpenMetrics),
        "txt" | "log" => Some(Format::Table),
        _ => None,
    }
}

/// The format of a file whose name alone was given.
fn of_file(file: &Path) -> Result<(Format, Ending), String> {
    match (by_ending(file), file.extension()) {
        (Some(format), _) => Ok((format, Ending::Clear)),
        (None, Some(_)) => Ok((Format::Table, Ending::Unknown)),
        (None, None) if file.components().count() > 1 => Ok((Format::Table, Ending::Clear)),
        // A bare word that is no format is more likely a mistyped format than a file.
        (None, None) => Err(format!(
            "neither a format ({}, {MARKDOWN}) nor a file with an ending; for a file of this name write table={}",
            Format::NAMES.join(", "),
            escaped(file)
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> (Format, Option<PathBuf>) {
        let target: Target = text.parse().unwrap();
        (target.format, target.file)
    }

    #[test]
    fn a_target_is_a_format_a_file_or_both() {
        assert_eq!(parse("jsonl"), (Format::JsonLines, None), "a format's name");
        assert_eq!(
            parse("a.csv"),
            (Format::Csv, Some("a.csv".into())),
            "a file, by its ending"
        );
        assert_eq!(
            parse("a.PROM"),
            (Format::OpenMetrics, Some("a.PROM".into())),
            "in any case"
        );
        for (text, ending) in [
            ("a.foo", Ending::Unknown),
            ("a.txt", Ending::Clear),
            ("table=a.foo", Ending::Clear),
            ("/tmp/a", Ending::Clear),
        ] {
            let target: Target = text.parse().unwrap();
            assert_eq!(target.format, Format::Table, "{text} gets the table");
            assert_eq!(target.ending, ending, "{text}: whether it was a guess");
        }
        assert_eq!(
            parse("/tmp/report"),
            (Format::Table, Some("/tmp/report".into())),
            "a path"
        );
        assert_eq!(parse("json=x"), (Format::Json, Some("x".into())), "both");
        assert_eq!(
            parse("csv=-"),
            (Format::Csv, None),
            "- is the standard stream"
        );
        assert_eq!(
            parse("./a=b.json"),
            (Format::Json, Some("./a=b.json".into())),
            "a path with ="
        );
    }

    #[test]
    fn markdown_is_a_table_of_its_own() {
        let target = |text: &str| text.parse::<Target>().unwrap();
        assert!(target("markdown").is_markdown && target("Markdown").file.is_none());
        let both = target("markdown=a.md");
        assert_eq!(both.file, Some("a.md".into()), "and a file");
        assert!(both.is_markdown && target("markdown=-").file.is_none());
        assert!(target("ticket.md").is_markdown, "by its ending");
        assert!(!target("table=markdown").is_markdown, "a file of this name");
        assert!("markdown=".parse::<Target>().is_err(), "no file after =");
    }

    #[test]
    fn a_mistyped_format_does_not_become_a_file() {
        let error = "jsn".parse::<Target>().unwrap_err();
        assert!(
            error.contains("json") && error.contains("table=jsn"),
            "it says what to write: {error}"
        );
        assert!(
            "xml=f".parse::<Target>().is_err(),
            "an unknown format before ="
        );
        assert!("json=".parse::<Target>().is_err(), "no file after =");
    }
}
