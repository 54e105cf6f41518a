//! Filter of rows: by a piece of text, a regular expression or a glob.

use globset::{GlobBuilder, GlobMatcher};
use regex::{Regex, RegexBuilder};

/// A condition on a row's names.
#[derive(Debug, Clone)]
pub struct Filter {
    text: String,
    test: Test,
}

#[derive(Debug, Clone)]
enum Test {
    /// In lower case: matches any case, unless the text has a capital.
    Part {
        part: String,
        any_case: bool,
    },
    Regex(Regex),
    Glob {
        glob: GlobMatcher,
        of_path: bool,
    },
}

/// A larger pattern would take too much memory.
const LARGEST_REGEX: usize = 1 << 20;

impl Filter {
    /// Parses `text`, `re:REGEX` and `glob:PATTERN`.
    ///
    /// # Errors
    /// The fault in the pattern, on one line.
    pub fn new(text: &str) -> Result<Filter, String> {
        let test = if let Some(pattern) = text.strip_prefix("re:") {
            let regex = RegexBuilder::new(pattern)
                .size_limit(LARGEST_REGEX)
                .build()
                .map_err(|error| {
                    let problem = error.to_string();
                    let last = problem.lines().last().unwrap_or_default().trim().to_owned();
                    format!("re:{pattern} is not a regular expression: {last}")
                })?;
            Test::Regex(regex)
        } else if let Some(pattern) = text.strip_prefix("glob:") {
            let glob = GlobBuilder::new(pattern)
                .literal_separator(true)
                .build()
                .map_err(|error| format!("glob:{pattern} is not a pattern: {}", error.kind()))?;
            Test::Glob {
                glob: glob.compile_matcher(),
                of_path: pattern.contains('/'),
            }
        } else {
            let any_case = !text.chars().any(char::is_uppercase);
            let part = text.to_owned();
            Test::Part { part, any_case }
        };
        Ok(Filter {
            text: text.to_owned(),
            test,
        })
    }

    /// The original text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether one of these names matches.
    #[must_use]
    pub fn accepts<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> bool {
        names.into_iter().any(|name| match &self.test {
            Test::Part {
                part,
                any_case: true,
            } => name.to_lowercase().contains(part.as_str()),
            Test::Part { part, .. } => name.contains(part.as_str()),
            Test::Regex(regex) => regex.is_match(name),
            Test::Glob {
                glob,
                of_path: true,
            } => glob.is_match(name),
            Test::Glob { glob, .. } => glob.is_match(name.rsplit('/').next().unwrap_or(name)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filter_accepts_text_regex_and_glob() {
        for (filter, name, is_meant) in [
            ("data", "/var/DATA.db", true),
            ("Data", "/var/data.db", false),
            ("re:^/var/.*[0-9]$", "/var/x1", true),
            ("re:^/var/.*[0-9]$", "/srv/x1", false),
            ("glob:*.db", "/var/lib/x.db", true),
            ("glob:/var/*.db", "/var/lib/x.db", false),
            ("glob:/var/**/*.db", "/var/lib/x.db", true),
        ] {
            let test = Filter::new(filter).unwrap();
            assert_eq!(test.accepts([name]), is_meant, "{filter} and {name}");
        }
    }

    #[test]
    fn invalid_pattern_is_reported_on_one_line() {
        for text in ["re:(", "glob:[", "re:(((((a{99}){99}){99}){99}){99})"] {
            let problem = Filter::new(text).unwrap_err();
            assert!(
                problem.starts_with(&text[..3]) && !problem.contains('\n'),
                "{text}: on one line: {problem}"
            );
        }
    }
}
