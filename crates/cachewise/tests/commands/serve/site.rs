//! A server of our own.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::Signal;

use super::http::{Answer, Request};
use crate::support::{Ended, Scratch, Started, cachewise, cachewise_as_nobody, until};

/// The token of servers for which it does not matter.
pub const TOKEN: &str = "a-token-of-enough-characters";

/// A server, ended when dropped.
pub struct Site {
    started: Started,
    /// `127.0.0.1:PORT`.
    pub address: String,
    token: Option<String>,
}

impl Site {
    /// Starts one at any free port of the loopback address.
    pub fn new(arguments: &[&str]) -> Site {
        Site::at("127.0.0.1:0", arguments, Some(TOKEN))
    }

    /// Starts one.
    pub fn at(listen: &str, arguments: &[&str], token: Option<&str>) -> Site {
        Site::of(cachewise::<_, &str>([]), listen, arguments, token)
    }

    /// Starts one where the probe may not be loaded.
    pub fn as_nobody(scratch: &Scratch, arguments: &[&str]) -> Site {
        let command = match rustix::process::geteuid().is_root() {
            true => cachewise_as_nobody(scratch),
            false => cachewise::<_, &str>([]),
        };
        Site::of(command, "127.0.0.1:0", arguments, Some(TOKEN))
    }

    /// Starts one as this command.
    pub fn of(mut command: Command, listen: &str, arguments: &[&str], token: Option<&str>) -> Site {
        command.args(["serve", "--listen", listen]);
        command.args(arguments).stdin(Stdio::null());
        command.env_remove("CACHEWISE_TOKEN");
        if let Some(token) = token {
            command.env("CACHEWISE_TOKEN", token);
        }
        let mut started = Started::of(&mut command);
        let line = started.line().unwrap_or_default();
        let line = String::from_utf8(line).expect("it prints text");
        let address = line
            .strip_prefix("http://")
            .and_then(|rest| rest.split('/').next())
            .unwrap_or_else(|| panic!("it says where it listens, not {line:?}"));
        let port = address.rsplit(':').next().expect("an address has a port");
        Site {
            started,
            address: format!("127.0.0.1:{port}"),
            token: token.map(str::to_owned),
        }
    }

    pub fn pid(&self) -> u32 {
        self.started.pid()
    }

    /// Asks for a page, with the token if there is one.
    pub fn get(&self, path: &str) -> Answer {
        self.request(path).send()
    }

    /// The first event with numbers.
    pub fn tick(&self) -> serde_json::Value {
        let mut stream = super::http::connect(&self.address);
        stream
            .write_all(self.head("/api/v1/events").as_bytes())
            .expect("it can be asked");
        let mut lines = BufReader::new(stream).lines();
        lines
            .by_ref()
            .map(|line| line.expect("the stream goes on"))
            .find(|line| line == "event: tick")
            .expect("it ticks");
        let data = lines
            .next()
            .expect("with data")
            .expect("the stream goes on");
        let data = data.strip_prefix("data: ").expect("it is data");
        serde_json::from_str(data).expect("it is JSON")
    }

    /// A request to be made more of.
    pub fn request(&self, path: &str) -> Request {
        let request = Request::new(&self.address, path);
        match &self.token {
            Some(token) => request.header("Authorization", &format!("Bearer {token}")),
            None => request,
        }
    }

    /// A request for a page with the token, as it is sent.
    pub fn head(&self, path: &str) -> String {
        let token = self.token.as_deref().unwrap_or_default();
        format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n")
    }

    /// Asks for JSON.
    pub fn json(&self, path: &str) -> serde_json::Value {
        let answer = self.get(path);
        assert_eq!(answer.status, 200, "{path} is answered: {}", answer.body);
        serde_json::from_str(&answer.body).expect("it is JSON")
    }

    /// The value of a series, in the format that tools without a wish get.
    pub fn metric(&self, series: &str) -> Option<f64> {
        value_of(&self.get("/metrics").body, series)
    }

    /// Ends it as a supervisor does.
    pub fn end(self) -> Ended {
        self.started.signal(Signal::TERM);
        self.started.wait()
    }

    /// Number of its sockets without clients. The first answer shows that all sockets of the start are open.
    pub fn sockets_at_rest(&self) -> usize {
        assert_eq!(self.get("/metrics").status, 200, "it answers");
        until("the connection has gone", || {
            let first = self.sockets();
            std::thread::sleep(std::time::Duration::from_millis(100));
            (self.sockets() == first).then_some(first)
        })
    }

    /// How many sockets it has.
    pub fn sockets(&self) -> usize {
        let fds = Path::new("/proc").join(self.pid().to_string()).join("fd");
        let entries = std::fs::read_dir(fds).expect("it runs");
        let links = entries
            .flatten()
            .filter_map(|fd| std::fs::read_link(fd.path()).ok());
        links
            .filter(|link| link.to_string_lossy().starts_with("socket:"))
            .count()
    }
}

/// The value of a series in an exposition.
pub fn value_of(text: &str, series: &str) -> Option<f64> {
    text.lines()
        .find_map(|line| line.strip_prefix(series)?.strip_prefix(' '))
        .map(|number| number.parse().expect("a series ends in a number"))
}
