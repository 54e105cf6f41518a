//! A raw client: blocking sockets, a thread for each reader, no policy: what the machine gives.

use std::io::{Read, Write};
use std::net::{SocketAddrV4, TcpStream};
use std::time::Instant;

use cachewise_tier::dev_cluster::{DevCluster, Role};
use hdrhistogram::Histogram;

use crate::load::{FILES, Paced, Random};
use crate::{HEALTHY, READERS};

/// Puts values of a block's size on every master under names that it serves, and reads them paced.
pub fn run(cluster: &DevCluster, block: u64) {
    let masters: Vec<SocketAddrV4> = cluster
        .nodes()
        .iter()
        .filter(|node| node.role == Role::Master)
        .map(|node| node.address)
        .collect();
    let value = vec![0x5A; block as usize];
    // A name that is not served answers MOVED: the next one is tried.
    let mut names: Vec<(usize, String)> = Vec::new();
    let mut streams: Vec<TcpStream> = masters.iter().map(|at| connect(*at)).collect();
    let mut number = 0;
    while names.len() < FILES {
        for (at, stream) in streams.iter_mut().enumerate() {
            let name = format!("raw:{number}");
            let head = format!(
                "*3\r\n$3\r\nSET\r\n${}\r\n{name}\r\n${block}\r\n",
                name.len()
            );
            stream
                .write_all(&[head.as_bytes(), &value, b"\r\n"].concat())
                .expect("written");
            if line(stream).starts_with("+OK") {
                names.push((at, name));
                break;
            }
        }
        number += 1;
    }
    for (what, command) in [("raw GETRANGE of 4 KiB", true), ("raw GET", false)] {
        let end = Instant::now() + HEALTHY;
        let readers: Vec<_> = (0..READERS)
            .map(|reader| {
                let (names, masters) = (names.clone(), masters.clone());
                std::thread::spawn(move || {
                    let mut streams: Vec<TcpStream> = masters.iter().map(|at| connect(*at)).collect();
                    let mut random = Random(0x1234_5678_9ABC_DEF1 ^ (reader as u64 + 1) << 20);
                    let mut histogram = Histogram::<u64>::new(3).expect("three digits");
                    let mut buffer = vec![0; block as usize + 2];
                    while Instant::now() < end {
                        std::thread::sleep(random.pause());
                        let (at, name) = &names[(random.next() % FILES as u64) as usize];
                        let question = if command {
                            format!("*4\r\n$8\r\nGETRANGE\r\n${}\r\n{name}\r\n$1\r\n0\r\n$4\r\n4095\r\n", name.len())
                        } else {
                            format!("*2\r\n$3\r\nGET\r\n${}\r\n{name}\r\n", name.len())
                        };
                        let begun = Instant::now();
                        let stream = &mut streams[*at];
                        stream.write_all(question.as_bytes()).expect("written");
                        let size: usize = line(stream)[1..].parse().expect("a length");
                        stream.read_exact(&mut buffer[..size + 2]).expect("read");
                        histogram.record(begun.elapsed().as_micros() as u64).expect("small");
                    }
                    histogram
                })
            })
            .collect();
        let mut all = Histogram::<u64>::new(3).expect("three digits");
        for reader in readers {
            all += reader.join().expect("no reader fails");
        }
        println!("{what:<28} healthy  {}", Paced::of(all, 0, HEALTHY));
    }
}

fn connect(at: SocketAddrV4) -> TcpStream {
    let stream = TcpStream::connect(at).expect("it listens");
    stream.set_nodelay(true).expect("it can be set");
    stream
}

/// Reads a line, byte by byte: it is short.
fn line(stream: &mut TcpStream) -> String {
    let mut line = Vec::new();
    let mut byte = [0];
    while !line.ends_with(b"\r\n") {
        stream.read_exact(&mut byte).expect("read");
        line.push(byte[0]);
    }
    String::from_utf8_lossy(&line).trim_end().to_owned()
}
