//! An HTTP server with scripted answers: right, wrong, or none. It listens on a free loopback port
//! and ends when it is dropped.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// A request, as it came.
#[allow(dead_code, reason = "each test program uses a part")]
#[derive(Clone, Debug)]
pub struct Asked {
    pub method: String,
    pub target: String,
    /// Names in small letters.
    pub headers: HashMap<String, String>,
}

impl Asked {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    /// Returns the first and the last requested byte.
    pub fn range(&self) -> Option<(usize, usize)> {
        let (first, last) = self
            .header("range")?
            .strip_prefix("bytes=")?
            .split_once('-')?;
        Some((first.parse().ok()?, last.parse().ok()?))
    }
}

/// The scripted action.
#[derive(Clone, Debug)]
pub enum Act {
    /// These bytes, and the connection is closed.
    Answer(Vec<u8>),
    /// These bytes, and then nothing, with the connection open.
    Hang(Vec<u8>),
    /// These bytes again and again, until the other side has enough.
    Endless(Vec<u8>),
}

/// Makes an answer of a status, headers and a body, with its length.
pub fn answer(status: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut text = format!("HTTP/1.1 {status}\r\nConnection: close\r\n");
    if !headers.iter().any(|(name, _)| *name == "Content-Length") {
        text.push_str(&format!("Content-Length: {}\r\n", body.len()));
    }
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text.push_str("\r\n");
    let mut bytes = text.into_bytes();
    bytes.extend_from_slice(body);
    bytes
}

type Handler = Arc<dyn Fn(&Asked) -> Act + Send + Sync>;

pub struct HttpServer {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
    is_over: Arc<AtomicBool>,
    accepts: Option<JoinHandle<()>>,
}

impl HttpServer {
    pub fn start(handler: impl Fn(&Asked) -> Act + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it has one");
        let asked = Arc::new(Mutex::new(Vec::new()));
        let is_over = Arc::new(AtomicBool::new(false));
        let handler: Handler = Arc::new(handler);
        let (seen, over) = (Arc::clone(&asked), Arc::clone(&is_over));
        let accepts = std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if over.load(Ordering::Acquire) {
                    return;
                }
                let (handler, seen) = (Arc::clone(&handler), Arc::clone(&seen));
                let over = Arc::clone(&over);
                std::thread::spawn(move || {
                    // A client may close early.
                    let _ = serve(stream, &*handler, &seen, &over);
                });
            }
        });
        Self {
            address,
            asked,
            is_over,
            accepts: Some(accepts),
        }
    }

    /// The URL of a path; begins with a slash.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Returns the requests so far.
    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().expect("unpoisoned").clone()
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Release);
        // Wakes what accepts.
        let _ = TcpStream::connect(self.address);
        if let Some(accepts) = self.accepts.take() {
            let _ = accepts.join();
        }
    }
}

fn serve(
    stream: TcpStream,
    handler: &(dyn Fn(&Asked) -> Act + Send + Sync),
    seen: &Mutex<Vec<Asked>>,
    over: &AtomicBool,
) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut stream = stream;
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let mut words = line.split_whitespace().map(str::to_owned);
    let (Some(method), Some(target)) = (words.next(), words.next()) else {
        return Ok(());
    };
    let mut headers = HashMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else {
            break;
        };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let length = headers
        .get("content-length")
        .and_then(|text| text.parse().ok());
    reader
        .take(length.unwrap_or(0))
        .read_to_end(&mut Vec::new())?;
    let asked = Asked {
        method,
        target,
        headers,
    };
    seen.lock().expect("unpoisoned").push(asked.clone());
    match handler(&asked) {
        Act::Answer(bytes) => stream.write_all(&bytes),
        Act::Hang(bytes) => {
            stream.write_all(&bytes)?;
            while !over.load(Ordering::Acquire) {
                std::thread::sleep(Duration::from_millis(10));
            }
            Ok(())
        }
        Act::Endless(bytes) => {
            while !over.load(Ordering::Acquire) {
                stream.write_all(&bytes)?;
            }
            Ok(())
        }
    }
}

/// One object, and what the server that has it is able to.
#[derive(Clone, Debug)]
pub struct Object {
    pub bytes: Vec<u8>,
    /// As the header has it, with its quotes.
    pub etag: Option<String>,
    pub modified: Option<String>,
    pub knows_range: bool,
    pub knows_conditions: bool,
}

/// Long ago.
pub const MODIFIED: &str = "Sun, 06 Nov 1994 08:49:37 GMT";

impl Object {
    pub fn new(bytes: Vec<u8>) -> Self {
        Self {
            bytes,
            etag: Some("\"1\"".to_owned()),
            modified: Some(MODIFIED.to_owned()),
            knows_range: true,
            knows_conditions: true,
        }
    }

    /// Answers as RFC 9110 has it, as far as it is able to.
    pub fn answer(&self, asked: &Asked) -> Act {
        let mut headers: Vec<(&str, &str)> = Vec::new();
        if let Some(etag) = &self.etag {
            headers.push(("ETag", etag));
        }
        if let Some(modified) = &self.modified {
            headers.push(("Last-Modified", modified));
        }
        let is_other = |header: &str, own: &Option<String>| {
            let wanted = asked.header(header);
            wanted.is_some() && wanted != own.as_deref()
        };
        if self.knows_conditions
            && (is_other("if-match", &self.etag) || is_other("if-unmodified-since", &self.modified))
        {
            return Act::Answer(answer("412 Precondition Failed", &headers, b""));
        }
        let length = self.bytes.len().to_string();
        if asked.method == "HEAD" {
            headers.push(("Content-Length", &length));
            return Act::Answer(answer("200 OK", &headers, b""));
        }
        match asked.range() {
            Some((first, _)) if self.knows_range && first >= self.bytes.len() => {
                let of = format!("bytes */{length}");
                headers.push(("Content-Range", &of));
                Act::Answer(answer("416 Range Not Satisfiable", &headers, b""))
            }
            Some((first, last)) if self.knows_range => {
                let last = last.min(self.bytes.len() - 1);
                let of = format!("bytes {first}-{last}/{length}");
                headers.push(("Content-Range", &of));
                Act::Answer(answer(
                    "206 Partial Content",
                    &headers,
                    &self.bytes[first..=last],
                ))
            }
            _ => Act::Answer(answer("200 OK", &headers, &self.bytes)),
        }
    }
}
