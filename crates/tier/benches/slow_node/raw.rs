//! Paced readers with a raw client: a thread for each.

use std::time::{Duration, Instant};

use crate::load::{Paced, pause};
use crate::support::raw::{Raw, Values};
use crate::support::{READERS, cpu_seconds, random_of};

/// Reads values paced, each by `read`.
pub fn run(values: &Values, time: Duration, read: fn(&mut Raw, &str, &mut [u8])) -> Paced {
    // Before the time begins: a pool has its connections too.
    let connections: Vec<_> = (0..READERS).map(|_| values.connect()).collect();
    let cpu = cpu_seconds();
    let end = Instant::now() + time;
    let readers: Vec<_> = (0..READERS)
        .zip(connections)
        .map(|(reader, mut connections)| {
            let values = values.clone();
            std::thread::spawn(move || {
                let mut random = random_of(reader);
                let mut met = Paced::new(time);
                let mut buffer = vec![0; values.size + 2];
                loop {
                    std::thread::sleep(pause(&mut random));
                    if Instant::now() >= end {
                        return (met, connections);
                    }
                    let (at, name) = values.place(random.usize(..values.count()));
                    let begun = Instant::now();
                    read(&mut connections[at], name, &mut buffer);
                    met.record(begun, end, true);
                }
            })
        })
        .collect();
    let mut all = Paced::new(time);
    let mut connections = Vec::new();
    for reader in readers {
        let (met, open) = reader.join().expect("no reader fails");
        all.beside(&met);
        connections.push(open);
    }
    all.cost(cpu);
    all
}
