//! One command to a server, and its reply: what forming a cluster needs of the Redis protocol.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, SocketAddrV4, TcpStream};
use std::time::Duration;

/// A server on this machine that does not answer for so long is asked again, on a new connection.
const PATIENCE: Duration = Duration::from_secs(5);

/// No reply that is read here is longer: `CLUSTER NODES` has about 150 bytes a node.
const LONGEST: u64 = 1 << 20;

/// A reply.
#[derive(Debug, PartialEq, Eq)]
pub enum CommandReply {
    /// A status or a value.
    Text(String),
    /// A number.
    Number(i64),
    /// The error from the server.
    Refused(String),
}

/// Asks on a connection of its own.
pub fn ask(address: SocketAddrV4, command: &[&str]) -> io::Result<CommandReply> {
    let mut stream = TcpStream::connect_timeout(&SocketAddr::V4(address), PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut request = format!("*{}\r\n", command.len());
    for word in command {
        request.push_str(&format!("${}\r\n{word}\r\n", word.len()));
    }
    stream.write_all(request.as_bytes())?;
    read(&mut BufReader::new(stream.take(LONGEST)))
}

fn read(stream: &mut impl BufRead) -> io::Result<CommandReply> {
    let odd = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
    let mut line = String::new();
    stream.read_line(&mut line)?;
    let line = line
        .strip_suffix("\r\n")
        .ok_or_else(|| odd("a reply that is cut off"))?;
    let mut letters = line.chars();
    let (kind, rest) = (letters.next(), letters.as_str());
    match kind {
        Some('+') => Ok(CommandReply::Text(rest.to_owned())),
        Some('-') => Ok(CommandReply::Refused(rest.to_owned())),
        Some(':') => rest
            .parse()
            .map(CommandReply::Number)
            .map_err(|_| odd("a number that is none")),
        Some('$') => {
            let length: u64 = rest.parse().map_err(|_| odd("a length that is none"))?;
            let mut text = String::new();
            stream.take(length).read_to_string(&mut text)?;
            if text.len() as u64 != length {
                return Err(odd("a value that is cut off"));
            }
            Ok(CommandReply::Text(text))
        }
        _ => Err(odd("a reply of an unexpected kind")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_read_and_cut_ones_refused() {
        let text = |text: &str| CommandReply::Text(text.into());
        for (wire, reply) in [
            ("+PONG\r\n", text("PONG")),
            ("$5\r\na\r\nbc\r\n", text("a\r\nbc")),
            ("$0\r\n\r\n", text("")),
            (":-7\r\n", CommandReply::Number(-7)),
            ("-ERR no\r\n", CommandReply::Refused("ERR no".into())),
        ] {
            assert_eq!(read(&mut wire.as_bytes()).unwrap(), reply, "{wire:?}");
        }
        for wire in [
            "",
            "+PONG",
            "$5\r\nabc",
            "$-1\r\n",
            ":x\r\n",
            "*0\r\n",
            "?\r\n",
        ] {
            assert!(read(&mut wire.as_bytes()).is_err(), "{wire:?}");
        }
    }
}
