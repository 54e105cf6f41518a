//! What a terminal can show: characters and attributes.

use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Span;

/// What a terminal can show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// Only ASCII characters.
    pub ascii: bool,
    /// Colours. They never are the only sign of anything.
    pub color: bool,
}

impl Look {
    /// Plain text.
    #[must_use]
    pub fn plain(self) -> Style {
        Style::new()
    }

    /// Headings.
    #[must_use]
    pub fn bold(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// What can be overlooked.
    #[must_use]
    pub fn dim(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    /// Where one is.
    #[must_use]
    pub fn chosen(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    /// What came from the cache.
    #[must_use]
    pub fn hits(self) -> Style {
        self.colored(Color::Green)
    }

    /// What had to be fetched, and what needs attention.
    #[must_use]
    pub fn misses(self) -> Style {
        self.colored(Color::Yellow)
    }

    fn colored(self, color: Color) -> Style {
        match self.color {
            true => Style::new().fg(color),
            false => Style::new(),
        }
    }

    /// The same text in characters that the terminal has.
    #[must_use]
    pub fn text(self, text: &str) -> String {
        match self.ascii && !text.is_ascii() {
            true => text
                .chars()
                .map(|c| match c {
                    '…' => '~',
                    c if c.is_ascii() => c,
                    _ => '?',
                })
                .collect(),
            false => text.to_owned(),
        }
    }

    /// Which way a column is sorted: the largest first, or turned round.
    #[must_use]
    pub const fn arrow(self, reverse: bool) -> &'static str {
        match (self.ascii, reverse) {
            (true, false) => "v",
            (true, true) => "^",
            (false, false) => "▼",
            (false, true) => "▲",
        }
    }

    /// The line where one is.
    #[must_use]
    pub const fn marker(self) -> &'static str {
        match self.ascii {
            true => ">",
            false => "▸",
        }
    }

    /// One value of a sparkline; what is not nothing is seen.
    #[must_use]
    pub fn bar(self, part: f64) -> char {
        const BLOCKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
        const ASCII: [char; 9] = [' ', '.', ',', ':', '-', '=', '+', '*', '#'];
        let place = match part {
            part if part > 0.0 => ((part * 8.0).round() as usize).clamp(1, 8),
            _ => 0,
        };
        match self.ascii {
            true => ASCII[place],
            false => BLOCKS[place],
        }
    }
}

/// How many columns a text takes.
#[must_use]
pub(crate) fn width(text: &str) -> usize {
    Span::raw(text).width()
}

/// The text's beginning in so many columns, with a sign where something is missing.
#[must_use]
pub(crate) fn cut(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    fitting(text.chars(), columns.saturating_sub(1)) + if columns > 0 { "…" } else { "" }
}

/// A path in so many columns: its end, where the file's name is, keeps two thirds.
#[must_use]
pub(crate) fn cut_path(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let room = columns.saturating_sub(1);
    let head = fitting(text.chars(), room / 3);
    let tail = fitting(text.chars().rev(), room - room / 3);
    let tail: String = tail.chars().rev().collect();
    match columns {
        0 => String::new(),
        _ => format!("{head}…{tail}"),
    }
}

fn fitting(chars: impl Iterator<Item = char>, columns: usize) -> String {
    let mut used = 0;
    chars
        .take_while(|c| {
            used += width(c.encode_utf8(&mut [0; 4]));
            used <= columns
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_cut_where_it_tells_least() {
        assert_eq!(cut("command", 4), "com…", "a name from its end");
        assert_eq!(
            cut_path("/var/lib/db/users.ibd", 13),
            "/var…sers.ibd",
            "a path in its middle"
        );
        for columns in 0..9 {
            for text in [
                "漢字漢字漢字",
                "abcdefghijk",
                "e\u{301}e\u{301}e\u{301}xxxxxxxxx",
            ] {
                assert!(width(&cut(text, columns)) <= columns, "{text} in {columns}");
                assert!(
                    width(&cut_path(text, columns)) <= columns,
                    "{text} in {columns}"
                );
            }
        }
    }

    #[test]
    fn a_terminal_without_unicode_gets_none() {
        let look = Look {
            ascii: true,
            color: false,
        };
        assert_eq!(
            look.text("/tmp/ü…"),
            "/tmp/?~",
            "each character keeps a place"
        );
        let signs = format!(
            "{}{}{}{}",
            look.arrow(true),
            look.arrow(false),
            look.marker(),
            (0..=8)
                .map(|n| look.bar(f64::from(n) / 8.0))
                .collect::<String>()
        );
        assert!(signs.is_ascii(), "nor do its signs have any: {signs}");
        assert_ne!(look.bar(0.001), look.bar(0.0), "something is not nothing");
    }
}
