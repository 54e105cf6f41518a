//! The page as a text; browsers look at it in the binary's tests.

use std::sync::Arc;
use std::time::Duration;

use cachewise_model::{
    Counter, Diagnosis, Interval, Measured, Reason, Row, Source, Statistics, System, field,
};
use cachewise_units::PageSize;

use super::*;

fn interval() -> Interval {
    let source = Source {
        kernel: "6.18".into(),
        page_size: PageSize::new(4 << 10),
        ..Source::default()
    };
    let mut interval = Interval {
        elapsed: Duration::from_secs(1),
        system: System {
            cached_bytes: Measured::Exact(1 << 30),
            buffers_bytes: Measured::Exact(1 << 20),
            ..System::default()
        },
        device_read_bytes: Measured::Exact(0),
        device_write_bytes: Measured::Exact(0),
        ..Interval::new(Arc::new(source), "2026-01-02T03:00:02.000Z".into())
    };
    interval.ledger.set(Counter::ReadRequestedPages, 256);
    interval.ledger.set(Counter::ReadMissedPages, 64);
    interval.ledger.derive_hits();
    interval
}

fn summary(hostname: &str) -> Statistics {
    let mut total = interval();
    Arc::make_mut(&mut total.source).hostname = hostname.into();
    Statistics {
        begin: "2026-01-02T03:00:01.000Z".into(),
        scope: String::new(),
        command: Vec::new(),
        interval: Duration::from_secs(1),
        samples: 1,
        sessions: 1,
        spreads: Vec::new(),
        stalls: Vec::new(),
        gaps: Vec::new(),
        more_gaps: 0,
        diagnosis: Diagnosis::default(),
        problems: vec!["a <problem>".into()],
        total,
    }
}

fn page(hostname: &str, points: &[(Row, bool)]) -> String {
    page_of(&summary(hostname), points)
}

fn page_of(summary: &Statistics, points: &[(Row, bool)]) -> String {
    report_page(&ReportPage {
        summary,
        points,
        samples_each: 1,
        version: "0.1.0",
    })
}

fn data(page: &str) -> serde_json::Value {
    let begin = page.find("id=\"data\">").expect("it has data") + "id=\"data\">".len();
    let end = page[begin..].find("</script>").expect("it ends") + begin;
    serde_json::from_str(&page[begin..end]).expect("it is JSON")
}

#[test]
fn nothing_is_fetched_from_anywhere() {
    let page = page("box", &[(interval().row(), false)]);
    for from in ["src=\"", "href=\"http", "url(", "@import", "//cdn"] {
        assert!(!page.contains(from), "{from} would fetch something");
    }
    assert!(page.contains("default-src 'none'"), "and nothing may");
    assert!(!page.contains(" style=\""), "which holds for styles too");
}

#[test]
fn names_do_not_act() {
    let page = page("</title><script>alert(1)</script>", &[]);
    assert!(!page.contains("<script>alert"), "not as a tag");
    assert!(
        page.contains("&lt;script&gt;alert(1)"),
        "but as it is called"
    );
    assert!(page.contains("a &lt;problem&gt;"), "nor do notes");
}

#[test]
fn findings_have_figures_and_a_next_step() {
    let mut summary = summary("box");
    summary.diagnosis.blind = Some(cachewise_model::Blind {
        rules: vec!["direct_io"],
        reason: Reason::NeedsProbe,
    });
    let none = page_of(&summary, &[]);
    assert!(
        none.contains("1 of 22 rules could not look: only the probe can count it"),
        "without exact numbers nothing found means nothing"
    );
    summary.diagnosis.blind = None;
    let page = page_of(&summary, &[]);
    assert!(
        page.contains("Nothing that would be worth a change"),
        "or nothing"
    );
    summary.diagnosis.findings = vec![cachewise_model::Finding {
        id: "direct_io",
        severity: cachewise_model::Severity::Warn,
        title: "goes around <the cache>".into(),
        figures: vec![("direct_bytes", Measured::Exact(5 << 20).bytes())],
        next_step: "open it without O_DIRECT & see".into(),
        subject: Some("/data/<b>".into()),
        ..cachewise_model::Finding::default()
    }];
    let page = page_of(&summary, &[]);
    for part in [
        "goes around &lt;the cache&gt;</strong>: <code>/data/&lt;b&gt;</code>",
        "direct 5.0 MiB",
        "Next: open it without O_DIRECT &amp; see",
    ] {
        assert!(page.contains(part), "{part} is in it: {page}");
    }
}

#[test]
fn plots_have_what_is_known_and_break_where_time_is_missing() {
    let mut later = interval();
    later.time = "2026-01-02T03:10:00.000Z".into();
    let points = [(interval().row(), false), (later.row(), true)];
    let page = page("box", &points);
    let data = data(&page);
    let times = data["times"].as_array().expect("times");
    assert_eq!(times.len(), 3, "two points and a break");
    let reads = &data["plots"][0];
    assert_eq!(reads["unit"], "rate", "bytes a second");
    assert_eq!(
        reads["series"][0]["values"],
        serde_json::json!([786_400.0, null, 786_400.0]),
        "192 pages were there, a break, and again"
    );
    let memory = (data["plots"].as_array().expect("plots").iter())
        .find(|plot| plot["unit"] == "bytes")
        .expect("memory is known");
    assert_eq!(
        memory["series"].as_array().map(Vec::len),
        Some(1),
        "what is not known has no line"
    );
    let rows = page.matches("<tr><th scope=\"row\">").count();
    assert!(rows >= 3, "a table has the points too: {rows}");
}

#[test]
fn plots_are_of_fields_that_exist() {
    let (_, data) = plots::plots(&ReportPage {
        summary: &summary("box"),
        points: &[(all_of(7), false)],
        samples_each: 1,
        version: "",
    });
    let data: serde_json::Value = serde_json::from_str(&data).expect("JSON");
    let lines: usize = (data["plots"].as_array().expect("plots").iter())
        .map(|plot| plot["series"].as_array().map_or(0, Vec::len))
        .sum();
    assert_eq!(lines, 25, "with every number known, every line is there");
    assert!(field("read_cached_pages").is_some(), "by their ids");
}

fn all_of(number: u64) -> Row {
    let mut interval = interval();
    for counter in Counter::ALL {
        interval.ledger.set(*counter, number);
    }
    interval.ledger.set(Counter::ReadRequestedPages, 100);
    interval.ledger.derive_hits();
    let mut numbers = interval.system.numbers();
    numbers.fill(Measured::Exact(number));
    interval.system = System::from_numbers(numbers);
    interval.device_read_bytes = Measured::Exact(number);
    interval.device_write_bytes = Measured::Exact(number);
    interval.row()
}
