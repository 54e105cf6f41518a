//! [`SecretKey`] and [`PublicKey`]: the two ed25519 keys of a publisher, in files.

use std::fmt;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use cachewise_sys::{open_input, read_input, read_input_text};
use cachewise_units::Bytes;
use ring::rand::{SecureRandom, SystemRandom};
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use zeroize::Zeroizing;

use super::address::Hash;
use super::error::PublishError;

const SECRET: &str = "cachewise secret key 1";
const PUBLIC: &str = "cachewise public key 1";

/// Maximum length of a file with a key.
const LONGEST: Bytes = Bytes(1 << 10);

/// Signs versions.
pub struct SecretKey(Ed25519KeyPair);

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretKey(of {})", self.public())
    }
}

/// Verifies versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublicKey([u8; 32]);

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The same digits as a hash has.
        Hash(self.0).fmt(f)
    }
}

impl SecretKey {
    /// Makes a pair of keys: `file`, which only its owner may read, and `file.pub`. Returns the second path.
    ///
    /// # Errors
    /// [`PublishError::Io`], also where one of the files exists.
    pub fn create(file: &Path) -> Result<(PublicKey, PathBuf), PublishError> {
        let mut seed = [0; 32];
        let unavailable = |_| std::io::Error::other("the kernel gives no random numbers");
        SystemRandom::new()
            .fill(&mut seed)
            .map_err(unavailable)
            .map_err(|error| PublishError::io("make", file, error))?;
        let pair = Self::of_seed(&seed, file)?;
        let mut public = file.as_os_str().to_owned();
        public.push(".pub");
        let public = PathBuf::from(public);
        write_new(&public, 0o644, &format!("{PUBLIC}\n{}\n", pair.public()))?;
        let secret = format!("{SECRET}\n{}\n", Hash(seed));
        write_new(file, 0o600, &secret).inspect_err(|_| {
            // The other half is of no use.
            let _ = fs::remove_file(&public);
        })?;
        Ok((pair.public(), public))
    }

    fn of_seed(seed: &[u8; 32], file: &Path) -> Result<Self, PublishError> {
        let pair = Ed25519KeyPair::from_seed_unchecked(seed);
        pair.map(Self).map_err(|_| PublishError::Key {
            path: file.to_owned(),
            what: "a secret key",
        })
    }

    /// Reads a file of [`Self::create`].
    ///
    /// # Errors
    /// [`PublishError::Io`], [`PublishError::Key`], and [`PublishError::OpenKey`] where others may read it.
    pub fn read(file: &Path) -> Result<Self, PublishError> {
        let failed = |error| PublishError::io("read", file, error);
        let opened = open_input(file).map_err(failed)?;
        let mode = opened.metadata().map_err(failed)?.mode() & 0o777;
        let bytes = Zeroizing::new(read_input(opened, LONGEST).map_err(failed)?);
        let text = std::str::from_utf8(&bytes).unwrap_or_default();
        let seed = digits(text, SECRET).ok_or_else(|| PublishError::Key {
            path: file.to_owned(),
            what: "a secret key",
        })?;
        if mode & 0o077 != 0 {
            return Err(PublishError::OpenKey {
                path: file.to_owned(),
                mode,
            });
        }
        Self::of_seed(&seed.0, file)
    }

    /// Returns the other key.
    #[must_use]
    pub fn public(&self) -> PublicKey {
        let mut bytes = [0; 32];
        for (to, from) in bytes.iter_mut().zip(self.0.public_key().as_ref()) {
            *to = *from;
        }
        PublicKey(bytes)
    }

    /// Returns the signature of some bytes, in hexadecimal digits.
    pub(crate) fn sign(&self, bytes: &[u8]) -> String {
        let signature = self.0.sign(bytes);
        signature
            .as_ref()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }
}

impl PublicKey {
    /// Reads a key: its 64 digits, or the name of a file with one.
    ///
    /// # Errors
    /// [`PublishError::Io`], [`PublishError::Key`].
    pub fn read(given: &Path) -> Result<Self, PublishError> {
        if let Some(key) = given.to_str().and_then(Self::parse) {
            return Ok(key);
        }
        let text = read_input_text(given, LONGEST)
            .map_err(|error| PublishError::io("read", given, error))?;
        let key = digits(&text, PUBLIC).or_else(|| Hash::parse(text.trim()));
        key.map(|key| Self(key.0)).ok_or_else(|| PublishError::Key {
            path: given.to_owned(),
            what: "a public key",
        })
    }

    /// Reads 64 hexadecimal digits.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        Hash::parse(text).map(|key| Self(key.0))
    }

    /// Says whether the owner of the key signed some bytes.
    pub(crate) fn has_signed(&self, bytes: &[u8], signature: &str) -> bool {
        let Some((first, last)) = signature.split_at_checked(64) else {
            return false;
        };
        let (Some(first), Some(last)) = (Hash::parse(first), Hash::parse(last)) else {
            return false;
        };
        let signature = [first.0, last.0].concat();
        UnparsedPublicKey::new(&ED25519, self.0)
            .verify(bytes, &signature)
            .is_ok()
    }
}

fn digits(text: &str, head: &str) -> Option<Hash> {
    let mut lines = text.lines();
    let is_one = lines.next() == Some(head);
    Hash::parse(lines.next().filter(|_| is_one)?)
}

fn write_new(path: &Path, mode: u32, text: &str) -> Result<(), PublishError> {
    let mut options = fs::File::options();
    let opened = options.write(true).create_new(true).mode(mode).open(path);
    let failed = |error| PublishError::io("write", path, error);
    let mut file = opened.map_err(failed)?;
    let written = file.write_all(text.as_bytes());
    written.and_then(|()| file.sync_all()).map_err(|error| {
        // A part of a key is of no use, and would be in the way of the next attempt.
        let _ = fs::remove_file(path);
        failed(error)
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn keys_sign_verify_and_stay_private() {
        let scratch = tempfile::tempdir().unwrap();
        let file = scratch.path().join("key");
        let (public, public_file) = SecretKey::create(&file).unwrap();
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
        let secret = SecretKey::read(&file).unwrap();
        assert_eq!(PublicKey::read(&public_file).unwrap(), public);
        assert_eq!(
            PublicKey::read(Path::new(&public.to_string())).unwrap(),
            public
        );
        let signature = secret.sign(b"text");
        assert!(public.has_signed(b"text", &signature));
        assert!(!public.has_signed(b"test", &signature), "other bytes");
        assert!(!public.has_signed(b"text", &signature[1..]), "cut");
        let (other, _) = SecretKey::create(&scratch.path().join("other")).unwrap();
        assert!(!other.has_signed(b"text", &signature), "another key");

        let again = SecretKey::create(&file).unwrap_err().to_string();
        assert!(again.contains("name another file"), "{again}");
        let wrong = SecretKey::read(&public_file).unwrap_err().to_string();
        assert!(wrong.contains("not a secret key"), "{wrong}");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        let open = SecretKey::read(&file).unwrap_err().to_string();
        assert!(open.contains("chmod 600"), "{open}");
    }
}
