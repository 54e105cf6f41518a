//! Rows for people: a header and one line per row, numbers right-aligned.
//!
//! A column stays as wide as its widest number, and later lines are aligned again.

use cachewise_model::{Field, Measured, Row, Unit};

use crate::cell::{LEAST_WIDTH, width, wrapped};
use crate::layout::{Column, Layout};
use crate::number::value_text;
use crate::style::{Style, Tables};
use cachewise_units::counted;

/// Columns that are omitted if a line has no room for all, the first of them first. The order puts
/// columns first that other tools show or that follow from others: hits follow from the total and
/// the misses. Misses, the hit rate and a file's residency stay.
const SPARED: [&str; 34] = [
    "minor_faults",
    "swap_in_pages",
    "anon_refault_pages",
    "cpu_seconds",
    "memory_used_bytes",
    "latency_p90_seconds",
    "hit_p90_seconds",
    "miss_p90_seconds",
    "hit_p999_seconds",
    "miss_p999_seconds",
    "latency_p999_seconds",
    "hit_max_seconds",
    "miss_max_seconds",
    "recent_shadow_pages",
    "shadow_pages",
    "resident_writeback_pages",
    "resident_dirty_pages",
    "slab_reclaimable_bytes",
    "filesystem",
    "file_pages",
    "files",
    "available_bytes",
    "file_size_bytes",
    "resident_pages",
    "histogram",
    "buffers_bytes",
    "cached_bytes",
    "evicted_pages",
    "read_hit_pages",
    "dirtied_pages",
    "direct_bytes",
    "readahead_hit_pages",
    "time",
    "read_requested_pages",
];

/// A text in the last column is shortened to the remaining room, but gets at least this much.
const LAST_TEXT: usize = 24;

/// Minimum width of texts in other columns,
const OTHER_TEXT: usize = 12;

/// and their width before any column is omitted for them.
const WHOLE_TEXT: usize = 32;

/// The layout of the columns, and the state of the header.
#[derive(Debug)]
pub(super) struct Table {
    layout: Layout,
    /// The widest text in the last column known in advance; 0 if none.
    widest_last: usize,
    room: Option<usize>,
    /// Indexes of the columns that the last header omits.
    left_out: Vec<usize>,
    header_every: Option<usize>,
    rows: usize,
    /// Rows since the last header; `None` before the first.
    since_header: Option<usize>,
}

impl Table {
    pub(super) fn new(
        columns: &[&Field],
        room: Option<usize>,
        header_every: Option<usize>,
    ) -> Self {
        let mut layout = Layout::default();
        for field in columns {
            let text = (field.unit == Unit::Text).then_some((OTHER_TEXT, WHOLE_TEXT));
            let column = Column::of(field);
            layout.column(Column { text, ..column }, usual_width(field.unit));
        }
        if layout.ends_with_text() {
            layout.set_last_width(LAST_TEXT);
        }
        Table {
            layout,
            widest_last: 0,
            room,
            left_out: Vec::new(),
            header_every,
            rows: 0,
            since_header: None,
        }
    }

    pub(super) fn set_room(&mut self, room: Option<usize>) {
        self.room = room;
    }

    /// One row, preceded by the header if due.
    pub(super) fn row(&mut self, row: &Row, columns: &[&Field], style: Style) -> String {
        self.rows += 1;
        self.line(row, columns, style)
    }

    /// The total below a separator line.
    pub(super) fn total(&mut self, total: &Row, columns: &[&Field], style: Style) -> String {
        let (number, one) = match total.residency.files {
            Measured::Exact(files) => (files, "file"),
            _ => (self.rows as u64, "row"),
        };
        let mut head = format!("total of {}", counted(number, one));
        // A snapshot has no duration.
        if !total.elapsed.is_zero() {
            head += &format!(", {:.1} s", total.elapsed.as_secs_f64());
        }
        if style.tables == Tables::Markdown {
            // Below a title, it is a table of its own.
            self.since_header = None;
        }
        format!(
            "{}\n{}",
            style.bold(&head),
            self.line(total, columns, style)
        )
    }

    /// Widens the columns for later rows.
    pub(super) fn fit(&mut self, row: &Row, columns: &[&Field]) {
        let cells: Vec<String> = texts(row, columns);
        self.layout.grow(&cells);
        if let (true, Some(last)) = (self.layout.ends_with_text(), cells.last()) {
            self.widest_last = self.widest_last.max(width(last));
            let usual = self.widest_last.clamp(LEAST_WIDTH, LAST_TEXT);
            self.layout.set_last_width(usual);
        }
    }

    fn line(&mut self, row: &Row, columns: &[&Field], style: Style) -> String {
        let cells = texts(row, columns);
        if style.tables == Tables::Markdown {
            return self.markdown_line(&cells);
        }
        let grown = self.layout.grow(&cells);
        let mut note = String::new();
        let left_out = self.without_room();
        if left_out != self.left_out || self.since_header.is_none() {
            note = self.note(&left_out);
            self.left_out = left_out;
            // Values below another header would be misread.
            self.since_header = None;
        }
        let due = match (self.since_header, self.header_every) {
            (None, _) => true,
            // On a terminal, a header above shifted columns would mislead until the next one.
            (Some(rows), Some(every)) => grown || rows >= every.max(1),
            (Some(_), None) => false,
        };
        let line = self.layout.line(self.room, |place| &cells[place]);
        if due {
            self.since_header = Some(1);
            let header = style.bold(&self.layout.headers(self.room));
            return format!("{note}{header}\n{line}\n");
        }
        self.since_header = self.since_header.map(|rows| rows + 1);
        format!("{line}\n")
    }

    fn markdown_line(&mut self, cells: &[String]) -> String {
        let line = self.layout.markdown_line(|place| &cells[place]);
        match self.since_header.replace(1) {
            None => format!("{}\n{line}\n", self.layout.markdown_headers()),
            Some(_) => format!("{line}\n"),
        }
    }

    /// Omits the columns without room; returns their indexes.
    fn without_room(&mut self) -> Vec<usize> {
        self.layout.show_all();
        if let Some(room) = self.room {
            self.layout.omit(&SPARED, room);
        }
        let mut left_out = self.layout.omitted().to_vec();
        left_out.sort_unstable();
        left_out
    }

    /// Note on columns that are omitted from now on, and how to show them.
    fn note(&self, left_out: &[usize]) -> String {
        let is_new = |place: &usize| !self.left_out.contains(place);
        let new: Vec<usize> = left_out.iter().copied().filter(is_new).collect();
        match (self.layout.no_room_for(&new), self.room) {
            (Some(note), Some(room)) => {
                let note = format!("{note}: --columns shows them");
                format!("{}\n", wrapped(&note, room))
            }
            _ => String::new(),
        }
    }
}

fn texts(row: &Row, columns: &[&Field]) -> Vec<String> {
    columns
        .iter()
        .map(|field| value_text(&field.of(row)))
        .collect()
}

/// Wide enough for common values, so that widths seldom grow.
fn usual_width(unit: Unit) -> usize {
    match unit {
        Unit::Count | Unit::Pages | Unit::Seconds | Unit::Factor => 8,
        Unit::Bytes => "512.0 MiB".len(),
        Unit::Ratio => "100.00 %".len(),
        Unit::Id => 7,
        Unit::Time => "00:00:00".len(),
        Unit::Text => OTHER_TEXT,
    }
}

#[cfg(test)]
mod tests {
    use cachewise_model::{Counter, Missing, Reason};

    use super::super::tests::{options, row, written};
    use super::*;
    use crate::format::Format;

    const NAMES: &str = "TIME,REQUESTED,MISSED,HITS,REUSE%,PAGE-CACHE";

    #[test]
    fn rows_align_with_header() {
        let mut blind = row(100, 0);
        blind.ledger.set_missing(
            Counter::ReadMissedPages,
            Missing::Unknown(Reason::LostEvents),
        );
        blind.ledger.derive_hits();
        blind
            .ledger
            .set_estimated(Counter::ReadRequestedPages, 100, Reason::ByVmstat);
        let rows = [row(131_072, 512), row(0, 0), blind];
        let expected = "\
TIME      REQUESTED    MISSED      HITS    REUSE%  PAGE-CACHE
03:04:06    131,072       512   130,560   99.61 %   512.0 MiB
03:04:06          0         0         0         -   512.0 MiB
03:04:06       ~100         ?         ?         ?   512.0 MiB
";
        assert_eq!(
            written(Format::Table, NAMES, &rows, None, options()),
            expected,
            "zero is 0, no requests is -, unknown is ?, an estimate has its mark"
        );
    }

    #[test]
    fn total_is_the_last_line() {
        let text = written(
            Format::Table,
            "REQUESTED,HITS",
            &[row(5, 1)],
            Some(&row(5, 1)),
            options(),
        );
        let expected = [
            "REQUESTED      HITS\n",
            "        5         4\n",
            "total of 1 row, 1.0 s\n",
            "        5         4\n",
        ]
        .concat();
        assert_eq!(text, expected, "under the same columns");
    }

    #[test]
    fn header_repeats_only_with_header_every() {
        let rows = vec![row(1, 0); 5];
        let heads = |header_every| {
            let options = crate::RowOptions {
                header_every,
                ..options()
            };
            written(Format::Table, "REQUESTED", &rows, None, options)
                .matches("REQUESTED")
                .count()
        };
        assert_eq!(heads(None), 1, "in a file it appears once");
        assert_eq!(heads(Some(2)), 3, "on a terminal before rows 1, 3 and 5");
        assert_eq!(heads(Some(0)), 5, "zero does not divide");
    }

    #[test]
    fn column_widths_grow_and_stay() {
        let rows = [row(1, 0), row(1_234_567_890_123, 0), row(2, 0)];
        let expected = [
            "REQUESTED    MISSED\n",
            "        1         0\n",
            "1,234,567,890,123         0\n",
            "                2         0\n",
        ]
        .concat();
        let text = written(Format::Table, "REQUESTED,MISSED", &rows, None, options());
        assert_eq!(
            text, expected,
            "no number is cut, and the next row is aligned with the wide one"
        );
        let options = crate::RowOptions {
            header_every: Some(20),
            ..options()
        };
        let text = written(Format::Table, "REQUESTED,MISSED", &rows, None, options);
        assert_eq!(
            text.matches("REQUESTED").count(),
            2,
            "a terminal gets a header for the new width"
        );
    }

    #[test]
    fn names_are_left_aligned_and_escaped() {
        let mut named = row(1, 0);
        named.labels.command = Measured::Exact("a\u{1b}[31mb".into());
        let expected = "\
COMMAND       REQUESTED
a\\x1b[31mb            1
";
        let text = written(
            Format::Table,
            "COMMAND,REQUESTED",
            &[named],
            None,
            options(),
        );
        assert_eq!(text, expected, "a program cannot colour our table");
    }

    #[test]
    fn only_the_header_is_coloured() {
        let style = Style {
            color: true,
            ..Style::plain(80)
        };
        let options = crate::RowOptions { style, ..options() };
        let text = written(Format::Table, "REQUESTED", &[row(1, 0)], None, options);
        assert_eq!(
            text, "\u{1b}[1mREQUESTED\u{1b}[0m\n        1\n",
            "bold and nothing else"
        );
    }

    /// A table of the columns of `stat`, on a terminal of this width.
    fn on_terminal(columns: usize, rows: &[cachewise_model::Row]) -> String {
        let options = crate::RowOptions {
            room: Some(columns),
            header_every: Some(20),
            ..options()
        };
        let names = cachewise_model::STAT_COLUMNS.join(",");
        written(Format::Table, &names, rows, None, options)
    }

    #[test]
    fn narrow_terminal_omits_columns_with_a_note() {
        let rows = [row(131_072, 512), row(0, 0)];
        for (columns, header) in [
            (
                113,
                "TIME REQUESTED MISSED HITS REUSE% AHEAD DIRECT DIRTIES EVICTED BUFFERS PAGE-CACHE",
            ),
            (
                112,
                "TIME REQUESTED MISSED HITS REUSE% AHEAD DIRECT DIRTIES EVICTED PAGE-CACHE",
            ),
            (80, "TIME REQUESTED MISSED HITS REUSE% AHEAD DIRECT DIRTIES"),
            (60, "TIME REQUESTED MISSED REUSE% AHEAD DIRECT"),
            (40, "TIME REQUESTED MISSED REUSE%"),
            (20, "MISSED REUSE%"),
        ] {
            let text = on_terminal(columns, &rows);
            for line in text.lines() {
                assert!(width(line) <= columns, "{columns} columns hold {line:?}");
            }
            let heads = text
                .lines()
                .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
                .filter(|words| words == header);
            assert_eq!(
                heads.count(),
                1,
                "at {columns} columns the header is {header}: {text}"
            );
            assert_eq!(
                text.matches("no room for").count(),
                usize::from(columns < 113),
                "the note appears once: {text}"
            );
        }
        assert!(
            on_terminal(80, &rows)
                .starts_with("no room for EVICTED, BUFFERS, PAGE-CACHE: --columns shows them\n"),
            "with names and the option to show them"
        );
    }

    #[test]
    fn wide_number_displaces_a_column() {
        let rows = [row(1, 0), row(1_234_567_890_123, 0), row(2, 0)];
        let text = on_terminal(80, &rows);
        assert!(
            text.lines().all(|line| width(line) <= 80),
            "no row is wrapped: {text}"
        );
        assert_eq!(
            text.matches("TIME").count(),
            2,
            "under a new header: {text}"
        );
        for note in [
            "no room for EVICTED, BUFFERS, PAGE-CACHE: --columns",
            "no room for HITS: --columns",
        ] {
            assert_eq!(
                text.matches(note).count(),
                1,
                "each omitted column is named once: {text}"
            );
        }
    }

    #[test]
    fn long_text_before_last_column_is_cut() {
        let names = "resident_before_pages,note,path";
        let mut named = row(1, 0);
        named.subject.resident_before_pages = Measured::Exact(7);
        named.labels.note = Measured::Exact("7 mapped by a program of a long name (12345)".into());
        named.labels.path = Measured::Exact("/var/lib/db".into());
        let shown = |room| {
            let options = crate::RowOptions { room, ..options() };
            written(
                Format::Table,
                names,
                std::slice::from_ref(&named),
                None,
                options,
            )
        };
        let narrow = "\
BEFORE-PG  NOTE                             PATH
        7  7 mapped by a program of a l...  /var/lib/db
";
        assert_eq!(shown(Some(68)), narrow, "to the remaining width");
        for text in [shown(None), shown(Some(90))] {
            assert!(
                text.contains("of a long name (12345)  /var/lib/db"),
                "with enough room it is whole: {text}"
            );
        }
    }

    #[test]
    fn columns_are_omitted_for_a_text() {
        let columns =
            super::super::tests::columns("file_size_bytes,resident_before_pages,note,path");
        let mut named = row(1, 0);
        named.labels.note = Measured::Exact("8192 mapped by python3 (25520)".into());
        named.labels.path = Measured::Exact("/db".into());
        let mut table = Table::new(&columns, Some(62), None);
        table.fit(&named, &columns);
        let text = table.row(&named, &columns, Style::plain(62));
        assert!(
            text.contains("no room for SIZE") && text.contains("mapped by python3 (25520)  /db"),
            "a short path leaves its room to others: {text}"
        );
    }

    #[test]
    fn set_room_changes_visible_columns() {
        let columns: Vec<&Field> = ["TIME", "REQUESTED", "MISSED", "HITS"]
            .map(|name| cachewise_model::field(name).unwrap())
            .into();
        let mut table = Table::new(&columns, Some(40), Some(20));
        let mut line = |room| {
            table.set_room(room);
            table.line(&row(1, 0), &columns, Style::plain(80))
        };
        assert!(line(Some(40)).contains("HITS"), "there is room");
        assert!(
            line(Some(30)).starts_with("no room for HITS: --columns\n  shows them\n"),
            "now there is less"
        );
        assert_eq!(line(Some(30)).lines().count(), 1, "noted once");
        assert!(line(None).contains("HITS"), "and now there is again");
    }
}
