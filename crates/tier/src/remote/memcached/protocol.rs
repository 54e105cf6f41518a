//! The meta commands of memcached 1.6, without I/O: bytes in, replies out.

use bytes::Bytes;

use crate::remote::RemoteError;
use crate::remote::wire::Frame;

/// A reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::remote) enum MemcachedReply {
    /// `VA 3`, and the value.
    Value(Bytes),
    /// `EN`: it has none.
    Nothing,
    /// `HD`, and `MN`: done.
    Done,
    /// Anything else that is a line: `SERVER_ERROR out of memory storing object`.
    Error(String),
}

/// How long a line is, at most.
const LONGEST_LINE: usize = 2 << 10;

/// Measures the reply at the front of `buffer`; no value may be longer than `longest`.
pub(super) fn measure(buffer: &[u8], longest: usize) -> Result<Frame, RemoteError> {
    let window = buffer.get(..LONGEST_LINE).unwrap_or(buffer);
    let Some(end) = window.windows(2).position(|end| end == b"\r\n") else {
        return if window.len() == LONGEST_LINE {
            Err(RemoteError::Garbage("a line without end"))
        } else {
            Ok(Frame::Needs(buffer.len().saturating_add(1)))
        };
    };
    let head = end.saturating_add(2);
    let Some(len) = value_len(&window[..end])? else {
        return Ok(Frame::Whole(head));
    };
    if len > longest {
        // The node is well: the value is damaged, or forged.
        return Err(RemoteError::Damaged(
            "a value longer than any block".to_owned(),
        ));
    }
    let whole = head.saturating_add(len).saturating_add(2);
    if buffer.len() < whole {
        return Ok(Frame::Needs(whole));
    }
    if buffer.get(whole - 2..whole) != Some(b"\r\n".as_slice()) {
        return Err(RemoteError::Garbage("a value does not end where it should"));
    }
    Ok(Frame::Whole(whole))
}

/// Understands a whole reply, as [`measure`] found it. The value is not copied.
pub(super) fn reply(frame: &Bytes) -> Result<MemcachedReply, RemoteError> {
    let cut = RemoteError::Garbage("a reply that ends too early");
    let end = frame
        .windows(2)
        .position(|end| end == b"\r\n")
        .ok_or(cut.clone())?;
    let line = frame.get(..end).unwrap_or_default();
    if let Some(len) = value_len(line)? {
        let from = end.saturating_add(2);
        let value = frame.get(from..from.saturating_add(len)).ok_or(cut)?;
        return Ok(MemcachedReply::Value(frame.slice_ref(value)));
    }
    let code = line.split(|byte| *byte == b' ').next().unwrap_or_default();
    Ok(match code {
        b"EN" => MemcachedReply::Nothing,
        b"HD" | b"MN" => MemcachedReply::Done,
        _ if code.is_ascii() && !code.is_empty() => {
            MemcachedReply::Error(String::from_utf8_lossy(line).into_owned())
        }
        _ => return Err(RemoteError::Garbage("no reply starts like this")),
    })
}

/// Returns the length of the value that follows `VA <length> <flags>`.
fn value_len(line: &[u8]) -> Result<Option<usize>, RemoteError> {
    let Some(rest) = line.strip_prefix(b"VA ") else {
        return Ok(None);
    };
    let digits = rest.split(|byte| *byte == b' ').next().unwrap_or_default();
    std::str::from_utf8(digits)
        .ok()
        .and_then(|text| text.parse().ok())
        .map(Some)
        .ok_or(RemoteError::Garbage("no number where there should be one"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn whole(bytes: &'static [u8]) -> Result<MemcachedReply, RemoteError> {
        assert_eq!(measure(bytes, 100)?, Frame::Whole(bytes.len()));
        reply(&Bytes::from_static(bytes))
    }

    #[test]
    fn replies_are_understood() {
        let value = MemcachedReply::Value(Bytes::from_static(b"a\r\nb"));
        assert_eq!(whole(b"VA 4\r\na\r\nb\r\n"), Ok(value.clone()));
        assert_eq!(whole(b"VA 4 f0 t-1\r\na\r\nb\r\n"), Ok(value));
        assert_eq!(whole(b"EN\r\n"), Ok(MemcachedReply::Nothing));
        assert_eq!(whole(b"HD\r\n"), Ok(MemcachedReply::Done));
        let full = "SERVER_ERROR out of memory storing object";
        let said = whole(b"SERVER_ERROR out of memory storing object\r\n");
        assert_eq!(said, Ok(MemcachedReply::Error(full.to_owned())));
    }

    #[test]
    fn what_is_not_the_protocol_is_told_at_once() {
        for bytes in [b"VA x\r\n".as_slice(), b"VA 101\r\n", b"VA 1\r\nabc\r\n"] {
            assert!(measure(bytes, 100).is_err(), "{}", bytes.escape_ascii());
        }
        assert!(
            measure(&[b'x'; LONGEST_LINE], 100).is_err(),
            "a line has an end"
        );
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(prop_oneof![
            any::<u8>(), Just(b'\r'), Just(b'\n'), Just(b'V'), Just(b'A'), Just(b' '), Just(b'3')
        ], 0..40)) {
            if let Ok(Frame::Whole(len)) = measure(&bytes, 100) {
                prop_assert!(len <= bytes.len());
                let _ = reply(&Bytes::from(bytes).slice(..len));
            }
        }
    }
}
