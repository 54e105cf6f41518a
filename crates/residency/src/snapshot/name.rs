//! Paths as text, whatever bytes they have.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Writes bytes that are no UTF-8, and `%`, as `%` and two digits.
pub(super) fn escaped(path: &Path) -> String {
    let mut text = String::with_capacity(path.as_os_str().len());
    for chunk in path.as_os_str().as_bytes().utf8_chunks() {
        text.push_str(&chunk.valid().replace('%', "%25"));
        for byte in chunk.invalid() {
            text.push_str(&format!("%{byte:02X}"));
        }
    }
    text
}

/// Reads what [`escaped`] wrote; `None` where a `%` has no two digits behind it, or a NUL would be in the path.
pub(super) fn unescaped(text: &str) -> Option<PathBuf> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, more)) = rest.split_first() {
        rest = more;
        bytes.push(match first {
            b'%' => {
                let (digits, more) = rest.split_at_checked(2)?;
                rest = more;
                let digit = |byte: u8| char::from(byte).to_digit(16);
                (digit(digits[0])? << 4 | digit(digits[1])?) as u8
            }
            other => *other,
        });
    }
    (!bytes.contains(&0)).then(|| OsString::from_vec(bytes).into())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_stay_readable() {
        for (bytes, text) in [
            (&b"/a b\n\"c"[..], "/a b\n\"c"),
            ("/\u{e4}/100%".as_bytes(), "/\u{e4}/100%25"),
            (b"/a\xff\xfe%ff", "/a%FF%FE%25ff"),
        ] {
            let path = PathBuf::from(OsString::from_vec(bytes.to_vec()));
            assert_eq!(escaped(&path), text, "{bytes:?}");
        }
        for broken in ["/%", "/%2", "/%zz", "/%+1", "/a%00b", "/a\0b"] {
            assert_eq!(unescaped(broken), None, "{broken:?} was never written");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_come_back(bytes in prop::collection::vec(1..=255_u8, 0..40)) {
            let path = PathBuf::from(OsString::from_vec(bytes));
            prop_assert_eq!(unescaped(&escaped(&path)), Some(path), "byte for byte");
        }
    }
}
