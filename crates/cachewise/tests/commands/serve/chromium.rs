//! A real Chromium, driven over its DevTools protocol.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, ErrorKind};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tungstenite::{Message, WebSocket};

use super::http::Request;
use crate::support::until;

/// Far beyond what a command takes: only a hang reaches it.
const LIMIT: Duration = Duration::from_secs(60);
/// How long is listened for what may have happened meanwhile.
const MOMENT: Duration = Duration::from_millis(20);

/// A browser with one page, ended when dropped.
pub struct Chromium {
    socket: WebSocket<TcpStream>,
    last: u64,
    events: VecDeque<Value>,
    // Dropped in this order: the profile is removed after the process has ended.
    _process: Process,
    _profile: TempDir,
}

/// Ended when dropped, also where the start of the rest fails.
struct Process(Child);

impl Chromium {
    /// Starts it; nothing but numbers of this machine can be reached by it.
    pub fn start() -> Option<Chromium> {
        let profile = tempfile::tempdir().expect("a temporary directory can be made");
        let process = Command::new("chromium")
            .args([
                "--headless=new",
                // A user of its own is more than a test can ask for; it sees our own page only.
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--no-first-run",
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-sync",
                // No network: no name leads anywhere.
                "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
                "--remote-debugging-port=0",
                "--window-size=1280,800",
            ])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg("about:blank")
            // It is killed, so it takes nothing away that it has laid down elsewhere.
            .env("TMPDIR", profile.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn();
        let mut process = match process {
            Ok(process) => Process(process),
            Err(error) if error.kind() == ErrorKind::NotFound => return None,
            Err(error) => panic!("chromium can be started: {error}"),
        };
        let mut lines = BufReader::new(process.0.stderr.take().expect("it was asked for")).lines();
        let address = lines
            .by_ref()
            .map_while(Result::ok)
            .find_map(|line| {
                let (_, url) = line.split_once("DevTools listening on ws://")?;
                url.split('/').next().map(str::to_owned)
            })
            .expect("it says where it listens");
        // Its later messages must be drained.
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        let page = until("there is a page", || {
            let list = Request::new(&address, "/json/list").send().body;
            let list: Value = serde_json::from_str(&list).ok()?;
            let page = list
                .as_array()?
                .iter()
                .find(|target| target["type"] == "page")?;
            page["webSocketDebuggerUrl"].as_str().map(str::to_owned)
        });
        let stream = TcpStream::connect(&address).expect("it listens");
        stream
            .set_read_timeout(Some(LIMIT))
            .expect("a limit can be set");
        let (socket, _) = tungstenite::client(page, stream).expect("it talks");
        let mut chromium = Chromium {
            socket,
            last: 0,
            events: VecDeque::new(),
            _process: process,
            _profile: profile,
        };
        for domain in ["Page", "Runtime", "Log", "Network"] {
            chromium.call(&format!("{domain}.enable"), json!({}));
        }
        Some(chromium)
    }

    /// Does something, and returns what came of it.
    pub fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.last += 1;
        let text = json!({ "id": self.last, "method": method, "params": parameters });
        self.socket
            .send(Message::text(text.to_string()))
            .expect("it listens");
        loop {
            let message = self.socket.read().expect("it answers");
            let Ok(text) = message.to_text() else {
                continue;
            };
            let Ok(json) = serde_json::from_str::<Value>(text) else {
                continue;
            };
            if json["id"] == self.last {
                assert!(json.get("error").is_none(), "{method} can be done: {json}");
                return json["result"].clone();
            }
            self.events.push_back(json);
        }
    }

    /// Goes to a page.
    pub fn open(&mut self, url: &str) {
        self.call("Page.navigate", json!({ "url": url }));
        self.until(
            "the page is there",
            "document.readyState === 'complete' || null",
        );
    }

    /// The value of an expression.
    pub fn value(&mut self, expression: &str) -> Value {
        let parameters = json!({
            "expression": expression, "returnByValue": true, "awaitPromise": true,
        });
        let result = self.call("Runtime.evaluate", parameters);
        assert!(
            result.get("exceptionDetails").is_none(),
            "{expression} can be evaluated: {result}"
        );
        result["result"]["value"].clone()
    }

    /// Looks until an expression is neither null nor false.
    pub fn until(&mut self, what: &str, expression: &str) -> Value {
        until(what, || {
            let value = self.value(expression);
            (!value.is_null() && value != false).then_some(value)
        })
    }

    /// Clicks on the element that a selector finds, as a mouse does. The page can move between the look at its place and
    /// the click, for example when a finding comes: it tells whether the click met the element, and another one follows
    /// where it did not.
    pub fn click(&mut self, selector: &str) {
        until(&format!("a click meets {selector}"), || {
            let place = self.value(&format!(
                "(() => {{ const found = document.querySelector({selector:?}); found.scrollIntoView({{block: 'center'}}); \
                 addEventListener('click', (event) => {{ window.met = event.target.closest({selector:?}) !== null; }}, \
                 {{ capture: true, once: true }}); window.met = false; \
                 const box = found.getBoundingClientRect(); \
                 return [box.x + box.width / 2, box.y + Math.min(box.height / 2, 8)]; }})()"
            ));
            for kind in ["mouseMoved", "mousePressed", "mouseReleased"] {
                let mouse = json!({
                    "type": kind, "x": place[0], "y": place[1], "button": "left", "clickCount": 1,
                });
                self.call("Input.dispatchMouseEvent", mouse);
            }
            (self.value("window.met") == true).then_some(())
        });
    }

    /// Presses Enter.
    pub fn enter(&mut self) {
        for kind in ["keyDown", "keyUp"] {
            let key = json!({
                "type": kind, "key": "Enter", "code": "Enter", "text": "\r", "windowsVirtualKeyCode": 13,
            });
            self.call("Input.dispatchKeyEvent", key);
        }
    }

    /// Complaints of the page so far: exceptions, and log entries such as violations of the policy.
    pub fn complaints(&mut self) -> Vec<String> {
        self.listen();
        let events = self.events.iter();
        let of = |event: &Value| match event["method"].as_str() {
            Some("Runtime.exceptionThrown") => Some(event["params"].to_string()),
            Some("Log.entryAdded") => {
                let entry = &event["params"]["entry"];
                (entry["level"] == "error").then(|| entry.to_string())
            }
            _ => None,
        };
        events.filter_map(of).collect()
    }

    /// URLs of all network requests.
    pub fn requested(&mut self) -> Vec<String> {
        self.listen();
        let events = self.events.iter();
        let asked = events.filter(|event| event["method"] == "Network.requestWillBeSent");
        let urls = asked.filter_map(|event| event["params"]["request"]["url"].as_str());
        urls.map(str::to_owned).collect()
    }

    /// Collects the events that have arrived.
    fn listen(&mut self) {
        // An answer comes after all events before it.
        self.call("Runtime.evaluate", json!({ "expression": "1" }));
        std::thread::sleep(MOMENT);
        self.call("Runtime.evaluate", json!({ "expression": "1" }));
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
