//! One picture of reads: from cache, read ahead, missed, and direct I/O beside them.
//!
//! Every face takes order, names and colours from here: the report of `run`, `top`, the page and the HTML report. The first
//! three parts are pages and add up to what programs requested; direct I/O is bytes.

use cachewise_model::{Count, Counter, Ledger, Value};
use cachewise_units::{PageSize, Pages};

use crate::number::value_text;
use crate::style::Style;

/// A part of what programs read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ReadPart {
    /// Pages that were in the page cache and cost no I/O of this interval.
    Cached,
    /// Pages that readahead had fetched before the read came to them, those still in flight included.
    ReadAhead,
    /// Pages that a read had to wait for.
    Missed,
    /// Bytes that bypass the page cache.
    Direct,
}

impl ReadPart {
    /// In the order in which pictures stack them.
    pub const ALL: [ReadPart; 4] = [
        ReadPart::Cached,
        ReadPart::ReadAhead,
        ReadPart::Missed,
        ReadPart::Direct,
    ];

    /// The parts of requested pages.
    pub const REQUESTED: [ReadPart; 3] = [ReadPart::Cached, ReadPart::ReadAhead, ReadPart::Missed];

    /// The name for people.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            ReadPart::Cached => "from cache",
            ReadPart::ReadAhead => "read ahead",
            ReadPart::Missed => "missed",
            ReadPart::Direct => "direct",
        }
    }

    /// The name of its colour in style sheets, after `--`.
    #[must_use]
    pub const fn css_name(self) -> &'static str {
        match self {
            ReadPart::Cached => "cached",
            ReadPart::ReadAhead => "ahead",
            ReadPart::Missed => "miss",
            ReadPart::Direct => "direct",
        }
    }

    /// The field with its amount.
    #[must_use]
    pub const fn field(self) -> &'static str {
        match self {
            ReadPart::Cached => "read_cached_pages",
            ReadPart::ReadAhead => "readahead_hit_pages",
            ReadPart::Missed => "read_missed_pages",
            ReadPart::Direct => "direct_read_bytes",
        }
    }

    /// Colours on a light and on a dark ground. Their lightness differs, so that they differ without hue; the hues
    /// are those of Okabe and Ito, which differ for colour-blind eyes.
    #[must_use]
    pub const fn colors(self) -> [&'static str; 2] {
        match self {
            ReadPart::Cached => ["#0072b2", "#4fa8e8"],
            ReadPart::ReadAhead => ["#56b4e9", "#8fd0f5"],
            ReadPart::Missed => ["#d55e00", "#ff9a4d"],
            ReadPart::Direct => ["#9a5b8f", "#d79acb"],
        }
    }

    /// The colour of a terminal with 16 colours: blue, cyan, red, magenta.
    #[must_use]
    pub const fn ansi(self) -> u8 {
        match self {
            ReadPart::Cached => 34,
            ReadPart::ReadAhead => 36,
            ReadPart::Missed => 31,
            ReadPart::Direct => 35,
        }
    }

    /// A cell of a bar: distinct without colour too.
    #[must_use]
    pub const fn block(self, ascii: bool) -> char {
        match (self, ascii) {
            (ReadPart::Cached, false) => '█',
            (ReadPart::ReadAhead, false) => '▒',
            (ReadPart::Missed, false) => '░',
            (ReadPart::Direct, false) => '▚',
            (ReadPart::Cached, true) => '#',
            (ReadPart::ReadAhead, true) => '+',
            (ReadPart::Missed, true) => '!',
            (ReadPart::Direct, true) => '*',
        }
    }

    /// Its amount in a ledger: pages, and bytes of direct I/O.
    #[must_use]
    pub fn amount(self, ledger: &Ledger) -> Count {
        match self {
            ReadPart::Cached => ledger.read_cached_pages(),
            ReadPart::ReadAhead => ledger.get(Counter::ReadaheadHitPages),
            ReadPart::Missed => ledger.get(Counter::ReadMissedPages),
            ReadPart::Direct => ledger.get(Counter::DirectReadBytes),
        }
    }
}

/// Cells of a bar for these amounts: they fill the width, each in proportion, and an amount above 0 has at least one cell
/// where there is room for all.
#[must_use]
pub fn bar_cells(amounts: [u64; 3], width: usize) -> [usize; 3] {
    let whole: u128 = amounts.iter().map(|amount| u128::from(*amount)).sum();
    let some = amounts.iter().filter(|amount| **amount > 0).count();
    if whole == 0 || width < some {
        return [0; 3];
    }
    let part = |amount: u64| {
        let exact = u128::from(amount) * width as u128 / whole;
        usize::try_from(exact)
            .unwrap_or(width)
            .max(usize::from(amount > 0))
    };
    let mut cells = amounts.map(part);
    // The largest part takes the rounding error: there it changes the picture least.
    let largest = (0..3).max_by_key(|place| amounts[*place]).unwrap_or(0);
    let others: usize = (0..3)
        .filter(|place| *place != largest)
        .map(|place| cells[place])
        .sum();
    cells[largest] = width.saturating_sub(others);
    cells
}

const MIN_WIDTH: usize = 40;
const MAX_CELLS: usize = 60;

/// The picture of these reads for people: a bar of requested pages, and a line with names and numbers. Empty where nothing
/// was read, a part is unknown, or the line is narrower than 40 columns.
#[must_use]
pub fn read_bar(ledger: &Ledger, page: PageSize, style: Style) -> String {
    let requested = ledger.get(Counter::ReadRequestedPages);
    let direct = ReadPart::Direct.amount(ledger);
    let counts = ReadPart::REQUESTED.map(|part| part.amount(ledger));
    let [Some(cached), Some(ahead), Some(missed)] = counts.map(|count| count.known()) else {
        return String::new();
    };
    let amounts = [cached, ahead, missed];
    let is_direct = direct.known().is_some_and(|bytes| bytes > 0);
    if style.width < MIN_WIDTH || (amounts == [0; 3] && !is_direct) {
        return String::new();
    }
    let mark = |part: ReadPart, cells: usize| {
        let block = part.block(style.ascii);
        style.paint(
            part.ansi(),
            &String::from_iter(std::iter::repeat_n(block, cells)),
        )
    };
    let mut text = String::new();
    if amounts != [0; 3] {
        let bytes = requested.map(|pages| Pages(pages).bytes(page).0).bytes();
        let bytes = value_text(&bytes);
        let room = style
            .width
            .saturating_sub("reads  ".len() + 2 + bytes.len());
        let cells = bar_cells(amounts, room.min(MAX_CELLS));
        let bar: String = std::iter::zip(ReadPart::REQUESTED, cells)
            .map(|(part, cells)| mark(part, cells))
            .collect();
        text += &format!("{}  {bar}  {bytes}\n", style.bold("reads"));
    }
    let shares = std::iter::zip(ReadPart::REQUESTED, counts).filter_map(|(part, count)| {
        count.known().filter(|amount| *amount > 0)?;
        let share = Value::ratio(count.ratio_of(requested));
        Some((part, value_text(&share)))
    });
    let direct = is_direct.then(|| (ReadPart::Direct, value_text(&direct.bytes())));
    // Widths are counted without escape sequences.
    let (mut line, mut used) = (String::new(), 0);
    for (part, amount) in shares.chain(direct) {
        let label = format!("{} {amount}", part.name());
        let columns = 2 + label.len();
        if used > 0 && used + 2 + columns > style.width {
            text += &format!("{line}\n");
            (line, used) = (String::new(), 0);
        }
        let gap = if used == 0 { "       " } else { "   " };
        line += &format!("{gap}{} {label}", mark(part, 1));
        used += gap.len() + columns;
    }
    text + &line + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger(cached: u64, ahead: u64, missed: u64, direct: u64) -> Ledger {
        let mut ledger = Ledger::default();
        ledger.set(Counter::ReadRequestedPages, cached + ahead + missed);
        ledger.set(Counter::ReadHitPages, cached + ahead);
        ledger.set(Counter::ReadaheadHitPages, ahead);
        ledger.set(Counter::ReadMissedPages, missed);
        ledger.set(Counter::DirectReadBytes, direct);
        ledger
    }

    fn page() -> PageSize {
        PageSize::new(4096).expect("a power of two")
    }

    #[test]
    fn bar_fills_the_width_and_shows_every_part() {
        for (amounts, width, cells) in [
            ([1, 1, 2], 8, [2, 2, 4]),
            ([1_000_000, 0, 1], 10, [9, 0, 1]),
            ([1, 1_000_000, 1], 3, [1, 1, 1]),
            ([1, 1, 1], 10, [3, 3, 4]),
            ([0, 0, 0], 10, [0, 0, 0]),
            ([1, 1, 1], 2, [0, 0, 0]),
            ([u64::MAX, u64::MAX, u64::MAX], 9, [3, 3, 3]),
        ] {
            assert_eq!(bar_cells(amounts, width), cells, "{amounts:?} in {width}");
        }
    }

    #[test]
    fn picture_has_a_bar_and_a_line_with_names_and_shares() {
        let text = read_bar(&ledger(50, 25, 25, 1 << 20), page(), Style::plain(40));
        let expected = "\
reads  ████████████▒▒▒▒▒░░░░░  400.0 KiB
       █ from cache 50.00 %
       ▒ read ahead 25.00 %
       ░ missed 25.00 %
       ▚ direct 1.0 MiB
";
        assert_eq!(text, expected, "narrow lines are wrapped");
        let ascii = Style {
            ascii: true,
            ..Style::plain(100)
        };
        let text = read_bar(&ledger(50, 25, 25, 0), page(), ascii);
        assert!(
            text.is_ascii() && text.contains("#+++++") && text.contains("+!!!!!"),
            "{text}"
        );
    }

    #[test]
    fn picture_is_left_out_where_nothing_was_read_or_a_part_is_unknown() {
        let style = Style::plain(80);
        assert_eq!(
            read_bar(&ledger(0, 0, 0, 0), page(), style),
            "",
            "nothing was read"
        );
        let mut unknown = ledger(1, 1, 1, 0);
        let reason = cachewise_model::Reason::NeedsProbe;
        unknown.set_missing(
            Counter::ReadMissedPages,
            cachewise_model::Missing::NotOffered(reason),
        );
        assert_eq!(read_bar(&unknown, page(), style), "", "a part is unknown");
        let direct = read_bar(&ledger(0, 0, 0, 4096), page(), style);
        assert_eq!(
            direct, "       ▚ direct 4.0 KiB\n",
            "direct I/O alone has no bar"
        );
    }

    #[test]
    fn parts_are_those_of_the_table_of_fields() {
        let ledger = ledger(1, 2, 3, 4);
        let row = cachewise_model::Row {
            ledger: ledger.clone(),
            ..cachewise_model::Row::default()
        };
        for part in ReadPart::ALL {
            let field = cachewise_model::field(part.field()).expect("the table has it");
            let amount = part.amount(&ledger);
            let value = match part {
                ReadPart::Direct => amount.bytes(),
                _ => amount.pages(),
            };
            assert_eq!(field.of(&row), value, "{part:?}");
        }
    }
}
