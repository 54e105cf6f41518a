//! RESP2, the protocol of Redis, without I/O: bytes in, replies out.

use bytes::Bytes;

use crate::remote::RemoteError;
use crate::remote::wire::Frame;

/// A reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::remote) enum RespReply {
    /// `+OK`
    Status(Bytes),
    /// `-MOVED 1 a:1`
    Error(String),
    /// `:1`
    Number(i64),
    /// `$3`, and `$-1`, which is nothing.
    Value(Option<Bytes>),
    /// `*2`
    List(Vec<RespReply>),
}

/// How deep lists are in lists, at most; `CLUSTER SLOTS` needs four.
const DEEPEST: usize = 8;

/// How many members a list has, at most.
const LONGEST_LIST: usize = 1 << 16;

/// How long a line is, at most.
const LONGEST_LINE: usize = 64 << 10;

/// Measures the reply at the front of `buffer`; no value of it may be longer than `longest`.
pub(super) fn measure(buffer: &[u8], longest: usize) -> Result<Frame, RemoteError> {
    let mut at = 0;
    // Members that are still to come, all depths together; each list adds its own.
    let mut open: usize = 1;
    while open > 0 {
        let Some((line, next)) = line(buffer, at)? else {
            return Ok(Frame::Needs(buffer.len().saturating_add(1)));
        };
        open -= 1;
        at = next;
        match line.split_first() {
            Some((b'+' | b'-', _)) => {}
            Some((b':', digits)) => {
                number(digits)?;
            }
            Some((b'$', digits)) => {
                if let Some(len) = size(digits, longest, too_long)? {
                    let end = at.saturating_add(len).saturating_add(2);
                    if buffer.len() < end {
                        return Ok(Frame::Needs(end));
                    }
                    if buffer.get(end - 2..end) != Some(b"\r\n".as_slice()) {
                        return Err(RemoteError::Garbage("a value does not end where it should"));
                    }
                    at = end;
                }
            }
            Some((b'*', digits)) => {
                if let Some(len) = size(digits, LONGEST_LIST, too_many)? {
                    open = open.saturating_add(len);
                    if open > LONGEST_LIST {
                        return Err(RemoteError::Garbage("a list of too many members"));
                    }
                }
            }
            _ => return Err(RemoteError::Garbage("no reply starts like this")),
        }
    }
    Ok(Frame::Whole(at))
}

/// Understands a whole reply, as [`measure`] found it. Values are not copied.
pub(super) fn whole(frame: &Bytes) -> Result<RespReply, RemoteError> {
    let mut at = 0;
    reply(frame, &mut at, 0)
}

fn reply(frame: &Bytes, at: &mut usize, depth: usize) -> Result<RespReply, RemoteError> {
    if depth > DEEPEST {
        return Err(RemoteError::Garbage("lists within lists within lists"));
    }
    let Some((line, next)) = line(frame, *at)? else {
        return Err(RemoteError::Garbage("a reply that ends too early"));
    };
    *at = next;
    let Some((kind, text)) = line.split_first() else {
        return Err(RemoteError::Garbage("an empty line"));
    };
    Ok(match kind {
        b'+' => RespReply::Status(frame.slice_ref(text)),
        b'-' => RespReply::Error(String::from_utf8_lossy(text).into_owned()),
        b':' => RespReply::Number(number(text)?),
        b'$' => RespReply::Value(match size(text, usize::MAX - 2, too_long)? {
            None => None,
            Some(len) => {
                let end = at.saturating_add(len);
                let value = frame
                    .get(*at..end)
                    .ok_or(RemoteError::Garbage("a value that ends too early"))?;
                *at = end.saturating_add(2);
                Some(frame.slice_ref(value))
            }
        }),
        b'*' => {
            let len = size(text, LONGEST_LIST, too_many)?.unwrap_or(0);
            let mut members = Vec::new();
            for _ in 0..len {
                members.push(reply(frame, at, depth + 1)?);
            }
            RespReply::List(members)
        }
        _ => return Err(RemoteError::Garbage("no reply starts like this")),
    })
}

/// Returns the line that starts at `at`, without its end, and where the next one starts.
fn line(buffer: &[u8], at: usize) -> Result<Option<(&[u8], usize)>, RemoteError> {
    let rest = buffer.get(at..).unwrap_or_default();
    let window = rest.get(..LONGEST_LINE).unwrap_or(rest);
    match window.windows(2).position(|end| end == b"\r\n") {
        Some(len) => Ok(Some((&window[..len], at + len + 2))),
        None if window.len() == LONGEST_LINE => Err(RemoteError::Garbage("a line without end")),
        None => Ok(None),
    }
}

fn number(digits: &[u8]) -> Result<i64, RemoteError> {
    std::str::from_utf8(digits)
        .ok()
        .and_then(|text| text.parse().ok())
        .ok_or(RemoteError::Garbage("no number where there should be one"))
}

/// Returns the error for a value that is no block. The node is well: the value is damaged, or forged.
fn too_long() -> RemoteError {
    RemoteError::Damaged("a value longer than any block".to_owned())
}

fn too_many() -> RemoteError {
    RemoteError::Garbage("a list of too many members")
}

fn size(
    digits: &[u8],
    most: usize,
    too_much: fn() -> RemoteError,
) -> Result<Option<usize>, RemoteError> {
    match number(digits)? {
        -1 => Ok(None),
        ..-1 => Err(RemoteError::Garbage("a negative length")),
        len => usize::try_from(len)
            .ok()
            .filter(|len| *len <= most)
            .map(Some)
            .ok_or_else(too_much),
    }
}

/// Appends a command without its last argument's bytes, of which only the length goes in: a block
/// is sent from where it lies.
pub(super) fn command(into: &mut Vec<u8>, arguments: &[&[u8]], last: Option<usize>) {
    let count = arguments.len() + usize::from(last.is_some());
    begin(into, count, arguments);
    if let Some(len) = last {
        into.extend_from_slice(format!("${len}\r\n").as_bytes());
    }
}

/// Begins a command of `count` arguments with these.
pub(super) fn begin(into: &mut Vec<u8>, count: usize, arguments: &[&[u8]]) {
    into.extend_from_slice(format!("*{count}\r\n").as_bytes());
    go_on(into, arguments);
}

/// Continues a command.
pub(super) fn go_on(into: &mut Vec<u8>, arguments: &[&[u8]]) {
    for argument in arguments {
        into.extend_from_slice(format!("${}\r\n", argument.len()).as_bytes());
        into.extend_from_slice(argument);
        into.extend_from_slice(b"\r\n");
    }
}

/// See [`crate::fuzzing`].
pub(crate) fn fuzz(data: &Bytes) -> bool {
    /// The length of a block of 16 MiB.
    const LONGEST: usize = 16 << 20;
    let mut rest = data.clone();
    while !rest.is_empty() {
        match measure(&rest, LONGEST) {
            Ok(Frame::Whole(length)) if whole(&rest.split_to(length)).is_ok() => {}
            _ => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LONGEST: usize = 1 << 20;

    fn understood(bytes: &[u8]) -> Result<RespReply, RemoteError> {
        match measure(bytes, LONGEST)? {
            Frame::Whole(len) => {
                assert_eq!(len, bytes.len(), "nothing is left over");
                whole(&Bytes::copy_from_slice(bytes))
            }
            Frame::Needs(more) => panic!("{bytes:?} is whole, and needs {more}"),
        }
    }

    #[test]
    fn replies_are_understood() {
        let value =
            |text: &'static str| RespReply::Value(Some(Bytes::from_static(text.as_bytes())));
        for (bytes, expected) in [
            (
                b"+OK\r\n".as_slice(),
                RespReply::Status(Bytes::from_static(b"OK")),
            ),
            (b"-ERR no\r\n", RespReply::Error("ERR no".to_owned())),
            (b":-7\r\n", RespReply::Number(-7)),
            (b"$-1\r\n", RespReply::Value(None)),
            (b"$0\r\n\r\n", value("")),
            (b"$4\r\na\r\nb\r\n", value("a\r\nb")),
            (b"*-1\r\n", RespReply::List(Vec::new())),
            (
                b"*2\r\n:1\r\n*1\r\n$1\r\nx\r\n",
                RespReply::List(vec![
                    RespReply::Number(1),
                    RespReply::List(vec![value("x")]),
                ]),
            ),
        ] {
            assert_eq!(understood(bytes), Ok(expected), "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn what_is_not_the_protocol_is_told_at_once() {
        for bytes in [
            b"HTTP/1.1 400 Bad Request\r\n".as_slice(),
            b"$x\r\n",
            b"$-2\r\n",
            b"*99999999\r\n",
            b"$1\r\nabc\r\n",
            b"\r\n",
        ] {
            assert!(
                matches!(measure(bytes, LONGEST), Err(RemoteError::Garbage(_))),
                "{}",
                bytes.escape_ascii()
            );
        }
        for bytes in [b"$99999999999\r\n".as_slice(), b"$1048577\r\n"] {
            // The node speaks the protocol: it is the value that is wrong.
            let error = measure(bytes, LONGEST);
            assert!(matches!(error, Err(RemoteError::Damaged(_))), "{error:?}");
        }
        let endless = vec![b'+'; LONGEST_LINE];
        assert!(measure(&endless, LONGEST).is_err(), "a line has an end");
        let deep = b"*1\r\n".repeat(50);
        let deep = [deep.as_slice(), b":1\r\n"].concat();
        assert!(understood(&deep).is_err(), "a stack has an end");
    }

    proptest! {
        #[test]
        fn a_reply_in_pieces_is_the_same_reply(value in prop::collection::vec(any::<u8>(), 0..200), cut: prop::sample::Index) {
            let mut bytes = Vec::new();
            command(&mut bytes, &[b"x", &value], None);
            let cut = cut.index(bytes.len());
            match measure(&bytes[..cut], LONGEST) {
                Ok(Frame::Needs(more)) => prop_assert!(cut < more && more <= bytes.len()),
                other => prop_assert!(false, "{other:?}"),
            }
            let expected = [Bytes::from_static(b"x"), Bytes::from(value)];
            let expected = expected.into_iter().map(|value| RespReply::Value(Some(value))).collect();
            prop_assert_eq!(understood(&bytes), Ok(RespReply::List(expected)));
        }

        #[test]
        fn no_bytes_make_it_panic_or_take_more_than_there_is(bytes in prop::collection::vec(prop_oneof![
            any::<u8>(), Just(b'\r'), Just(b'\n'), Just(b'$'), Just(b'*'), Just(b'1'), Just(b'-')
        ], 0..60)) {
            if let Ok(Frame::Whole(len)) = measure(&bytes, LONGEST) {
                prop_assert!(len <= bytes.len());
                let _ = whole(&Bytes::from(bytes).slice(..len));
            }
        }
    }
}
