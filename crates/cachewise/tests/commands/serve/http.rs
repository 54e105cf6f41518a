//! Requests, byte by byte: a library would correct the errors that are to be tested.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Far beyond what an answer takes: only a hang reaches it.
const LIMIT: Duration = Duration::from_secs(60);

pub struct Request {
    address: String,
    path: String,
    method: &'static str,
    headers: Vec<(String, String)>,
}

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Request {
    pub fn new(address: &str, path: &str) -> Request {
        Request {
            address: address.into(),
            path: path.into(),
            method: "GET",
            headers: vec![("Host".into(), address.into())],
        }
    }

    pub fn method(mut self, method: &'static str) -> Request {
        self.method = method;
        self
    }

    /// Sets a header, instead of what it was.
    pub fn header(mut self, name: &str, value: &str) -> Request {
        self.headers.retain(|(known, _)| known != name);
        self.headers.push((name.into(), value.into()));
        self
    }

    pub fn send(self) -> Answer {
        let mut text = format!(
            "{} {} HTTP/1.1\r\nConnection: close\r\n",
            self.method, self.path
        );
        for (name, value) in &self.headers {
            text += &format!("{name}: {value}\r\n");
        }
        text += "\r\n";
        raw(&self.address, text.as_bytes()).expect("there is an answer")
    }
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (known, value) = line.split_once(':')?;
            known.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }
}

pub fn connect(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address).expect("it can be connected to");
    stream
        .set_read_timeout(Some(LIMIT))
        .expect("a limit can be set");
    stream
}

/// The answer to these bytes; `None` if the connection is closed without one.
pub fn raw(address: &str, bytes: &[u8]) -> Option<Answer> {
    let mut stream = connect(address);
    // It may have its answer before it has everything.
    let _ = stream.write_all(bytes);
    let mut answer = Vec::new();
    let mut buffer = [0; 16 << 10];
    while !is_whole(&answer) {
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => answer.extend_from_slice(&buffer[..read]),
            // The server closes with a reset if it has not read the whole request.
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => break,
            Err(error) => panic!("the answer can be read: {error}"),
        }
    }
    let text = String::from_utf8_lossy(&answer).into_owned();
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some(Answer {
        status,
        head: head.to_owned(),
        body: body.to_owned(),
    })
}

/// Whether an answer says how long it is, and is: not everybody closes the connection when asked to.
fn is_whole(answer: &[u8]) -> bool {
    let text = String::from_utf8_lossy(answer);
    let Some((head, _)) = text.split_once("\r\n\r\n") else {
        return false;
    };
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length")
            .then(|| value.trim().parse::<usize>().ok())?
    });
    length.is_some_and(|length| answer.len() >= head.len() + 4 + length)
}
