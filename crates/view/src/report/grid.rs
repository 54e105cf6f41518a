//! Small tables inside a report: drawn by `comfy-table`, without borders.

use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table, presets};

use crate::cell::Side;
use crate::style::Style;

/// A table whose cells are ready: a header, and lines below it.
#[derive(Debug)]
pub(super) struct Grid {
    table: Table,
    indent: &'static str,
}

impl Grid {
    /// A table with these columns.
    pub(super) fn new(columns: &[(&str, Side)], indent: &'static str) -> Self {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_content_arrangement(ContentArrangement::Disabled);
        table.set_header(columns.iter().map(|(name, _)| *name));
        for (column, (_, side)) in table.column_iter_mut().zip(columns) {
            column.set_padding((0, 2));
            column.set_constraint(ColumnConstraint::ContentWidth);
            column.set_cell_alignment(match side {
                Side::Left => CellAlignment::Left,
                Side::Right => CellAlignment::Right,
            });
        }
        Grid { table, indent }
    }

    pub(super) fn line(&mut self, cells: Vec<String>) {
        self.table.add_row(cells);
    }

    /// The table as text; the header is bold.
    pub(super) fn text(&self, style: Style) -> String {
        let mut text = String::new();
        for (place, line) in self.table.lines().enumerate() {
            let line = format!("{}{}", self.indent, line.trim_end());
            text += &if place == 0 { style.bold(&line) } else { line };
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_without_borders() {
        let mut grid = Grid::new(&[("WHAT", Side::Left), ("PAGES", Side::Right)], " ");
        grid.line(vec!["hit".into(), "131,072".into()]);
        grid.line(vec!["  missed".into(), "5".into()]);
        let expected = [
            " WHAT        PAGES\n",
            " hit       131,072\n",
            "   missed        5\n",
        ]
        .concat();
        assert_eq!(
            grid.text(Style::plain(80)),
            expected,
            "indented names keep their indent"
        );
    }
}
