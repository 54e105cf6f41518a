//! Output of `size`: an answer in a sentence, a plot, a table.

use std::io::Write;

use anyhow::Result;
use cachewise_cli::output::{Sink, tell};
use cachewise_cli::sinks::Sinks;
use cachewise_curve::{Curve, Estimator, Point};
use cachewise_model::{Field, Labels, Ledger, Lost, Measured, NOT_APPLICABLE, Reason, Row, Sizing};
use cachewise_units::{Bytes, PageSize, Pages, Ratio};
use cachewise_view::{
    Format, PlotLine, PlotMark, RowOptions, RowWriter, lost_text, miss_svg, miss_text,
};

use super::policy::{id_of, name_of, note_of};
use super::price::Price;
use super::simulation::Seen;

/// Rows of a table on a terminal beside the marked ones, about.
const ROWS: usize = 14;

/// A result with what is to be said of it.
pub struct SizeReport<'a> {
    seen: &'a Seen,
    price: Price,
    page: PageSize,
    /// Sentences, the answer first.
    pub answer: Vec<String>,
    pub notes: Vec<String>,
    /// Events of the probe that were lost, and accesses.
    pub lost: Vec<Lost>,
}

impl<'a> SizeReport<'a> {
    pub fn of(
        seen: &'a Seen,
        price: Price,
        mut notes: Vec<String>,
        mut lost: Vec<Lost>,
    ) -> SizeReport<'a> {
        if seen.lost > 0 {
            lost.push(Lost::new("accesses", seen.lost));
        }
        let mut shown = SizeReport {
            seen,
            price,
            page: cachewise_sys::page_size(),
            answer: Vec::new(),
            notes: Vec::new(),
            lost,
        };
        shown.answer = shown.answered();
        shown.notes = shown.noted();
        shown.notes.append(&mut notes);
        shown
    }

    fn curve(&self) -> &Curve {
        &self.seen.curve
    }

    /// The limit for a size of the page cache.
    fn memory_of(&self, cache: Pages) -> Option<Bytes> {
        let other = self.seen.room.other()?;
        Some(cache.bytes(self.page) + other)
    }

    fn size(&self, point: &Point) -> String {
        let cache = point.memory.bytes(self.page);
        match self.memory_of(point.memory) {
            Some(memory) => format!("{memory} ({cache} of it page cache)"),
            None => format!("{cache} of page cache"),
        }
    }

    fn limit(&self) -> Option<(Point, &str)> {
        let (bytes, name) = self.seen.room.limit.as_ref()?;
        let cache = self.seen.room.cache_in(*bytes, self.page);
        let mut points = self.curve().points.iter();
        let point = points.find(|point| point.is_given && point.memory == cache)?;
        Some((*point, name))
    }

    fn answered(&self) -> Vec<String> {
        let curve = self.curve();
        let mut lines = Vec::new();
        let Some(floor) = curve.floor else {
            return vec!["no reads through the page cache were seen: nothing was simulated".into()];
        };
        match curve.enough() {
            Some(enough) => lines.push(format!(
                "{} avoids 95 % of the reads from devices that memory can avoid: then devices deliver {}",
                self.size(&enough),
                by_requested(enough.fetched_ratio)
            )),
            None => lines.push(format!(
                "memory makes no difference: devices deliver {}, all for the first time",
                by_requested(Some(floor))
            )),
        }
        if let Some(knee) = curve.knee() {
            lines.push(format!(
                "the curve bends at {}, where devices deliver {} (farthest below the line between its ends)",
                self.size(&knee),
                by_requested(knee.fetched_ratio)
            ));
        }
        if let Some((limit, name)) = self.limit() {
            let memory = self.memory_of(limit.memory).unwrap_or_default();
            lines.push(format!(
                "{name}, {memory}: devices deliver {}{}{}",
                by_requested(limit.fetched_ratio),
                self.cost(&limit),
                self.nearby(&limit)
            ));
        }
        lines
    }

    /// The seconds that tasks wait with that memory, as the end of a sentence.
    fn cost(&self, point: &Point) -> String {
        match self.price.seconds(point.fetched).known() {
            Some(seconds) => format!(", and tasks wait ~{seconds:.1} s for them"),
            None => String::new(),
        }
    }

    /// The range of the sizes nearby, as the end of a sentence.
    fn nearby(&self, point: &Point) -> String {
        match self.range(point) {
            Some(_) if !self.curve().has_room_for_windows(point) => {
                format!("; {}", self.uncertain())
            }
            Some(nearby) => format!("; a few pages of room decide: {}", span(&nearby)),
            None => String::new(),
        }
    }

    fn noted(&self) -> Vec<String> {
        let curve = self.curve();
        let mut notes = Vec::new();
        if curve.floor.is_some() {
            notes.push(first_reads(curve));
        }
        let room = &self.seen.room;
        if let Some(other) = room.other() {
            notes.push(format!(
                "MEMORY includes {other} that all tasks of {} use beside the page cache",
                room.name
            ));
            notes.extend(self.seen.too_small.iter().map(|memory| {
                format!("a size of {memory} is less than that: its row is that of the smallest page cache")
            }));
        }
        if let Some(price) = self.price.known() {
            notes.push(format!(
                "seconds lost are at {:.0} us for each page from a device, the mean of this run",
                price * 1e6
            ));
        } else if curve.floor.is_some() {
            notes.push(
                "seconds lost are unknown: no page came from a device, so that the wait for one was not measured".into(),
            );
        }
        if curve.rate.share() < 1.0 {
            notes.push(format!(
                "a sample of 1 in {:.0} pages was simulated; some {} different pages were in use{}",
                1.0 / curve.rate.share(),
                curve.footprint,
                match curve.footprint.0 <= Estimator::MAX_PAGES as u64 {
                    true => "; --full-sample simulates all of them",
                    false => "",
                }
            ));
        }
        if self.seen.is_cold {
            notes.push("it ended before --warm-up was over: all accesses are counted".into());
        }
        notes.push(note_of(self.seen.policy).into());
        notes
    }

    /// The size and those nearby, where a few pages of room decide.
    fn range(&self, point: &Point) -> Option<[Point; 3]> {
        let unsure = self.seen.room.unsure(self.page);
        let [smaller, larger] = self.curve().steep_at(point, unsure)?;
        Some([smaller, *point, larger])
    }

    /// Why the fetched pages may be others than the curve says.
    fn uncertain(&self) -> String {
        let window = self.curve().largest_window.bytes(self.page);
        format!("readahead of {window} does not fit: FETCH is uncertain")
    }

    fn marks_of(&self, point: &Point) -> String {
        let is = |other: Option<Point>| other.is_some_and(|other| other.memory == point.memory);
        let limit = self.limit();
        let mut marks: Vec<String> = Vec::new();
        if let Some((limit, name)) = limit
            && limit.memory == point.memory
        {
            marks.push(format!("<- {name}"));
        } else if point.is_given {
            marks.push("<- --memory".into());
        }
        if is(self.curve().knee()) {
            marks.push("<- knee".into());
        }
        if is(self.curve().enough()) {
            marks.push("<- 95 %".into());
        }
        marks.join(" ")
    }

    /// The marks, and the range where a few pages of room decide.
    fn note(&self, point: &Point) -> String {
        let marks = self.marks_of(point);
        let Some(nearby) = self.range(point) else {
            return marks;
        };
        let note = match self.curve().has_room_for_windows(point) {
            true => format!("~ FETCH {}: a few pages of room decide", span(&nearby)),
            false => self.uncertain(),
        };
        format!("{marks} {note}").trim_start().into()
    }

    fn row(&self, point: &Point) -> Row {
        let simulated = |number| Measured::Estimated(number, Reason::Simulated);
        let requested = self.curve().requested.0;
        let range = |pages: fn(&Point) -> Pages| match self.range(point) {
            Some(nearby) => {
                let mut pages = nearby.map(|point| pages(&point).0);
                pages.sort_unstable();
                [pages[0], pages[2]].map(simulated)
            }
            None => [Measured::Missing(NOT_APPLICABLE); 2],
        };
        let lru = point
            .lru_miss_ratio
            .map(|ratio| (ratio * requested as f64).round() as u64);
        Row {
            labels: Labels {
                note: Measured::Exact(self.note(point)),
                ..Labels::default()
            },
            ledger: Ledger::all_missing(NOT_APPLICABLE),
            sizing: Sizing {
                policy: Measured::Exact(id_of(self.seen.policy).into()),
                memory_bytes: match self.memory_of(point.memory) {
                    Some(bytes) => Measured::Exact(bytes.0),
                    None => Measured::not_offered(Reason::NoMemoryController),
                },
                page_cache_bytes: Measured::Exact(point.memory.bytes(self.page).0),
                requested_pages: Measured::Exact(requested),
                missed_pages: simulated(point.missed.0),
                fetched_pages: simulated(point.fetched.0),
                missed_range: range(|point| point.missed),
                fetched_range: range(|point| point.fetched),
                lru_fetched_pages: simulated(lru.unwrap_or_default()),
                lost_seconds: self.price.seconds(point.fetched),
            }
            .into(),
            elapsed: self.seen.elapsed,
            page_size: Some(self.page),
            ..Row::default()
        }
    }

    /// Points of a table for people: the marked ones, and as many others as fit.
    fn chosen(&self, all: bool) -> Vec<&Point> {
        let points = &self.curve().points;
        let each = if all {
            1
        } else {
            points.len().div_ceil(ROWS).max(1)
        };
        let marked = |point: &Point| !self.marks_of(point).is_empty();
        let numbered = points.iter().enumerate();
        numbered
            .filter(|(number, point)| number % each == 0 || marked(point))
            .map(|(_, point)| point)
            .collect()
    }

    /// Writes all of it to each target.
    pub fn write(
        &self,
        sinks: Sinks,
        columns: impl Fn(Format) -> Vec<&'static Field>,
        blocks: bool,
    ) -> Result<()> {
        let has_table = sinks.have(Format::Table);
        let written = sinks.write(|sink| match sink.format {
            Format::Table => self.write_text(sink, &columns(sink.format), blocks),
            format => self.write_rows(sink, &columns(format), true),
        });
        if !has_table {
            self.answer.iter().for_each(|line| tell(line));
            self.said().for_each(|line| tell(&line));
        }
        written
    }

    fn write_text(&self, sink: &mut Sink, columns: &[&'static Field], blocks: bool) -> Result<()> {
        let plot = miss_text(
            &self.line(),
            &self.plot_marks(),
            self.seconds(),
            sink.style.picture_width(),
            blocks,
        );
        write!(sink, "{}\n\n{plot}\n", self.answer.join("\n"))?;
        self.write_rows(sink, columns, false)?;
        let text: String = self.said().map(|line| format!("{line}\n")).collect();
        write!(sink, "\n{text}")?;
        Ok(())
    }

    fn write_rows(&self, sink: &mut Sink, columns: &[&'static Field], all: bool) -> Result<()> {
        let rows: Vec<Row> = self
            .chosen(all)
            .into_iter()
            .map(|point| self.row(point))
            .collect();
        let options = RowOptions {
            header_every: Some(usize::MAX),
            ..sink.row_options()
        };
        let format = sink.format;
        let mut writer = RowWriter::new(sink, format, columns, options);
        for row in &rows {
            writer.fit(row);
        }
        for row in &rows {
            writer.write(row)?;
        }
        writer.set_lost(&self.lost);
        // OpenMetrics has one row: that of the limit.
        let limit = match format {
            Format::OpenMetrics => self.limit().map(|(point, _)| self.row(&point)),
            _ => None,
        };
        writer.finish(limit.as_ref())?;
        Ok(())
    }

    /// Notes and losses, a line each.
    fn said(&self) -> impl Iterator<Item = String> {
        let notes = self.notes.iter().map(|note| format!("note: {note}"));
        notes.chain(self.lost.iter().map(lost_text))
    }

    fn line(&self) -> PlotLine {
        self.line_of(name_of(self.seen.policy), |point| point.fetched_ratio)
    }

    fn line_of(&self, name: &str, ratio: impl Fn(&Point) -> Option<f64>) -> PlotLine {
        let points = self.curve().points.iter();
        let footprint = self.curve().footprint;
        // A limit far beyond the footprint would press the curve against the axis.
        let points = points.filter(|point| point.memory.0 <= footprint.0 * 5 / 4);
        PlotLine {
            name: name.into(),
            points: points
                .filter_map(|point| {
                    let bytes = point.memory.bytes(self.page);
                    Some((bytes.0 as f64, ratio(point)?))
                })
                .collect(),
        }
    }

    /// Seconds lost where each requested page comes from a device.
    fn seconds(&self) -> Option<f64> {
        self.price.seconds(self.curve().requested).known()
    }

    fn plot_marks(&self) -> Vec<PlotMark> {
        let mark = |name: &str, point: Option<Point>| {
            Some(PlotMark {
                name: name.into(),
                size: point?.memory.bytes(self.page).0 as f64,
            })
        };
        let limit = self.limit();
        let limit = limit.as_ref().map(|(point, _)| *point);
        [
            mark("your limit", limit),
            mark("knee", self.curve().knee()),
            mark("95 %", self.curve().enough()),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    /// The plot.
    pub fn svg(&self) -> std::io::Result<String> {
        let lines = [
            self.line(),
            self.line_of("LRU, for comparison", |point| point.lru_miss_ratio),
        ];
        let largest = lines[0].points.last().map_or(0.0, |point| point.0);
        let mut marks = self.plot_marks();
        marks.retain(|mark| mark.size <= largest * 1.5);
        miss_svg(&lines, &marks, self.seconds())
    }
}

/// The least and the most that devices deliver with one of these sizes.
fn span(nearby: &[Point; 3]) -> String {
    let mut ratios = nearby.map(|point| point.fetched_ratio);
    ratios.sort_by(|one, other| one.partial_cmp(other).unwrap_or(std::cmp::Ordering::Equal));
    format!("{} to {}", percent(ratios[0]), percent(ratios[2]))
}

/// The reads that no memory avoids.
fn first_reads(curve: &Curve) -> String {
    let missed = curve.missed.0 as f64 / curve.requested.0.max(1) as f64;
    format!(
        "{} of {} requested pages were read for the first time while watched, for which devices deliver ~{} pages, readahead \
         included: no memory avoids these, unless they were resident before",
        percent(Some(missed)),
        curve.requested,
        curve.fetched
    )
}

/// Pages that devices deliver by requested pages: a share, or a number of pages where readahead fetches more than that.
fn by_requested(ratio: Option<f64>) -> String {
    match ratio {
        Some(ratio) if ratio > 1.0 => format!("~{ratio:.2} pages for each requested one"),
        _ => format!("{} of requested pages", percent(ratio)),
    }
}

fn percent(ratio: Option<f64>) -> String {
    let Some(ratio) = ratio else {
        return "?".into();
    };
    const PARTS: f64 = 1e6;
    let ratio = Ratio::of((ratio * PARTS).round() as u64, PARTS as u64);
    ratio.map_or("?".into(), |ratio| format!("~{ratio}"))
}

#[cfg(test)]
mod tests {
    use cachewise_curve::{Access, Kind, Reader};

    use super::*;

    #[test]
    fn share_of_requested_pages_is_at_most_the_whole() {
        let mut estimator = Estimator::new(cachewise_sys::page_size(), Estimator::MAX_PAGES);
        // Each fault reads around it.
        for first in [10, 300, 600] {
            estimator.access(&Access {
                file: 1,
                first,
                pages: 1,
                kind: Kind::Fault,
                reader: Some(Reader {
                    id: 1,
                    file_pages: 1000,
                    window: 32,
                    largest_folio: 0,
                    follows: false,
                    continues: false,
                }),
            });
        }
        let curve = estimator.curve(None);
        assert!(curve.floor > Some(1.0), "{:?}", curve.floor);
        let text = first_reads(&curve);
        assert!(text.starts_with("~100.00 % of 3 requested pages"), "{text}");
        assert!(text.contains("deliver ~96 pages"), "{text}");
        assert_eq!(
            by_requested(curve.floor),
            "~32.00 pages for each requested one"
        );
        assert_eq!(by_requested(Some(0.25)), "~25.00 % of requested pages");
    }
}
