//! [`ask`]: one command over a stream that blocks, for programs without a runtime.

use std::io::{self, Read, Write};

use bytes::Bytes;

use super::resp::{self, RespReply};
use crate::remote::wire::Frame;

/// No reply that is read here is longer: `CLUSTER NODES` has about 150 bytes a node.
const LONGEST: usize = 1 << 20;

/// Sends a command; returns the text of its reply, of a list a line for each element, or of the refusal.
pub(crate) fn ask(
    stream: &mut (impl Read + Write),
    command: &[&str],
) -> io::Result<Result<String, String>> {
    let mut bytes = Vec::new();
    let words: Vec<&[u8]> = command.iter().map(|word| word.as_bytes()).collect();
    resp::command(&mut bytes, &words, None);
    stream.write_all(&bytes)?;
    bytes.clear();
    while let Frame::Needs(needs) = resp::measure(&bytes, LONGEST).map_err(io::Error::other)? {
        let more = u64::try_from(needs.saturating_sub(bytes.len())).unwrap_or(u64::MAX);
        if Read::by_ref(stream).take(more).read_to_end(&mut bytes)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    let reply = resp::whole(&Bytes::from(bytes)).map_err(io::Error::other)?;
    match reply {
        RespReply::Error(why) => Ok(Err(why)),
        RespReply::Value(None) => Err(io::Error::other("a reply of an unexpected kind")),
        reply => Ok(Ok(text(&reply))),
    }
}

fn text(reply: &RespReply) -> String {
    match reply {
        RespReply::Status(text) | RespReply::Value(Some(text)) => {
            String::from_utf8_lossy(text).into_owned()
        }
        RespReply::Number(number) => number.to_string(),
        RespReply::Error(why) => why.clone(),
        RespReply::Value(None) => String::new(),
        RespReply::List(elements) => {
            let lines: Vec<String> = elements.iter().map(text).collect();
            lines.join("\n")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that has replied before it is asked.
    struct Replied<'a>(&'a [u8]);

    impl Read for Replied<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            self.0.read(into)
        }
    }

    impl Write for Replied<'_> {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn replies_are_read_and_cut_ones_refused() {
        for (wire, reply) in [
            ("+PONG\r\n", Ok("PONG")),
            ("$5\r\na\r\nbc\r\n", Ok("a\r\nbc")),
            ("$0\r\n\r\n", Ok("")),
            (":-7\r\n", Ok("-7")),
            ("-ERR no\r\n", Err("ERR no")),
            ("*0\r\n", Ok("")),
            ("*2\r\n*2\r\n:0\r\n:9\r\n$1\r\na\r\n", Ok("0\n9\na")),
        ] {
            let asked = ask(&mut Replied(wire.as_bytes()), &["PING"]).expect(wire);
            assert_eq!(
                asked.as_deref(),
                reply.map_err(|why| why.to_owned()).as_deref()
            );
        }
        for wire in [
            "",
            "+PONG",
            "$5\r\nabc",
            "$-1\r\n",
            ":x\r\n",
            "*1\r\n",
            "?\r\n",
        ] {
            assert!(
                ask(&mut Replied(wire.as_bytes()), &["PING"]).is_err(),
                "{wire:?}"
            );
        }
    }
}
