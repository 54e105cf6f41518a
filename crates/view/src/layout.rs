//! Layout of tables: the columns that have room, and lines of aligned cells.
//!
//! Every table of this crate is laid out here. Rows of a [`Grid`] are all known before the first
//! line is drawn; a stream of rows (`rows::table`) uses the [`Layout`] alone, whose columns grow.

use cachewise_model::Field;

use crate::cell::{LEAST_WIDTH, Side, cut, pad, shortened, width};
use crate::markdown::{table_cell, table_line};
use crate::style::{Style, Tables};

/// Space between two columns.
const GAP: &str = "  ";

/// A column of a table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Column {
    /// Names the column where columns are omitted: the id of its field, or its header.
    pub(crate) key: &'static str,
    pub(crate) header: &'static str,
    pub(crate) side: Side,
    /// Least and usual width of a text that may be shortened; other cells never are. Columns are
    /// omitted until texts have their usual width. In the last column the middle of a text is left
    /// out, and the text takes all remaining room. In other columns its end is cut.
    pub(crate) text: Option<(usize, usize)>,
}

impl Column {
    /// A column with this header, which is its key too.
    pub(crate) fn new(header: &'static str, side: Side) -> Column {
        Column {
            key: header,
            header,
            side,
            text: None,
        }
    }

    /// The column of a field.
    pub(crate) fn of(field: &Field) -> Column {
        let side = match field.unit.is_number() {
            true => Side::Right,
            false => Side::Left,
        };
        Column {
            key: field.id,
            ..Column::new(field.header, side)
        }
    }
}

/// Widths of columns, and which of them are shown.
#[derive(Debug, Default)]
pub(crate) struct Layout {
    columns: Vec<Column>,
    widths: Vec<usize>,
    /// Indexes of omitted columns, the first omitted first.
    omitted: Vec<usize>,
}

impl Layout {
    /// Adds a column on the right, as wide as its header at least.
    pub(crate) fn column(&mut self, column: Column, least: usize) {
        self.widths.push(width(column.header).max(least));
        self.columns.push(column);
    }

    /// Widens columns for these cells; the width of a last text is set by
    /// [`Layout::set_last_width`]. Returns whether a column grew.
    pub(crate) fn grow(&mut self, cells: &[impl AsRef<str>]) -> bool {
        let mut grown = false;
        let fixed = self.columns.len() - usize::from(self.ends_with_text());
        for (known, cell) in self.widths[..fixed].iter_mut().zip(cells) {
            let taken = width(cell.as_ref());
            grown |= taken > *known;
            *known = taken.max(*known);
        }
        grown
    }

    /// Sets the width of the last column that other columns leave to it.
    pub(crate) fn set_last_width(&mut self, columns: usize) {
        if let Some(last) = self.widths.last_mut() {
            *last = columns;
        }
    }

    /// Whether the last column is a text that takes the remaining room.
    pub(crate) fn ends_with_text(&self) -> bool {
        let last = self.columns.last();
        last.is_some_and(|column| column.text.is_some())
    }

    /// The width of a line.
    pub(crate) fn width(&self) -> usize {
        let widths: Vec<usize> = self.shown().map(|place| self.kept_width(place)).collect();
        widths.iter().sum::<usize>() + widths.len().saturating_sub(1) * GAP.len()
    }

    /// Shows all columns again.
    pub(crate) fn show_all(&mut self) {
        self.omitted.clear();
    }

    /// Omits the columns with these keys, the first of them first, until a line has room.
    pub(crate) fn omit(&mut self, keys: &[&str], room: usize) {
        for key in keys {
            if self.width() <= room {
                break;
            }
            let place = self.shown().find(|place| self.columns[*place].key == *key);
            self.omitted.extend(place);
        }
    }

    /// Indexes of the omitted columns, the first omitted first.
    pub(crate) fn omitted(&self) -> &[usize] {
        &self.omitted
    }

    /// Lists columns by their headers: `no room for SIZE, DIRTIES`.
    pub(crate) fn no_room_for(&self, places: &[usize]) -> Option<String> {
        let headers: Vec<&str> = places
            .iter()
            .map(|place| self.columns[*place].header)
            .collect();
        (!headers.is_empty()).then(|| format!("no room for {}", headers.join(", ")))
    }

    /// The line of headers.
    pub(crate) fn headers(&self, room: Option<usize>) -> String {
        self.line(room, |place| self.columns[place].header)
    }

    /// The line of these cells. Texts are shortened where there is a limit to the room.
    pub(crate) fn line<'a>(&self, room: Option<usize>, cell: impl Fn(usize) -> &'a str) -> String {
        let last = self.columns.len().saturating_sub(1);
        let limits = |place: usize| self.columns[place].text.filter(|_| room.is_some());
        let texts: usize = self
            .shown()
            .filter(|place| *place != last && limits(*place).is_some())
            .map(|place| self.kept_width(place))
            .sum();
        let mut free = room
            .unwrap_or(0)
            .saturating_add(texts)
            .saturating_sub(self.width());
        let mut line = String::new();
        for (number, place) in self.shown().enumerate() {
            if number > 0 {
                line += GAP;
            }
            let text = cell(place);
            match (limits(place), room) {
                (Some(_), Some(room)) if place == last => {
                    line += &shortened(text, room.saturating_sub(width(&line)));
                }
                (Some((least, _)), _) => {
                    let columns = self.widths[place].min(free.max(least));
                    free = free.saturating_sub(columns);
                    line += &pad(&cut(text, columns), columns, Side::Left);
                }
                _ if place == last && self.ends_with_text() => line += text,
                _ => line += &pad(text, self.widths[place], self.columns[place].side),
            }
        }
        line.trim_end().to_owned()
    }

    /// The header of a table in Markdown, with the line below it.
    pub(crate) fn markdown_headers(&self) -> String {
        let columns = || self.shown().map(|place| &self.columns[place]);
        let rule = |column: &Column| match column.side {
            Side::Left => "---".to_owned(),
            Side::Right => "---:".to_owned(),
        };
        let headers = table_line(columns().map(|column| table_cell(column.header)));
        format!("{headers}\n{}", table_line(columns().map(rule)))
    }

    /// The line of these cells in Markdown.
    pub(crate) fn markdown_line<'a>(&self, cell: impl Fn(usize) -> &'a str) -> String {
        table_line(self.shown().map(|place| table_cell(cell(place))))
    }

    fn shown(&self) -> impl Iterator<Item = usize> {
        (0..self.columns.len()).filter(|place| !self.omitted.contains(place))
    }

    /// The width that a column keeps while others can be omitted.
    fn kept_width(&self, place: usize) -> usize {
        let width = self.widths[place];
        let text = self.columns[place].text;
        text.map_or(width, |(_, usual)| width.min(usual))
    }
}

/// A table of finished cells.
#[derive(Debug, Default)]
pub(crate) struct Grid {
    layout: Layout,
    /// The cells of each column.
    cells: Vec<Vec<String>>,
    /// The width of a line, where the last column is a name that takes the rest of it.
    room: Option<usize>,
}

impl Grid {
    /// Adds a column on the right.
    pub(crate) fn column(&mut self, header: &'static str, side: Side, cells: Vec<String>) {
        self.add(Column::new(header, side), cells);
    }

    /// Adds a column on the right.
    pub(crate) fn add(&mut self, column: Column, cells: Vec<String>) {
        let widest = cells.iter().map(|cell| width(cell)).max();
        self.layout.column(column, widest.unwrap_or(0));
        self.cells.push(cells);
    }

    /// Adds the last column, of names that are shortened to the rest of a line of this width.
    /// Columns with the first keys are omitted until names have `usual` columns, those with the
    /// last keys until they have [`LEAST_WIDTH`].
    pub(crate) fn names(
        &mut self,
        (header, cells): (&'static str, Vec<String>),
        usual: usize,
        keys: (&[&str], &[&str]),
        room: usize,
    ) {
        let text = Some((LEAST_WIDTH, usual));
        let column = Column::new(header, Side::Left);
        self.add(Column { text, ..column }, cells);
        self.omit(keys.0, room);
        let longest = self.layout.widths.last().copied().unwrap_or(0);
        self.layout.set_last_width(longest.min(LEAST_WIDTH));
        self.omit(keys.1, room);
        self.room = Some(room);
    }

    /// Omits columns, in this order, until the rest fits.
    pub(crate) fn omit(&mut self, keys: &[&str], room: usize) {
        self.layout.omit(keys, room);
    }

    /// Cuts the ends of the texts in the first column where a line has no room for them; [`LEAST_WIDTH`] is left.
    pub(crate) fn cut_first(&mut self, room: usize) {
        let excess = self.layout.width().saturating_sub(room);
        let (Some(widest), Some(cells)) = (self.layout.widths.first_mut(), self.cells.first_mut())
        else {
            return;
        };
        let columns = widest.saturating_sub(excess).max(LEAST_WIDTH);
        for cell in cells {
            *cell = cut(cell, columns);
        }
        *widest = columns.min(*widest);
    }

    /// The omitted columns, if any: `no room for SIZE, DIRTIES`.
    pub(crate) fn left_out(&self) -> Option<String> {
        self.layout.no_room_for(self.layout.omitted())
    }

    /// The table as text; the header is bold.
    pub(crate) fn text(&self, style: Style) -> String {
        let is_markdown = style.tables == Tables::Markdown;
        let mut text = match is_markdown {
            true => self.layout.markdown_headers(),
            false => style.bold(&self.layout.headers(self.room)),
        } + "\n";
        let lines = self.cells.iter().map(Vec::len).max().unwrap_or(0);
        for line in 0..lines {
            let cell = |place: usize| self.cells[place].get(line).map_or("", String::as_str);
            text += &match is_markdown {
                true => self.layout.markdown_line(cell),
                false => self.layout.line(self.room, cell),
            };
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid() -> Grid {
        let mut grid = Grid::default();
        grid.column("WHAT", Side::Left, vec!["hit".into(), "  missed".into()]);
        grid.column("PAGES", Side::Right, vec!["131,072".into(), "5".into()]);
        grid
    }

    #[test]
    fn columns_align_without_borders() {
        let expected = [
            "WHAT        PAGES\n",
            "hit       131,072\n",
            "  missed        5\n",
        ]
        .concat();
        assert_eq!(
            grid().text(Style::plain(80)),
            expected,
            "indented names keep their indent"
        );
        assert_eq!(grid().layout.width(), 17, "as wide as its lines");
    }

    #[test]
    fn omit_takes_columns_in_order_with_a_note() {
        let mut wide = grid();
        wide.omit(&["PAGES", "WHAT"], 17);
        assert_eq!(wide.left_out(), None, "it fits to the column");
        let mut narrow = grid();
        narrow.omit(&["PAGES", "WHAT"], 16);
        assert_eq!(narrow.layout.width(), 8, "one is enough");
        assert_eq!(
            narrow.left_out().as_deref(),
            Some("no room for PAGES"),
            "the omitted column is named"
        );
    }

    #[test]
    fn names_take_the_rest_of_a_line() {
        let named = |room| {
            let mut grid = grid();
            let names = ["/", "/var/lib/database/table"].map(str::to_owned).into();
            grid.names(("FILE", names), 20, (&["PAGES"], &["WHAT"]), room);
            grid.text(Style::plain(80))
        };
        let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(
            lines(&named(39))[2],
            "  missed        5  /var/...tabase/table",
            "a name is cut in the middle"
        );
        assert_eq!(
            lines(&named(38)),
            [
                "WHAT      FILE",
                "hit       /",
                "  missed  /var/lib/database/table"
            ],
            "a column is omitted for a name of 20 columns"
        );
        assert_eq!(
            lines(&named(25)),
            ["FILE", "/", "/var/lib/database/table"],
            "another is omitted for a name of 16 columns"
        );
    }

    #[test]
    fn first_texts_are_cut_where_a_terminal_has_no_room() {
        let grid = |room| {
            let all = |texts: [&str; 2]| texts.map(str::to_owned).to_vec();
            let mut grid = Grid::default();
            let names = all(["waiting for locks and journals of file systems", "all"]);
            grid.column("time of tasks", Side::Left, names);
            grid.column("SECONDS", Side::Right, all(["0.012", "1234.567"]));
            grid.cut_first(room);
            grid.text(Style::plain(room))
        };
        for room in [40, 50] {
            let text = grid(room);
            assert_eq!(text.lines().map(width).max(), Some(room), "{text}");
            assert!(text.contains("1234.567"), "numbers are whole: {text}");
        }
        for room in [80, usize::MAX] {
            let text = grid(room);
            assert!(text.contains("journals of file systems"), "{room}: {text}");
        }
    }
}
