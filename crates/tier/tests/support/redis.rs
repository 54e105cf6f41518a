//! A client of Redis for tests: binary commands and their replies.

#![allow(dead_code, reason = "each test program uses a part")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddrV4, TcpStream};

/// A connection to a Redis node.
pub struct RawRedis(BufReader<TcpStream>);

/// A reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    Line(String),
    Value(Option<Vec<u8>>),
    List(Vec<Reply>),
}

impl RawRedis {
    pub fn connect(address: SocketAddrV4) -> Self {
        Self(BufReader::new(
            TcpStream::connect(address).expect("it listens"),
        ))
    }

    /// Sends a command and returns its reply; an error is a failure of the test.
    pub fn ask(&mut self, arguments: &[&[u8]]) -> Reply {
        let mut command = format!("*{}\r\n", arguments.len()).into_bytes();
        for argument in arguments {
            command.extend_from_slice(format!("${}\r\n", argument.len()).as_bytes());
            command.extend_from_slice(argument);
            command.extend_from_slice(b"\r\n");
        }
        self.0.get_mut().write_all(&command).expect("it reads");
        self.reply()
    }

    /// Returns all keys, sorted.
    pub fn keys(&mut self) -> Vec<Vec<u8>> {
        let Reply::List(keys) = self.ask(&[b"KEYS", b"*"]) else {
            panic!("KEYS is answered by a list");
        };
        let mut keys: Vec<Vec<u8>> = keys
            .into_iter()
            .map(|key| match key {
                Reply::Value(Some(key)) => key,
                other => panic!("a key is a value: {other:?}"),
            })
            .collect();
        keys.sort();
        keys
    }

    /// Returns a value that is there.
    pub fn value(&mut self, command: &[u8], key: &[u8]) -> Vec<u8> {
        match self.ask(&[command, key]) {
            Reply::Value(Some(value)) => value,
            other => panic!("{}: {other:?}", key.escape_ascii()),
        }
    }

    pub fn set(&mut self, key: &[u8], value: &[u8]) {
        let said = self.ask(&[b"SET", key, value]);
        assert_eq!(said, Reply::Line("+OK".to_owned()));
    }

    fn reply(&mut self) -> Reply {
        let mut line = String::new();
        self.0.read_line(&mut line).expect("it answers");
        let line = line.trim_end();
        let number = || line[1..].parse::<i64>().expect("a number");
        match line.as_bytes()[0] {
            b'$' if number() < 0 => Reply::Value(None),
            b'$' => {
                let mut value = vec![0; usize::try_from(number()).expect("not negative") + 2];
                self.0.read_exact(&mut value).expect("the whole value");
                value.truncate(value.len() - 2);
                Reply::Value(Some(value))
            }
            b'*' => Reply::List((0..number()).map(|_| self.reply()).collect()),
            b'-' => panic!("it refuses: {line}"),
            _ => Reply::Line(line.to_owned()),
        }
    }
}
