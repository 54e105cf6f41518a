//! [`EngineKey`]: the key of a tenant, under which the blocks of an engine are sealed.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cachewise_units::{Bytes, escaped};
use zeroize::Zeroizing;

use crate::{Error, secret_file};

/// Length of a key in bytes.
pub(crate) const KEY: usize = 32;

/// Maximum length of a key file.
const LONGEST: Bytes = Bytes(1 << 10);

/// How to make a key file.
const ADVICE: &str = "make one with: (umask 077; openssl rand -hex 32 >FILE)";

/// The secret key of a tenant: 256 bits. Blocks in an engine are encrypted and authenticated under it, and their names
/// are derived from it. Its memory is cleared when the last copy is dropped; no debug output shows it.
#[derive(Clone)]
pub struct EngineKey(Arc<KeyParts>);

/// Keys derived from the tenant's key, one for each purpose.
struct KeyParts {
    names: Zeroizing<[u8; KEY]>,
    blocks: Zeroizing<[u8; KEY]>,
}

impl EngineKey {
    /// Makes a key from 32 random bytes.
    #[must_use]
    pub fn new(secret: &[u8; KEY]) -> Self {
        let derived = |purpose| Zeroizing::new(blake3::derive_key(purpose, secret));
        Self(Arc::new(KeyParts {
            names: derived("cachewise-tier 2026-11-27 names of blocks in an engine"),
            blocks: derived("cachewise-tier 2026-11-27 contents of blocks in an engine"),
        }))
    }

    /// Reads a key from a file: 32 bytes, or as text 64 hexadecimal digits or base64 of 32 bytes. The mode of the file
    /// grants no access to others, and access of its group only for reading a file of root.
    ///
    /// # Errors
    /// [`Error::Setting`] for what is no file or cannot be read, for a file that others can access, or that contains no key.
    pub fn from_file(path: &Path) -> Result<Self, Error> {
        let wrong = |why: String| Error::Setting {
            setting: "engine_key_file",
            why: format!("{}: {why}", escaped(path)),
        };
        let bytes = secret_file::read("engine_key_file", path, "key", LONGEST)?;
        let secret = key_of(&bytes).map_err(wrong)?;
        Ok(Self::new(&secret))
    }

    /// Returns the key for names of blocks.
    pub(crate) fn names(&self) -> &[u8; KEY] {
        &self.0.names
    }

    /// Returns the key from which the keys of blocks are derived.
    pub(crate) fn blocks(&self) -> &[u8; KEY] {
        &self.0.blocks
    }
}

impl fmt::Debug for EngineKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EngineKey(...)")
    }
}

/// Returns the key in the content of a file, or the fault of that. No message contains a byte of the content.
fn key_of(content: &[u8]) -> Result<Zeroizing<[u8; KEY]>, String> {
    let text = content.trim_ascii();
    if text.is_empty() {
        return Err(format!("is empty; {ADVICE}"));
    }
    let mut secret = Zeroizing::new([0; KEY]);
    let is_text = content
        .iter()
        .all(|byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace());
    if is_text {
        if text.len() == 2 * KEY && text.iter().all(u8::is_ascii_hexdigit) {
            for (byte, digits) in secret.iter_mut().zip(text.chunks_exact(2)) {
                let digit = |at: usize| digits.get(at).map_or(0, |digit| hex_value(*digit));
                *byte = digit(0) << 4 | digit(1);
            }
        } else {
            let decoded = STANDARD.decode(text).map(Zeroizing::new);
            match decoded {
                Ok(key) if key.len() == KEY => secret.copy_from_slice(&key),
                _ => {
                    return Err(format!(
                        "{} characters of text are no key of 256 bits: 64 hexadecimal digits are, or base64 of 32 \
                         bytes; {ADVICE}",
                        text.len()
                    ));
                }
            }
        }
    } else if content.len() == KEY {
        secret.copy_from_slice(content);
    } else {
        return Err(format!(
            "{} bytes are no key: 32 bytes are; {ADVICE}",
            content.len()
        ));
    }
    let is_constant = secret.iter().all(|byte| Some(byte) == secret.first());
    if is_constant {
        return Err(format!("32 equal bytes are no secret; {ADVICE}"));
    }
    Ok(secret)
}

/// Returns the value of a hexadecimal digit.
const fn hex_value(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        _ => (digit | 0x20).wrapping_sub(b'a').wrapping_add(10),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const SECRET: [u8; KEY] = *b"\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\
        \xf0\xf1\xf2\xf3\xf4\xf5\xf6\xf7\xf8\xf9\xfa\xfb\xfc\xfd\xfe\xff";

    #[test]
    fn key_files_of_all_forms_contain_the_same_key() {
        let hex = "000102030405060708090a0b0c0d0e0ff0f1f2f3f4f5f6f7f8f9fafbfcfdfeff";
        let base64 = STANDARD.encode(SECRET);
        for content in [
            SECRET.to_vec(),
            hex.into(),
            format!("{}\n", hex.to_uppercase()).into(),
            format!("{base64}\r\n").into(),
        ] {
            let key = key_of(&content).unwrap_or_else(|why| panic!("{content:?}: {why}"));
            assert_eq!(*key, SECRET, "{content:?}");
        }
    }

    #[test]
    fn content_that_is_no_key_is_refused_without_being_shown() {
        for (content, why) in [
            (&b""[..], "is empty"),
            (b" \n", "is empty"),
            (b"hunter2\n", "7 characters of text"),
            // 128 bits as text, which have the length of a binary key.
            (b"00112233445566778899aabbccddeeff", "32 characters of text"),
            (&[0; KEY], "32 equal bytes"),
            (&[b'0'; 2 * KEY], "32 equal bytes"),
            (&[7; KEY - 1], "31 bytes are no key"),
            (&[7; KEY + 1], "33 bytes are no key"),
        ] {
            let error = key_of(content).expect_err("it is no key");
            assert!(error.contains(why), "{error}");
            assert!(error.contains("openssl rand -hex 32"), "the fix: {error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
        assert_eq!(format!("{:?}", EngineKey::new(&SECRET)), "EngineKey(...)");
    }

    #[test]
    fn key_file_that_others_can_access_is_refused() {
        let scratch = tempfile::tempdir().expect("made");
        let path = scratch.path().join("key");
        std::fs::write(&path, SECRET).expect("written");
        let is_root = rustix::process::geteuid().is_root();
        for (mode, is_accepted) in [
            (0o400, true),
            (0o600, true),
            (0o640, is_root),
            (0o644, false),
            (0o604, false),
            (0o620, false),
            (0o602, false),
        ] {
            let permissions = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(&path, permissions).expect("it is ours");
            let key = EngineKey::from_file(&path);
            assert_eq!(key.is_ok(), is_accepted, "{mode:o}");
            if let Err(error) = key {
                assert!(error.to_string().contains("chmod 600 "), "{error}");
            }
        }
        let device = EngineKey::from_file(Path::new("/dev/null")).expect_err("a device");
        let device = device.to_string();
        assert!(
            device.contains("not a file") && !device.contains("chmod"),
            "{device}"
        );
        for (path, why) in [
            (scratch.path().join("missing"), "No such file"),
            (scratch.path().to_owned(), "is a directory"),
        ] {
            let error = EngineKey::from_file(&path).expect_err("there is no key");
            assert!(error.to_string().contains(why), "{error}");
        }
    }
}
