//! The page as a text; browsers look at it in the binary's tests.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cachewise_model::{
    CgroupRow, Counter, Diagnosis, Eviction, EvictionCause, Exit, FileNumber, FileRow, Gap,
    GapKind, GroupNames, Interval, Ledger, Lost, Measured, ProcessRow, Reason, Source, Statistics,
    System,
};
use cachewise_units::PageSize;
use serde_json::Value as Json;

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

/// Names that could end an element, an attribute, a text or a line, or be no text at all.
const HOSTILE: [&[u8]; 5] = [
    b"/x/</script><script>alert(1)</script>",
    b"/x/<!--<script>",
    b"/x/\"onload='alert(1)'&amp;",
    b"/x/\xe2\x80\xa8\xe2\x80\xaeline",
    b"/x/\xff\xfe\n",
];

fn reads(pages: u64) -> Ledger {
    let mut ledger = Ledger::default();
    ledger.set(Counter::ReadRequestedPages, pages);
    ledger.set(Counter::ReadMissedPages, pages / 4);
    ledger.derive_hits();
    ledger
}

fn file(inode: u64, path: &[u8], pages: u64) -> FileRow {
    FileRow {
        path: Measured::Exact(PathBuf::from(OsStr::from_bytes(path))),
        label: Measured::not_offered(Reason::NoSuchField),
        deleted: false,
        filesystem: Measured::Exact("ext4".into()),
        number: Some(FileNumber {
            device: "8:1".into(),
            inode,
        }),
        size_bytes: Measured::Exact(4096),
        resident_before_pages: Measured::unknown(Reason::NoPermission),
        resident_after_pages: Measured::unknown(Reason::NoPermission),
        ledger: reads(pages),
        direct: false,
    }
}

fn process(pid: u32, command: &str, cgroup: &str, pages: u64) -> ProcessRow {
    ProcessRow {
        pid: Some(pid),
        started: Measured::Exact(7),
        ppid: Measured::Exact(1),
        command: Measured::Exact(command.into()),
        cgroup: Measured::Exact(cgroup.into()),
        exit: Exit::Running,
        cpu_seconds: Measured::Exact(0.5),
        device_read_bytes: Measured::Exact(0),
        device_write_bytes: Measured::Exact(0),
        ledger: reads(pages),
    }
}

fn group(path: &str, pages: u64) -> CgroupRow {
    CgroupRow {
        path: Measured::Exact(path.into()),
        names: GroupNames::none(),
        ledger: reads(pages),
        system: System::default(),
        memory_limit_path: Measured::not_offered(Reason::NotMeasured),
    }
}

fn page(hostname: &str, samples: &[(Interval, bool)]) -> String {
    page_of(&summary(hostname), samples)
}

fn page_of(summary: &Statistics, samples: &[(Interval, bool)]) -> String {
    let mut kept = ReportSamples::default();
    for (sample, is_apart) in samples {
        kept.add(sample, *is_apart);
    }
    report_page(summary, &kept, "0.1.0")
}

fn data(page: &str) -> Json {
    let begin = page.find("id=\"recorded\">").expect("it has data") + "id=\"recorded\">".len();
    let end = page[begin..].find("</script>").expect("it ends") + begin;
    serde_json::from_str(&page[begin..end]).expect("it is JSON")
}

/// A list as `source.js` unpacks it.
fn unpacked(list: &Json) -> Vec<BTreeMap<String, Json>> {
    let fields = list["fields"].as_array().expect("names");
    let rows = list["rows"].as_array().expect("values");
    let row = |row: &Json| {
        let cells = row.as_array().expect("a row").iter().cloned();
        let names = fields.iter().filter_map(|name| name.as_str());
        names.map(str::to_owned).zip(cells).collect()
    };
    rows.iter().map(row).collect()
}

#[test]
fn nothing_is_fetched_from_anywhere() {
    let page = page("box", &[(interval(), false)]);
    for from in [
        "src=\"",
        "href=\"http",
        "url(",
        "@import",
        "//cdn",
        "rel=\"stylesheet",
        "rel=\"icon",
    ] {
        assert!(!page.contains(from), "{from} would fetch something");
    }
    assert!(page.contains("default-src 'none'"), "and nothing may");
    assert!(!page.contains(" style=\""), "which holds for styles too");
    assert!(!page.contains("{{"), "everything is filled in");
}

#[test]
fn policy_names_the_scripts_and_the_style_that_are_in_the_page() {
    let page = page("box", &[(interval(), false)]);
    let between = |open: &str, close: &str| -> Vec<String> {
        let parts = page.split(open).skip(1);
        let parts = parts.filter_map(|part| part.split_once(close));
        parts.map(|(content, _)| source(content)).collect()
    };
    let scripts = between("<script>", "</script>");
    assert_eq!(scripts.len(), 2, "two scripts");
    let styles = between("<style>", "</style>");
    assert_eq!(styles.len(), 1, "one style");
    let policy = format!(
        "script-src {} {}; style-src {};",
        scripts[0], scripts[1], styles[0]
    );
    assert!(page.contains(&policy), "{policy}");
}

#[test]
fn names_do_not_act() {
    let plain = page("box", &[]).matches("</script").count();
    let page = page("</title><script>alert(1)</script>", &[]);
    assert!(!page.contains("<script>alert"), "not as a tag");
    assert_eq!(page.matches("</script").count(), plain, "no element ends");
    assert!(
        page.contains("&lt;script&gt;alert(1)"),
        "but as it is called"
    );
    assert!(page.contains("a &lt;problem&gt;"), "nor do notes");
}

/// A page with files, a process and a group of these names.
fn page_with(names: [&[u8]; 5]) -> String {
    let mut summary = summary("box");
    summary.total.files = (1..)
        .zip(names)
        .map(|(inode, name)| file(inode, name, 8))
        .collect();
    let name = String::from_utf8_lossy(names[0]);
    summary.total.processes = vec![process(7, &name, &name, 9)];
    summary.total.cgroups = vec![group(&name, 9)];
    page_of(&summary, &[(summary.total.clone(), false)])
}

#[test]
fn names_of_files_and_processes_stay_names_in_tables_and_data() {
    let harmless = page_with([b"/1", b"/2", b"/3", b"/4", b"/5"]);
    let page = page_with(HOSTILE);
    for sign in ["<", "<script", "</script", "<!--"] {
        let [found, wanted] = [&page, &harmless].map(|page| page.matches(sign).count());
        assert_eq!(found, wanted, "no name adds {sign}");
    }
    let data = data(&page);
    let paths: Vec<&str> = (data["tick"]["files"].as_array().expect("files").iter())
        .filter_map(|row| row["path"].as_str())
        .collect();
    for name in [
        "/x/</script><script>alert(1)</script>",
        "/x/<!--<script>",
        "/x/\"onload='alert(1)'&amp;",
        "/x/\\xff\\xfe\\n",
    ] {
        assert!(paths.contains(&name), "{name} is among {paths:?}");
    }
    let command = String::from_utf8_lossy(HOSTILE[0]);
    let subject = &data["subjects"][format!("cgroup:{command}")];
    assert_eq!(subject["processes"][0]["command"], *command);
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
        page.contains("Nothing to find fault with in this recording."),
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
        "goes around &lt;the cache&gt;</h3><code>/data/&lt;b&gt;</code>",
        "direct <b>5.0 MiB</b>",
        "open it without O_DIRECT &amp; see",
    ] {
        assert!(page.contains(part), "{part} is in it");
    }
    assert_eq!(
        data(&page)["tick"]["headline"],
        "1 problem: /data/<b> (direct_io)"
    );
}

#[test]
fn charts_have_the_points_of_a_server_and_the_gaps_of_the_recording() {
    let mut later = interval();
    later.time = "2026-01-02T03:10:00.000Z".into();
    let mut summary = summary("box");
    let gap = |kind, end: &str| Gap {
        begin: Measured::Exact("2026-01-02T03:00:02.000Z".into()),
        end: Measured::Exact(end.into()),
        length: Measured::unknown(Reason::NothingBefore),
        kind,
    };
    summary.gaps = vec![
        gap(GapKind::NotRecorded, "2026-01-02T03:09:59.000Z"),
        gap(GapKind::ClockSet, "2026-01-02T03:00:02.000Z"),
    ];
    let page = page_of(&summary, &[(interval(), false), (later.clone(), true)]);
    let history = &data(&page)["history"];
    let points = unpacked(&history["points"]);
    assert_eq!(points.len(), 2, "two points");
    let point = crate::events::point(&later);
    let members = point.as_object().expect("an object");
    for (name, value) in members {
        assert_eq!(&points[1][name], value, "{name} as a server sends it");
    }
    assert_eq!(history["started"], summary.begin.as_str());
    let gaps = history["gaps"].as_array().expect("gaps");
    assert_eq!(gaps.len(), 1, "a clock that was set is none");
    assert_eq!(gaps[0]["kind"], "not_recorded");
    assert!(page.contains("<li>Gap: "), "also without scripts");
}

#[test]
fn tables_are_bounded_and_keep_their_sum() {
    let mut summary = summary("box");
    let rows = (1..=250_u32).map(|pid| process(pid, &format!("p{pid}"), "/", u64::from(pid) * 4));
    summary.total.processes = rows.collect();
    let data = data(&page_of(&summary, &[]));
    let rows = data["tick"]["processes"].as_array().expect("rows");
    assert_eq!(rows.len(), 101, "the greatest, and one for all others");
    assert_eq!(rows[100]["command"], "(150 others)");
    assert_eq!(rows[100]["subject"], Json::Null, "which is no subject");
    let sum: u64 = rows
        .iter()
        .filter_map(|row| row["read_requested_pages"].as_u64())
        .sum();
    assert_eq!(sum, (1..=250).sum::<u64>() * 4, "nothing is lost");
}

#[test]
fn a_group_has_its_processes_and_the_evictions_of_its_pages() {
    let mut summary = summary("box");
    let total = &mut summary.total;
    total.files = vec![file(1, b"/a", 40), file(2, b"/b", 40)];
    total.processes = vec![
        process(7, "cat", "/db/inner", 40),
        process(8, "dd", "/other", 40),
    ];
    total.cgroups = vec![group("/db", 40), group("/other", 40)];
    let eviction = |file: usize, charged: &str, pages: u64| Eviction {
        file,
        charged: Measured::Exact(charged.into()),
        cause: EvictionCause::GroupLimit,
        culprit: None,
        own: false,
        pages,
    };
    total.evictions = vec![eviction(0, "/db/inner", 30), eviction(1, "/other", 10)];
    let sample = summary.total.clone();
    let data = data(&page_of(
        &summary,
        &[(sample.clone(), false), (sample, false)],
    ));
    let subject = &data["subjects"]["cgroup:/db"];
    let processes = subject["processes"].as_array().expect("processes");
    assert_eq!(processes.len(), 1, "those below it");
    assert_eq!(processes[0]["command"], "cat");
    let evictions = subject["evictions"].as_array().expect("evictions");
    assert_eq!(evictions.len(), 1, "of its pages");
    assert_eq!(
        (&evictions[0]["path"], &evictions[0]["evicted_pages"]),
        (&"/a".into(), &30.into())
    );
    let points = unpacked(&subject["points"]);
    assert_eq!(points.len(), 2, "its past");
    assert_eq!(points[0]["read_requested_pages"], 40);
    assert!(
        data["subjects"]["inode:8:1:1"]["row"]["path"] == "/a",
        "files are there too"
    );
    assert!(
        data["subjects"]["command:cat"]["row"]["command"] == "cat",
        "and commands"
    );
}

#[test]
fn size_of_the_page_is_bounded() {
    let mut summary = summary("box");
    summary.total.cgroups = (0..600)
        .map(|number| group(&format!("/group-{number}/{}", "x".repeat(200)), 40))
        .collect();
    summary.total.processes = (1..4096)
        .map(|pid| process(pid, &"y".repeat(200), &format!("/group-{pid}"), 40))
        .collect();
    let name = "z".repeat(4000);
    summary.total.files = (1..4096)
        .map(|inode| file(inode, format!("/{inode}/{name}").as_bytes(), 40))
        .collect();
    let samples: Vec<(Interval, bool)> = (0..5000).map(|_| (interval(), false)).collect();
    let mut kept = ReportSamples::default();
    for (sample, is_apart) in &samples {
        kept.add(sample, *is_apart);
    }
    kept.add(&summary.total, false);
    let page = report_page(&summary, &kept, "");
    assert!(page.len() < 8 << 20, "{} bytes", page.len());
}

#[test]
fn lost_counts_are_on_the_page_and_in_the_data() {
    let mut summary = summary("box");
    summary.total.lost = vec![Lost::new("lost_events", 12)];
    Arc::make_mut(&mut summary.total.source).backend.exact = true;
    let page = page_of(&summary, &[]);
    assert!(page.contains("<p class=\"note\">incomplete, "), "a note");
    assert!(
        page.contains("data-exactness=\"incomplete\""),
        "in its head"
    );
    assert_eq!(data(&page)["tick"]["exactness"]["id"], "incomplete");
}
