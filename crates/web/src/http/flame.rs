//! The flame graph of stacks since the start.

use axum::extract::{Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use cachewise_view::{FlameWeight, flame_svg};
use serde::Deserialize;

use super::answer::problem;
use super::query::{QueryResult, fault};
use super::site::Site;

/// Weight of the stacks.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FlameQuery {
    weight: Option<Weight>,
    /// Without effect: a page that draws the picture again asks for another address.
    #[serde(rename = "at")]
    _at: Option<String>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Weight {
    Time,
    Pages,
    Bytes,
}

/// The picture; not found where stacks are not watched.
pub(super) async fn flame(State(site): State<Site>, asked: QueryResult<FlameQuery>) -> Response {
    let weight = match asked {
        Ok(Query(wanted)) => wanted.weight.unwrap_or(Weight::Time),
        Err(error) => return problem(StatusCode::BAD_REQUEST, fault(&error)),
    };
    if !site.options.stacks {
        let why = "stacks are not watched: start cachewise serve --stacks";
        return problem(StatusCode::NOT_FOUND, why.into());
    }
    let weight = match weight {
        Weight::Time => FlameWeight::Time,
        Weight::Pages => FlameWeight::Pages,
        Weight::Bytes => FlameWeight::Bytes,
    };
    let stacks = site.asking.ask(move |gathered, _| {
        let stacks = gathered.stacks.clone().unwrap_or_default();
        (stacks, gathered.machine.source.page().get())
    });
    let head = [
        (header::CONTENT_TYPE, "image/svg+xml"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    // The thread that watches does not wait for the drawing.
    match stacks.await {
        Ok((stacks, page)) => (head, flame_svg(&stacks, weight, page)).into_response(),
        Err(error) => problem(StatusCode::SERVICE_UNAVAILABLE, error),
    }
}
