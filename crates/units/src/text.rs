//! Foreign names as text: safe on a terminal, and quoted for a shell.
//!
//! They are here because the errors of every crate name files, and every crate depends on this one.
//!
//! A file name may contain any byte but `/` and NUL. An escape sequence in a name must not act on
//! the reader's terminal, and a command that contains the name must be safe to paste.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fmt::Write;
use std::path::Path;

/// A name as text that no terminal acts on.
///
/// Printable UTF-8 is unchanged. Otherwise control characters become `\n`, `\x1b` and the like,
/// bytes that are not UTF-8 become `\xNN`, and backslashes are doubled, so that the name can be
/// recovered.
#[must_use]
pub fn escaped<N: AsRef<OsStr> + ?Sized>(name: &N) -> Cow<'_, str> {
    let name = name.as_ref();
    match name.to_str() {
        Some(text) if !text.chars().any(is_unprintable) => Cow::Borrowed(text),
        _ => Cow::Owned(escape(name.as_encoded_bytes())),
    }
}

fn escape(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() + 8);
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\\' => text.push_str(r"\\"),
                '\n' | '\r' | '\t' => text.extend(c.escape_default()),
                c if c.is_ascii_control() => push_byte(&mut text, c as u8),
                c if is_unprintable(c) => text.extend(c.escape_unicode()),
                c => text.push(c),
            }
        }
        for byte in chunk.invalid() {
            push_byte(&mut text, *byte);
        }
    }
    text
}

fn push_byte(text: &mut String, byte: u8) {
    // Writing to a string cannot fail.
    let _ = write!(text, "\\x{byte:02x}");
}

/// A path as one word of a POSIX shell.
///
/// Characters that a terminal acts on or cannot show become octal inside `$'...'`, which bash, zsh,
/// ksh and POSIX 2024 understand.
#[must_use]
pub fn shell_quoted(path: &Path) -> String {
    match path.to_str() {
        // zsh gives `=` a meaning at the start of a word, but not inside an argument.
        Some(text) if !text.is_empty() && !text.starts_with('=') && text.chars().all(is_plain) => {
            text.to_owned()
        }
        Some(text) if !text.chars().any(is_unprintable) => {
            format!("'{}'", text.replace('\'', r"'\''"))
        }
        _ => {
            let bytes = path.as_os_str().as_encoded_bytes();
            bytes
                .iter()
                .fold(String::from("$'"), |quoted, byte| with_octal(quoted, *byte))
                + "'"
        }
    }
}

fn with_octal(mut quoted: String, byte: u8) -> String {
    match byte {
        b'\'' | b'\\' => {
            quoted.push('\\');
            quoted.push(char::from(byte));
        }
        b' '..=b'~' => quoted.push(char::from(byte)),
        _ => {
            // Always three digits: `\x1b` followed by a letter would swallow the letter.
            let _ = write!(quoted, "\\{byte:03o}");
        }
    }
    quoted
}

/// Characters without a meaning to any shell inside a word.
fn is_plain(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '/' | '.' | '_' | '-' | '+' | ',' | ':' | '@' | '%' | '=')
}

/// Control characters, and invisible ones that hide or reorder text.
fn is_unprintable(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    #[test]
    fn escaped_changes_only_terminal_controls() {
        for (name, text) in [
            (&b"/var/lib/data.db"[..], "/var/lib/data.db"),
            (
                "/tmp/\u{fc}ber \u{1f980}".as_bytes(),
                "/tmp/\u{fc}ber \u{1f980}",
            ),
            (br"a\x2db.slice", r"a\x2db.slice"),
            (b"/tmp/\x1b[2J", r"/tmp/\x1b[2J"),
            (b"new\nline\\", r"new\nline\\"),
            (b"/tmp/\xff\xfe", r"/tmp/\xff\xfe"),
            ("a\u{202e}b".as_bytes(), r"a\u{202e}b"),
            (b"", ""),
        ] {
            assert_eq!(
                escaped(OsStr::from_bytes(name)),
                text,
                "{name:?} is safe to print"
            );
        }
    }

    #[test]
    fn shell_quoted_leaves_plain_words_alone() {
        for (path, text) in [
            (&b"/var/lib/data.db"[..], "/var/lib/data.db"),
            (b"/tmp/two words", "'/tmp/two words'"),
            (b"/tmp/it's", r"'/tmp/it'\''s'"),
            (b"/tmp/$(reboot)", "'/tmp/$(reboot)'"),
            (b"", "''"),
            (b"if=/data", "if=/data"),
            (b"=ls", "'=ls'"),
            ("/tmp/\u{fc}ber".as_bytes(), "/tmp/\u{fc}ber"),
            (b"/tmp/\xff\x1b[2J'", r"$'/tmp/\377\033[2J\''"),
            (b"/tmp/new\nline", r"$'/tmp/new\012line'"),
        ] {
            let path = Path::new(OsStr::from_bytes(path));
            assert_eq!(
                shell_quoted(path),
                text,
                "{path:?} can be pasted into a shell"
            );
        }
    }
}
