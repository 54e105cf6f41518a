//! Text in columns: width, alignment, cuts and line breaks.

use std::path::Path;

use cachewise_model::escaped;
use unicode_width::UnicodeWidthStr;

/// A path with escaped control characters.
pub(crate) fn path_text(path: &Path) -> String {
    escaped(path.as_os_str()).into_owned()
}

/// The width of a text in columns.
pub(crate) fn width(text: &str) -> usize {
    text.width()
}

/// Alignment of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Left,
    Right,
}

/// Pads a text to a width; a wider one is unchanged.
pub(crate) fn pad(text: &str, columns: usize, side: Side) -> String {
    let fill = " ".repeat(columns.saturating_sub(width(text)));
    match side {
        Side::Left => format!("{text}{fill}"),
        Side::Right => format!("{fill}{text}"),
    }
}

/// Minimum width of a cut name; a line may rather be too long.
pub(crate) const LEAST_WIDTH: usize = 16;

/// A path cut in the middle: two thirds of the width are for its end, the file name.
pub(crate) fn shortened(text: &str, columns: usize) -> String {
    const DOTS: &str = "...";
    let columns = columns.max(LEAST_WIDTH);
    if width(text) <= columns {
        return text.to_owned();
    }
    let room = columns - DOTS.len();
    let head = fitting(text.chars(), room / 3);
    let tail: String = fitting(text.chars().rev(), room - room / 3)
        .chars()
        .rev()
        .collect();
    format!("{head}{DOTS}{tail}")
}

/// The beginning of a text, cut to this width: the end of a sentence matters least.
pub(crate) fn cut(text: &str, columns: usize) -> String {
    const DOTS: &str = "...";
    if width(text) <= columns {
        return text.to_owned();
    }
    let head = fitting(text.chars(), columns.saturating_sub(DOTS.len()));
    format!("{}{DOTS}", head.trim_end())
}

/// The characters that fit into this width.
fn fitting(chars: impl Iterator<Item = char>, columns: usize) -> String {
    let mut used = 0;
    chars
        .take_while(|c| {
            used += width(c.encode_utf8(&mut [0; 4]));
            used <= columns
        })
        .collect()
}

/// Text broken between words at `columns`; following lines are indented.
///
/// Colour escape sequences have no width. A longer word gets a line of its own.
pub(crate) fn wrapped(text: &str, columns: usize) -> String {
    const INDENT: &str = "  ";
    let mut lines = String::with_capacity(text.len());
    let mut used = 0;
    for (place, word) in text.split(' ').enumerate() {
        let taken = seen_width(word);
        if place > 0 && used + 1 + taken > columns {
            lines += "\n";
            lines += INDENT;
            used = INDENT.len();
        } else if place > 0 {
            lines.push(' ');
            used += 1;
        }
        lines += word;
        used += taken;
    }
    lines
}

/// The width without colour escape sequences.
fn seen_width(text: &str) -> usize {
    let mut parts = text.split("\u{1b}[");
    let plain = parts.next().map_or(0, width);
    let after = |part: &str| part.split_once('m').map_or(0, |(_, seen)| width(seen));
    plain + parts.map(after).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn width_counts_visible_columns() {
        assert_eq!(
            pad("\u{6f22}", 4, Side::Right),
            "  \u{6f22}",
            "a wide character takes two"
        );
        assert_eq!(pad("12345", 3, Side::Left), "12345", "nothing is cut");
    }

    #[test]
    fn shortened_keeps_the_end_of_a_path() {
        let path = "/home/somebody/projects/cachewise/target/release/deps/libmodel.rlib";
        let short = shortened(path, 40);
        assert_eq!(
            short, "/home/somebo...elease/deps/libmodel.rlib",
            "a third and two thirds"
        );
        assert!(width(&short) <= 40, "it fits");
        assert_eq!(
            shortened("/short", 40),
            "/short",
            "a fitting path is unchanged"
        );
        assert_eq!(width(&shortened(path, 1)), 16, "something is always left");
        assert!(
            width(&shortened(&"\u{6f22}".repeat(40), 21)) <= 21,
            "wide characters are not cut in two"
        );
    }

    #[test]
    fn wrapped_breaks_between_words() {
        let text = "no room for EVICTED, BUFFERS, PAGE-CACHE";
        assert_eq!(wrapped(text, 40), text, "a fitting text is unchanged");
        assert_eq!(
            wrapped(text, 39),
            "no room for EVICTED, BUFFERS,\n  PAGE-CACHE",
            "a word that does not fit starts the next line"
        );
        assert_eq!(
            wrapped("a incomprehensibilities b", 5),
            "a\n  incomprehensibilities\n  b",
            "no word is cut"
        );
        let bold = "\u{1b}[1mno room\u{1b}[0m here";
        assert_eq!(wrapped(bold, 12), bold, "colour takes no columns");
        assert_eq!(
            wrapped(bold, 11).lines().count(),
            2,
            "and letters do, coloured or not"
        );
    }
}
