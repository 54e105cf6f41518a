//! The page in a real browser: its state, the keyboard, widths and accessibility, subjects, restarts.

use std::path::Path;
use std::process::Command;

use serde_json::json;

use super::browser::log_in;
use super::chromium::Chromium;
use super::site::{Site, TOKEN};
use crate::support::Scratch;

/// Installed by `scripts/setup test`.
const AXE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/tools/axe.min.js");
/// From phones to large screens.
const WIDTHS: [u32; 5] = [390, 768, 1024, 1440, 2560];
const POINTS: &str = "cachewise.charts.points.length >= 3";

fn browser() -> Option<Chromium> {
    let browser = Chromium::start();
    if browser.is_none() {
        println!("skipped: the page in a browser: needs chromium; scripts/setup test installs it");
    }
    browser
}

fn base(site: &Site) -> String {
    format!("http://{}/", site.address)
}

fn assert_quiet(browser: &mut Chromium, base: &str) {
    let complaints = browser.complaints();
    assert!(complaints.is_empty(), "no message: {complaints:?}");
    let elsewhere: Vec<String> = browser
        .requested()
        .into_iter()
        .filter(|url| {
            !url.starts_with(base) && !url.starts_with("data:") && !url.starts_with("blob:")
        })
        .collect();
    assert!(elsewhere.is_empty(), "everything is our own: {elsewhere:?}");
}

/// Gives the page the rules for accessible pages, if they are installed.
pub fn axe(browser: &mut Chromium) -> bool {
    let Ok(axe) = std::fs::read_to_string(AXE) else {
        println!(
            "skipped: accessibility of the page: needs axe-core; scripts/setup test installs it"
        );
        return false;
    };
    browser.value(&format!("{axe}; 1"));
    true
}

/// The page breaks no rule in either theme.
pub fn assert_accessible(browser: &mut Chromium, what: &str) {
    for theme in ["light", "dark"] {
        browser.value(&format!(
            "document.documentElement.dataset.theme = {theme:?}"
        ));
        let found = browser.value(
            "axe.run().then(({ violations }) => violations.map(({ id, nodes }) => \
             [id, nodes.slice(0, 3).map(({ html }) => html.slice(0, 160))]))",
        );
        assert_eq!(found, json!([]), "{what}, {theme}: accessible");
    }
}

/// Tab, window, filter, order and zoom are in the address: reload and back restore them.
pub fn state_is_in_the_address() {
    let Some(mut browser) = browser() else { return };
    let site = Site::new(&["--interval", "0.2"]);
    log_in(&mut browser, &base(&site));
    browser.until("points come", POINTS);
    browser.click("#tab-files");
    browser.click("#windows [data-window='900']");
    browser.click("#files th[data-id='path'] button");
    browser.value("document.getElementById('filter').focus()");
    for key in ["l", "i", "b"] {
        browser.press(key);
    }
    let shown = "[document.getElementById('panel-files').hidden, document.getElementById('filter').value, \
         document.querySelector('#files th[data-id=path]').getAttribute('aria-sort'), \
         document.querySelector('#windows [data-window=\"900\"]').getAttribute('aria-pressed')]";
    let wanted = json!([false, "lib", "ascending", "true"]);
    assert_eq!(browser.value(shown), wanted);
    let points = browser.value("cachewise.charts.points[0].time");
    browser.call("Page.reload", json!({}));
    browser.until(
        "the page is there again",
        &format!("globalThis.cachewise !== undefined && {POINTS}"),
    );
    assert_eq!(browser.value(shown), wanted, "a reload keeps it");
    browser.until(
        "the server has the past from before the reload",
        &format!("cachewise.charts.points[0].time <= {points}"),
    );

    // A zoom stays while numbers come, until it is reset.
    browser.drag("#chart-reads .u-over", [0.5, 0.8]);
    browser.until("it is zoomed", "cachewise.charts.isZoomed");
    let range = "cachewise.charts.plots.map((plot) => [plot.scales.x.min, plot.scales.x.max])";
    let zoomed = browser.value(range);
    let count = browser.value("cachewise.charts.points.length");
    browser.until(
        "points go on to come",
        &format!("cachewise.charts.points.length >= {count} + 8"),
    );
    assert_eq!(browser.value(range), zoomed, "it stays, in all charts");
    assert!(
        zoomed
            .as_array()
            .is_some_and(|all| all.iter().all(|one| *one == zoomed[0])),
        "all charts show the same time: {zoomed}"
    );
    browser.value("history.back()");
    browser.until("back shows the window", "!cachewise.charts.isZoomed");
    browser.value("history.forward()");
    browser.until("forward the zoom", "cachewise.charts.isZoomed");
    browser.click("#whole");
    browser.until("a button resets it", "!cachewise.charts.isZoomed");
    assert_quiet(&mut browser, &base(&site));
}

/// Everything can be reached and left by the keyboard.
pub fn keyboard_alone_suffices() {
    let Some(mut browser) = browser() else { return };
    let site = Site::new(&["--interval", "0.2"]);
    log_in(&mut browser, &base(&site));
    browser.until("points come", POINTS);
    browser.tab_to("a chart", "document.activeElement.id === 'chart-reads'");
    browser.press("ArrowLeft");
    browser.until(
        "its numbers are said",
        "document.getElementById('told').textContent !== ''",
    );
    assert_eq!(
        browser.value("cachewise.charts.plots.every((plot) => plot.cursor.left > 0)"),
        true,
        "the crosshair is in all charts"
    );
    browser.press("+");
    browser.until("plus zooms", "cachewise.charts.isZoomed");
    browser.press("Escape");
    browser.until("Escape resets", "!cachewise.charts.isZoomed");
    browser.tab_to("the tabs", "document.activeElement.id === 'tab-processes'");
    browser.press("ArrowRight");
    assert_eq!(browser.value("document.activeElement.id"), "tab-cgroups");
    browser.press("ArrowLeft");
    let head = "document.activeElement.closest?.('#processes th[data-id=pid]') != null";
    browser.tab_to("the head of a column", head);
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
    assert_quiet(&mut browser, &base(&site));
}

/// No width makes the page scroll sideways or leaves a tile alone, and axe finds nothing.
pub fn every_width_fits_and_is_accessible() {
    let Some(mut browser) = browser() else { return };
    let site = Site::new(&["--interval", "0.5"]);
    log_in(&mut browser, &base(&site));
    browser.until("points come", POINTS);
    let has_axe = axe(&mut browser);
    for subject in ["", "cgroup:/"] {
        browser.value(&format!("cachewise.state.set({{ subject: {subject:?} }})"));
        if !subject.is_empty() {
            browser.until(
                "it is shown",
                "document.querySelector('#subject-processes table') !== null",
            );
        }
        for width in WIDTHS {
            browser.resize(width);
            browser.until(
                &format!("{width} pixels are enough"),
                &format!("document.documentElement.scrollWidth <= {width}"),
            );
            let rows = browser.value(
                "(() => { const rows = {}; for (const tile of document.querySelectorAll('.figure')) \
                 rows[tile.offsetTop] = (rows[tile.offsetTop] ?? 0) + 1; return Object.values(rows); })()",
            );
            let rows = rows.as_array().expect("a list");
            assert!(
                rows.iter().all(|row| *row == rows[0]),
                "{width}: lines of tiles are full: {rows:?}"
            );
            if has_axe && (width == 390 || width == 1440) {
                assert_accessible(&mut browser, &format!("{width}, {subject:?}"));
            }
        }
    }
    assert_quiet(&mut browser, &base(&site));
}

/// A click on a file shows its readers; ended processes of a command are one row; tables become CSV.
pub fn subjects_show_files_and_readers() {
    let Some(mut browser) = browser() else { return };
    let scratch = Scratch::new();
    let file = scratch.file("page-subject", 1 << 20);
    let site = Site::new(&["--interval", "0.2"]);
    log_in(&mut browser, &base(&site));
    browser.until("points come", POINTS);
    for _ in 0..3 {
        let ended = Command::new("dd")
            .arg(format!("if={}", file.display()))
            .args(["of=/dev/null", "status=none"])
            .status();
        assert!(ended.expect("dd can be started").success());
    }
    browser.value("cachewise.state.set({ over: '60', filter: 'page-subject', tab: 'files' })");
    browser.until(
        "the file is there",
        "document.querySelector('#files tbody a') !== null",
    );
    browser.click("#files tbody a");
    let reader = "[...document.querySelectorAll('#subject-processes tbody a')]\
         .find((link) => /^dd x3 \\(ended\\)$/.test(link.textContent))";
    browser.until(
        "its readers are named, and that they have ended",
        &format!("{reader} !== undefined"),
    );
    browser.until(
        "with its past",
        "document.querySelector('#subject-chart canvas') !== null",
    );
    browser.value(&format!("{reader}.click()"));
    browser.until(
        "the command's files are named",
        "document.getElementById('subject-title').textContent.startsWith('dd x3') && \
         document.getElementById('subject-files').textContent.includes('page-subject')",
    );
    browser.value("history.back()");
    browser.until(
        "back leads to the file",
        "document.getElementById('subject-title').textContent.endsWith('page-subject')",
    );
    let shown = browser.value(
        "import('/assets/csv.js').then(({ text }) => text(cachewise.tables.files.columns, cachewise.tables.files.sorted()))",
    );
    let shown = shown.as_str().expect("a text");
    assert!(shown.starts_with("path,read_requested_pages,"), "{shown}");
    assert!(
        shown
            .lines()
            .nth(1)
            .is_some_and(|line| line.contains("page-subject")),
        "{shown}"
    );
    let all = site.get("/api/v1/files?format=csv&seconds=60&limit=5000");
    assert_eq!(all.header("Content-Type"), Some("text/csv; charset=utf-8"));
    assert!(all.body.contains("page-subject"), "all rows by address");
    assert_quiet(&mut browser, &base(&site));
}

/// Each tab has its own state; a restarted server leaves the past in the browser, with a gap.
pub fn restart_leaves_a_gap_and_tabs_are_apart() {
    let Some(mut browser) = browser() else { return };
    let site = Site::new(&["--interval", "0.2"]);
    let address = site.address.clone();
    let bearer = json!({ "headers": { "Authorization": format!("Bearer {TOKEN}") } });
    browser.call("Network.setExtraHTTPHeaders", bearer.clone());
    browser.open(&format!("http://{address}/?tab=devices"));
    let mut other = browser.another_tab();
    other.call("Network.setExtraHTTPHeaders", bearer);
    other.open(&format!("http://{address}/?tab=files&window=60"));
    for tab in [&mut browser, &mut other] {
        tab.until(
            "points come",
            &format!("globalThis.cachewise !== undefined && {POINTS}"),
        );
        let complaints = tab.complaints();
        assert!(complaints.is_empty(), "no message: {complaints:?}");
    }
    let chosen = "document.querySelector('#tabs [aria-selected=true]').id";
    assert_eq!(
        [browser.value(chosen), other.value(chosen)],
        ["tab-devices", "tab-files"],
        "each has its own"
    );
    let first = browser.value("cachewise.charts.points[0].time");
    site.end().expect(0, "it ends");
    browser.until(
        "the page says that it is not connected",
        "document.getElementById('state').dataset.live === 'false'",
    );
    browser.until(
        "the time without a connection is marked",
        "document.querySelector('#marks li[data-kind=disconnected]')?.textContent.includes('not connected')",
    );
    let again = Site::at(&address, &["--interval", "0.2"], Some(TOKEN));
    for tab in [&mut browser, &mut other] {
        tab.until(
            "it is live again, with a gap",
            "document.getElementById('state').dataset.live === 'true' && \
             document.querySelector('#marks li[data-kind=restart]') !== null",
        );
    }
    assert_eq!(
        browser.value("cachewise.charts.points[0].time"),
        first,
        "the past is still there"
    );
    drop(again);
}

/// A point over a far longer time than the interval, as after a suspension, is marked.
pub fn suspension_is_marked() {
    let Some(mut browser) = browser() else { return };
    let site = Site::new(&["--interval", "0.2"]);
    log_in(&mut browser, &base(&site));
    browser.until("points come", POINTS);
    // Again, if the past that the server keeps came later and took its place.
    browser.until(
        "it is in the list of marks",
        "(() => { const mark = document.querySelector('#marks li[data-kind=long]'); \
         if (mark) return mark.textContent.includes('suspended'); \
         const { time, ...last } = cachewise.charts.points.at(-1); \
         const later = new Date(Date.parse(time) + 60000).toISOString(); \
         cachewise.charts.add({ ...last, time: later, elapsed_seconds: 60 }); \
         cachewise.charts.update(); return false; })()",
    );
}

/// The button saves the shown rows as CSV, with the names of the fields.
pub fn csv_button_saves_the_shown_rows() {
    let Some(mut browser) = browser() else { return };
    let site = Site::new(&["--interval", "0.2"]);
    log_in(&mut browser, &base(&site));
    browser.until("points come", POINTS);
    browser.click("#tab-devices");
    browser.until(
        "there are rows",
        "cachewise.tables.devices.sorted().length > 0",
    );
    browser.value(
        "(() => { const make = URL.createObjectURL; URL.createObjectURL = (blob) => { \
         blob.text().then((text) => { globalThis.saved = text; }); return make.call(URL, blob); }; })()",
    );
    browser.click("#save");
    let saved = browser.until("it is saved", "globalThis.saved");
    let saved = saved.as_str().expect("text");
    let head = saved.lines().next().unwrap_or_default();
    assert!(
        head.split(',').any(|id| id == "device_read_bytes"),
        "ids of fields: {head}"
    );
    assert!(saved.lines().count() > 1, "a line a row: {saved}");
}

/// Every module that a script of the page imports is served.
pub fn imported_modules_are_served() {
    let site = Site::new(&[]);
    let assets = Path::new(env!("CARGO_MANIFEST_DIR")).join("../web/assets");
    let mut checked = 0;
    for entry in std::fs::read_dir(assets).expect("it is there").flatten() {
        let name = entry.file_name().into_string().expect("a plain name");
        if name.ends_with(".js") {
            let answer = site.get(&format!("/assets/{name}"));
            assert_eq!(answer.status, 200, "{name} is served");
            checked += 1;
        }
    }
    assert!(checked > 15, "all were looked at: {checked}");
}
