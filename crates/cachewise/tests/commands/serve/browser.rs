//! The page, in a real browser and without one.

use cachewise_model::{Datum, Kind, Measured, Reason, Value};
use cachewise_units::{Bytes, Pages, Ratio};
use cachewise_view::per_second;
use serde_json::json;

use super::chromium::Chromium;
use super::site::{Site, TOKEN};
use crate::support::{Scratch, warm};

/// Without scripts the tables have data: it is in the page as it comes.
pub fn without_scripts() {
    let site = Site::new(&["--interval", "0.1"]);
    // A read to count.
    let _ = std::fs::read("/proc/self/exe");
    site.json("/api/v1/stretch");
    let page = site.get("/").body;
    let is_exact = site.json("/api/v1/machine")["backend"]["exact"] == true;
    for table in ["processes", "cgroups", "files", "devices"] {
        let start = page
            .find(&format!("<table id=\"{table}\""))
            .expect("it is there");
        let end = page[start..].find("</table>").expect("it is closed");
        let rows = page[start..start + end].matches("<tr>").count();
        assert!(rows > 1 || !is_exact, "{table} has rows besides its head");
    }
    assert!(page.contains("<noscript>"), "it says that it stands still");
    assert!(!page.contains("{{"), "everything is filled in");
    for (name, kind) in [
        ("app.js", "text/javascript; charset=utf-8"),
        ("style.css", "text/css; charset=utf-8"),
        ("uPlot.iife.min.js", "text/javascript; charset=utf-8"),
    ] {
        let path = format!("/assets/{name}");
        let answer = site.get(&path);
        assert_eq!(
            answer.header("Content-Type"),
            Some(kind),
            "{name} is what it is"
        );
        let tag = answer.header("ETag").expect("it has a tag").to_owned();
        let again = site.request(&path).header("If-None-Match", &tag).send();
        assert_eq!(
            (again.status, again.body.as_str()),
            (304, ""),
            "{name} comes once"
        );
    }
}

/// Opens the page by a link with the token; neither the address nor any script has it afterwards.
pub fn log_in(browser: &mut Chromium, base: &str) {
    browser.open(&format!("{base}login#token={TOKEN}"));
    browser.until("the page is there", "globalThis.cachewise !== undefined");
    assert_eq!(
        browser.value("[location.href, document.cookie]"),
        json!([base, ""]),
        "the token is not in the address, and the cookie is the browser's alone"
    );
    let sent = browser.requested();
    assert!(
        !sent.iter().any(|url| url.contains(TOKEN)),
        "no request line has the token: {sent:?}"
    );
}

/// The page's script formats numbers as the server does.
pub fn script_formats_numbers_as_the_server() {
    let Some(mut browser) = Chromium::start() else {
        println!("skipped: the page in a browser: needs chromium; scripts/setup test installs it");
        return;
    };
    let site = Site::new(&["--interval", "60"]);
    log_in(&mut browser, &format!("http://{}/", site.address));
    let page_size = cachewise_sys::page_size();
    let mut cases = Vec::new();
    let mut wanted = Vec::new();
    let mut add = |value: Value, unit: &str, kind: Kind, elapsed: f64| {
        let json = match value.as_ref().known() {
            Some(Datum::Count(number)) => json!(number),
            Some(Datum::Pages(pages)) => json!(pages.0),
            Some(Datum::Bytes(bytes)) => json!(bytes.0),
            Some(Datum::Seconds(seconds)) => json!(seconds),
            Some(Datum::Ratio(ratio)) => json!(ratio.get()),
            _ => json!(null),
        };
        let mut row = json!({ "elapsed_seconds": elapsed, "field": json });
        if value.estimate().is_some() {
            row["estimated"] = json!(["field"]);
        }
        if let Some(missing) = value.missing() {
            row["reason_codes"] = json!({ "field": missing.reason().code() });
        }
        let column = json!({ "id": "field", "unit": unit, "rate": kind == Kind::Counter });
        cases.push(json!([row, column]));
        wanted.push(per_second(&value, kind, elapsed, page_size));
    };
    let sizes = [
        0,
        1,
        511,
        1023,
        1024,
        1535,
        1536,
        99_999,
        1_048_524,
        1_048_575,
        1 << 20,
        5 << 30,
        1 << 45,
    ];
    for number in sizes {
        for (kind, elapsed) in [
            (Kind::Gauge, 1.0),
            (Kind::Counter, 1.0),
            (Kind::Counter, 0.3),
            (Kind::Counter, 60.0),
        ] {
            add(
                Measured::Exact(Datum::Count(number)),
                "count",
                kind,
                elapsed,
            );
            add(
                Measured::Exact(Datum::Bytes(Bytes(number))),
                "bytes",
                kind,
                elapsed,
            );
            add(
                Measured::Exact(Datum::Pages(Pages(number >> 12))),
                "pages",
                kind,
                elapsed,
            );
        }
    }
    for (part, whole) in [
        (0, 1),
        (1, 1),
        (1, 3),
        (49, 400),
        (51, 400),
        (1, 8000),
        (999_999, 1_000_000),
        (7, 2),
    ] {
        let ratio = Ratio::of(part, whole).expect("the whole is not zero");
        add(
            Measured::Exact(Datum::Ratio(ratio)),
            "ratio",
            Kind::Gauge,
            1.0,
        );
    }
    for seconds in [0.0, 0.0004, 0.0625, 1.5, 3600.25] {
        add(
            Measured::Exact(Datum::Seconds(seconds)),
            "seconds",
            Kind::Gauge,
            1.0,
        );
        add(
            Measured::Exact(Datum::Seconds(seconds)),
            "seconds",
            Kind::Counter,
            2.0,
        );
    }
    add(
        Measured::Estimated(Datum::Count(7), Reason::ByVmstat),
        "count",
        Kind::Gauge,
        1.0,
    );
    add(
        Measured::unknown(Reason::NoPermission),
        "bytes",
        Kind::Gauge,
        1.0,
    );
    add(
        Measured::not_offered(Reason::NothingRequested),
        "bytes",
        Kind::Gauge,
        1.0,
    );
    let cases = json!(cases);
    let script = format!(
        "import('/assets/format.js').then(({{ cell }}) => {cases}.map(([row, column]) => cell(row, column).text))"
    );
    let shown = browser.value(&script);
    let cases = cases.as_array().expect("a list");
    for (place, text) in wanted.iter().enumerate() {
        assert_eq!(shown[place], text.as_str(), "{}", cases[place]);
    }
}

/// Charts move, the map zooms and goes back, tables sort; nothing is fetched from elsewhere, and no script
/// runs that did not come with the page.
pub fn journey() {
    let Some(mut browser) = Chromium::start() else {
        println!("skipped: the page in a browser: needs chromium; scripts/setup test installs it");
        return;
    };
    let scratch = Scratch::new();
    let file = scratch.file("data", 4 << 20);
    let site = Site::new(&["--interval", "0.2"]);
    let base = format!("http://{}/", site.address);
    warm(&file);
    log_in(&mut browser, &base);

    // Charts: more points come, and other pixels with them.
    const CANVAS: &str = "document.querySelector('#chart-reads canvas').toDataURL()";
    browser.until(
        "points come",
        "globalThis.cachewise?.charts.points.length >= 3",
    );
    let (before, count) = (
        browser.value(CANVAS),
        browser
            .value("cachewise.charts.points.length")
            .as_u64()
            .expect("a number"),
    );
    warm(&file);
    browser.until(
        "further points come",
        &format!("cachewise.charts.points.length >= {}", count + 3),
    );
    assert_ne!(browser.value(CANVAS), before, "the chart has moved");
    let drawn = browser.value("document.querySelectorAll('.chart canvas').length");
    assert_eq!(drawn, 5, "there are five charts");

    // Pause: numbers come, the picture stands still.
    browser.click("#pause");
    let (before, count) = (
        browser.value(CANVAS),
        browser
            .value("cachewise.charts.points.length")
            .as_u64()
            .expect("a number"),
    );
    browser.until(
        "points go on to come",
        &format!("cachewise.charts.points.length >= {}", count + 3),
    );
    assert_eq!(browser.value(CANVAS), before, "the chart stands still");
    browser.click("#pause");
    browser.until(
        "it goes on",
        "document.getElementById('state').dataset.live === 'true'",
    );

    // The map: a click on a directory opens it, the way leads back, in the table as well.
    browser.until(
        "the map is drawn",
        "document.querySelectorAll('#map g.open').length > 0",
    );
    let areas = browser.value("document.querySelectorAll('#map rect').length");
    assert!(areas.as_u64() > Some(3), "with areas: {areas}");
    let path = browser.value("document.querySelector('#map g.open').dataset.path");
    let path = path.as_str().expect("a path").to_owned();
    browser.click("#map g.open");
    let opened = |path: &str| {
        format!(
            "document.querySelector('#crumbs a:last-child').dataset.path === {path:?} && \
             document.querySelectorAll('#cache tbody tr').length > 0 && \
             [...document.querySelectorAll('#cache tbody tr')].every((row) => \
             row.dataset.path === '' || row.dataset.path.startsWith({path:?}))"
        )
    };
    browser.until("the directory is shown", &opened(&path));
    assert_eq!(
        browser.value("new URLSearchParams(location.search).get('path')"),
        json!(path),
        "it can be linked to"
    );
    browser.click("#crumbs a[data-path='/']");
    browser.until("the way leads back", &opened("/"));
    browser.value("history.back()");
    browser.until("as does the browser's own", &opened(&path));
    browser.click("#crumbs a[data-path='/']");
    browser.until("and back again", &opened("/"));
    let link = browser.value(
        "(() => { const link = document.querySelector('#cache tbody a[data-path]'); link.focus(); return link.dataset.path; })()",
    );
    browser.enter();
    browser.until(
        "the keyboard opens a directory from the table",
        &opened(link.as_str().expect("a path")),
    );

    // Tables: sorted by what is clicked on, and back.
    const PIDS: &str = "[...document.querySelectorAll('#processes tbody tr')].map((row) => Number(row.cells[0].textContent))";
    browser.click("#processes th[data-id='pid'] button");
    let down = format!(
        "(() => {{ const pids = {PIDS}; return pids.length > 1 && pids.every((pid, at) => at === 0 || pids[at - 1] >= pid); }})()"
    );
    browser.until("the greatest come first", &down);
    browser.click("#processes th[data-id='pid'] button");
    let up = format!(
        "(() => {{ const pids = {PIDS}; return pids.length > 1 && pids.every((pid, at) => at === 0 || pids[at - 1] <= pid); }})()"
    );
    browser.until("then the smallest", &up);
    assert_eq!(
        browser.value(
            "document.querySelector('#processes th[data-id=pid]').getAttribute('aria-sort')"
        ),
        "ascending",
        "and readers are told"
    );
    browser.click("#tab-devices");
    assert_eq!(
        browser.value("document.getElementById('panel-devices').hidden || !document.getElementById('panel-processes').hidden"),
        false,
        "one panel is shown"
    );
    let themed = "getComputedStyle(document.body).backgroundColor";
    let light = browser.value(themed);
    browser.click("#theme");
    browser.click("#theme");
    assert_ne!(browser.value(themed), light, "dark is another colour");

    // On a narrow screen nothing sticks out.
    let narrow = json!({ "width": 400, "height": 800, "deviceScaleFactor": 1, "mobile": false });
    browser.call("Emulation.setDeviceMetricsOverride", narrow);
    browser.until(
        "it fits",
        "document.documentElement.scrollWidth <= 400 && document.querySelector('#chart-reads canvas').getBoundingClientRect().right <= 400",
    );

    // No resource came from another server, and the browser reported no violation.
    let elsewhere: Vec<String> = browser
        .requested()
        .into_iter()
        .filter(|url| !url.starts_with(&base) && !url.starts_with("data:"))
        .collect();
    assert!(elsewhere.is_empty(), "everything is our own: {elsewhere:?}");
    let complaints = browser.complaints();
    assert!(
        complaints.is_empty(),
        "no error, no violation: {complaints:?}"
    );

    // An injected script does not run, and injected styles do not apply.
    browser.value(
        "(() => { const script = document.createElement('script'); script.textContent = 'globalThis.injected = true'; \
         document.body.append(script); document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"globalThis.injected = true\">'); \
         return 1; })()",
    );
    browser.until(
        "the image is not there",
        "[...document.images].every((image) => image.complete)",
    );
    let complaints = browser.complaints();
    assert!(
        complaints
            .iter()
            .any(|complaint| complaint.contains("Content Security Policy")),
        "the policy refuses it: {complaints:?}"
    );
    assert_eq!(
        browser.value("globalThis.injected ?? null"),
        json!(null),
        "it did not run"
    );
}
