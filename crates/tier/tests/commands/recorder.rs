//! A server between a client and a server of HTTP, which records the requests and their order.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// An event on a connection.
#[derive(Clone, Debug)]
enum Event {
    /// A request, by its number, with its first line.
    Request(usize, String),
    /// The first byte of the answer.
    Answer(usize),
}

/// Passes bytes on until it is dropped.
pub struct Recorder {
    pub port: u16,
    events: Arc<Mutex<Vec<Event>>>,
}

impl Recorder {
    /// Starts it before a server.
    pub fn before(server: u16) -> Recorder {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("bound").port();
        let events = Arc::default();
        let recorder = Recorder {
            port,
            events: Arc::clone(&events),
        };
        // Ends with the program of the test.
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(server) = TcpStream::connect(("127.0.0.1", server)) else {
                    continue;
                };
                let events = Arc::clone(&events);
                std::thread::spawn(move || pass(client, server, &events));
            }
        });
        recorder
    }

    /// Forgets all requests up to now.
    pub fn clear(&self) {
        self.events.lock().expect("whole").clear();
    }

    /// Returns the first lines of the requests since [`Self::clear`].
    pub fn requests(&self) -> Vec<String> {
        let events = self.events.lock().expect("whole");
        let lines = events.iter().filter_map(|event| match event {
            Event::Request(_, line) => Some(line.clone()),
            Event::Answer(_) => None,
        });
        lines.collect()
    }

    /// Returns how many requests came one after the other: each after the answer of the one before.
    pub fn depth(&self) -> usize {
        let events = self.events.lock().expect("whole");
        let (mut depth_of, mut answered) = (std::collections::HashMap::new(), 0);
        for event in events.iter() {
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
fn pass(mut client: TcpStream, mut server: TcpStream, events: &Arc<Mutex<Vec<Event>>>) {
    static NEXT: Mutex<usize> = Mutex::new(0);
    let waiting = Arc::new(Mutex::new(None));
    let (mut from, mut to) = (
        server.try_clone().expect("a socket"),
        client.try_clone().expect("a socket"),
    );
    let (of_answers, is_waited_for) = (Arc::clone(events), Arc::clone(&waiting));
    std::thread::spawn(move || {
        let mut bytes = [0; 65_536];
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            if let Some(number) = is_waited_for.lock().expect("whole").take() {
                of_answers
                    .lock()
                    .expect("whole")
                    .push(Event::Answer(number));
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
            events
                .lock()
                .expect("whole")
                .push(Event::Request(*next, line));
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
