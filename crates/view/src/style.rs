//! Colour and width, as passed by the caller.
//!
//! This crate queries neither terminal nor environment. It uses two attributes, bold and yellow,
//! and never as the only sign of a state.

/// Style of text for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Whether escape sequences may be written.
    pub color: bool,
    /// The width in columns. Paths are shortened to fit; numbers never are.
    pub width: usize,
}

impl Style {
    /// No colour and this width: for files, pipes and tests.
    #[must_use]
    pub const fn plain(width: usize) -> Self {
        Style {
            color: false,
            width,
        }
    }

    /// Bold: headings.
    #[must_use]
    pub fn bold(&self, text: &str) -> String {
        self.with("1", text)
    }

    /// Yellow: warnings.
    #[must_use]
    pub fn yellow(&self, text: &str) -> String {
        self.with("33", text)
    }

    fn with(&self, code: &str, text: &str) -> String {
        if self.color && !text.is_empty() {
            format!("\u{1b}[{code}m{text}\u{1b}[0m")
        } else {
            text.to_owned()
        }
    }
}

impl Default for Style {
    /// No colour, 80 columns.
    fn default() -> Self {
        Style::plain(80)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn style_without_color_writes_no_escapes() {
        let colored = Style {
            color: true,
            width: 80,
        };
        assert_eq!(colored.bold("x"), "\u{1b}[1mx\u{1b}[0m", "bold and back");
        assert_eq!(colored.yellow(""), "", "nothing needs no colour");
        assert_eq!(Style::plain(80).yellow("x"), "x", "plain is plain");
    }
}
