//! Rows for people: a header and one line per row, numbers right-aligned.
//!
//! Every number is one word, so that `awk` and `cut` find their columns. A column stays as wide as
//! its widest number, and later lines are aligned again.

use cachewise_model::{Field, Measured, Row, Unit};

use crate::cell::{LEAST_WIDTH, Side, cut, pad, shortened, width, wrapped};
use crate::number::{compact, grouped};
use crate::style::Style;

/// Space between two columns.
const GAP: &str = "  ";

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

/// Widths and visibility of the columns, and the state of the header.
#[derive(Debug)]
pub(super) struct Table {
    widths: Vec<usize>,
    last_is_text: bool,
    /// The widest text in that column known in advance; 0 if none.
    widest_last: usize,
    room: Option<usize>,
    /// Indexes of the columns that fit.
    shown: Vec<usize>,
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
        let mut widths: Vec<usize> = columns.iter().map(|field| usual_width(field)).collect();
        let last_is_text = columns.last().is_some_and(|field| field.unit == Unit::Text);
        if let (true, Some(last)) = (last_is_text, widths.last_mut()) {
            *last = LAST_TEXT;
        }
        Table {
            widths,
            last_is_text,
            widest_last: 0,
            room,
            shown: Vec::new(),
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
        let plural = if number == 1 { "" } else { "s" };
        let mut head = format!("total of {} {one}{plural}", grouped(number));
        // A snapshot has no duration.
        if !total.elapsed.is_zero() {
            head += &format!(", {:.1} s", total.elapsed.as_secs_f64());
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
        self.grow(&cells);
        if let (true, Some(last), Some(width_now)) =
            (self.last_is_text, cells.last(), self.widths.last_mut())
        {
            self.widest_last = self.widest_last.max(width(last));
            *width_now = self.widest_last.clamp(LEAST_WIDTH, LAST_TEXT);
        }
    }

    fn grow(&mut self, cells: &[String]) -> bool {
        let mut grown = false;
        let before_last_text = cells.len() - usize::from(self.last_is_text);
        for (width_now, cell) in self.widths.iter_mut().zip(&cells[..before_last_text]) {
            grown |= width(cell) > *width_now;
            *width_now = width(cell).max(*width_now);
        }
        grown
    }

    fn line(&mut self, row: &Row, columns: &[&Field], style: Style) -> String {
        let cells = texts(row, columns);
        let grown = self.grow(&cells);
        let shown = self.fitting(columns);
        let mut note = String::new();
        if shown != self.shown {
            note = self.left_out(columns, &shown);
            self.shown = shown;
            // Values below another header would be misread.
            self.since_header = None;
        }
        let due = match (self.since_header, self.header_every) {
            (None, _) => true,
            // On a terminal, a header above shifted columns would mislead until the next one.
            (Some(rows), Some(every)) => grown || rows >= every.max(1),
            (Some(_), None) => false,
        };
        let line = self.joined(columns, |place| &cells[place]);
        if due {
            self.since_header = Some(1);
            let header = self.joined(columns, |place| columns[place].header);
            return format!("{note}{}\n{line}\n", style.bold(&header));
        }
        self.since_header = self.since_header.map(|rows| rows + 1);
        format!("{line}\n")
    }

    /// Indexes of the columns that fit.
    fn fitting(&self, columns: &[&Field]) -> Vec<usize> {
        let mut places: Vec<usize> = (0..columns.len()).collect();
        let Some(room) = self.room else {
            return places;
        };
        for spared in SPARED {
            if self.taken(&places, columns) <= room {
                break;
            }
            places.retain(|place| columns[*place].id != spared);
        }
        places
    }

    /// Width of these columns; `None` if even that does not fit.
    fn taken(&self, places: &[usize], columns: &[&Field]) -> usize {
        let widths: usize = places.iter().map(|place| self.least(*place, columns)).sum();
        widths + places.len().saturating_sub(1) * GAP.len()
    }

    fn least(&self, place: usize, columns: &[&Field]) -> usize {
        match self.is_cut(place, columns) {
            true => self.widths[place].min(WHOLE_TEXT),
            false => self.widths[place],
        }
    }

    /// Whether it is a text that is shortened: all but the last column, which has its own rule.
    fn is_cut(&self, place: usize, columns: &[&Field]) -> bool {
        self.room.is_some() && columns[place].unit == Unit::Text && place + 1 < columns.len()
    }

    /// Note on omitted columns, and how to show them.
    fn left_out(&self, columns: &[&Field], shown: &[usize]) -> String {
        let out: Vec<&str> = (0..columns.len())
            .filter(|place| !shown.contains(place))
            .map(|place| columns[place].header)
            .collect();
        match (out.is_empty(), self.room) {
            (false, Some(room)) => {
                let note = format!("no room for {}: --columns shows them", out.join(", "));
                format!("{}\n", wrapped(&note, room))
            }
            _ => String::new(),
        }
    }

    fn joined<'a>(&self, columns: &[&Field], text: impl Fn(usize) -> &'a str) -> String {
        let mut line = String::new();
        // The remaining width.
        let is_cut = |place: &usize| self.is_cut(*place, columns);
        let texts: usize = self
            .shown
            .iter()
            .filter(|place| is_cut(place))
            .map(|place| self.least(*place, columns))
            .sum();
        let mut free = match self.room {
            Some(room) => (room + texts).saturating_sub(self.taken(&self.shown, columns)),
            None => 0,
        };
        for place in &self.shown {
            if !line.is_empty() {
                line += GAP;
            }
            let (text, is_last) = (text(*place), place + 1 == columns.len());
            match self.room {
                Some(room) if is_last && self.last_is_text => {
                    line += &shortened(text, room.saturating_sub(width(&line)));
                }
                _ if is_last && self.last_is_text => line += text,
                _ if self.is_cut(*place, columns) => {
                    let width = self.widths[*place].min(free.max(OTHER_TEXT));
                    free = free.saturating_sub(width);
                    line += &pad(&cut(text, width), width, Side::Left);
                }
                _ => line += &pad(text, self.widths[*place], side(columns[*place])),
            }
        }
        line.trim_end().to_owned()
    }
}

fn texts(row: &Row, columns: &[&Field]) -> Vec<String> {
    columns
        .iter()
        .map(|field| compact(&field.of(row)))
        .collect()
}

fn side(field: &Field) -> Side {
    if field.unit.is_number() {
        Side::Right
    } else {
        Side::Left
    }
}

/// Wide enough for common values, so that widths seldom grow.
fn usual_width(field: &Field) -> usize {
    let usual = match field.unit {
        Unit::Count | Unit::Pages | Unit::Seconds | Unit::Factor => 8,
        Unit::Bytes => "1023.9MiB".len(),
        Unit::Ratio => "100.00%".len(),
        Unit::Id => 7,
        Unit::Time => "00:00:00".len(),
        Unit::Text => OTHER_TEXT,
    };
    usual.max(width(field.header))
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
TIME      REQUESTED    MISSED      HITS   REUSE%  PAGE-CACHE
03:04:06     131072       512    130560   99.61%    512.0MiB
03:04:06          0         0         0        -    512.0MiB
03:04:06       ~100         ?         ?        ?    512.0MiB
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
            "1234567890123         0\n",
            "            2         0\n",
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
            width: 80,
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
                112,
                "TIME REQUESTED MISSED HITS REUSE% AHEAD DIRECT DIRTIES EVICTED BUFFERS PAGE-CACHE",
            ),
            (
                111,
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
                usize::from(columns < 112),
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
        assert!(
            text.contains("no room for HITS, EVICTED, BUFFERS, PAGE-CACHE: --columns"),
            "with the columns omitted now: {text}"
        );
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
RES-BEFORE  NOTE                            PATH
         7  7 mapped by a program of a...   /var/lib/db
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
