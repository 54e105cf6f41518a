//! [`Record`]: what a version is called and where its tree begins, under one signature.
//!
//! A record is a text of lines, each a key and a value in a fixed order; the last line is the signature of all bytes
//! before it.

use std::fmt;

use cachewise_units::{Bytes, counted};

use super::address::{Hash, PackId, Ref};
use super::error::PublishError;
use super::keys::{PublicKey, SecretKey};

/// The first line. A newer form gets another number.
const HEAD: &str = "cachewise version 1";

/// The first line of a version with extended attributes: a program that does not know them refuses it.
const HEAD_ATTRIBUTES: &str = "cachewise version 2";

/// The name for the newest version.
pub const LATEST: &str = "latest";

/// The name of a published tree and of one of its versions: `NAME@VERSION`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct VersionName {
    /// The name of the tree.
    pub name: String,
    /// The version, or [`LATEST`].
    pub version: String,
}

impl fmt::Display for VersionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.name, self.version)
    }
}

impl VersionName {
    /// Reads `NAME@VERSION`.
    ///
    /// # Errors
    /// [`PublishError::Name`].
    pub fn parse(text: &str) -> Result<Self, PublishError> {
        let is_plain = |part: &str| {
            let letters = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
            (1..=100).contains(&part.len()) && !part.starts_with('.') && part.chars().all(letters)
        };
        match text.split_once('@') {
            Some((name, version)) if is_plain(name) && is_plain(version) => Ok(Self {
                name: name.to_owned(),
                version: version.to_owned(),
            }),
            _ => Err(PublishError::Name {
                text: text.to_owned(),
            }),
        }
    }

    /// Says whether it stands for the newest version, whichever that is.
    #[must_use]
    pub fn is_latest(&self) -> bool {
        self.version == LATEST
    }

    /// Returns the name of its record in a store.
    pub(crate) fn path(&self) -> String {
        match self.is_latest() {
            true => format!("names/{}/{LATEST}", self.name),
            false => format!("{}/{}", Self::folder(&self.name), self.version),
        }
    }

    /// Returns the folder of the records of a name.
    pub(crate) fn folder(name: &str) -> String {
        format!("names/{name}/versions")
    }
}

/// A published version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its name.
    pub name: VersionName,
    /// Its number among the versions of that name: a newer one has a higher number.
    pub serial: u64,
    /// Size of a block of its files.
    pub block: u64,
    /// The topmost chunk of its root directory.
    pub root: Ref,
    /// The hash of the list of its packs, which is `lists/HASH` in the store.
    pub packs: Hash,
    /// Number of files.
    pub files: u64,
    /// Bytes of the files.
    pub bytes: u64,
    /// Whether objects have extended attributes.
    pub has_attributes: bool,
    /// When it was published, in seconds since 1970, by the publisher's clock.
    pub published: u64,
    /// When its signature expires, in seconds since 1970.
    pub expires: u64,
}

const KEYS: [&str; 11] = [
    "name",
    "version",
    "serial",
    "block",
    "root",
    "packs",
    "files",
    "bytes",
    "published",
    "expires",
    "key",
];

impl Record {
    /// Returns it as it is stored.
    pub(crate) fn sign(&self, key: &SecretKey) -> Vec<u8> {
        let root = &self.root;
        let values = [
            self.name.name.clone(),
            self.name.version.clone(),
            self.serial.to_string(),
            self.block.to_string(),
            format!("{} {} {} {}", root.hash, root.pack, root.start, root.len),
            self.packs.to_string(),
            self.files.to_string(),
            self.bytes.to_string(),
            self.published.to_string(),
            self.expires.to_string(),
            key.public().to_string(),
        ];
        let head = match self.has_attributes {
            true => HEAD_ATTRIBUTES,
            false => HEAD,
        };
        let mut text = format!("{head}\n");
        for (name, value) in KEYS.iter().zip(values) {
            text += &format!("{name} {value}\n");
        }
        let signature = key.sign(text.as_bytes());
        text += &format!("signature {signature}\n");
        text.into_bytes()
    }

    /// Reads a record of this version that the owner of the key has signed; any version where the name says "latest".
    ///
    /// # Errors
    /// [`PublishError::Record`], [`PublishError::OtherKey`], [`PublishError::Signature`].
    pub(crate) fn verify(
        bytes: &[u8],
        wanted: &VersionName,
        trusted: &PublicKey,
    ) -> Result<Self, PublishError> {
        let (record, key, signed, signature) = Self::read(bytes, wanted)?;
        if key != *trusted {
            return Err(PublishError::OtherKey {
                version: wanted.to_string(),
                found: key.to_string(),
                trusted: trusted.to_string(),
            });
        }
        if !trusted.has_signed(signed, signature) {
            return Err(PublishError::Signature {
                version: wanted.to_string(),
            });
        }
        Ok(record)
    }

    /// Returns the key by which a record claims to be signed.
    ///
    /// # Errors
    /// [`PublishError::Record`].
    pub(crate) fn signer(bytes: &[u8], wanted: &VersionName) -> Result<PublicKey, PublishError> {
        Self::read(bytes, wanted).map(|(_, key, ..)| key)
    }

    /// Reads a record without a look at its signature: where nothing is read by it.
    pub(crate) fn unverified(bytes: &[u8], wanted: &VersionName) -> Result<Self, PublishError> {
        Self::read(bytes, wanted).map(|(record, ..)| record)
    }

    fn read<'a>(
        bytes: &'a [u8],
        wanted: &VersionName,
    ) -> Result<(Self, PublicKey, &'a [u8], &'a str), PublishError> {
        let wrong = |why| PublishError::Record {
            version: wanted.to_string(),
            why,
        };
        let text = std::str::from_utf8(bytes).map_err(|_| wrong("it is not text"))?;
        let cut = "it is cut off";
        let whole = text.strip_suffix('\n').ok_or_else(|| wrong(cut))?;
        let (signed, last) = whole.rsplit_once('\n').ok_or_else(|| wrong(cut))?;
        let signature = last.strip_prefix("signature ").ok_or_else(|| wrong(cut))?;
        let mut lines = signed.lines();
        let has_attributes = match lines.next() {
            Some(HEAD) => false,
            Some(HEAD_ATTRIBUTES) => true,
            _ => return Err(wrong("its first line is another")),
        };
        let mut value = |key: &'static str| {
            let line = lines.next().and_then(|line| line.strip_prefix(key));
            let value = line.and_then(|value| value.strip_prefix(' '));
            value.ok_or_else(|| wrong("a line is missing"))
        };
        let number = |text: &str| text.parse().map_err(|_| wrong("a number is none"));
        let name = VersionName {
            name: value("name")?.to_owned(),
            version: value("version")?.to_owned(),
        };
        if VersionName::parse(&name.to_string())? != name || name.is_latest() {
            return Err(wrong("its name is none"));
        }
        let is_wanted = name == *wanted || wanted.is_latest() && name.name == wanted.name;
        if !is_wanted {
            return Err(wrong("it is the record of another version"));
        }
        let serial = number(value("serial")?)?;
        let block = number(value("block")?)?;
        let root = reference(value("root")?).ok_or_else(|| wrong("a reference is none"))?;
        let packs = Hash::parse(value("packs")?).ok_or_else(|| wrong("a hash is none"))?;
        let record = Self {
            name,
            serial,
            block,
            root,
            packs,
            files: number(value("files")?)?,
            bytes: number(value("bytes")?)?,
            has_attributes,
            published: number(value("published")?)?,
            expires: number(value("expires")?)?,
        };
        let key = PublicKey::parse(value("key")?).ok_or_else(|| wrong("a key is none"))?;
        if lines.next().is_some() {
            return Err(wrong("it has more lines"));
        }
        let is_size = block.is_power_of_two() && (16 << 10..=1 << 20).contains(&block);
        if !is_size || u64::from(record.root.len) > block {
            return Err(wrong("its block size is none"));
        }
        // With the line feed before the signature.
        let signed = bytes.get(..=signed.len()).unwrap_or_default();
        Ok((record, key, signed, signature))
    }

    /// Returns a summary of one line.
    #[must_use]
    pub fn described(&self) -> String {
        format!(
            "{} (serial {}): {}, {}",
            self.name,
            self.serial,
            counted(self.files, "file"),
            Bytes(self.bytes)
        )
    }
}

fn reference(text: &str) -> Option<Ref> {
    let mut parts = text.split(' ');
    let found = Ref {
        hash: Hash::parse(parts.next()?)?,
        pack: PackId::parse(parts.next()?)?,
        start: parts.next()?.parse().ok()?,
        len: parts.next()?.parse().ok()?,
    };
    parts.next().is_none().then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        Record {
            name: VersionName::parse("data@v1").unwrap(),
            serial: 7,
            block: 1 << 17,
            root: Ref {
                hash: Hash::of(b"root"),
                pack: PackId([3; 16]),
                start: 5,
                len: 6,
            },
            packs: Hash::of(b"packs"),
            files: 1,
            bytes: 2,
            has_attributes: false,
            published: 3,
            expires: 4,
        }
    }

    #[test]
    fn a_record_is_read_with_the_trusted_key_only_and_as_it_was_signed() {
        let scratch = tempfile::tempdir().unwrap();
        let file = |name: &str| scratch.path().join(name);
        let (public, _) = SecretKey::create(&file("key")).unwrap();
        let (other, _) = SecretKey::create(&file("other")).unwrap();
        for has_attributes in [false, true] {
            let record = Record {
                has_attributes,
                ..record()
            };
            check(
                &record,
                &SecretKey::read(&file("key")).unwrap(),
                [&public, &other],
            );
        }
    }

    fn check(record: &Record, key: &SecretKey, [public, other]: [&PublicKey; 2]) {
        let bytes = record.sign(key);
        let read = |bytes: &[u8], name: &str, key: &PublicKey| {
            Record::verify(bytes, &VersionName::parse(name).unwrap(), key)
        };
        assert_eq!(read(&bytes, "data@v1", public).unwrap(), *record);
        assert_eq!(read(&bytes, "data@latest", public).unwrap(), *record);
        for (name, key, why) in [
            ("data@v2", public, "another version"),
            ("date@latest", public, "another version"),
            ("data@v1", other, "is trusted"),
        ] {
            let said = read(&bytes, name, key).unwrap_err().to_string();
            assert!(said.contains(why), "{said}");
        }
        for cut in 0..bytes.len() {
            assert!(read(&bytes[..cut], "data@v1", public).is_err(), "{cut}");
        }
        for at in 0..bytes.len() {
            let mut forged = bytes.clone();
            forged[at] ^= 1;
            assert!(read(&forged, "data@v1", public).is_err(), "byte {at}");
        }
    }

    #[test]
    fn names_are_plain() {
        for text in [
            "data", "data@", "@v", "../a@v", "a/b@v", ".a@v", "a@.v", "a@b@c", "a b@c",
        ] {
            assert!(VersionName::parse(text).is_err(), "{text}");
        }
        assert!(VersionName::parse("data-1@2026.11_x").is_ok());
    }
}
