//! Small tables inside a report: drawn by `comfy-table`, without borders.

use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table, presets};

use crate::cell::{Side, width};
use crate::style::Style;

/// Space between two columns.
const GAP: usize = 2;

/// A table of finished cells: columns with their headers.
#[derive(Debug, Default)]
pub(crate) struct Grid {
    columns: Vec<Column>,
    left_out: Vec<String>,
}

#[derive(Debug)]
struct Column {
    header: String,
    side: Side,
    cells: Vec<String>,
}

impl Column {
    fn width(&self) -> usize {
        let cells = self.cells.iter().map(|cell| width(cell));
        cells.max().unwrap_or(0).max(width(&self.header))
    }
}

impl Grid {
    /// Adds a column on the right.
    pub(crate) fn column(&mut self, header: &str, side: Side, cells: Vec<String>) {
        self.columns.push(Column {
            header: header.to_owned(),
            side,
            cells,
        });
    }

    /// The width of a line.
    pub(crate) fn width(&self) -> usize {
        let columns: usize = self.columns.iter().map(|column| column.width() + GAP).sum();
        columns.saturating_sub(GAP)
    }

    /// The room left for one more column.
    pub(crate) fn room(&self, line: usize) -> usize {
        line.saturating_sub(self.width() + GAP)
    }

    /// Omits columns, in this order, until the rest fits.
    pub(crate) fn spare(&mut self, headers: &[&str], line: usize) {
        for header in headers {
            if self.width() <= line {
                break;
            }
            let before = self.columns.len();
            self.columns.retain(|column| column.header != *header);
            if self.columns.len() < before {
                self.left_out.push((*header).to_owned());
            }
        }
    }

    /// Omits columns until this much room is left for one more column.
    pub(crate) fn spare_for(&mut self, wanted: usize, headers: &[&str], line: usize) {
        self.spare(headers, line.saturating_sub(wanted + GAP));
    }

    /// The omitted columns, if any: `no room for SIZE, DIRTIES`.
    pub(crate) fn left_out(&self) -> Option<String> {
        (!self.left_out.is_empty()).then(|| format!("no room for {}", self.left_out.join(", ")))
    }

    /// The table as text; the header is bold.
    pub(crate) fn text(&self, style: Style) -> String {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_content_arrangement(ContentArrangement::Disabled);
        table.set_header(self.columns.iter().map(|column| &column.header));
        let lines = self.columns.iter().map(|column| column.cells.len()).max();
        for line in 0..lines.unwrap_or(0) {
            let cells = self.columns.iter().map(|column| column.cells.get(line));
            table.add_row(cells.map(|cell| cell.map_or("", String::as_str)));
        }
        for (drawn, column) in table.column_iter_mut().zip(&self.columns) {
            drawn.set_padding((0, GAP as u16));
            drawn.set_constraint(ColumnConstraint::ContentWidth);
            drawn.set_cell_alignment(match column.side {
                Side::Left => CellAlignment::Left,
                Side::Right => CellAlignment::Right,
            });
        }
        let mut text = String::new();
        for (place, line) in table.lines().enumerate() {
            let line = line.trim_end();
            text += &if place == 0 {
                style.bold(line)
            } else {
                line.to_owned()
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
        assert_eq!(grid().width(), 17, "as wide as its lines");
        assert_eq!(grid().room(40), 21, "with a gap before the next column");
    }

    #[test]
    fn spare_omits_columns_in_order_with_a_note() {
        let mut wide = grid();
        wide.spare(&["PAGES", "WHAT"], 17);
        assert_eq!(wide.left_out(), None, "it fits to the column");
        let mut narrow = grid();
        narrow.spare(&["PAGES", "WHAT"], 16);
        assert_eq!(narrow.width(), 8, "one is enough");
        let mut one_more = grid();
        one_more.spare_for(4, &["PAGES"], 23);
        assert_eq!(one_more.room(23), 4, "there was room for one more");
        one_more.spare_for(5, &["PAGES"], 23);
        assert_eq!(one_more.room(23), 13, "and now is for a wider one");
        assert_eq!(
            narrow.left_out().as_deref(),
            Some("no room for PAGES"),
            "the omitted column is named"
        );
    }
}
