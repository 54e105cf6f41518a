//! A summary for people: head, verdict, findings, gaps, statistics, stalls, the busiest rows.

use cachewise_model::{
    Exactness, Figures, Gap, Kind, Measured, Spread, Stall, Statistics, TablePlace, escaped,
    shell_quoted,
};

use super::gap::gap_text;
use super::options::SummaryOptions;
use crate::cell::{Side, wrapped};
use crate::layout::Grid;
use crate::number::{figure, length, marked};
use crate::number::{grouped, value_text};
use crate::read_parts::read_bar;
use crate::report::{ReportOptions, closing, evictions_text, lost_text, stacks, tables};

/// Fields shown by default, if one of them is more than zero.
const USUAL: [&str; 33] = [
    "read_requested_pages",
    "read_missed_pages",
    "read_hit_pages",
    "reuse_ratio",
    "readahead_hit_pages",
    "readahead_wasted_pages",
    "direct_bytes",
    "fetched_bytes",
    "fault_requests",
    "fault_miss_pages",
    "write_bytes",
    "dirtied_pages",
    "evicted_pages",
    "refault_pages",
    "device_read_bytes",
    "device_write_bytes",
    "cached_bytes",
    "buffers_bytes",
    "available_bytes",
    "free_bytes",
    "anon_bytes",
    "dirty_bytes",
    "writeback_bytes",
    "slab_reclaimable_bytes",
    "swap_used_bytes",
    "swap_in_pages",
    "swap_out_pages",
    "page_faults",
    "major_faults",
    "file_refault_pages",
    "scanned_pages",
    "reclaimed_pages",
    "oom_kills",
];

/// Columns omitted first if a line has no room.
const SPARED: [&str; 4] = ["P50", "P90", "P99", "SAMPLES"];

/// More gaps are only counted.
const GAPS: usize = 10;

pub(super) fn summary(summary: &Statistics, options: &SummaryOptions) -> String {
    let parts = [
        head(summary, options),
        answer(summary, options),
        findings(summary, options),
        gaps(summary, options),
        numbers(summary, options),
        stalls(summary, options),
        parts(summary, options),
        closing(summary, options),
    ];
    let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join("\n")
}

fn head(summary: &Statistics, options: &SummaryOptions) -> String {
    let style = options.style;
    let what = match (&summary.command[..], summary.scope.as_str()) {
        ([], "") => String::new(),
        ([], scope) => format!("{}\n", escaped(&scope)),
        (words, scope) => {
            let words = words.iter().map(|word| shell_quoted(word.as_ref()));
            let only = if scope.is_empty() { "" } else { " (only)" };
            format!("{}{only}\n", words.collect::<Vec<_>>().join(" "))
        }
    };
    let plural = if summary.samples == 1 { "" } else { "s" };
    let every = match summary.interval.is_zero() {
        true => String::new(),
        false => format!(" every {}", length(summary.interval)),
    };
    let sessions = match summary.sessions {
        0 | 1 => String::new(),
        sessions => format!(", in {sessions} sessions"),
    };
    let line = format!(
        "{} to {}, {}: {} sample{plural}{every}{sessions}",
        escaped(&summary.begin),
        escaped(&summary.total.time),
        length(summary.total.elapsed),
        grouped(summary.samples)
    );
    let exactness = match summary.exactness() {
        Exactness::Exact => Exactness::Exact.text().to_owned(),
        other => style.warning(other.text()),
    };
    let machine = format!(
        "{}, linux {}, {} pages, counted by {}, {exactness}",
        escaped(&summary.total.source.hostname),
        escaped(&summary.total.source.kernel),
        summary.total.page(),
        escaped(&summary.total.source.backend.name),
    );
    let [line, machine] = [line, machine].map(|line| wrapped(&line, style.width));
    format!("{}{line}\n{machine}\n", style.bold(&what))
}

fn gaps(summary: &Statistics, options: &SummaryOptions) -> String {
    let lines = summary
        .gaps
        .iter()
        .take(GAPS)
        .map(|gap| gap_line(gap, options));
    let mut text: String = lines.collect();
    let more = summary.gaps.len().saturating_sub(GAPS) as u64 + summary.more_gaps;
    if more > 0 {
        text += &format!("and {} more gaps: --json has them\n", grouped(more));
    }
    text
}

fn gap_line(gap: &Gap, options: &SummaryOptions) -> String {
    let text = format!("gap: {}", gap_text(gap));
    let text = wrapped(&text, options.style.width);
    format!("{}\n", options.style.warning(&text))
}

fn numbers(summary: &Statistics, options: &SummaryOptions) -> String {
    let shown: Vec<&Spread> = match &options.columns {
        Some(columns) => columns
            .iter()
            .filter_map(|field| spread(summary, field.id))
            .collect(),
        None => USUAL
            .iter()
            .filter_map(|id| spread(summary, id))
            .filter(|spread| {
                spread
                    .figures
                    .known()
                    .is_some_and(|figures| figures.max > 0.0)
            })
            .collect(),
    };
    if shown.is_empty() {
        return String::new();
    }
    let mut grid = Grid::default();
    let names = shown.iter().map(|spread| {
        let second = if spread.is_rate() { "/s" } else { "" };
        format!("{}{second}", spread.field.header)
    });
    grid.column("", Side::Left, names.collect());
    type Of = fn(&Figures) -> f64;
    let columns: [(&str, Of); 6] = [
        ("MIN", |figures| figures.min),
        ("MEAN", |figures| figures.mean),
        ("P50", |figures| figures.p50),
        ("P90", |figures| figures.p90),
        ("P99", |figures| figures.p99),
        ("MAX", |figures| figures.max),
    ];
    for (header, of) in columns {
        let cells = shown.iter().map(|spread| {
            let unit = spread.field.unit;
            marked(&spread.figures, |figures| figure(unit, of(figures)))
        });
        grid.column(header, Side::Right, cells.collect());
    }
    let totals = shown.iter().map(|spread| match spread.field.kind {
        Kind::Counter => value_text(&spread.total),
        // A ratio of the sums differs from the mean of ratios; gauges have no sum.
        _ if spread.field.unit == cachewise_model::Unit::Ratio => value_text(&spread.total),
        _ => String::new(),
    });
    grid.column("IN ALL", Side::Right, totals.collect());
    grid.omit(&SPARED, options.style.table_width());
    let left_out = grid.left_out().map(|text| {
        let text = format!("{text}: --json has all");
        format!("{}\n", wrapped(&text, options.style.width))
    });
    grid.text(options.style) + &left_out.unwrap_or_default()
}

fn spread<'a>(summary: &'a Statistics, id: &str) -> Option<&'a Spread> {
    summary.spreads.iter().find(|spread| spread.field.id == id)
}

fn stalls(summary: &Statistics, options: &SummaryOptions) -> String {
    let title = options.style.bold("time lost to waiting (PSI)");
    let known: Vec<&Stall> = summary
        .stalls
        .iter()
        .filter(|stall| stall.seconds.known().is_some())
        .collect();
    if known.is_empty() {
        let why = summary
            .stalls
            .first()
            .and_then(|stall| stall.seconds.missing());
        let why = why.map_or("not recorded", |missing| missing.reason().words());
        return format!("{title}: -, {why}\n");
    }
    let mut grid = Grid::default();
    let text = |of: fn(&Stall) -> String| known.iter().map(|stall| of(stall)).collect();
    grid.column(
        "",
        Side::Left,
        text(|stall| format!("{} {}", stall.kind, stall.resource)),
    );
    grid.column(
        "SECONDS",
        Side::Right,
        text(|stall| shown(stall.seconds, cachewise_model::Unit::Seconds)),
    );
    grid.column(
        "OF ALL",
        Side::Right,
        text(|stall| shown(stall.ratio, cachewise_model::Unit::Ratio)),
    );
    grid.column(
        "WORST",
        Side::Right,
        text(|stall| shown(stall.worst_ratio, cachewise_model::Unit::Ratio)),
    );
    grid.column(
        "AT",
        Side::Left,
        text(|stall| match stall.worst_ratio.known() {
            Some(worst) if worst > 0.0 => stall.worst_time.clone().known().unwrap_or_default(),
            _ => String::new(),
        }),
    );
    grid.omit(&["AT"], options.style.table_width());
    format!("{title}\n{}", grid.text(options.style))
}

fn shown(number: Measured<f64>, unit: cachewise_model::Unit) -> String {
    marked(&number, |number| figure(unit, *number))
}

/// The busiest rows, in the tables of a run's report.
fn parts(summary: &Statistics, options: &SummaryOptions) -> String {
    let total = &summary.total;
    let options = ReportOptions {
        style: options.style,
        top: options.top,
        columns: options.columns.as_deref(),
        ..ReportOptions::default()
    };
    let tables = [
        tables::processes(total, TablePlace::Recording, options),
        tables::files(total, TablePlace::Recording, options),
        tables::cgroups(total, TablePlace::Recording, options),
        tables::devices(total, options),
        evictions_text(total, options),
        stacks::text(total, options),
    ];
    let tables: Vec<String> = tables
        .into_iter()
        .filter(|table| !table.is_empty())
        .collect();
    tables.join("\n")
}

/// The findings in one line, and the picture of reads.
fn answer(summary: &Statistics, options: &SummaryOptions) -> String {
    let total = &summary.total;
    closing::headline(&summary.diagnosis, options.style)
        + &read_bar(&total.ledger, total.page(), options.style)
}

/// Findings over the whole time; the headline says where there are none.
fn findings(summary: &Statistics, options: &SummaryOptions) -> String {
    if summary.diagnosis.findings.is_empty() {
        return String::new();
    }
    closing::findings(&summary.diagnosis, options.style)
}

fn closing(summary: &Statistics, options: &SummaryOptions) -> String {
    let line = |text: String| format!("{}\n", wrapped(&text, options.style.width));
    let lost = summary.total.lost.iter().map(lost_text);
    let notes = summary
        .total
        .source
        .backend
        .notes
        .iter()
        .map(|note| format!("note: {}", escaped(&note)));
    lost.chain(notes).map(line).collect()
}

#[cfg(test)]
mod tests {
    use cachewise_model::{Blind, Reason};

    use super::super::sample;
    use super::*;
    use crate::cell::width;
    use crate::style::Style;

    fn options(width: usize) -> SummaryOptions {
        SummaryOptions {
            style: Style::plain(width),
            top: 3,
            columns: None,
        }
    }

    #[test]
    fn summary_shows_head_statistics_and_busiest_rows() {
        let text = summary(&sample::night(), &options(100));
        let expected = "\
2026-01-02T03:00:00.000Z to 2026-01-02T03:00:02.000Z, 2 s: 2 samples every 1 s, in 2 sessions
box, linux 6.18, 4.0 KiB pages, counted by tracepoints, exact to the page

verdict: no cache problem found
reads  ████████████████████████████████████████████████████████████  1.2 MiB
       █ from cache 100.00 %

gap: 2026-01-02T03:00:01.000Z to 2026-01-02T03:10:01.000Z, 10 min 0 s: nobody recorded

                 MIN     MEAN      P50      P90      P99      MAX  IN ALL
REQUESTED/s      100      150      100      200      200      200     300
PAGE-CACHE   1.0 MiB  1.0 MiB  1.0 MiB  1.0 MiB  1.0 MiB  1.0 MiB

time lost to waiting (PSI)
         SECONDS   OF ALL    WORST  AT
some io    0.500  25.00 %  50.00 %  2026-01-02T03:00:01.000Z
";
        for (place, line) in expected.lines().enumerate() {
            assert_eq!(
                text.lines().nth(place),
                Some(line),
                "line {place} of\n{text}"
            );
        }
        for part in [
            "REQUESTED/s",
            "time lost to waiting (PSI)",
            "some io",
            "processes\n",
            "(all others)",
        ] {
            assert!(text.contains(part), "{part:?} is in it:\n{text}");
        }
    }

    #[test]
    fn findings_show_their_next_step() {
        let mut night = sample::night();
        assert!(
            summary(&night, &options(100)).contains("verdict: no cache problem found\n"),
            "the absence of findings is stated"
        );
        night.diagnosis.blind = Some(Blind {
            rules: vec!["direct_io"],
            reason: Reason::NeedsProbe,
        });
        assert!(
            summary(&night, &options(100)).contains("verdict: ? (1 of 22 rules could not look"),
            "nothing found means nothing there"
        );
        night.diagnosis.findings = crate::report::sample::diagnosis().findings;
        let text = summary(&night, &options(100));
        let place = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part}: {text}"));
        assert!(
            place("findings\n") < place("    fix: ") && place("    fix: ") < place("processes\n"),
            "before the tables: {text}"
        );
    }

    #[test]
    fn requested_columns_are_shown_exclusively() {
        let options = SummaryOptions {
            columns: Some(vec![cachewise_model::field("free_bytes").unwrap()]),
            ..options(100)
        };
        let text = numbers(&sample::night(), &options);
        assert!(
            text.contains("FREE") && !text.contains("REQUESTED/s"),
            "even if unknown: {text}"
        );
    }

    #[test]
    fn no_line_exceeds_the_terminal() {
        for columns in [40, 60, 80, 120] {
            let text = summary(&sample::night(), &options(columns));
            let widest = text.lines().map(width).max();
            assert!(
                widest <= Some(columns.max(52)),
                "{widest:?} of {columns}:\n{text}"
            );
        }
    }

    #[test]
    fn missing_psi_is_reported() {
        let mut night = sample::night();
        for stall in &mut night.stalls {
            stall.seconds = Measured::not_offered(Reason::NoPressure);
        }
        let text = stalls(&night, &options(80));
        assert_eq!(
            text, "time lost to waiting (PSI): -, this kernel has no pressure stall information\n",
            "not zero"
        );
    }
}
