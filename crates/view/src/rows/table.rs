//! Rows for people: one line each under a header, numbers to the right.
//!
//! Every number is one word, so that `awk` and `cut` find their columns. A column that meets a wider
//! number stays that wide; the lines after it stand under each other again.

use cachewise_model::{Field, Row, Unit};

use crate::cell::{Side, compact, grouped, pad, width};
use crate::style::Style;

/// What is between two columns.
const GAP: &str = "  ";

/// The widths of the columns, and when the header is due.
#[derive(Debug)]
pub(super) struct Table {
    widths: Vec<usize>,
    header_every: Option<usize>,
    rows: usize,
    /// Rows since the last header; `None` before the first.
    since_header: Option<usize>,
}

impl Table {
    pub(super) fn new(columns: &[&Field], header_every: Option<usize>) -> Self {
        let widths = columns.iter().map(|field| usual_width(field)).collect();
        Table {
            widths,
            header_every,
            rows: 0,
            since_header: None,
        }
    }

    /// One row, with the header before it where one is due.
    pub(super) fn row(&mut self, row: &Row, columns: &[&Field], style: Style) -> String {
        self.rows += 1;
        self.line(row, columns, style)
    }

    /// The total under a line of its own.
    pub(super) fn total(&mut self, total: &Row, columns: &[&Field], style: Style) -> String {
        let rows = if self.rows == 1 { "row" } else { "rows" };
        let seconds = total.elapsed.as_secs_f64();
        let head = format!(
            "total of {} {rows}, {seconds:.1} s",
            grouped(self.rows as u64)
        );
        format!(
            "{}\n{}",
            style.bold(&head),
            self.line(total, columns, style)
        )
    }

    fn line(&mut self, row: &Row, columns: &[&Field], style: Style) -> String {
        let cells: Vec<String> = columns
            .iter()
            .map(|field| compact(&field.of(row)))
            .collect();
        let mut grown = false;
        for (width_now, cell) in self.widths.iter_mut().zip(&cells) {
            grown |= width(cell) > *width_now;
            *width_now = width(cell).max(*width_now);
        }
        let due = match (self.since_header, self.header_every) {
            (None, _) => true,
            // On a terminal a header over shifted columns would mislead until the next one.
            (Some(rows), Some(every)) => grown || rows >= every.max(1),
            (Some(_), None) => false,
        };
        let line = self.joined(columns, cells.iter().map(String::as_str));
        if due {
            self.since_header = Some(1);
            let header = self.joined(columns, columns.iter().map(|field| field.header));
            return format!("{}\n{line}\n", style.bold(&header));
        }
        self.since_header = self.since_header.map(|rows| rows + 1);
        format!("{line}\n")
    }

    fn joined<'a>(&self, columns: &[&Field], cells: impl Iterator<Item = &'a str>) -> String {
        let line: Vec<String> = columns
            .iter()
            .zip(&self.widths)
            .zip(cells)
            .map(|((field, columns), cell)| pad(cell, *columns, side(field)))
            .collect();
        line.join(GAP).trim_end().to_owned()
    }
}

fn side(field: &Field) -> Side {
    if field.unit.is_number() {
        Side::Right
    } else {
        Side::Left
    }
}

/// Wide enough for what usually comes, so that widths seldom grow.
fn usual_width(field: &Field) -> usize {
    let usual = match field.unit {
        Unit::Count | Unit::Pages | Unit::Seconds => 8,
        Unit::Bytes => "1023.9MiB".len(),
        Unit::Ratio => "100.00%".len(),
        Unit::Id => 7,
        Unit::Time => "00:00:00".len(),
        Unit::Text => 12,
    };
    usual.max(width(field.header))
}

#[cfg(test)]
mod tests {
    use cachewise_model::{Counter, Measured, Missing};

    use super::super::tests::{options, row, written};
    use super::*;
    use crate::format::Format;

    const NAMES: &str = "TIME,TOTAL,MISSES,HITS,HIT%,CACHED";

    #[test]
    fn rows_stand_under_their_header() {
        let mut blind = row(100, 0);
        blind
            .ledger
            .set_missing(Counter::ReadMissPages, Missing::Unknown("lost"));
        blind
            .ledger
            .set_estimated(Counter::ReadPages, 100, "a guess");
        let rows = [row(131_072, 512), row(0, 0), blind];
        let expected = "\
TIME         TOTAL    MISSES      HITS     HIT%     CACHED
03:04:06    131072       512    130560   99.61%   512.0MiB
03:04:06         0         0         0        -   512.0MiB
03:04:06      ~100         ?         ?        ?   512.0MiB
";
        assert_eq!(
            written(Format::Table, NAMES, &rows, None, options()),
            expected,
            "zero is 0, nothing asked for is -, unknown is ?, an estimate has its mark"
        );
    }

    #[test]
    fn the_total_comes_last() {
        let text = written(
            Format::Table,
            "TOTAL,HITS",
            &[row(5, 1)],
            Some(&row(5, 1)),
            options(),
        );
        let expected = [
            "   TOTAL      HITS\n",
            "       5         4\n",
            "total of 1 row, 1.0 s\n",
            "       5         4\n",
        ]
        .concat();
        assert_eq!(text, expected, "under the same columns");
    }

    #[test]
    fn the_header_returns_only_where_asked() {
        let rows = vec![row(1, 0); 5];
        let heads = |header_every| {
            let options = crate::RowOptions {
                header_every,
                ..options()
            };
            written(Format::Table, "TOTAL", &rows, None, options)
                .matches("TOTAL")
                .count()
        };
        assert_eq!(heads(None), 1, "in a file it stands once");
        assert_eq!(heads(Some(2)), 3, "on a terminal before rows 1, 3 and 5");
        assert_eq!(heads(Some(0)), 5, "zero does not divide");
    }

    #[test]
    fn widths_grow_and_stay() {
        let rows = [row(1, 0), row(1_234_567_890_123, 0), row(2, 0)];
        let expected = [
            "   TOTAL    MISSES\n",
            "       1         0\n",
            "1234567890123         0\n",
            "            2         0\n",
        ]
        .concat();
        let text = written(Format::Table, "TOTAL,MISSES", &rows, None, options());
        assert_eq!(
            text, expected,
            "no number is cut, and the next row stands under the wide one"
        );
        let options = crate::RowOptions {
            header_every: Some(20),
            ..options()
        };
        let text = written(Format::Table, "TOTAL,MISSES", &rows, None, options);
        assert_eq!(
            text.matches("TOTAL").count(),
            2,
            "a terminal gets a header for the new width"
        );
    }

    #[test]
    fn names_are_to_the_left_and_safe() {
        let mut named = row(1, 0);
        named.labels.command = Measured::Exact("a\u{1b}[31mb".into());
        let expected = "\
COMMAND          TOTAL
a\\x1b[31mb           1
";
        let text = written(Format::Table, "COMMAND,TOTAL", &[named], None, options());
        assert_eq!(text, expected, "a program cannot colour our table");
    }

    #[test]
    fn colour_is_on_the_header_only() {
        let style = Style {
            color: true,
            width: 80,
        };
        let options = crate::RowOptions { style, ..options() };
        let text = written(Format::Table, "TOTAL", &[row(1, 0)], None, options);
        assert_eq!(
            text, "\u{1b}[1m   TOTAL\u{1b}[0m\n       1\n",
            "bold and nothing else"
        );
    }
}
