//! A real Prometheus that scrapes a server.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};

use serde_json::Value;

use super::site::Site;
use crate::support::{Scratch, Started};

/// A Prometheus of our own; it ends with the value.
pub struct Prometheus {
    address: String,
    _process: Started,
}

impl Prometheus {
    /// Starts one that scrapes this server each second.
    pub fn of(site: &Site, token: &str, scratch: &Scratch) -> Prometheus {
        let config = scratch.path("prometheus.yml");
        let text = format!(
            "global: {{scrape_interval: 1s}}\nscrape_configs:\n  - job_name: cachewise\n    \
             authorization: {{credentials: {token}}}\n    static_configs: [{{targets: ['{}']}}]\n",
            site.address
        );
        std::fs::write(&config, text).expect("the disk has room");
        let port = TcpListener::bind("127.0.0.1:0")
            .and_then(|free| free.local_addr())
            .expect("there is a free port")
            .port();
        let address = format!("127.0.0.1:{port}");
        let mut command = Command::new("prometheus");
        command
            .arg(format!("--config.file={}", config.display()))
            .arg(format!(
                "--storage.tsdb.path={}",
                scratch.path("tsdb").display()
            ))
            .arg(format!("--web.listen-address={address}"))
            .stdin(Stdio::null());
        Prometheus {
            address,
            _process: Started::of(&mut command),
        }
    }

    /// Its answer to a query; none while it does not listen.
    pub fn answer(&self, query: &str) -> Option<Value> {
        let query: String = query.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let mut stream = TcpStream::connect(&self.address).ok()?;
        let request = format!(
            "GET /api/v1/query?query={query} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
            self.address
        );
        stream.write_all(request.as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let start = answer.find('{')?;
        let json = answer.get(start..=answer.rfind('}')?)?;
        serde_json::from_str(json).ok()
    }

    /// The first number of the result.
    pub fn number(&self, query: &str) -> Option<f64> {
        let json = self.answer(query)?;
        let value = json["data"]["result"].get(0)?["value"].get(1)?.as_str()?;
        value.parse().ok()
    }
}
