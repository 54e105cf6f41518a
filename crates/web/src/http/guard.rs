//! Access control, and the headers of every answer.
//!
//! A web page from another site must not read this server. The site's name may be made to resolve
//! to this machine's address (DNS rebinding), so requests must name the server by an IP address or
//! by one of its known names. IP addresses cannot be rebound.

use std::net::IpAddr;
use std::sync::Arc;

use axum::body::{Bytes, HttpBody, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::answer::problem;
use super::site::Site;
use crate::options::{Options, Token};

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

/// Passes permitted requests on and limits the time for an answer.
pub(super) async fn guard(State(site): State<Site>, request: Request, next: Next) -> Response {
    let mut response = match check(&site, &request) {
        Ok(()) => match timeout(site.options.limits.answer, next.run(request)).await {
            Ok(response) => bounded(&site.room, response).await,
            Err(_) => problem(
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

/// A large answer takes room until the client has it, or is gone: a thousand clients that read slowly would
/// otherwise keep a thousand.
async fn bounded(room: &Arc<Semaphore>, response: Response) -> Response {
    const SMALL: u64 = 64 << 10;
    let (parts, body) = response.into_parts();
    // A stream has no size, and its own bounds.
    let size = body.size_hint().exact().filter(|size| *size > SMALL);
    let Some(size) = size else {
        return Response::from_parts(parts, body);
    };
    let wanted = u32::try_from(size.div_ceil(1 << 10)).unwrap_or(u32::MAX);
    let Ok(permit) = room.clone().try_acquire_many_owned(wanted) else {
        return problem(
            StatusCode::SERVICE_UNAVAILABLE,
            "clients that read slowly have all the room for large answers: try again, or ask for less".into(),
        );
    };
    match to_bytes(body, usize::MAX).await {
        Ok(bytes) => {
            Response::from_parts(parts, Bytes::from_owner(HeldAnswer(bytes, permit)).into())
        }
        Err(error) => problem(StatusCode::SERVICE_UNAVAILABLE, error.to_string()),
    }
}

/// An answer, and the room that it takes.
struct HeldAnswer(
    Bytes,
    #[expect(dead_code, reason = "what counts is when it is dropped")] OwnedSemaphorePermit,
);

impl AsRef<[u8]> for HeldAnswer {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

fn check(site: &Site, request: &Request) -> Result<(), Box<Response>> {
    let refuse = |status, why: &str| Err(Box::new(problem(status, why.into())));
    let mut hosts = request.headers().get_all(header::HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else {
        return refuse(
            StatusCode::BAD_REQUEST,
            "a request must have one Host header",
        );
    };
    // A request line with a whole address in it means that one, whatever the header says.
    let meant = request.uri().authority().map(|meant| meant.as_str());
    let is_own = |name: &str| is_own(name, &site.options.hosts);
    if !host.to_str().is_ok_and(is_own) || !meant.is_none_or(is_own) {
        return refuse(
            StatusCode::MISDIRECTED_REQUEST,
            "this server does not answer to that name: use its address or localhost, or start it with \
             --host NAME",
        );
    }
    let headers = request.headers();
    let may_ask = |token: &Token| {
        is_open(request.uri().path(), &site.options)
            || knows(headers, token)
            || site.session.is_of(headers)
    };
    match &site.options.token {
        Some(token) if !may_ask(token) => {
            let mut response = problem(
                StatusCode::UNAUTHORIZED,
                "a token is needed: as `Authorization: Bearer TOKEN`, or as the password, with any user name; \
                 /login takes it too"
                    .into(),
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

/// Whether a page needs no token: it gives nothing away, or was opened by the administrator.
fn is_open(path: &str, options: &Options) -> bool {
    match path {
        // Supervisors have no token, and learn nothing but whether it works.
        "/healthz" | "/login" | "/assets/login.js" | "/assets/icon.svg" => true,
        "/metrics" => options.public_metrics,
        _ => false,
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

/// Whether the request has the token: as a bearer, or as the password with any user name.
pub(super) fn knows(headers: &HeaderMap, token: &Token) -> bool {
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

    #[tokio::test]
    async fn large_answers_take_room_until_they_are_dropped_and_small_ones_never() {
        let room = Arc::new(Semaphore::new(300));
        let answer = |kib: usize| {
            let response = Response::new(vec![b'x'; kib << 10].into());
            let room = &room;
            async move { bounded(room, response).await }
        };
        let first = answer(100).await;
        let second = answer(200).await;
        assert_eq!(second.status(), StatusCode::OK, "there is just room");
        let refused = answer(100).await;
        assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(answer(64).await.status(), StatusCode::OK, "a small one");
        drop(first);
        assert_eq!(answer(100).await.status(), StatusCode::OK, "room again");
        let more_than_all = answer(301).await;
        assert_eq!(more_than_all.status(), StatusCode::SERVICE_UNAVAILABLE);
        let bytes = to_bytes(second.into_body(), usize::MAX).await;
        assert_eq!(bytes.expect("it is whole").len(), 200 << 10);
        assert_eq!(room.available_permits(), 300, "all are gone");
    }

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
