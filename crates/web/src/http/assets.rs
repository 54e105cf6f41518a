//! The page's files, embedded in the binary. Their ETag is a hash of their contents, so that
//! browsers download them once.

use std::hash::{DefaultHasher, Hasher};
use std::sync::OnceLock;

use axum::extract::Path;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::answer::problem;

struct Asset {
    name: &'static str,
    kind: &'static str,
    bytes: &'static [u8],
}

macro_rules! assets {
    ($($name:literal, $kind:literal;)+) => {
        &[$(Asset {
            name: $name,
            kind: $kind,
            bytes: include_bytes!(concat!("../../assets/", $name)),
        },)+]
    };
}

static ASSETS: &[Asset] = assets! {
    "app.js", "text/javascript; charset=utf-8";
    "bar.js", "text/javascript; charset=utf-8";
    "charts.js", "text/javascript; charset=utf-8";
    "csv.js", "text/javascript; charset=utf-8";
    "findings.js", "text/javascript; charset=utf-8";
    "format.js", "text/javascript; charset=utf-8";
    "live.js", "text/javascript; charset=utf-8";
    "login.js", "text/javascript; charset=utf-8";
    "marks.js", "text/javascript; charset=utf-8";
    "over.js", "text/javascript; charset=utf-8";
    "plot.js", "text/javascript; charset=utf-8";
    "points.js", "text/javascript; charset=utf-8";
    "say.js", "text/javascript; charset=utf-8";
    "series.js", "text/javascript; charset=utf-8";
    "sight.js", "text/javascript; charset=utf-8";
    "small.js", "text/javascript; charset=utf-8";
    "source.js", "text/javascript; charset=utf-8";
    "state.js", "text/javascript; charset=utf-8";
    "subject.js", "text/javascript; charset=utf-8";
    "summary.js", "text/javascript; charset=utf-8";
    "tables.js", "text/javascript; charset=utf-8";
    "tabs.js", "text/javascript; charset=utf-8";
    "theme.js", "text/javascript; charset=utf-8";
    "treemap.js", "text/javascript; charset=utf-8";
    "style.css", "text/css; charset=utf-8";
    "icon.svg", "image/svg+xml";
    "uPlot.iife.min.js", "text/javascript; charset=utf-8";
    "uPlot.min.css", "text/css; charset=utf-8";
    "uPlot.LICENSE", "text/plain; charset=utf-8";
};

/// One of them.
pub(super) async fn asset(Path(name): Path<String>, headers: HeaderMap) -> Response {
    give(&name, &headers)
}

/// The icon, which browsers request by themselves.
pub(super) async fn icon(headers: HeaderMap) -> Response {
    give("icon.svg", &headers)
}

fn give(name: &str, headers: &HeaderMap) -> Response {
    static TAGS: OnceLock<Vec<String>> = OnceLock::new();
    let tags = TAGS.get_or_init(|| ASSETS.iter().map(tag).collect());
    let found = ASSETS
        .iter()
        .zip(tags)
        .find(|(asset, _)| asset.name == name);
    let Some((asset, tag)) = found else {
        return problem(StatusCode::NOT_FOUND, "there is no such asset".into());
    };
    let known = headers
        .get(header::IF_NONE_MATCH)
        .and_then(|known| known.to_str().ok())
        .is_some_and(|known| known.split(',').any(|one| one.trim() == tag));
    let head = [
        (header::ETAG, tag.as_str()),
        (header::CACHE_CONTROL, "no-cache"),
        (header::CONTENT_TYPE, asset.kind),
    ];
    if known {
        return (StatusCode::NOT_MODIFIED, head).into_response();
    }
    (head, asset.bytes).into_response()
}

/// The text of a module of the page.
pub(crate) fn module(name: &str) -> Option<&'static str> {
    let asset = ASSETS.iter().find(|asset| asset.name == name)?;
    std::str::from_utf8(asset.bytes).ok()
}

fn tag(asset: &Asset) -> String {
    let mut hasher = DefaultHasher::new();
    hasher.write(asset.bytes);
    format!("\"{:016x}\"", hasher.finish())
}
