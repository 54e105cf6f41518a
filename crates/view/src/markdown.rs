//! [`Markdown`]: text for people as GitHub's Markdown, for tickets.
//!
//! A bold line becomes a heading, a table a table, aligned lines a block of code. In other lines bold stays, other colours go,
//! and characters with a meaning are escaped.

use cachewise_model::escaped;

/// The first character of a line of a table, which no escaped text has.
pub(crate) const TABLE_LINE: char = '\u{1}';

const BOLD: &str = "\u{1b}[1m";
const PLAIN: &str = "\u{1b}[0m";

/// A text as Markdown shows it, on one line: characters with a meaning there are escaped.
#[must_use]
pub fn markdown_text(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in escaped(text).chars() {
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' | '#' | '>' => {
                safe.extend(['\\', character]);
            }
            _ => safe.push(character),
        }
    }
    safe
}

/// A row of a table.
pub(crate) fn table_line(cells: impl Iterator<Item = String>) -> String {
    let cells: Vec<String> = cells.collect();
    format!("{TABLE_LINE}| {} |", cells.join(" | "))
}

/// A cell of a table; leading spaces, which show a level, stay.
pub(crate) fn table_cell(text: &str) -> String {
    let name = text.trim_start_matches(' ');
    let level = text.len() - name.len();
    "&nbsp;".repeat(level) + &markdown_text(name)
}

/// The kind of the last line.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Block {
    #[default]
    Start,
    Blank,
    Text,
    Table,
    /// In a block of code.
    Aligned,
}

/// Turns text for people, with its escape sequences of colour, into Markdown.
#[derive(Debug, Default)]
pub struct Markdown {
    /// A line without its end.
    begun: String,
    block: Block,
}

impl Markdown {
    /// Takes text, and returns the Markdown of the lines that are complete.
    pub fn push(&mut self, text: &str) -> String {
        self.begun += text;
        let mut markdown = String::new();
        while let Some(end) = self.begun.find('\n') {
            let rest = self.begun.split_off(end + 1);
            let line = std::mem::replace(&mut self.begun, rest);
            self.line(line.trim_end(), &mut markdown);
        }
        markdown
    }

    /// Returns the Markdown of the rest.
    pub fn end(&mut self) -> String {
        let mut markdown = String::new();
        let rest = std::mem::take(&mut self.begun);
        if !rest.trim_end().is_empty() {
            self.line(rest.trim_end(), &mut markdown);
        }
        self.enter(Block::Blank, &mut markdown);
        markdown.truncate(markdown.trim_end_matches('\n').len());
        if !markdown.is_empty() {
            markdown.push('\n');
        }
        markdown
    }

    fn line(&mut self, line: &str, markdown: &mut String) {
        if line.is_empty() {
            self.enter(Block::Blank, markdown);
        } else if let Some(row) = line.strip_prefix(TABLE_LINE) {
            self.enter(Block::Table, markdown);
            *markdown += row;
            markdown.push('\n');
        } else if let Some(title) = title(line) {
            self.enter(Block::Blank, markdown);
            *markdown += &format!("### {}\n", markdown_text(title));
            self.block = Block::Text;
            self.enter(Block::Blank, markdown);
        } else if is_aligned(line) {
            self.enter(Block::Aligned, markdown);
            *markdown += &without_color(line);
            markdown.push('\n');
        } else {
            self.enter(Block::Text, markdown);
            *markdown += &inline(line.trim_start());
            // A break, where renderers join lines.
            *markdown += "  \n";
        }
    }

    /// Ends the block before another kind of line, with an empty line between two kinds.
    fn enter(&mut self, next: Block, markdown: &mut String) {
        if self.block == next || (self.block, next) == (Block::Start, Block::Blank) {
            return;
        }
        if self.block == Block::Aligned {
            *markdown += FENCE;
        }
        if !matches!(self.block, Block::Start | Block::Blank) {
            markdown.push('\n');
        }
        if next == Block::Aligned {
            *markdown += FENCE;
        }
        self.block = next;
    }
}

/// Longer than what a line of the block may hold.
const FENCE: &str = "``````\n";

/// The text of a line that is bold as a whole.
fn title(line: &str) -> Option<&str> {
    let title = line.strip_prefix(BOLD)?.strip_suffix(PLAIN)?;
    (!title.contains('\u{1b}')).then_some(title)
}

/// Whether spaces put parts of the line, or all of it, into columns.
fn is_aligned(line: &str) -> bool {
    const INDENTED: &str = "      ";
    let line = without_color(line);
    line.starts_with(INDENTED) || line.trim_start().contains("  ")
}

fn without_color(line: &str) -> String {
    let mut parts = line.split("\u{1b}[");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| {
        text + part.split_once('m').map_or(part, |(_, rest)| rest)
    })
}

fn inline(line: &str) -> String {
    let mut parts = line.split("\u{1b}[");
    let first = parts.next().unwrap_or_default();
    let mut text = markdown_text(first);
    // A line of its own meaning: a list, a rule, an underlined title.
    if first.starts_with(['-', '+', '=']) {
        text.insert(0, '\\');
    }
    let mut is_bold = false;
    for part in parts {
        let (code, rest) = part.split_once('m').unwrap_or(("", part));
        let turns = match code {
            "1" => !is_bold,
            "0" => is_bold,
            _ => false,
        };
        if turns {
            is_bold = !is_bold;
            text += "**";
        }
        text += &markdown_text(rest);
    }
    if is_bold {
        text += "**";
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> String {
        let mut markdown = Markdown::default();
        let whole = markdown.push(text);
        whole + &markdown.end()
    }

    #[test]
    fn titles_tables_and_text_are_apart() {
        let text = "\u{1b}[1mfiles\u{1b}[0m\n\u{1}| PATH |\n\u{1}| --- |\n\u{1}| /a |\nand 4 more\n\n\u{1b}[1mnote:\u{1b}[0m *x*\n";
        assert_eq!(
            of(text),
            "### files\n\n| PATH |\n| --- |\n| /a |\n\nand 4 more  \n\n**note:** \\*x\\*  \n"
        );
    }

    #[test]
    fn aligned_lines_are_code() {
        assert_eq!(
            of("reads\n\u{1b}[34m##\u{1b}[0m  a_b\n   c  d\nend\n"),
            "reads  \n\n``````\n##  a_b\n   c  d\n``````\n\nend  \n"
        );
    }

    #[test]
    fn a_line_that_comes_in_parts_is_one() {
        let mut markdown = Markdown::default();
        let parts = ["a ", "<b>", "\n", "- c"].map(|part| markdown.push(part));
        assert_eq!(parts.concat() + &markdown.end(), "a &lt;b\\>  \n\\- c  \n");
    }

    #[test]
    fn warnings_are_bold_once() {
        assert_eq!(
            of("\u{1b}[31m\u{1b}[1mDOES NOT\u{1b}[0m\u{1b}[0m add\n"),
            "**DOES NOT** add  \n"
        );
    }

    #[test]
    fn levels_of_names_stay() {
        assert_eq!(table_cell("  a|b"), "&nbsp;&nbsp;a\\|b");
    }
}
