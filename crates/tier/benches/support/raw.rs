//! A raw client: a blocking socket, no policy, no check sums: what the machine gives.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddrV4, TcpStream};

use cachewise_tier::dev_cluster::{DevCluster, Role};

/// A connection to one server. The part of a value that arrives with its header line is copied once
/// more; the rest is not.
pub struct Raw(BufReader<TcpStream>);

impl Raw {
    pub fn to(server: SocketAddrV4) -> Self {
        let stream = TcpStream::connect(server).expect("it listens");
        stream.set_nodelay(true).expect("it can be set");
        Self(BufReader::with_capacity(4 << 10, stream))
    }

    /// Stores a value. Says whether this server takes it: one of a cluster refuses what others serve.
    fn set(&mut self, name: &str, value: &[u8]) -> bool {
        let (length, size) = (name.len(), value.len());
        let head = format!("*3\r\n$3\r\nSET\r\n${length}\r\n{name}\r\n${size}\r\n");
        self.send(&[head.as_bytes(), value, b"\r\n"].concat());
        self.line().starts_with("+OK")
    }

    /// Reads a value into a buffer that has room for it and a line's end.
    pub fn get(&mut self, name: &str, buffer: &mut [u8]) {
        let length = name.len();
        self.send(format!("*2\r\n$3\r\nGET\r\n${length}\r\n{name}\r\n").as_bytes());
        self.value(buffer);
    }

    /// Reads the first 4 KiB of a value.
    pub fn get_first(&mut self, name: &str, buffer: &mut [u8]) {
        let length = name.len();
        let question =
            format!("*4\r\n$8\r\nGETRANGE\r\n${length}\r\n{name}\r\n$1\r\n0\r\n$4\r\n4095\r\n");
        self.send(question.as_bytes());
        self.value(buffer);
    }

    fn send(&mut self, bytes: &[u8]) {
        self.0.get_mut().write_all(bytes).expect("written");
    }

    fn value(&mut self, buffer: &mut [u8]) {
        let size: usize = self.line()[1..].parse().expect("a length");
        self.0.read_exact(&mut buffer[..size + 2]).expect("read");
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).expect("read");
        line.truncate(line.trim_end().len());
        line
    }
}

/// Values on servers, under names that each serves.
#[derive(Clone)]
pub struct Values {
    masters: Vec<SocketAddrV4>,
    names: Vec<(usize, String)>,
    pub size: usize,
}

impl Values {
    /// Stores `count` values of `size` bytes.
    pub fn store(servers: &DevCluster, count: usize, size: u64) -> Self {
        let nodes = servers.nodes().iter();
        let masters: Vec<SocketAddrV4> = nodes
            .filter(|node| node.role == Role::Master)
            .map(|node| node.address)
            .collect();
        let mut connections: Vec<Raw> = masters.iter().map(|at| Raw::to(*at)).collect();
        let size = usize::try_from(size).expect("it fits into memory");
        let value = vec![0x5A; size];
        let mut names = Vec::new();
        for number in 0.. {
            if names.len() == count {
                break;
            }
            // Single servers take all, so each has its turn; one of a cluster refuses what others serve.
            let name = format!("raw:{number}");
            let taken = (0..masters.len())
                .map(|step| (number + step) % masters.len())
                .find(|at| connections[*at].set(&name, &value));
            names.extend(taken.map(|at| (at, name)));
        }
        Self {
            masters,
            names,
            size,
        }
    }

    /// Connections to all servers: each reader has its own.
    pub fn connect(&self) -> Vec<Raw> {
        self.masters.iter().map(|at| Raw::to(*at)).collect()
    }

    pub fn count(&self) -> usize {
        self.names.len()
    }

    /// The name of a value, and which server has it.
    pub fn place(&self, number: usize) -> (usize, &str) {
        let (at, name) = &self.names[number];
        (*at, name)
    }
}
