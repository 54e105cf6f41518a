//! [`Http`]: an origin that a server gives out over HTTP.

mod address;
mod listing;

use std::fmt;
use std::io;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use cachewise_units::ByteRange;
use reqwest::header::{
    AUTHORIZATION, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue,
    LOCATION, RANGE,
};
use reqwest::{Method, StatusCode, Url};

use super::network::{
    Client, HttpReply, NetworkOptions, ObjectState, OnNetwork, Request, Want, directory, is_refusal,
};
use super::{Entry, Kind, Meta, checked};
use crate::Error;
use crate::settings::check_identity;

/// Maximum redirects to follow.
const REDIRECTS: u32 = 5;

/// Maximum size of a directory's list, in bytes of XML: some 100,000 entries.
const LONGEST_LIST: usize = 32 << 20;

/// An origin that a server gives out over HTTP: any server of files, or one that speaks WebDAV,
/// which can list directories too.
///
/// The server must send a size, and an ETag or a modification time. Reads are conditional on that
/// state, and the state in the answer is checked.
///
/// # Cost
/// `stat` and read are one request each. If a server ignores `Range`, each read transfers all bytes
/// before it too.
pub struct Http {
    client: Client,
    base: Url,
    identity: String,
    deadline: Duration,
    authorization: Option<HeaderValue>,
}

impl fmt::Debug for Http {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Http");
        debug.field("identity", &self.identity).finish()
    }
}

/// The outcome of a request, after redirects.
enum HttpAnswer {
    Reply(HttpReply),
    /// The server says that it is a directory, by sending on to the same name with a slash.
    Directory,
}

impl Http {
    /// Takes the base URL for all paths. Sends no request yet.
    ///
    /// # Errors
    /// [`Error::Setting`] for a URL that is none, that has a password in it, or a query; and where
    /// the system has no certificates to know a server of https by.
    pub fn open(url: &str, options: &NetworkOptions) -> Result<Self, Error> {
        check_identity(options.identity.as_deref())?;
        let base = address::base(url)?;
        let authorization = match &options.authorization {
            Some(secret) => Some(address::authorization(secret)?),
            None => None,
        };
        let identity = match &options.identity {
            Some(name) => format!("named:{name}"),
            None => base.to_string(),
        };
        Ok(Self {
            client: Client::new(options.read_deadline, base.scheme() == "https")?,
            base,
            identity,
            deadline: options.read_deadline,
            authorization,
        })
    }
}

impl Http {
    /// Sends a request on to where it is sent on.
    async fn follow(
        &self,
        path: &Path,
        operation: &'static str,
        mut request: Request,
    ) -> Result<HttpAnswer, Error> {
        let failed = |error| Error::of_origin(path, operation, error);
        for _ in 0..=REDIRECTS {
            let mut asked = request.clone();
            // No other server gets the password.
            if let Some(value) = &self.authorization
                && request.url.origin() == self.base.origin()
            {
                asked.headers.insert(AUTHORIZATION, value.clone());
            }
            let reply = self.client.send(&asked).await.map_err(failed)?;
            if !reply.status.is_redirection() || reply.status == StatusCode::NOT_MODIFIED {
                return Ok(HttpAnswer::Reply(reply));
            }
            let to = text(&reply.headers, &LOCATION).and_then(|to| request.url.join(to).ok());
            let Some(to) = to else {
                return Err(failed(io::Error::other("the server sends on to nowhere")));
            };
            if address::is_with_slash(&to, &request.url) {
                return Ok(HttpAnswer::Directory);
            }
            let is_open = request.url.scheme() == "https" && to.scheme() != "https";
            if is_open || !matches!(to.scheme(), "http" | "https") {
                return Err(failed(io::Error::other(
                    "the server sends on from https to something else, which is not followed",
                )));
            }
            request.url = to;
        }
        Err(failed(io::Error::other(format!(
            "the server sends on and on: {REDIRECTS} redirects were followed"
        ))))
    }

    fn request(&self, path: &Path, method: Method, want: Want) -> Result<Request, Error> {
        Ok(Request {
            method,
            url: address::below(&self.base, checked(path)?),
            headers: HeaderMap::new(),
            body: Bytes::new(),
            want,
        })
    }

    /// Returns the WebDAV properties of a path, with its children at depth 1; `None` if the server
    /// has no WebDAV.
    async fn properties(
        &self,
        path: &Path,
        operation: &'static str,
        depth: &'static str,
    ) -> Result<Option<listing::Listed>, Error> {
        let method = Method::from_bytes(b"PROPFIND")
            .map_err(|error| Error::of_origin(path, operation, io::Error::other(error)))?;
        let mut request = self.request(path, method, Want::Whole(LONGEST_LIST))?;
        if !request.url.path().ends_with('/') {
            let with_slash = format!("{}/", request.url.path());
            request.url.set_path(&with_slash);
        }
        request.headers.insert(
            HeaderName::from_static("depth"),
            HeaderValue::from_static(depth),
        );
        let xml = HeaderValue::from_static("application/xml; charset=utf-8");
        request.headers.insert(CONTENT_TYPE, xml);
        request.body = Bytes::from_static(listing::QUESTION);
        let of = request.url.clone();
        match self.follow(path, operation, request).await? {
            HttpAnswer::Reply(reply) if reply.status == StatusCode::MULTI_STATUS => {
                let listed = listing::parse(&reply.body, &of)
                    .map_err(|error| Error::of_origin(path, operation, error))?;
                Ok(Some(listed))
            }
            HttpAnswer::Reply(reply) => {
                let status = reply.status;
                match status {
                    StatusCode::NOT_FOUND | StatusCode::GONE | StatusCode::UNAUTHORIZED => {
                        Err(refused(path, operation, status))
                    }
                    _ if status.is_server_error() && status != StatusCode::NOT_IMPLEMENTED => {
                        Err(refused(path, operation, status))
                    }
                    // The server does not know the method, or takes the request for a form.
                    _ => Ok(None),
                }
            }
            HttpAnswer::Directory => Ok(None),
        }
    }
}

impl OnNetwork for Http {
    fn identity(&self) -> &str {
        &self.identity
    }

    fn deadline(&self) -> Duration {
        self.deadline
    }

    async fn check(&self, root: &Path) -> Result<Option<String>, Error> {
        match self.properties(root, "look", "0").await {
            Ok(Some(_)) => Ok(None),
            Ok(None) => Ok(Some(
                "the origin does not list directories, as it does not speak WebDAV: names are found, and cannot be listed"
                    .to_owned(),
            )),
            // File servers treat a method that they do not know as a request for a file.
            Err(Error::NotFound { .. }) => Ok(Some(
                "the origin lists nothing here: names are found if they are there".to_owned(),
            )),
            Err(error) => Err(error),
        }
    }

    async fn stat(&self, path: &Path) -> Result<Meta, Error> {
        const STAT: &str = "stat";
        if path.as_os_str().is_empty() {
            return Ok(directory(path));
        }
        let request = self.request(path, Method::HEAD, Want::Nothing)?;
        let reply = match self.follow(path, STAT, request).await? {
            HttpAnswer::Directory => return Ok(directory(path)),
            HttpAnswer::Reply(reply) => reply,
        };
        let knows_no_head = [StatusCode::METHOD_NOT_ALLOWED, StatusCode::NOT_IMPLEMENTED];
        if !reply.status.is_success() && !knows_no_head.contains(&reply.status) {
            return Err(refused(path, STAT, reply.status));
        }
        if reply.status == StatusCode::OK
            && let (Some(state), Some(size)) = (ObjectState::from_headers(&reply.headers), size(&reply.headers))
            // An empty file is never read, so a false size of 0 would not be noticed.
            && size > 0
        {
            return Ok(meta(&state, size, &reply.headers));
        }
        // Some servers say more of a byte than of nothing.
        let byte = ByteRange { start: 0, len: 1 };
        let mut request = self.request(path, Method::GET, Want::Part(byte))?;
        request.headers.insert(RANGE, header(&part(byte)));
        let reply = match self.follow(path, STAT, request).await? {
            HttpAnswer::Directory => return Ok(directory(path)),
            HttpAnswer::Reply(reply) => reply,
        };
        let size = match reply.status {
            StatusCode::OK => size(&reply.headers),
            StatusCode::PARTIAL_CONTENT | StatusCode::RANGE_NOT_SATISFIABLE => {
                sent(&reply.headers).and_then(|sent| sent.of)
            }
            status => return Err(refused(path, STAT, status)),
        };
        if let (Some(state), Some(size)) = (ObjectState::from_headers(&reply.headers), size) {
            return Ok(meta(&state, size, &reply.headers));
        }
        // Some servers of WebDAV have a page for a directory, which is no file.
        if let Ok(Some(listed)) = self.properties(path, STAT, "0").await
            && listed.is_collection
        {
            return Ok(directory(path));
        }
        let missing = match size {
            None => "size",
            Some(_) => "strong ETag and no time of last change",
        };
        Err(Error::of_origin(
            path,
            STAT,
            io::Error::other(format!(
                "the server sends no {missing}, so old bytes could not be detected; configure it to send one \
                 (lighttpd: give these files a type), or copy the files to a server that does"
            )),
        ))
    }

    async fn list(&self, path: &Path) -> Result<Vec<Entry>, Error> {
        let unlisted = || Error::NotListed {
            path: path.to_owned(),
            why: "it does not speak WebDAV, and plain HTTP has no lists",
        };
        match self.properties(path, "list", "1").await? {
            Some(listed) if listed.is_collection => {
                let mut entries = listed.entries;
                for entry in &mut entries {
                    if entry.kind == Kind::Directory {
                        // There is no more to be known of a directory.
                        entry.meta = Some(Box::new(directory(&path.join(&entry.name))));
                    }
                }
                Ok(entries)
            }
            Some(_) => Err(Error::of_origin(
                path,
                "list",
                io::Error::from(io::ErrorKind::NotADirectory),
            )),
            None => Err(unlisted()),
        }
    }

    async fn read(&self, path: &Path, meta: &Meta, range: ByteRange) -> Result<Bytes, Error> {
        const READ: &str = "read";
        let failed = |why| Error::of_origin(path, READ, io::Error::other(why));
        let changed = |what| Error::Changed {
            path: path.to_owned(),
            what,
        };
        if range.is_empty() {
            return Ok(Bytes::new());
        }
        let Some(state) = ObjectState::of_version(&meta.version) else {
            return Err(changed("it is not of this origin"));
        };
        let mut request = self.request(path, Method::GET, Want::Part(range))?;
        request.headers.insert(RANGE, header(&part(range)));
        state.require(&mut request.headers);
        let reply = match self.follow(path, READ, request).await? {
            HttpAnswer::Directory => return Err(changed("it is not the same kind of object")),
            HttpAnswer::Reply(reply) => reply,
        };
        match reply.status {
            StatusCode::OK | StatusCode::PARTIAL_CONTENT => {}
            StatusCode::PRECONDITION_FAILED => {
                return Err(changed("it was written or replaced"));
            }
            StatusCode::RANGE_NOT_SATISFIABLE => return Err(changed("it shrank")),
            status => return Err(refused(path, READ, status)),
        }
        // A server may not know conditions: what it answers is looked at too.
        match ObjectState::from_headers(&reply.headers) {
            Some(found) if found == state => {}
            Some(_) => return Err(changed("it was written or replaced")),
            None => {
                return Err(failed(
                    "the server does not tell which state its answer is of",
                ));
            }
        }
        if reply.status == StatusCode::PARTIAL_CONTENT {
            let Some(sent) = sent(&reply.headers) else {
                return Err(failed("the server does not report the range that it sends"));
            };
            if sent.of.is_some_and(|size| size != meta.size) {
                return Err(changed("its size is another"));
            }
            if sent.range != Some(range) {
                return Err(failed("the server sends other bytes than requested"));
            }
        } else if size(&reply.headers).is_some_and(|size| size != meta.size) {
            return Err(changed("its size is another"));
        }
        match u64::try_from(reply.body.len()) {
            Ok(len) if len == range.len => Ok(reply.body),
            _ => Err(changed("it shrank")),
        }
    }
}

fn meta(state: &ObjectState, size: u64, headers: &HeaderMap) -> Meta {
    Meta {
        modified: state.modified(),
        keep_from: state.keep_from(headers),
        ..Meta::plain(Kind::File, size, state.version())
    }
}

/// Maps an error status to an error.
fn refused(path: &Path, operation: &'static str, status: StatusCode) -> Error {
    let kind = match status {
        StatusCode::NOT_FOUND | StatusCode::GONE => io::ErrorKind::NotFound,
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => io::ErrorKind::PermissionDenied,
        _ if is_refusal(status) => io::ErrorKind::InvalidInput,
        _ => io::ErrorKind::Other,
    };
    let error = io::Error::new(kind, format!("the server answers {status}"));
    Error::of_origin(path, operation, error)
}

/// A range as the header says it: with its last byte.
fn part(range: ByteRange) -> String {
    format!("bytes={}-{}", range.start, range.end().saturating_sub(1))
}

/// A header of digits and letters.
fn header(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).unwrap_or(HeaderValue::from_static(""))
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

fn size(headers: &HeaderMap) -> Option<u64> {
    text(headers, &CONTENT_LENGTH)?.trim().parse().ok()
}

/// Bytes of a response, and the size of the object.
struct Sent {
    range: Option<ByteRange>,
    of: Option<u64>,
}

/// Reads `bytes 0-99/1000`, `bytes 0-99/*` and `bytes */1000`.
fn sent(headers: &HeaderMap) -> Option<Sent> {
    let text = text(headers, &CONTENT_RANGE)?
        .trim()
        .strip_prefix("bytes ")?;
    let (range, of) = text.split_once('/')?;
    let range = range.split_once('-').and_then(|(first, last)| {
        let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
        let len = last.checked_sub(first)?.checked_add(1)?;
        Some(ByteRange { start: first, len })
    });
    Some(Sent {
        range,
        of: of.parse().ok(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sent_is_read_or_not_known() {
        let of = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_RANGE, header(text));
            sent(&headers).map(|sent| (sent.range.map(|range| (range.start, range.len)), sent.of))
        };
        assert_eq!(of("bytes 5-9/100"), Some((Some((5, 5)), Some(100))));
        assert_eq!(of("bytes 5-9/*"), Some((Some((5, 5)), None)));
        assert_eq!(of("bytes */0"), Some((None, Some(0))));
        assert_eq!(of("bytes 9-5/100"), Some((None, Some(100))));
        assert_eq!(of("bytes 0-18446744073709551615/1"), Some((None, Some(1))));
        assert_eq!(of("lines 5-9/100"), None);
        assert_eq!(of("bytes 5-9"), None);
    }
}
