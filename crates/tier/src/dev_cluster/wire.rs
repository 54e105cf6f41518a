//! One command to a server, and its reply.

use std::io;
use std::net::{SocketAddr, SocketAddrV4, TcpStream};
use std::time::Duration;

use crate::remote::ask_blocking;

/// A server on this machine that does not answer for so long is asked again, on a new connection.
const PATIENCE: Duration = Duration::from_secs(5);

/// Asks on a connection of its own; returns the reply, or the refusal.
pub fn ask(address: SocketAddrV4, command: &[&str]) -> io::Result<Result<String, String>> {
    let mut stream = TcpStream::connect_timeout(&SocketAddr::V4(address), PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    ask_blocking(&mut stream, command)
}
