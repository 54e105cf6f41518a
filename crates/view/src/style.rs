//! Colour and width, as passed by the caller.
//!
//! This crate queries neither terminal nor environment. It uses bold, red for warnings, and the colours of [`crate::ReadPart`], and
//! never as the only sign of a state.

/// How tables are laid out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Tables {
    /// For a terminal: columns without room are omitted, names shortened.
    #[default]
    Fitted,
    /// For a pipe or a file: all columns, whole names.
    Whole,
    /// All columns and whole names, in the lines that [`crate::Markdown`] takes.
    Markdown,
}

/// Style of text for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Whether escape sequences may be written.
    pub color: bool,
    /// The width in columns. Paths are shortened to fit; numbers never are.
    pub width: usize,
    /// Only ASCII characters, for terminals without UTF-8.
    pub ascii: bool,
    /// How tables are laid out.
    pub tables: Tables,
}

impl Style {
    /// No colour and this width: for files, pipes and tests.
    #[must_use]
    pub const fn plain(width: usize) -> Self {
        Style {
            color: false,
            width,
            ascii: false,
            tables: Tables::Fitted,
        }
    }

    /// The width of a line of a table; without a limit for pipes and files.
    #[must_use]
    pub const fn table_width(&self) -> usize {
        match self.tables {
            Tables::Fitted => self.width,
            Tables::Whole | Tables::Markdown => usize::MAX,
        }
    }

    /// The width of a picture of characters.
    #[must_use]
    pub fn picture_width(&self) -> usize {
        const MARKDOWN: usize = 100;
        match self.tables {
            Tables::Fitted | Tables::Whole => self.width,
            Tables::Markdown => self.width.min(MARKDOWN),
        }
    }

    /// Bold: headings.
    #[must_use]
    pub fn bold(&self, text: &str) -> String {
        self.with("1", text)
    }

    /// Red, which can be read on light and dark grounds: warnings.
    #[must_use]
    pub fn warning(&self, text: &str) -> String {
        self.with("31", text)
    }

    /// One of the 16 colours, by its code: 31 is red.
    #[must_use]
    pub fn paint(&self, code: u8, text: &str) -> String {
        self.with(&code.to_string(), text)
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
            ..Style::plain(80)
        };
        assert_eq!(colored.bold("x"), "\u{1b}[1mx\u{1b}[0m", "bold and back");
        assert_eq!(colored.warning(""), "", "nothing needs no colour");
        assert_eq!(Style::plain(80).warning("x"), "x", "plain is plain");
    }
}
