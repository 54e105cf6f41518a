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
    pub events: VecDeque<Value>,
    /// `127.0.0.1:PORT` of the protocol.
    address: String,
    // Dropped in this order: the profile is removed after the process has ended. Further tabs have none.
    _process: Option<Process>,
    _profile: Option<TempDir>,
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
        Some(Chromium::of(address, &page, Some(process), Some(profile)))
    }

    fn of(
        address: String,
        page: &str,
        process: Option<Process>,
        profile: Option<TempDir>,
    ) -> Chromium {
        let stream = TcpStream::connect(&address).expect("it listens");
        stream
            .set_read_timeout(Some(LIMIT))
            .expect("a limit can be set");
        let (socket, _) = tungstenite::client(page, stream).expect("it talks");
        let mut chromium = Chromium {
            socket,
            last: 0,
            events: VecDeque::new(),
            address,
            _process: process,
            _profile: profile,
        };
        for domain in ["Page", "Runtime", "Log", "Network"] {
            chromium.call(&format!("{domain}.enable"), json!({}));
        }
        chromium
    }

    /// Another tab of the same browser, with the same cookies.
    pub fn another_tab(&self) -> Chromium {
        let tab = Request::new(&self.address, "/json/new?about:blank");
        let tab = tab.method("PUT").send().body;
        let tab: Value = serde_json::from_str(&tab).expect("it is JSON");
        let page = tab["webSocketDebuggerUrl"].as_str().expect("it is a page");
        Chromium::of(self.address.clone(), page, None, None)
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
    /// the click, for example when a finding comes: a click that meets something else is kept from it, and another one
    /// follows.
    pub fn click(&mut self, selector: &str) {
        self.value(&format!(
            "addEventListener('click', window.keep = (event) => {{ \
               window.met = event.target.closest({selector:?}) !== null; \
               if (!window.met) {{ event.stopImmediatePropagation(); event.preventDefault(); }} \
             }}, {{ capture: true }}); window.met = false"
        ));
        until(&format!("a click meets {selector}"), || {
            let place = self.value(&format!(
                "(() => {{ const found = document.querySelector({selector:?}); found.scrollIntoView({{block: 'center'}}); \
                 const box = found.getBoundingClientRect(); \
                 const place = [box.x + box.width / 2, box.y + Math.min(box.height / 2, 8)]; \
                 const there = document.elementFromPoint(...place); \
                 return [...place, there?.closest({selector:?}) === found, there?.outerHTML.slice(0, 200)]; }})()"
            ));
            if place[2] == false {
                println!("{selector} at {place} is covered");
                return None;
            }
            for kind in ["mouseMoved", "mousePressed", "mouseReleased"] {
                let mouse = json!({
                    "type": kind, "x": place[0], "y": place[1], "button": "left", "clickCount": 1,
                });
                self.call("Input.dispatchMouseEvent", mouse);
            }
            (self.value("window.met") == true).then_some(())
        });
        self.value("removeEventListener('click', window.keep, { capture: true })");
    }

    /// Presses Enter.
    pub fn enter(&mut self) {
        self.press("Enter");
    }

    /// Presses a key: its name, or the character that it types.
    pub fn press(&mut self, key: &str) {
        let (text, number) = match key {
            "Enter" => ("\r", 13),
            "Tab" => ("", 9),
            "Escape" => ("", 27),
            "ArrowLeft" => ("", 37),
            "ArrowRight" => ("", 39),
            character => (character, 0),
        };
        for kind in ["keyDown", "keyUp"] {
            let mut event = json!({ "type": kind, "key": key, "windowsVirtualKeyCode": number });
            if kind == "keyDown" && !text.is_empty() {
                event["text"] = json!(text);
            }
            self.call("Input.dispatchKeyEvent", event);
        }
    }

    /// Presses Tab until an expression is true of the page.
    pub fn tab_to(&mut self, what: &str, expression: &str) {
        for _ in 0..400 {
            if self.value(expression) == true {
                return;
            }
            self.press("Tab");
        }
        panic!("the keyboard reaches {what}");
    }

    /// Drags the mouse over an element, between two parts of its width.
    pub fn drag(&mut self, selector: &str, [from, to]: [f64; 2]) {
        let found = self.value(&format!(
            "(() => {{ const found = document.querySelector({selector:?}); found.scrollIntoView({{block: 'center'}}); \
             const box = found.getBoundingClientRect(); return [box.x, box.y + box.height / 2, box.width]; }})()"
        ));
        let number = |place: usize| found[place].as_f64().expect("a number");
        let [x, y, width] = [number(0), number(1), number(2)];
        for (kind, part, buttons) in [
            ("mouseMoved", from, 0),
            ("mousePressed", from, 1),
            ("mouseMoved", (from + to) / 2.0, 1),
            ("mouseMoved", to, 1),
            ("mouseReleased", to, 0),
        ] {
            let mouse = json!({
                "type": kind, "x": x + part * width, "y": y, "button": "left", "buttons": buttons, "clickCount": 1,
            });
            self.call("Input.dispatchMouseEvent", mouse);
        }
    }

    /// Sets the width of the page in pixels.
    pub fn resize(&mut self, width: u32) {
        let size =
            json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", size);
    }

    /// Complaints of the page so far: exceptions, console messages, and log entries such as violations of the policy.
    pub fn complaints(&mut self) -> Vec<String> {
        self.listen();
        let events = self.events.iter();
        let of = |event: &Value| match event["method"].as_str() {
            Some("Runtime.exceptionThrown") => Some(event["params"].to_string()),
            Some("Runtime.consoleAPICalled") => Some(event["params"].to_string()),
            Some("Log.entryAdded") => {
                let entry = &event["params"]["entry"];
                // A census of a busy machine can take longer than an answer may; the page asks again.
                let is_census = entry["url"]
                    .as_str()
                    .is_some_and(|url| url.contains("/api/v1/cache"))
                    && entry["text"]
                        .as_str()
                        .is_some_and(|text| text.contains("503"));
                (entry["level"] == "error" && !is_census).then(|| entry.to_string())
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
