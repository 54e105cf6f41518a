//! `--label`: labels of files, by patterns for their paths.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use anyhow::{Context, Result, bail};
use cachewise_model::{Interval, Measured, NOT_APPLICABLE, Reason, Row};
use cachewise_units::escaped;
use clap::Args;
use globset::{Glob, GlobBuilder, GlobMatcher};

/// The option of commands that show files.
#[derive(Debug, Clone, Default, Args)]
pub struct LabelFile {
    /// Read labels for files from this list: on each line a path pattern, a tab and a label; see docs/labels.md.
    #[arg(long, value_name = "FILE")]
    pub label: Option<PathBuf>,
}

impl LabelFile {
    /// Reads the list, if one is named.
    ///
    /// # Errors
    /// The file and the line that are wrong.
    pub fn read(&self) -> Result<Option<FileLabels>> {
        let Some(path) = &self.label else {
            return Ok(None);
        };
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read the labels of {}", escaped(path)))?;
        FileLabels::parse(&text, &escaped(path)).map(Some)
    }
}

/// Labels of files.
#[derive(Debug, Default)]
pub struct FileLabels {
    rules: Vec<Rule>,
    /// Rules by the literal beginning of their pattern: a list can have a line for each of many
    /// thousand tables.
    by_beginning: HashMap<String, Vec<usize>>,
    /// Lengths of these beginnings.
    lengths: BTreeSet<usize>,
}

#[derive(Debug)]
struct Rule {
    glob: Glob,
    matcher: OnceLock<GlobMatcher>,
    label: String,
}

impl FileLabels {
    /// Parses a list; `name` is that of the file, for errors.
    fn parse(text: &str, name: &str) -> Result<FileLabels> {
        let mut labels = FileLabels::default();
        for (number, line) in text.lines().enumerate() {
            let place = || format!("{name}:{}", number + 1);
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let Some((pattern, label)) = line.split_once('\t') else {
                bail!("{}: no tab between a pattern and its label", place());
            };
            let label = label.trim();
            if label.is_empty() {
                bail!("{}: no label behind the tab", place());
            }
            if !pattern.starts_with('/') {
                bail!(
                    "{}: {pattern:?} is not an absolute path: begin it with /",
                    place()
                );
            }
            let glob = GlobBuilder::new(pattern).literal_separator(true).build();
            let glob = glob.map_err(|error| anyhow::anyhow!("{}", error.kind()));
            let glob = glob.with_context(|| format!("{}: not a pattern", place()))?;
            labels.add(pattern, glob, label.to_owned());
        }
        Ok(labels)
    }

    fn add(&mut self, pattern: &str, glob: Glob, label: String) {
        let end = pattern.find(['*', '?', '[', '{', '\\']);
        let beginning = pattern[..end.unwrap_or(pattern.len())].to_owned();
        self.lengths.insert(beginning.len());
        let of_beginning = self.by_beginning.entry(beginning).or_default();
        of_beginning.push(self.rules.len());
        self.rules.push(Rule {
            glob,
            matcher: OnceLock::new(),
            label,
        });
    }

    /// The label of the first line whose pattern matches. A relative path starts in the current
    /// directory.
    fn of(&self, path: &Path) -> Option<&str> {
        let path = &std::path::absolute(path).ok()?;
        let text = path.to_str()?;
        let beginnings = self.lengths.iter().filter_map(|length| text.get(..*length));
        let rules = beginnings.filter_map(|beginning| self.by_beginning.get(beginning));
        let mut numbers: Vec<usize> = rules.flatten().copied().collect();
        numbers.sort_unstable();
        numbers
            .into_iter()
            .map(|number| &self.rules[number])
            .find(|rule| {
                let matcher = rule.matcher.get_or_init(|| rule.glob.compile_matcher());
                matcher.is_match(path)
            })
            .map(|rule| rule.label.as_str())
    }

    /// Labels the files of an interval.
    pub fn apply(&self, interval: &mut Interval) {
        for file in &mut interval.files {
            file.label = self.measured(&file.path);
        }
    }

    /// Labels the row of a file.
    pub fn apply_to_row(&self, row: &mut Row) {
        row.labels.label = self.measured(&row.labels.path);
    }

    fn measured(&self, path: &Measured<PathBuf>) -> Measured<String> {
        match path {
            Measured::Exact(path) | Measured::Estimated(path, _) => match self.of(path) {
                Some(label) => Measured::Exact(label.to_owned()),
                None => Measured::not_offered(Reason::NoLabel),
            },
            Measured::Missing(NOT_APPLICABLE) => Measured::Missing(NOT_APPLICABLE),
            Measured::Missing(_) => Measured::not_offered(Reason::NoLabel),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<FileLabels> {
        FileLabels::parse(text, "labels")
    }

    #[test]
    fn first_matching_line_gives_the_label() {
        let labels = parse(
            "# tables\n\n/data/16384/16385\torders\n/data/16384/16385.*\torders\n\
             /data/16384/16385_*\torders (fork)\n/data/*/topic-[0-9]/*.log\ta topic\n/data/**\tthe rest\r\n",
        )
        .expect("the list is right");
        for (path, label) in [
            ("/data/16384/16385", Some("orders")),
            ("/data/16384/16385.1", Some("orders")),
            ("/data/16384/16385_vm", Some("orders (fork)")),
            ("/data/16384/163850", Some("the rest")),
            ("/data/1/topic-7/0.log", Some("a topic")),
            ("/data/1/topic-7/deep/0.log", Some("the rest")),
            ("/elsewhere", None),
        ] {
            assert_eq!(labels.of(Path::new(path)), label, "{path}");
        }
    }

    #[test]
    fn wrong_lines_are_named() {
        for (text, message) in [
            ("/a\tb\n/c d\n", "labels:2: no tab"),
            ("/a\t \n", "labels:1: no label"),
            (
                "base/1\torders\n",
                "labels:1: \"base/1\" is not an absolute path",
            ),
            ("#\n/a[\torders\n", "labels:2: not a pattern"),
        ] {
            let error = parse(text).expect_err(text);
            assert!(
                format!("{error:#}").contains(message),
                "{text:?}: {error:#}"
            );
        }
    }
}
