//! Answers in JSON, errors among them.

use std::fmt::Display;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

/// An error as JSON.
pub(super) fn problem(status: StatusCode, error: String) -> Response {
    let mut response = document(status, &json!({ "error": error }));
    if status == StatusCode::SERVICE_UNAVAILABLE {
        let headers = response.headers_mut();
        headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}

pub(super) fn document(status: StatusCode, json: &impl Display) -> Response {
    let kind = [(header::CONTENT_TYPE, "application/json")];
    (status, kind, format!("{json}\n")).into_response()
}
