//! A control group that reads a file again and again, of which its limit leaves no page: in `top`, and on the page.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use portable_pty::CommandBuilder;
use serde_json::json;

use super::drawn::{Scene, drawn};
use crate::serve::chromium::Chromium;
use crate::serve::site::{Site, TOKEN};
use crate::support::{Busy, Group, OnTerminal, PROGRAM, Reader, Scratch, evict, until};

/// Lines of the terminal.
const ROWS: u16 = 28;

/// Pictures of both.
pub fn shown(scratch: &Scratch, to: &Path) {
    let limited = Group::new().and_then(|group| group.limit_memory(24 << 20).map(|_| group));
    let Some(group) = limited else {
        return println!("skipped: a thrashing group: no memory limits can be set here");
    };
    let (file, warm) = (
        scratch.file("data", 48 << 20),
        scratch.file("index", 4 << 20),
    );
    // Its pages come into the group that reads it.
    evict(&file);
    let database = group.inner_named("database");
    let thrashing = Busy::of(Reader::of_group(&file, database.path()));
    let usual = Busy::with(&warm);
    in_top(to);
    on_the_page(to);
    drop((thrashing, usual));
    drop(database);
}

fn in_top(to: &Path) {
    let mut command = CommandBuilder::new(PROGRAM);
    command.args(["top", "--view", "cgroup", "-d", "0.5"]);
    // Without the groups that this machine has anyway.
    command.args(["--filter", "database"]);
    command.env("TERM", "xterm-256color");
    command.env("XDG_CONFIG_HOME", "/nonexistent");
    let mut terminal = OnTerminal::of_size(command, ROWS, 120);
    terminal.until_shown("database");
    // It has a history by then.
    let begin = terminal.written().len();
    until("some intervals pass", || {
        (terminal.written().len() >= begin + 12).then_some(())
    });
    let scene = Scene {
        screen: terminal.screen(),
        seconds: 1.0,
    };
    terminal.press("q");
    assert_eq!(terminal.ended(), 0, "{}", terminal.text());
    let title = "top: control groups, one of which reads its file from the disk again and again";
    super::write(to, "top.svg", drawn(title, &[scene], ROWS).as_bytes());
}

fn on_the_page(to: &Path) {
    let Some(mut browser) = Chromium::start() else {
        return println!("skipped: pictures of the page: needs chromium");
    };
    let site = Site::new(&["--interval", "0.5"]);
    let size = json!({ "width": 1280, "height": 800, "deviceScaleFactor": 1, "mobile": false });
    browser.call("Emulation.setDeviceMetricsOverride", size);
    let scheme = json!({ "features": [{ "name": "prefers-color-scheme", "value": "light" }] });
    browser.call("Emulation.setEmulatedMedia", scheme);
    browser.open(&format!("http://{}/login#token={TOKEN}", site.address));
    browser.until("the page is there", "globalThis.cachewise !== undefined");
    browser.until(
        "the group is found",
        "document.body.innerText.includes('raise the memory limit of control group') || null",
    );
    browser.click("#windows button[data-window='60']");
    browser.until(
        "points come",
        "cachewise.charts.points.length >= 20 || null",
    );
    browser.value("scrollTo(0, 0)");
    take(&mut browser, to, "page.webp", None);
    let map = browser.value(
        "(() => { const box = document.getElementById('map').closest('section').getBoundingClientRect(); \
         return { x: 0, y: box.y + scrollY, width: document.documentElement.clientWidth, height: Math.min(box.height, 600), scale: 1 }; })()",
    );
    take(&mut browser, to, "map.webp", Some(map));
}

/// Takes a picture of the visible part, or of this rectangle of the page.
fn take(browser: &mut Chromium, to: &Path, name: &str, clip: Option<serde_json::Value>) {
    let mut parameters = json!({ "format": "webp", "quality": 70 });
    if let Some(clip) = clip {
        parameters["clip"] = clip;
        parameters["captureBeyondViewport"] = json!(true);
    }
    let answer = browser.call("Page.captureScreenshot", parameters);
    let data = answer["data"].as_str().expect("a picture");
    let bytes = STANDARD.decode(data).expect("base64");
    super::write(to, name, &bytes);
}
