//! Capabilities of a terminal: characters and attributes.

use cachewise_view::ReadPart;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Span;

/// Capabilities of a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TerminalStyle {
    /// Only ASCII characters.
    pub ascii: bool,
    /// Colours, which are never the only sign of a state.
    pub color: bool,
}

impl TerminalStyle {
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

    /// Secondary text.
    #[must_use]
    pub fn dim(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    /// The selected line.
    #[must_use]
    pub fn chosen(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    /// A part of reads, in its colour.
    #[must_use]
    pub fn part(self, part: ReadPart) -> Style {
        self.colored(match part.ansi() {
            31 => Color::Red,
            34 => Color::Blue,
            35 => Color::Magenta,
            _ => Color::Cyan,
        })
    }

    /// Warnings: red can be read on light and dark grounds.
    #[must_use]
    pub fn warning(self) -> Style {
        self.colored(Color::Red)
    }

    fn colored(self, color: Color) -> Style {
        match self.color {
            true => Style::new().fg(color),
            false => Style::new(),
        }
    }

    /// The text in characters that the terminal has.
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

    /// The direction of sorting: largest first, or reversed.
    #[must_use]
    pub const fn arrow(self, reverse: bool) -> &'static str {
        match (self.ascii, reverse) {
            (true, false) => "v",
            (true, true) => "^",
            (false, false) => "▼",
            (false, true) => "▲",
        }
    }

    /// The mark of the selected line.
    #[must_use]
    pub const fn marker(self) -> &'static str {
        match self.ascii {
            true => ">",
            false => "▸",
        }
    }

    /// The lines from a tree's root to a row; for each step, whether its node is the last one below its parent.
    #[must_use]
    pub fn branches(self, lasts: &[bool]) -> String {
        let [past, blank, branch, last] = match self.ascii {
            true => ["|  ", "   ", "|- ", "`- "],
            false => ["│  ", "   ", "├─ ", "└─ "],
        };
        let Some((own, above)) = lasts.split_last() else {
            return String::new();
        };
        let above = above
            .iter()
            .map(|is_last| if *is_last { blank } else { past });
        above.chain([if *own { last } else { branch }]).collect()
    }

    /// A bar of a sparkline; values above zero are visible.
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

/// The width of a text in columns.
#[must_use]
pub(crate) fn width(text: &str) -> usize {
    Span::raw(text).width()
}

/// The beginning of a text in this width, with a sign of omission.
#[must_use]
pub(crate) fn cut(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    fitting(text.chars(), columns.saturating_sub(1)) + if columns > 0 { "…" } else { "" }
}

/// A path in this width: two thirds are for its end, the file name.
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
    fn cut_keeps_start_of_text_and_end_of_path() {
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
    fn branches_lead_from_the_root_to_a_row() {
        let look = TerminalStyle {
            ascii: false,
            color: false,
        };
        assert_eq!(look.branches(&[]), "", "a root has none");
        assert_eq!(look.branches(&[false]), "├─ ", "others follow it");
        assert_eq!(
            look.branches(&[false, true]),
            "│  └─ ",
            "the last of its own"
        );
        assert_eq!(
            look.branches(&[true, false]),
            "   ├─ ",
            "its parent was the last"
        );
    }

    #[test]
    fn ascii_look_writes_only_ascii() {
        let look = TerminalStyle {
            ascii: true,
            color: false,
        };
        assert_eq!(
            look.text("/tmp/ü…"),
            "/tmp/?~",
            "each character keeps its column"
        );
        let signs = format!(
            "{}{}{}{}{}",
            look.branches(&[true, false, true, false]),
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
