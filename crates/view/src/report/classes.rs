//! The table of classes: requests and their outcome, in pages, bytes and per cent.
//!
//! Bytes of pages are whole pages; bytes of requests are as requested. Parts without any activity
//! are omitted.

use cachewise_model::{Count, Counter, Interval, Measured, Value};
use cachewise_units::Pages;

use crate::cell::{Side, wrapped};
use crate::layout::Grid;
use crate::number::value_text;
use crate::style::Style;

/// Columns that are omitted on a narrow line, the first of them first. Bytes stay: every class but
/// page faults has them.
const SPARED: [&str; 3] = ["REQUESTS", "SHARE", "PAGES"];

/// The table under construction.
struct Classes<'a> {
    interval: &'a Interval,
    lines: Vec<[String; 5]>,
}

pub(super) fn text(interval: &Interval, style: Style) -> String {
    let mut classes = Classes {
        interval,
        lines: Vec::new(),
    };
    classes.reads();
    classes.faults();
    classes.writes();
    classes.insertions();
    classes.removals();
    classes.devices();
    let mut grid = classes.grid();
    grid.omit(&SPARED, style.table_width());
    let mut text = grid.text(style);
    if let Some(left_out) = grid.left_out() {
        let left_out = format!("{left_out}: --json has all");
        text += &format!("{}\n", wrapped(&left_out, style.width));
    }
    text
}

impl Classes<'_> {
    fn reads(&mut self) {
        use Counter::{
            DirectReadBytes, DirectReadRequests, ReadMissedPages, ReadRequestedBytes,
            ReadRequestedPages, ReadRequests, ReadaheadHitPages,
        };
        let totals = &self.interval.ledger;
        let requested = totals.get(ReadRequestedPages);
        let (hits, reused) = (totals.hits(), totals.read_cached_pages());
        let (first_uses, misses) = (totals.get(ReadaheadHitPages), totals.get(ReadMissedPages));
        let (requests, bytes) = (totals.get(ReadRequests), totals.get(ReadRequestedBytes));
        // procfs counts calls of every kind.
        let name = match self.interval.source.backend.exact {
            false => "read calls, with pipes",
            true => "buffered reads",
        };
        self.requests(name, requests, bytes);
        if requested != Measured::Exact(0) {
            self.part("  requested", requested, requested);
            self.part("  hit", hits, requested);
            self.part("    from cache (REUSE%)", reused, requested);
            self.part("    read ahead (AHEAD)", first_uses, requested);
            self.part("  missed", misses, requested);
        }
        let direct = (totals.get(DirectReadRequests), totals.get(DirectReadBytes));
        if matters(&[direct.0, direct.1]) {
            self.requests("direct reads (O_DIRECT)", direct.0, direct.1);
        }
        let outside = self.interval.run().outside_bytes;
        if matters(&[outside]) {
            self.bytes("reads: pipes, sockets, tmpfs", outside);
        }
    }

    fn faults(&mut self) {
        let totals = &self.interval.ledger;
        let faults = totals.get(Counter::FaultRequests);
        let (hits, misses) = (totals.fault_hits(), totals.get(Counter::FaultMissPages));
        if !matters(&[faults, misses]) {
            return;
        }
        self.line(
            "page faults on mapped files",
            Some(faults),
            None,
            None,
            None,
        );
        self.part("  hit", hits, faults);
        self.part("  missed", misses, faults);
    }

    fn writes(&mut self) {
        use Counter::{
            DirectWriteBytes, DirectWriteRequests, DirtiedPages, WriteBytes, WriteNewPages,
            WritePages, WriteRequests,
        };
        let totals = &self.interval.ledger;
        let requests = (totals.get(WriteRequests), totals.get(WriteBytes));
        let (pages, new) = (totals.get(WritePages), totals.get(WriteNewPages));
        let (overwritten, dirtied) = (totals.overwritten_pages(), totals.get(DirtiedPages));
        let direct = (
            totals.get(DirectWriteRequests),
            totals.get(DirectWriteBytes),
        );
        let name = match self.interval.source.backend.exact {
            false => "write calls, with pipes",
            true => "buffered writes",
        };
        if matters(&[requests.0, requests.1, pages, new]) {
            self.requests(name, requests.0, requests.1);
        }
        if matters(&[pages, new]) {
            self.part("  written", pages, pages);
            self.part("  overwritten", overwritten, pages);
            self.part("  new", new, pages);
        }
        if matters(&[direct.0, direct.1]) {
            self.requests("direct writes (O_DIRECT)", direct.0, direct.1);
        }
        // Mapped files and the file system's own blocks become dirty without a write.
        if matters(&[dirtied]) {
            self.pages("dirtied", dirtied);
        }
    }

    fn insertions(&mut self) {
        let totals = &self.interval.ledger;
        let all = totals.inserted_pages();
        if !matters(&[all]) {
            return;
        }
        let parts = [
            ("  by reads, missed", Counter::ReadMissedPages),
            ("  by readahead", Counter::ReadaheadPages),
            ("  by prefetching", Counter::PrefetchPages),
            ("  by faults, missed", Counter::FaultMissPages),
            ("  by readahead of faults", Counter::FaultReadaheadPages),
            ("  by writes", Counter::WriteNewPages),
            ("  file-system metadata", Counter::MetadataPages),
            ("  other", Counter::OtherPages),
        ]
        .map(|(name, counter)| (name, totals.get(counter)));
        self.part("inserted into the cache", all, all);
        for (name, pages) in parts.into_iter().filter(|(_, pages)| matters(&[*pages])) {
            self.part(name, pages, all);
        }
    }

    fn removals(&mut self) {
        let totals = &self.interval.ledger;
        let all = totals.evicted_pages();
        let parts = [
            ("  by memory reclaim", Counter::EvictedReclaimPages),
            ("  other", Counter::EvictedOtherPages),
        ]
        .map(|(name, counter)| (name, totals.get(counter)));
        let loose = [
            ("refaulted after eviction", Counter::RefaultPages),
            ("read ahead, unused", Counter::ReadaheadWastedPages),
            ("read ahead, cancelled", Counter::ReadaheadCancelledPages),
        ]
        .map(|(name, counter)| (name, totals.get(counter)));
        if matters(&[all]) {
            self.part("evicted from the cache", all, all);
            for (name, pages) in parts.into_iter().filter(|(_, pages)| matters(&[*pages])) {
                self.part(name, pages, all);
            }
        }
        for (name, pages) in loose.into_iter().filter(|(_, pages)| matters(&[*pages])) {
            self.pages(name, pages);
        }
    }

    fn devices(&mut self) {
        let (read, written) = (
            self.interval.device_read_bytes,
            self.interval.device_write_bytes,
        );
        self.bytes("read from devices", read);
        self.bytes("written to devices", written);
    }

    fn requests(&mut self, name: &str, requests: Count, bytes: Count) {
        self.line(name, Some(requests), None, Some(bytes), None);
    }

    fn bytes(&mut self, name: &str, bytes: Count) {
        self.line(name, None, None, Some(bytes), None);
    }

    fn pages(&mut self, name: &str, pages: Count) {
        self.line(name, None, Some(pages), Some(self.as_bytes(pages)), None);
    }

    fn part(&mut self, name: &str, pages: Count, whole: Count) {
        self.line(
            name,
            None,
            Some(pages),
            Some(self.as_bytes(pages)),
            Some((pages, whole)),
        );
    }

    fn as_bytes(&self, pages: Count) -> Count {
        pages.map(|pages| Pages(pages).bytes(self.interval.page()).0)
    }

    fn line(
        &mut self,
        name: &str,
        requests: Option<Count>,
        pages: Option<Count>,
        bytes: Option<Count>,
        share: Option<(Count, Count)>,
    ) {
        let shown = |value: Option<Value>| value.as_ref().map(value_text).unwrap_or_default();
        let share = share.map(|(part, whole)| Value::ratio(part.ratio_of(whole)));
        self.lines.push([
            name.to_owned(),
            shown(requests.map(Count::count)),
            shown(pages.map(Count::pages)),
            shown(bytes.map(Count::bytes)),
            shown(share),
        ]);
    }

    fn grid(&self) -> Grid {
        let mut grid = Grid::default();
        let headers = ["", "REQUESTS", "PAGES", "BYTES", "SHARE"];
        for (place, header) in headers.into_iter().enumerate() {
            let side = if place == 0 { Side::Left } else { Side::Right };
            let cells = self.lines.iter().map(|line| line[place].clone());
            grid.column(header, side, cells.collect());
        }
        grid
    }
}

/// Whether a part is worth its lines: its counts are neither exact zeros nor unavailable in this
/// back-end.
fn matters(counts: &[Count]) -> bool {
    use cachewise_model::Missing;
    !counts.iter().all(|count| {
        matches!(
            count,
            Measured::Exact(0) | Measured::Missing(Missing::NotOffered(_))
        )
    })
}

#[cfg(test)]
mod tests {
    use cachewise_model::{Missing, Reason};

    use super::super::sample;
    use super::*;
    use crate::cell::width;

    #[test]
    fn cold_read_shows_misses_and_readahead() {
        let expected = [
            "                              REQUESTS    PAGES      BYTES     SHARE\n",
            "buffered reads                     512           512.0 MiB\n",
            "  requested                             131,072  512.0 MiB  100.00 %\n",
            "  hit                                   130,560  510.0 MiB   99.61 %\n",
            "    from cache (REUSE%)                       0        0 B    0.00 %\n",
            "    read ahead (AHEAD)                  130,560  510.0 MiB   99.61 %\n",
            "  missed                                    512    2.0 MiB    0.39 %\n",
            "reads: pipes, sockets, tmpfs                       1.5 KiB\n",
            "inserted into the cache                 131,072  512.0 MiB  100.00 %\n",
            "  by reads, missed                          512    2.0 MiB    0.39 %\n",
            "  by readahead                          130,560  510.0 MiB   99.61 %\n",
            "read from devices                                512.0 MiB\n",
            "written to devices                                     0 B\n",
        ];
        let expected = expected.concat();
        assert_eq!(
            text(&sample::cold(), Style::plain(80)),
            expected,
            "hits and misses add up"
        );
    }

    #[test]
    fn narrow_line_omits_columns_with_a_note() {
        let mut interval = sample::cold();
        for counter in Counter::ALL {
            interval.ledger.set(*counter, 131_072);
        }
        for (columns, header) in [
            (120, "REQUESTS PAGES BYTES SHARE"),
            (70, "REQUESTS PAGES BYTES SHARE"),
            (69, "PAGES BYTES SHARE"),
            (60, "PAGES BYTES SHARE"),
            (50, "PAGES BYTES"),
            (40, "BYTES"),
        ] {
            let text = text(&interval, Style::plain(columns));
            let words: Vec<&str> = text.lines().next().unwrap().split_whitespace().collect();
            assert_eq!(
                words.join(" "),
                header,
                "the columns that fit into {columns}"
            );
            for line in text.lines() {
                assert!(width(line) <= columns, "{columns} columns hold {line:?}");
            }
            assert_eq!(
                text.contains("no room for"),
                columns < 70,
                "the omitted columns are listed: {text}"
            );
        }
    }

    #[test]
    fn blocks_without_activity_are_omitted() {
        let mut interval = sample::cold();
        interval.ledger = cachewise_model::Ledger::default();
        interval.ledger.set(Counter::DirtiedPages, 1);
        interval.ledger.set(Counter::MetadataPages, 34);
        let expected = [
            "                              REQUESTS  PAGES      BYTES     SHARE\n",
            "buffered reads                       0               0 B\n",
            "reads: pipes, sockets, tmpfs                     1.5 KiB\n",
            "dirtied                                     1    4.0 KiB\n",
            "inserted into the cache                    34  136.0 KiB  100.00 %\n",
            "  file-system metadata                     34  136.0 KiB  100.00 %\n",
            "read from devices                              512.0 MiB\n",
            "written to devices                                   0 B\n",
        ];
        assert_eq!(
            text(&interval, Style::plain(80)),
            expected.concat(),
            "no reads is an answer; their parts, and writes that were none, are not"
        );
    }

    #[test]
    fn estimates_count_calls_not_pages() {
        let mut interval = sample::cold();
        interval.backend_mut().exact = false;
        interval.ledger =
            cachewise_model::Ledger::all_missing(Missing::NotOffered(Reason::NeedsProbe));
        for counter in [
            Counter::ReadRequests,
            Counter::ReadRequestedBytes,
            Counter::WriteRequests,
            Counter::WriteBytes,
        ] {
            interval
                .ledger
                .set_estimated(counter, 1 << 10, Reason::OwnReadCalls);
        }
        let text = text(&interval, Style::plain(80));
        assert!(
            !text.contains("through the cache"),
            "a pipe is not read through the cache: {text}"
        );
        for name in ["read calls, with pipes", "write calls, with pipes"] {
            let line = text.lines().find(|line| line.starts_with(name));
            let line = line.unwrap_or_else(|| panic!("`{name}` is in {text}"));
            assert!(line.ends_with("~1.0 KiB"), "the count of procfs: {line}");
        }
        assert!(
            !text.contains("pages written to"),
            "unavailable parts of writes take no lines: {text}"
        );
    }

    #[test]
    fn unknown_values_are_shown() {
        let mut interval = sample::cold();
        interval.ledger.set_missing(
            Counter::ReadMissedPages,
            Missing::Unknown(Reason::LostEvents),
        );
        interval.ledger.set_missing(
            Counter::FaultRequests,
            Missing::NotOffered(Reason::NeedsProbe),
        );
        let text = text(&interval, Style::plain(80));
        let missed = text
            .lines()
            .find(|line| line.starts_with("  missed"))
            .unwrap();
        assert_eq!(
            missed.split_whitespace().collect::<Vec<_>>(),
            ["missed", "?", "?", "?"],
            "neither pages nor bytes nor share"
        );
        assert!(
            !text.contains("page faults"),
            "values that are not offered take no lines"
        );
    }

    #[test]
    fn bytes_follow_the_page_size() {
        let mut interval = sample::cold();
        std::sync::Arc::make_mut(&mut interval.source).page_size =
            cachewise_units::PageSize::new(64 << 10);
        assert!(
            text(&interval, Style::plain(80)).contains("131,072    8.0 GiB"),
            "64 KiB pages"
        );
    }
}
