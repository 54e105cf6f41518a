//! Who may ask, and the headers of every answer.
//!
//! A page that a browser has from elsewhere must not read this server: its name may come to mean this
//! machine's address (DNS rebinding), so requests must call the server by an address or a name that is
//! known to be its own. Numbers alone cannot be rebound.

use std::net::IpAddr;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tokio::time::timeout;

use super::{Site, api};
use crate::options::Token;

const HEADERS: [(header::HeaderName, &str); 6] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'self'; base-uri 'none'; form-action 'none'; object-src 'none'; frame-ancestors 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (
        header::HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
    (
        header::HeaderName::from_static("cross-origin-opener-policy"),
        "same-origin",
    ),
];

/// Lets through who may ask, within the time for an answer.
pub(super) async fn guard(State(site): State<Site>, request: Request, next: Next) -> Response {
    let mut response = match check(&site, &request) {
        Ok(()) => match timeout(site.options.limits.answer, next.run(request)).await {
            Ok(response) => response,
            Err(_) => api::problem(
                StatusCode::SERVICE_UNAVAILABLE,
                "it took too long: try again".into(),
            ),
        },
        Err(response) => *response,
    };
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers
        .entry(header::CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
    response
}

fn check(site: &Site, request: &Request) -> Result<(), Box<Response>> {
    let refuse = |status, why: &str| Err(Box::new(api::problem(status, why.into())));
    let host = request
        .headers()
        .get(header::HOST)
        .and_then(|host| host.to_str().ok())
        .or_else(|| {
            request
                .uri()
                .authority()
                .map(|authority| authority.as_str())
        });
    let Some(host) = host else {
        return refuse(StatusCode::BAD_REQUEST, "the request has no Host header");
    };
    if !is_own(host, &site.options.hosts) {
        return refuse(
            StatusCode::MISDIRECTED_REQUEST,
            "this server does not answer to that name: use its address or localhost, or start it with \
             --host NAME",
        );
    }
    // Supervisors have no token, and learn nothing but whether it works.
    let open = request.uri().path() == "/healthz";
    match &site.options.token {
        Some(token) if !open && !knows(request.headers(), token) => {
            let mut response = api::problem(
                StatusCode::UNAUTHORIZED,
                "a token is needed: as `Authorization: Bearer TOKEN`, or as the password, with any user name".into(),
            );
            // Browsers ask for it, and send it with everything, the stream of events included.
            response.headers_mut().insert(
                header::WWW_AUTHENTICATE,
                HeaderValue::from_static("Basic realm=\"cachewise\", charset=\"UTF-8\""),
            );
            Err(Box::new(response))
        }
        _ => Ok(()),
    }
}

/// Whether a Host header names this server: by a number, as `localhost`, or by a name that was given.
fn is_own(host: &str, names: &[String]) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((name, port)) if port.is_empty() || is_port(port) => name,
            _ => return false,
        },
        None => match host.rsplit_once(':') {
            Some((name, port)) if is_port(&format!(":{port}")) => name,
            Some(_) => return false,
            None => host,
        },
    };
    let name = name.trim_end_matches('.');
    name.parse::<IpAddr>().is_ok()
        || name.eq_ignore_ascii_case("localhost")
        || names.iter().any(|own| own.eq_ignore_ascii_case(name))
}

fn is_port(text: &str) -> bool {
    text.strip_prefix(':')
        .is_some_and(|port| port.parse::<u16>().is_ok())
}

/// Whether the request has the token: as a bearer, or as the password of whoever.
fn knows(headers: &HeaderMap, token: &Token) -> bool {
    let given = headers.get(header::AUTHORIZATION);
    let Some((scheme, value)) = given
        .and_then(|given| given.to_str().ok())
        .and_then(|given| given.split_once(' '))
    else {
        return false;
    };
    let value = value.trim();
    if scheme.eq_ignore_ascii_case("bearer") {
        return token.is(value.as_bytes());
    }
    if !scheme.eq_ignore_ascii_case("basic") {
        return false;
    }
    let Ok(pair) = STANDARD.decode(value) else {
        return false;
    };
    let password = pair.iter().position(|byte| *byte == b':');
    password.is_some_and(|colon| token.is(&pair[colon + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_own_names_are_answered_to() {
        let names = ["db7.example".to_owned()];
        for host in [
            "127.0.0.1:9435",
            "localhost",
            "LOCALHOST:1",
            "[::1]:80",
            "[::1]",
            "10.0.0.7",
            "db7.example:9435",
            "localhost.",
        ] {
            assert!(is_own(host, &names), "{host} is this server");
        }
        for host in [
            "evil.example",
            "evil.example:9435",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "127.0.0.1:9435:1",
            "[::1",
            "[::1]x",
            "",
            "localhost:port",
        ] {
            assert!(!is_own(host, &names), "{host} is not");
        }
    }

    #[test]
    fn the_token_comes_in_two_ways() {
        let token = Token::new("0123456789abcdef").expect("long enough");
        let knows = |given: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, given.parse().expect("a header"));
            knows(&headers, &token)
        };
        let basic = |pair: &str| format!("Basic {}", STANDARD.encode(pair));
        assert!(knows("Bearer 0123456789abcdef"), "as a bearer");
        assert!(knows("bearer  0123456789abcdef"), "in any case");
        assert!(knows(&basic("me:0123456789abcdef")), "as a password");
        assert!(!knows("Bearer 0123456789abcdeX"), "a wrong one");
        assert!(
            !knows(&basic("0123456789abcdef:")),
            "the name is not looked at"
        );
        assert!(!knows("Basic !!!"), "garbage");
        assert!(!knows("0123456789abcdef"), "no scheme");
    }
}
