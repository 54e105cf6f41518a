//! The page of `report --html` in a real browser, opened as a file: the same page as that of `serve`, with its numbers
//! inside.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::serve::chromium::Chromium;
use crate::serve::name_of;
use crate::serve::page::{assert_accessible, axe};
use crate::support::*;

const MIB: u64 = 1 << 20;

/// Reads a file three times and another one once, in a group if there is one.
const IN_GROUP: &str = "[ -z \"$0\" ] || echo $$ > \"$0/cgroup.procs\"; \
    for i in 1 2 3; do cat \"$1\" >/dev/null; sleep 0.3; done; cat \"$2\" >/dev/null";

/// The tests.
pub fn trials() -> Vec<Trial> {
    vec![
        needs_root("numbers_are_those_of_the_json", numbers),
        needs_root("a_group_leads_to_its_processes_and_evictions", group),
        needs_root("keyboard_alone_suffices", keyboard),
        needs_root("every_width_fits_and_is_accessible", widths),
        needs_root("windows_zoom_and_state_are_in_the_fragment", state),
        needs_root("gaps_are_marked_and_listed", gaps),
        needs_root("prints_all_tables_and_says_all_without_scripts", printed),
    ]
}

/// A recording of a group that reads more than its limit, a file with a hostile name, and the page of it.
struct Recorded {
    _scratch: Scratch,
    _group: Option<Group>,
    group: String,
    recording: PathBuf,
    page: PathBuf,
    data: PathBuf,
}

impl Recorded {
    fn new() -> Recorded {
        let scratch = Scratch::new();
        let group = Group::new();
        let data = scratch.file("data", 48 * MIB);
        let hostile =
            OsString::from_vec(b"evil<script>globalThis.evil=1<\\script>\"'\xff".to_vec());
        let hostile = scratch.file(hostile, page_size());
        let recording = scratch.path("r");
        let mut words = Command::new(env!("CARGO_BIN_EXE_cachewise"));
        words.args(["record", "-q", "-n", "1000", "--interval", "100ms"]);
        words.arg(&recording).args(["--", "sh", "-c", IN_GROUP]);
        match &group {
            Some(group) => {
                group.limit_memory(24 * MIB);
                words.arg(group.path());
            }
            None => {
                words.arg("");
            }
        }
        evict(&data);
        words.arg(&data).arg(&hostile);
        Ended::of(&mut words).expect(0, "it is recorded");
        let page = scratch.path("report.html");
        let mut report = cachewise(["report", "--html"]);
        Ended::of(report.arg(&page).arg(&recording))
            .expect(0, "a page is made")
            .says("open it in a browser", "what to do with it");
        Recorded {
            group: group.as_ref().map(name_of).unwrap_or_default(),
            _scratch: scratch,
            _group: group,
            recording,
            page,
            data,
        }
    }

    fn address(&self) -> String {
        format!("file://{}", self.page.to_str().expect("an ordinary name"))
    }

    /// The page in a browser, if there is one.
    fn opened(&self, fragment: &str) -> Option<Chromium> {
        let Some(mut browser) = Chromium::start() else {
            println!(
                "skipped: the report in a browser: needs chromium; scripts/setup test installs it"
            );
            return None;
        };
        browser.open(&format!("{}{fragment}", self.address()));
        browser.until("it is drawn", "globalThis.cachewise !== undefined");
        Some(browser)
    }

    fn json(&self) -> Value {
        let mut report = cachewise(["report", "-o", "json"]);
        let ended = Ended::of(report.arg(&self.recording)).expect(0, "it is a recording");
        serde_json::from_slice(&ended.out).expect("JSON")
    }

    /// No message, no request but for the page itself, and no script that a name brought.
    fn assert_quiet(&self, browser: &mut Chromium) {
        let complaints = browser.complaints();
        assert!(complaints.is_empty(), "no message: {complaints:?}");
        let mut others = browser.requested();
        others.retain(|url| {
            url.split('#').next() != Some(&self.address()) && !url.starts_with("blob:")
        });
        assert!(others.is_empty(), "nothing is requested: {others:?}");
        assert_eq!(
            browser.value("globalThis.evil ?? null"),
            Value::Null,
            "no name runs"
        );
    }
}

fn path(path: &Path) -> &str {
    path.to_str().expect("an ordinary name")
}

fn numbers() {
    let recorded = Recorded::new();
    let Some(mut browser) = recorded.opened("#tab=files") else {
        return;
    };
    let report = recorded.json();
    let totals = &report["totals"];
    for id in [
        "read_requested_pages",
        "read_missed_pages",
        "direct_read_bytes",
    ] {
        let number = number(totals, id);
        let size = match id.ends_with("_pages") {
            true => number * page_size(),
            false => number,
        };
        // Where a busy machine had no room for an event, both say so.
        let estimated = totals["estimated"].as_array();
        let is_estimated = estimated.is_some_and(|ids| ids.iter().any(|other| other == id));
        let mark = if is_estimated { "~" } else { "" };
        assert_eq!(
            browser.value(&format!(
                "document.querySelector('[data-figure={id}]').textContent"
            )),
            browser.value(&format!("'{mark}' + cachewise.bytes({size})")),
            "{id} as in JSON: {totals}"
        );
    }
    let headline = browser.value("document.getElementById('headline').textContent");
    assert_eq!(headline, report["headline"], "the verdict");
    let points = browser.value("cachewise.charts.points.length");
    assert_eq!(points, report["samples"], "each sample is a point");
    let sum = "cachewise.charts.points.reduce((sum, point) => sum + point.read_requested_pages, 0)";
    assert_eq!(
        browser.value(sum),
        totals["read_requested_pages"],
        "their sum"
    );

    // Tables as CSV: rows by name, and the same sums.
    let text = browser.value(
        "modules['csv.js'].text(cachewise.tables.files.columns, cachewise.tables.files.sorted())",
    );
    let text = text.as_str().expect("a text");
    let mut lines = text.lines();
    let head: Vec<&str> = lines.next().expect("a head").split(',').collect();
    let at = |id: &str| head.iter().position(|name| *name == id).expect("a column");
    let line = lines.find(|line| line.starts_with(path(&recorded.data)));
    let cells: Vec<&str> = line.expect("the file").split(',').collect();
    let rows = report["files"].as_array().expect("files");
    let row = rows.iter().find(|row| row["path"] == path(&recorded.data));
    let row = row.expect("JSON has the file");
    for id in ["read_requested_pages", "read_missed_pages", "fetched_bytes"] {
        assert_eq!(cells[at(id)], row[id].to_string(), "{id} of the file");
    }
    assert!(number(row, "read_requested_pages") >= 3 * pages_of(&recorded.data));
    let saved = "new Promise((resolve) => { const made = URL.createObjectURL; \
         URL.createObjectURL = (blob) => { blob.text().then(resolve); return made.call(URL, blob); }; \
         document.getElementById('save').click(); })";
    assert_eq!(browser.value(saved), text, "a button saves it");

    // Controls that ask a server are not there.
    for id in ["pause", "full", "over-label", "cache", "problem", "refused"] {
        let hidden = format!("document.getElementById('{id}').closest('[hidden]') !== null");
        assert_eq!(browser.value(&hidden), true, "{id} is hidden");
    }
    recorded.assert_quiet(&mut browser);
}

fn group() {
    let recorded = Recorded::new();
    if recorded.group.is_empty() {
        println!("skipped: a group on the page: no control group can be made here");
        return;
    }
    let Some(mut browser) = recorded.opened("#tab=cgroups") else {
        return;
    };
    let row = format!("#cgroups tr[data-subject='cgroup:{}']", recorded.group);
    browser.click(&row);
    let shown = |id: &str| format!("document.getElementById('subject-{id}').textContent");
    assert_eq!(browser.value(&shown("title")), recorded.group.as_str());
    let processes = browser.value(&shown("processes"));
    let processes = processes.as_str().expect("a text");
    assert!(processes.contains("cat x"), "its processes: {processes}");
    assert!(
        processes.contains("(ended)"),
        "and that they ended: {processes}"
    );
    let canvas = "document.querySelector('#subject-chart canvas') !== null";
    assert_eq!(browser.value(canvas), true, "its past");
    let evictions = browser.value(&shown("evictions"));
    let evictions = evictions.as_str().expect("a text");
    assert!(
        evictions.contains(path(&recorded.data)) && evictions.contains("(group limit) by cat"),
        "its evicted pages by file and process: {evictions}"
    );
    let report = recorded.json();
    let rows = report["evictions"].as_array().expect("evictions");
    let of_file = rows.iter().filter(|row| {
        row["charged_cgroup"] == recorded.group.as_str()
            && row["path"] == path(&recorded.data)
            && row["cause"] == "group_limit"
            && row["culprit"]["command"] == "cat"
    });
    let pages: u64 = of_file.map(|row| number(row, "evicted_pages")).sum();
    let size = browser.value(&format!("cachewise.bytes({})", pages * page_size()));
    let size = size.as_str().expect("a text");
    assert!(
        evictions.contains(&format!("{size} of ")),
        "{size}: {evictions}"
    );

    // From there to the command, and back.
    browser.value("document.querySelector('#subject-evictions a').click()");
    assert_eq!(browser.value(&shown("kind")), "Command");
    browser.value("history.back()");
    browser.until(
        "back leads to the group",
        &format!("{} === 'Control group'", shown("kind")),
    );
    // A click on a card leads to its subject too.
    browser.press("Escape");
    let card = format!("#findings li[data-subject='cgroup:{}'] h3", recorded.group);
    browser.click(&card);
    browser.until(
        "the card opens its group",
        &format!(
            "{} === {:?} && {} === 'Control group' && {}.includes('cat x')",
            shown("title"),
            recorded.group,
            shown("kind"),
            shown("processes")
        ),
    );
    browser.press("Escape");
    let of_data = format!("file:{}", path(&recorded.data));
    browser.value(&format!("cachewise.state.set({{ subject: {of_data:?} }})"));
    browser.until(
        "a file is found by its path",
        "document.querySelector('#subject-about dl') !== null",
    );
    browser.value("cachewise.state.set({ subject: 'file:/no/such/file' })");
    browser.until(
        "what is not in the page is not invented",
        "document.getElementById('subject-about').textContent.includes('most active subjects only')",
    );
    recorded.assert_quiet(&mut browser);
}

fn keyboard() {
    let recorded = Recorded::new();
    let Some(mut browser) = recorded.opened("") else {
        return;
    };
    browser.tab_to("a chart", "document.activeElement.id === 'chart-reads'");
    browser.press("ArrowLeft");
    browser.until(
        "its numbers are said",
        "document.getElementById('told').textContent !== ''",
    );
    browser.tab_to("the tabs", "document.activeElement.id === 'tab-processes'");
    browser.press("ArrowRight");
    assert_eq!(browser.value("document.activeElement.id"), "tab-cgroups");
    browser.press("ArrowLeft");
    browser.tab_to(
        "the head of a column",
        "document.activeElement.closest?.('#processes th[data-id=pid]') != null",
    );
    browser.enter();
    browser.until(
        "Enter sorts by it",
        "document.querySelector('#processes th[data-id=pid]').ariaSort !== null",
    );
    browser.tab_to(
        "a process",
        "document.activeElement.closest?.('#processes tbody a') != null",
    );
    browser.enter();
    browser.until(
        "Enter opens it, and the keyboard is there",
        "!document.getElementById('subject').hidden && document.activeElement.id === 'subject-title'",
    );
    browser.press("Escape");
    browser.until(
        "Escape closes it",
        "document.getElementById('subject').hidden && document.activeElement !== document.body",
    );
    browser.tab_to(
        "the table of waiting",
        "document.activeElement.getAttribute('aria-label') === 'Table: time lost to waiting'",
    );
    recorded.assert_quiet(&mut browser);
}

fn widths() {
    let recorded = Recorded::new();
    let Some(mut browser) = recorded.opened("") else {
        return;
    };
    let has_axe = axe(&mut browser);
    for subject in ["", "cgroup:/"] {
        browser.value(&format!("cachewise.state.set({{ subject: {subject:?} }})"));
        for width in [390, 768, 1440, 2560] {
            browser.resize(width);
            browser.until(
                &format!("{width} pixels are enough"),
                &format!("document.documentElement.scrollWidth <= {width}"),
            );
            if has_axe && (width == 390 || width == 1440) {
                assert_accessible(&mut browser, &format!("{width}, {subject:?}"));
            }
        }
    }
    recorded.assert_quiet(&mut browser);
}

fn state() {
    let recorded = Recorded::new();
    let Some(mut browser) = recorded.opened("") else {
        return;
    };
    let windows = "[...document.querySelectorAll('#windows button')].filter((one) => !one.hidden).map((one) => one.textContent)";
    assert_eq!(
        browser.value(windows),
        json!(["Whole recording"]),
        "seconds have no shorter window"
    );
    let range = "cachewise.charts.plots.map((plot) => [plot.scales.x.min, plot.scales.x.max])";
    let whole = browser.value(range);
    browser.click("#tab-files");
    browser.drag("#chart-reads .u-over", [0.05, 0.95]);
    browser.until("it is zoomed", "cachewise.charts.isZoomed");
    let zoomed = browser.value(range);
    assert_ne!(zoomed, whole, "a part");
    let tables = browser.value("document.getElementById('tables-of').innerText");
    assert!(
        tables
            .as_str()
            .is_some_and(|text| text.contains("of the whole recording")),
        "the page says what its tables show: {tables}"
    );
    let address = browser.value("location.href");
    let address = address.as_str().expect("an address").to_owned();
    assert!(address.contains("#tab=files&from="), "{address}");
    browser.call("Page.reload", json!({}));
    let drawn = "globalThis.cachewise !== undefined";
    browser.until("a reload draws it", drawn);
    assert_eq!(browser.value(range), zoomed, "and keeps the part");
    assert_eq!(
        browser.value("document.getElementById('panel-files').hidden"),
        false,
        "and the tab"
    );
    browser.click("#whole");
    browser.until("a button resets it", "!cachewise.charts.isZoomed");
    assert_eq!(browser.value(range), whole);
    recorded.assert_quiet(&mut browser);
}

fn gaps() {
    let scratch = Scratch::new();
    let (recording, page) = (scratch.path("r"), scratch.path("report.html"));
    for pause in ["0", "2"] {
        let mut record = Command::new("sh");
        record.args(["-c", "sleep \"$0\"; exec \"$@\"", pause]);
        record.arg(env!("CARGO_BIN_EXE_cachewise"));
        record.args(["record", "-q", "--interval", "100ms", "-d", "0.5"]);
        Ended::of(record.arg(&recording)).expect(0, "it is recorded");
    }
    let mut report = cachewise(["report", "--html"]);
    Ended::of(report.arg(&page).arg(&recording)).expect(0, "a page is made");
    let Some(mut browser) = Chromium::start() else {
        println!("skipped: gaps in a browser: needs chromium; scripts/setup test installs it");
        return;
    };
    browser.open(&format!("file://{}", path(&page)));
    browser.until("it is drawn", "globalThis.cachewise !== undefined");
    let marks = browser.value(
        "[...document.querySelectorAll('#marks li')].map((mark) => [mark.dataset.kind, mark.textContent])",
    );
    let marks = marks.as_array().expect("a list");
    let of_kind = |kind: &str| marks.iter().filter(|mark| mark[0] == kind).count();
    assert_eq!(of_kind("not_recorded"), 1, "the pause: {marks:?}");
    let breaks = "cachewise.charts.drawn.rows.filter((row) => row === null).length";
    assert_eq!(browser.value(breaks), 1, "no line leads over it");
    let complaints = browser.complaints();
    assert!(complaints.is_empty(), "no message: {complaints:?}");
}

fn printed() {
    let recorded = Recorded::new();
    let text = std::fs::read_to_string(&recorded.page).expect("it was written");
    let body = &text[..text.find("id=\"recorded\"").expect("its data comes last")];
    let report = recorded.json();
    for finding in report["findings"].as_array().expect("findings") {
        let title = finding["cause"].as_str().or(finding["title"].as_str());
        let title = title.expect("a title");
        assert!(body.contains(title), "without scripts too: {title}");
    }
    assert!(body.contains(path(&recorded.data)), "rows without scripts");
    assert!(body.contains("<noscript>"), "which says what is missing");
    let Some(mut browser) = recorded.opened("") else {
        return;
    };
    browser.call("Emulation.setEmulatedMedia", json!({ "media": "print" }));
    let shown =
        "[...document.querySelectorAll('.panel')].map((panel) => getComputedStyle(panel).display)";
    assert_eq!(
        browser.value(shown),
        json!(["block", "block", "block", "block"]),
        "paper has no tabs"
    );
    let pdf = browser.call("Page.printToPDF", json!({}));
    assert!(
        pdf["data"].as_str().is_some_and(|data| data.len() > 10_000),
        "it prints"
    );
    recorded.assert_quiet(&mut browser);
}
