//! [`Client`]: requests over HTTP, bounded in time, in number, and in what is held of an answer.

use std::error::Error as _;
use std::io;
use std::time::{Duration, SystemTime};

use bytes::{Bytes, BytesMut};
use cachewise_units::ByteRange;
use reqwest::header::{ACCEPT_ENCODING, HeaderMap, HeaderValue};
use reqwest::{Method, Response, StatusCode, Url, redirect};

use crate::{Error, tls};

/// Maximum attempts of a request that fails temporarily.
const ATTEMPTS: u32 = 3;

/// Delay before the second attempt; it doubles with each attempt.
const BACKOFF: Duration = Duration::from_millis(100);

/// Maximum bytes to skip when a server ignores `Range` and sends the whole object.
const MOST_SKIPPED: u64 = 16 << 20;

/// Maximum bytes to keep of an error response.
const MOST_OF_ERROR: usize = 8 << 10;

/// The part of an answer's body to take.
#[derive(Clone, Copy, Debug)]
pub(in crate::origin) enum Want {
    /// Nothing: the head has all that is needed.
    Nothing,
    /// The whole body, up to this length.
    Whole(usize),
    /// This part of the object, whether the server sends the part or all of it.
    Part(ByteRange),
}

/// A request to a server. It may be sent more than once: a caller that writes on a condition looks at what is there.
#[derive(Clone, Debug)]
pub(in crate::origin) struct Request {
    pub method: Method,
    pub url: Url,
    pub headers: HeaderMap,
    pub body: Bytes,
    pub want: Want,
}

/// The answer of a server.
#[derive(Clone, Debug)]
pub(in crate::origin) struct HttpReply {
    pub status: StatusCode,
    pub headers: HeaderMap,
    /// The requested part of the body, or less if it is shorter. For an error, the beginning of the
    /// body.
    pub body: Bytes,
}

/// Keeps connections. Cheap to clone.
#[derive(Clone, Debug)]
pub(in crate::origin) struct Client {
    http: reqwest::Client,
    /// Time limit of the first attempt for the head of the response.
    first: Duration,
}

impl Client {
    /// Makes one for an origin of which each call has so much time. `needs_tls` is an error where
    /// the system has no certificates of authorities.
    ///
    /// # Errors
    /// [`Error::Setting`].
    pub(in crate::origin) fn new(deadline: Duration, needs_tls: bool) -> Result<Self, Error> {
        let config = match needs_tls {
            true => tls::config(None)?,
            false => tls::config_if_any()?,
        };
        // A third of the time: what hangs once may answer over another connection, and what is only
        // slow has the rest.
        let first = deadline / ATTEMPTS;
        let mut headers = HeaderMap::new();
        // Bytes as they lie at the origin.
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let http = reqwest::Client::builder()
            .user_agent(concat!("cachewise/", env!("CARGO_PKG_VERSION")))
            .default_headers(headers)
            .tls_backend_preconfigured(config)
            // Where it leads is looked at first.
            .redirect(redirect::Policy::none())
            .connect_timeout(first)
            .build()
            .map_err(|error| Error::Setting {
                setting: "proxy",
                why: told(error).to_string(),
            })?;
        Ok(Self { http, first })
    }

    /// Asks, and asks again where the failure may pass. The time as a whole is the caller's to
    /// bound; dropping this ends the request.
    ///
    /// # Errors
    /// No whole answer. An answer that is an error is an answer.
    pub(in crate::origin) async fn send(&self, request: &Request) -> io::Result<HttpReply> {
        let mut wait = BACKOFF;
        let mut attempt = 1;
        loop {
            let is_last = attempt == ATTEMPTS;
            let first = (attempt == 1).then_some(self.first);
            let tried = self.attempt(request, first).await;
            match tried.map_err(|error| at(&request.url, &error)) {
                Ok(reply) if is_last || !may_pass(reply.status) => return Ok(reply),
                Err(error) if is_last || !may_be_mended(&error) => return Err(error),
                _ => {}
            }
            attempt += 1;
            tokio::time::sleep(jittered(wait)).await;
            wait *= 2;
        }
    }

    async fn attempt(&self, request: &Request, first: Option<Duration>) -> io::Result<HttpReply> {
        let mut asked = reqwest::Request::new(request.method.clone(), request.url.clone());
        *asked.headers_mut() = request.headers.clone();
        if !request.body.is_empty() {
            *asked.body_mut() = Some(request.body.clone().into());
        }
        let answer = self.http.execute(asked);
        let mut answer = match first {
            Some(time) => tokio::time::timeout(time, answer).await.map_err(|_| {
                io::Error::new(io::ErrorKind::TimedOut, "the server does not answer")
            })?,
            None => answer.await,
        }
        .map_err(told)?;
        let body = taken(&mut answer, request.want).await?;
        Ok(HttpReply {
            status: answer.status(),
            headers: std::mem::take(answer.headers_mut()),
            body,
        })
    }
}

/// Reads the wanted part of a body and buffers no more. Closes the connection instead of reading
/// the rest.
async fn taken(answer: &mut Response, want: Want) -> io::Result<Bytes> {
    let (skip, most, is_exact) = match (want, answer.status()) {
        (Want::Nothing, _) => return Ok(Bytes::new()),
        (Want::Part(part), StatusCode::PARTIAL_CONTENT) => (0, length(part.len)?, true),
        (Want::Part(part), StatusCode::OK) if part.start > MOST_SKIPPED => {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                format!(
                    "the server ignores Range and sends all of the file each time, which is done up to {} MiB \
                     of it: use a server that knows Range",
                    MOST_SKIPPED >> 20
                ),
            ));
        }
        (Want::Part(part), StatusCode::OK) => (part.start, length(part.len)?, false),
        (Want::Whole(most), status) if status.is_success() => (0, most, true),
        _ => (0, MOST_OF_ERROR, false),
    };
    let mut skip = skip;
    let mut body = BytesMut::new();
    // One byte more than is wanted is enough to know that there is more.
    while let Some(mut chunk) = answer.chunk().await.map_err(told)? {
        let skipped = chunk.len().min(usize::try_from(skip).unwrap_or(usize::MAX));
        let mut rest = chunk.split_off(skipped);
        skip = skip.saturating_sub(u64::try_from(skipped).unwrap_or(u64::MAX));
        let room = most.saturating_sub(body.len());
        if rest.len() > room && is_exact {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("the server sends more than {most} bytes"),
            ));
        }
        rest.truncate(room);
        body.extend_from_slice(&rest);
        if !is_exact && body.len() == most {
            break;
        }
    }
    Ok(body.freeze())
}

/// Returns an error with the server's host and port; user and password of the URL are not shown.
fn at(url: &Url, error: &io::Error) -> io::Error {
    let host = url.host_str().unwrap_or_default();
    let port = url.port_or_known_default();
    let port = port.map_or_else(String::new, |port| format!(":{port}"));
    io::Error::new(error.kind(), format!("{host}{port}: {error}"))
}

fn length(bytes: u64) -> io::Result<usize> {
    usize::try_from(bytes).map_err(io::Error::other)
}

/// Returns whether this status may be temporary.
fn may_pass(status: StatusCode) -> bool {
    let later = [
        StatusCode::REQUEST_TIMEOUT,
        StatusCode::TOO_MANY_REQUESTS,
        StatusCode::INTERNAL_SERVER_ERROR,
        StatusCode::BAD_GATEWAY,
        StatusCode::SERVICE_UNAVAILABLE,
        StatusCode::GATEWAY_TIMEOUT,
    ];
    later.contains(&status)
}

/// Returns whether another attempt may succeed.
fn may_be_mended(error: &io::Error) -> bool {
    !matches!(
        error.kind(),
        io::ErrorKind::Unsupported | io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput
    )
}

/// Between a half and all of it, so that machines that failed together do not come back together.
fn jittered(wait: Duration) -> Duration {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let share = now.map_or(0, |now| now.subsec_nanos() % 1_000);
    wait / 2 + wait * share / 2_000
}

/// Converts an error with its causes, without the URL, which the caller knows.
fn told(error: reqwest::Error) -> io::Error {
    let kind = if error.is_timeout() {
        io::ErrorKind::TimedOut
    } else if error.is_connect() {
        io::ErrorKind::NotConnected
    } else if error.is_builder() {
        io::ErrorKind::InvalidInput
    } else {
        io::ErrorKind::Other
    };
    let error = error.without_url();
    // The outer ones say no more than that a request failed.
    let mut causes = vec![error.to_string()];
    let mut cause = error.source();
    while let Some(inner) = cause {
        causes.push(inner.to_string());
        cause = inner.source();
    }
    let mut text = String::new();
    for said in causes.iter().rev() {
        let says_less = OUTER.iter().any(|outer| said.starts_with(outer));
        if text.is_empty() {
            text.clone_from(said);
        } else if !says_less && !said.contains(&text) {
            text = format!("{said}: {text}");
        } else if !says_less {
            text.clone_from(said);
        }
    }
    io::Error::new(kind, text)
}

/// Texts of errors that only wrap their cause.
const OUTER: [&str; 3] = [
    "error sending request",
    "client error",
    "request or response body error",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_host_and_port_without_credentials() {
        for (url, text) in [
            (
                "http://me:secret@host.example/a?key=secret",
                "host.example:80: no",
            ),
            ("https://host.example/a", "host.example:443: no"),
            ("http://[::1]:8080/", "[::1]:8080: no"),
        ] {
            let error = at(
                &url.parse().unwrap(),
                &io::Error::new(io::ErrorKind::TimedOut, "no"),
            );
            assert_eq!(error.to_string(), text);
            assert_eq!(
                error.kind(),
                io::ErrorKind::TimedOut,
                "decides about another attempt"
            );
        }
    }
}
