//! The login page: a browser gives the token and gets the cookie of this server.

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{Html, IntoResponse, Response};

use super::answer::problem;
use super::guard;
use super::site::Site;
use crate::options::Token;

/// The page that takes a token; it has no numbers.
pub(super) async fn page() -> Html<&'static str> {
    Html(include_str!("../../assets/login.html"))
}

/// Gives the cookie for the token. Without `WWW-Authenticate`, or browsers would ask for a password over the page.
pub(super) async fn enter(State(site): State<Site>, headers: HeaderMap) -> Response {
    let is_right = |token: &Token| guard::knows(&headers, token);
    if !site.options.token.as_ref().is_none_or(is_right) {
        return problem(StatusCode::FORBIDDEN, "this is not the token".into());
    }
    match HeaderValue::from_str(&site.session.cookie()) {
        Ok(cookie) => (StatusCode::NO_CONTENT, [(header::SET_COOKIE, cookie)]).into_response(),
        Err(error) => problem(StatusCode::SERVICE_UNAVAILABLE, error.to_string()),
    }
}
