//! A server between a client and a server of HTTP, which records the requests and their order.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// Longest time that answers are held: a test whose requests never come together fails, and does not hang.
const HELD: Duration = Duration::from_secs(30);

/// An event on a connection.
#[derive(Clone, Debug)]
enum Event {
    /// A request, by its number, with its first line.
    Request(usize, String),
    /// The first byte of the answer.
    Answer(usize),
}

/// The events, and which requests are waited for.
#[derive(Default)]
struct Record {
    events: Vec<Event>,
    /// No answer is passed on before this number of requests has come.
    at_once: usize,
    /// Answers that have come from the server, passed on or held.
    came: usize,
}

impl Record {
    fn asked(&self) -> usize {
        let is_request = |event: &&Event| matches!(event, Event::Request(..));
        self.events.iter().filter(is_request).count()
    }
}

type Shared = Arc<(Mutex<Record>, Condvar)>;

/// Passes bytes on until it is dropped.
pub struct Recorder {
    pub port: u16,
    shared: Shared,
}

impl Recorder {
    /// Starts it before a server.
    pub fn before(server: u16) -> Recorder {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("bound").port();
        let shared = Shared::default();
        let recorder = Recorder {
            port,
            shared: Arc::clone(&shared),
        };
        // Ends with the program of the test.
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(server) = TcpStream::connect(("127.0.0.1", server)) else {
                    continue;
                };
                let shared = Arc::clone(&shared);
                std::thread::spawn(move || pass(client, server, &shared));
            }
        });
        recorder
    }

    /// Forgets all requests up to now, and holds answers until `at_once` more have come: requests that do not wait for the
    /// answer of another come before it then, in whichever order threads run.
    pub fn clear(&self, at_once: usize) {
        *self.shared.0.lock().expect("whole") = Record {
            events: Vec::new(),
            at_once,
            came: 0,
        };
    }

    /// Passes on all answers that are held, and those to come.
    pub fn release(&self) {
        let (record, came) = &*self.shared;
        record.lock().expect("whole").at_once = 0;
        came.notify_all();
    }

    /// Returns how many answers have come from the server since [`Self::clear`], passed on or held.
    pub fn answered(&self) -> usize {
        self.shared.0.lock().expect("whole").came
    }

    /// Returns the first lines of the requests since [`Self::clear`].
    pub fn requests(&self) -> Vec<String> {
        let record = self.shared.0.lock().expect("whole");
        let lines = record.events.iter().filter_map(|event| match event {
            Event::Request(_, line) => Some(line.clone()),
            Event::Answer(_) => None,
        });
        lines.collect()
    }

    /// Returns how many answers have begun since [`Self::clear`].
    pub fn answers(&self) -> usize {
        let record = self.shared.0.lock().expect("whole");
        record.events.len() - record.asked()
    }

    /// Returns how many requests came one after the other: each after the answer of the one before.
    pub fn depth(&self) -> usize {
        let record = self.shared.0.lock().expect("whole");
        let (mut depth_of, mut answered) = (std::collections::HashMap::new(), 0);
        for event in &record.events {
            match event {
                Event::Request(number, _) => {
                    depth_of.insert(*number, answered + 1);
                }
                Event::Answer(number) => {
                    answered = answered.max(depth_of.get(number).copied().unwrap_or(0));
                }
            }
        }
        depth_of.into_values().max().unwrap_or(0)
    }
}

/// Passes the requests of one connection on.
fn pass(mut client: TcpStream, mut server: TcpStream, shared: &Shared) {
    static NEXT: Mutex<usize> = Mutex::new(0);
    let waiting = Arc::new(Mutex::new(None));
    let (mut from, mut to) = (
        server.try_clone().expect("a socket"),
        client.try_clone().expect("a socket"),
    );
    let (of_answers, is_waited_for) = (Arc::clone(shared), Arc::clone(&waiting));
    std::thread::spawn(move || {
        let mut bytes = [0; 65_536];
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            if let Some(number) = is_waited_for.lock().expect("whole").take() {
                let (record, came) = &*of_answers;
                let mut record = record.lock().expect("whole");
                record.came += 1;
                let few = |record: &mut Record| record.asked() < record.at_once;
                let held = came.wait_timeout_while(record, HELD, few);
                let mut record = held.expect("whole").0;
                record.events.push(Event::Answer(number));
            }
            if to.write_all(&bytes[..count]).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Both);
    });
    let (mut bytes, mut head, mut body) = ([0; 65_536], Vec::new(), 0);
    while let Ok(count @ 1..) = client.read(&mut bytes) {
        let of_body = count.min(body);
        body -= of_body;
        head.extend_from_slice(&bytes[of_body..count]);
        if let Some(end) = head.windows(4).position(|four| four == b"\r\n\r\n") {
            let text = String::from_utf8_lossy(&head[..end]);
            body = length(&text).saturating_sub(head.len() - end - 4);
            let line = text.lines().next().unwrap_or_default().to_owned();
            let mut next = NEXT.lock().expect("whole");
            *next += 1;
            *waiting.lock().expect("whole") = Some(*next);
            let (record, came) = &**shared;
            let request = Event::Request(*next, line);
            record.lock().expect("whole").events.push(request);
            came.notify_all();
            head.clear();
        }
        if server.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    let _ = server.shutdown(Shutdown::Both);
}

/// The length of a request's body.
fn length(head: &str) -> usize {
    let headers = head.lines().filter_map(|line| line.split_once(": "));
    let mut lengths = headers.filter(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    lengths
        .next()
        .map_or(0, |(_, value)| value.parse().expect("a number"))
}
