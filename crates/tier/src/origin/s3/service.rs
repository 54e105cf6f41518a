//! [`Service`]: how the client of S3 reaches servers: by the same means as other origins, so that
//! answers are bounded, and what fails is asked again in one place.

use std::io;

use async_trait::async_trait;
use bytes::Bytes;
use cachewise_units::ByteRange;
use http_body_util::BodyExt;
use object_store::ClientOptions;
use object_store::client::{
    ClientConfigKey, HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest,
    HttpResponse, HttpService,
};
use reqwest::header::{HeaderMap, RANGE};
use reqwest::{Method, StatusCode, Url};

use crate::origin::network::{Client, Request, Want};

/// How long a list of 1,000 keys of 1,024 letters may be, each written as an entity.
const LONGEST_ANSWER: usize = 16 << 20;

/// Maximum length of an error message, in bytes.
const LONGEST_ERROR: usize = 300;

/// Makes one for each purpose.
#[derive(Debug)]
pub(super) struct Connector(pub Client);

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let allows = options.get_config_value(&ClientConfigKey::AllowHttp);
        Ok(HttpClient::new(Service {
            client: self.0.clone(),
            allows_http: allows.as_deref() == Some("true"),
        }))
    }
}

#[derive(Debug)]
struct Service {
    client: Client,
    allows_http: bool,
}

#[async_trait]
impl HttpService for Service {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let wrong = |why: &str| {
            let error = io::Error::new(io::ErrorKind::InvalidInput, why);
            HttpError::new(HttpErrorKind::Unknown, error)
        };
        let (parts, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let url = Url::parse(&parts.uri.to_string());
        let mut url = url.map_err(|error| wrong(&format!("not a URL: {error}")))?;
        // The signed query has %20 for a space, but the sent one has a plus, and some stores treat
        // them differently.
        if let Some(query) = url.query().map(|query| query.replace('+', "%20")) {
            url.set_query(Some(&query));
        }
        if url.scheme() != "https" && !self.allows_http {
            return Err(wrong("not encrypted, and AWS_ALLOW_HTTP is not true"));
        }
        let is_tree = url
            .query()
            .is_some_and(|query| query.contains("list-type=2") && !query.contains("delimiter="));
        let want = match parts.method {
            Method::HEAD => Want::Nothing,
            _ => match range(&parts.headers) {
                Some(range) => Want::Part(range),
                None => Want::Whole(LONGEST_ANSWER),
            },
        };
        let request = Request {
            method: parts.method,
            url,
            headers: parts.headers,
            body,
            want,
        };
        let reply = self.client.send(&request).await.map_err(|error| {
            let kind = match error.kind() {
                io::ErrorKind::TimedOut => HttpErrorKind::Timeout,
                io::ErrorKind::NotConnected => HttpErrorKind::Connect,
                _ => HttpErrorKind::Unknown,
            };
            HttpError::new(kind, error)
        })?;
        if !reply.status.is_success() {
            // The client tells some of them by kinds, and others only in words.
            let refused = Refused {
                status: reply.status,
                said: told(&reply.body),
            };
            return Err(HttpError::new(HttpErrorKind::Unknown, refused));
        }
        let body = match is_tree {
            true => with_directories(&reply.body),
            false => reply.body,
        };
        let mut response = HttpResponse::new(body.into());
        *response.status_mut() = reply.status;
        *response.headers_mut() = reply.headers;
        Ok(response)
    }
}

/// The name of an entry that stands for its directory, in lists without a delimiter: the client takes a key that ends
/// with a slash for a file. It begins with the lowest letter that names may have, to keep the order of keys.
pub(super) const ITSELF: &str = " cachewise 5c1f7a52-0d0b-4c5e-9a4e-2f6a8f0c7d11";

/// Gives an entry to each directory that has a key of its own, which ends with a slash.
fn with_directories(list: &Bytes) -> Bytes {
    const END: &str = "/</Key>";
    match std::str::from_utf8(list) {
        Ok(text) if text.contains(END) => text.replace(END, &format!("/{ITSELF}</Key>")).into(),
        // A list is text.
        _ => list.clone(),
    }
}

/// A store does not do it.
#[derive(Debug, thiserror::Error)]
#[error("the store answers {status}{}{said}", if said.is_empty() { "" } else { ": " })]
pub(super) struct Refused {
    /// How HTTP says it.
    pub status: StatusCode,
    said: String,
}

/// Returns the message of an error on one line: `<Code>` and `<Message>` of S3.
fn told(body: &[u8]) -> String {
    let body = String::from_utf8_lossy(body);
    let element = |name: &str| {
        let (_, rest) = body.split_once(&format!("<{name}>"))?;
        let (text, _) = rest.split_once(&format!("</{name}>"))?;
        Some(text.trim())
    };
    let said: Vec<&str> = [element("Code"), element("Message")]
        .into_iter()
        .flatten()
        .collect();
    let letters = said.join(": ");
    let letters = letters.chars().filter(|letter| !letter.is_control());
    letters.take(LONGEST_ERROR).collect()
}

/// Returns the requested range: `bytes=0-99`.
fn range(headers: &HeaderMap) -> Option<ByteRange> {
    let text = headers.get(RANGE)?.to_str().ok()?;
    let (first, last) = text.strip_prefix("bytes=")?.split_once('-')?;
    let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
    let len = last.checked_sub(first)?.checked_add(1)?;
    Some(ByteRange { start: first, len })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_told_in_a_line_and_bounded() {
        let body = b"<?xml?><Error><Code>NoSuchKey</Code><Message>It is\n gone</Message><X>secret</X></Error>";
        assert_eq!(told(body), "NoSuchKey: It is gone");
        assert_eq!(told(b"<html>nonsense"), "");
        let long = format!("<Code>{}</Code>", "x".repeat(10_000));
        assert_eq!(told(long.as_bytes()).len(), LONGEST_ERROR);
    }
}
