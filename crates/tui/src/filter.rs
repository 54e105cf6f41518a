//! Which rows are shown: by a piece of text, a regular expression or a glob.

use globset::{GlobBuilder, GlobMatcher};
use regex::{Regex, RegexBuilder};

/// What a row's names have to be like.
#[derive(Debug, Clone)]
pub struct Filter {
    text: String,
    test: Test,
}

#[derive(Debug, Clone)]
enum Test {
    /// Lower case: any case is meant, unless a capital was typed.
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

/// Beyond this a pattern would take more memory than it is worth.
const LARGEST_REGEX: usize = 1 << 20;

impl Filter {
    /// Understands `text`, `re:REGEX` and `glob:PATTERN`.
    ///
    /// # Errors
    /// Says what is wrong with the pattern, on one line.
    pub fn new(text: &str) -> Result<Filter, String> {
        let test = if let Some(pattern) = text.strip_prefix("re:") {
            let regex = RegexBuilder::new(pattern)
                .size_limit(LARGEST_REGEX)
                .build()
                .map_err(|error| {
                    let told = error.to_string();
                    let last = told.lines().last().unwrap_or_default().trim().to_owned();
                    format!("re:{pattern} is no regular expression: {last}")
                })?;
            Test::Regex(regex)
        } else if let Some(pattern) = text.strip_prefix("glob:") {
            let glob = GlobBuilder::new(pattern)
                .literal_separator(true)
                .build()
                .map_err(|error| format!("glob:{pattern} is no pattern: {}", error.kind()))?;
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

    /// As it was typed.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether one of these names is meant.
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
    fn three_kinds_of_patterns() {
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
    fn what_cannot_be_understood_is_said() {
        for text in ["re:(", "glob:[", "re:(((((a{99}){99}){99}){99}){99})"] {
            let told = Filter::new(text).unwrap_err();
            assert!(
                told.starts_with(&text[..3]) && !told.contains('\n'),
                "{text}: on one line: {told}"
            );
        }
    }
}
