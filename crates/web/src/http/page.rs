//! The page of a server: as it comes it shows the last seconds, and the map's table.

use std::fmt::Write;
use std::time::Duration;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::header;
use axum::response::{Html, IntoResponse, Response};
use cachewise_units::Bytes;
use cachewise_view::share;
use serde::Deserialize;
use serde_json::Value as Json;

use super::site::Site;
use crate::html::text as escape;
use crate::page::{Counted, Time, notes, page as filled, values};

const HEAD: &str = "<link rel=\"icon\" href=\"/assets/icon.svg\">\n\
    <link rel=\"stylesheet\" href=\"/assets/uPlot.min.css\">\n\
    <link rel=\"stylesheet\" href=\"/assets/style.css\">\n\
    <script src=\"/assets/uPlot.iife.min.js\" defer></script>\n\
    <script src=\"/assets/app.js\" type=\"module\"></script>";
const WITHOUT_SCRIPTS: &str = "Without JavaScript this page shows the last seconds before it was loaded. Load it again for \
    newer numbers.";
/// The stacks, where they are watched.
const FLAME: &str = "<section aria-labelledby=\"flame-title\">\n\
    <h2 id=\"flame-title\">Code that waits for storage or evicts <small>since the start</small></h2>\n\
    <a href=\"/flame.svg\"><img id=\"flame\" class=\"flame\" src=\"/flame.svg\" alt=\"Flame graph of waited time\"></a>\n\
    </section>\n";
const MEMBERS: usize = 60;

/// Which directory the map shows.
#[derive(Debug, Deserialize)]
pub(super) struct Shown {
    path: Option<String>,
}

/// The page.
pub(super) async fn page(
    State(site): State<Site>,
    query: Result<Query<Shown>, QueryRejection>,
) -> Response {
    let path = query.ok().and_then(|Query(shown)| shown.path);
    let path = path
        .filter(|path| path.starts_with('/'))
        .unwrap_or_else(|| "/".into());
    let interval = site.options.interval;
    let gathered = site.asking.ask(move |gathered, watching| {
        // Some seconds, so that a page that stands still shows more than a moment.
        let time = interval.max(Duration::from_secs(5));
        let interval = gathered.over_or_begin(time, watching)?;
        let lost = gathered.lost().to_vec();
        Ok((interval, gathered.findings().clone(), lost))
    });
    let gathered = gathered.await.and_then(|answer| answer);
    // A browser should not wait for a census before it shows anything.
    let cache = site.survey.cache_soon().await;
    let machine = &site.machine;
    let counted = gathered.as_ref().map(|(interval, findings, lost)| Counted {
        interval,
        findings,
        lost,
    });
    let counted = counted.as_ref().map_err(|error| error.as_str());
    let time = counted.map_or("", |counted| &counted.interval.time);
    let mut values = values(&machine.source, machine.version, counted, Time::Live);
    let flame = match site.options.stacks {
        true => FLAME,
        false => "",
    };
    values.extend([
        (
            "title",
            format!("{}: page cache", escape(&machine.source.hostname)),
        ),
        ("head", HEAD.to_owned()),
        ("time", format!("as of {}", escape(time))),
        ("without_scripts", WITHOUT_SCRIPTS.to_owned()),
        ("notes", notes(&machine.source.backend.notes)),
        ("flame", flame.to_owned()),
    ]);
    match cache {
        Ok(tree) => {
            let (path, view) = match tree.view(&path, MEMBERS) {
                Some(view) => (path, Some(view)),
                None => ("/".into(), tree.view("/", MEMBERS)),
            };
            values.push(("crumbs", crumbs(&path)));
            values.push(("cache_notes", notes(&tree.notes)));
            values.push(("cache", members(view.as_ref())));
        }
        Err(error) => {
            values.push(("crumbs", crumbs("/")));
            values.push(("cache_notes", notes(&[error])));
            values.push(("cache", String::new()));
        }
    }
    let head = [(header::CACHE_CONTROL, "no-store")];
    (head, Html(filled(&values))).into_response()
}

/// Returns the path of a directory with a link for each part.
fn crumbs(path: &str) -> String {
    let mut text = String::from("<a href=\"/\" data-path=\"/\">/</a>");
    let mut so_far = String::new();
    for part in path.split('/').filter(|part| !part.is_empty()) {
        so_far = format!("{so_far}/{part}");
        let _ = write!(
            text,
            "<a href=\"/?path={}\" data-path=\"{}\">{}</a>",
            percent(&so_far),
            escape(&so_far),
            escape(part)
        );
    }
    text
}

fn percent(text: &str) -> String {
    text.bytes().fold(String::new(), |mut encoded, byte| {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' => {
                encoded.push(char::from(byte));
            }
            byte => {
                let _ = write!(encoded, "%{byte:02X}");
            }
        }
        encoded
    })
}

/// The members of a directory as rows of the table beside the map.
fn members(view: Option<&Json>) -> String {
    let mut text = String::new();
    let children = view.and_then(|view| view["children"].as_array());
    for child in children.into_iter().flatten() {
        let name = child["name"].as_str().unwrap_or_default();
        let path = child["path"].as_str().unwrap_or_default();
        let name = match child["kind"].as_str() {
            Some("directory") => format!(
                "<a href=\"/?path={}\" data-path=\"{}\">{}/</a>",
                percent(path),
                escape(path),
                escape(name)
            ),
            _ => escape(name).into_owned(),
        };
        let bytes = |id: &str| Bytes(child[id].as_u64().unwrap_or_default());
        let ratio = child["resident_ratio"].as_f64();
        let _ = write!(
            text,
            "<tr><td class=\"name\">{name}</td><td class=\"number\">{}</td><td class=\"number\">{}</td>\
             <td class=\"number\">{}</td><td class=\"number\">{}</td></tr>",
            bytes("resident_bytes"),
            ratio.map_or_else(|| "-".into(), share),
            bytes("size_bytes"),
            child["files"]
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_become_markup() {
        let hostile = "<script>alert(1)</script>\"'&\u{202e}\n";
        let safe = escape(hostile);
        assert!(
            !safe.contains(['<', '>', '"', '\'', '\u{202e}', '\n']),
            "nothing of it acts: {safe}"
        );
        assert!(
            !crumbs(&format!("/{hostile}")).contains("<script"),
            "nor in links"
        );
    }
}
