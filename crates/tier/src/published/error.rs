//! [`PublishError`]: why a version is not published, read or trusted, and what to do.

use std::io;
use std::path::{Path, PathBuf};

use cachewise_units::{counted, escaped};

/// The errors of publishing, and of opening what was published.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PublishError {
    /// A file cannot be read or written.
    #[error("{operation} {}: {source}{}", escaped(path), io_hint(source))]
    Io {
        /// The operation that failed.
        operation: &'static str,
        /// The path.
        path: PathBuf,
        /// The error from the kernel.
        source: io::Error,
    },

    /// The file system of the store is full; the version is not visible.
    #[error(
        "{operation} {}: {source}; free some room: nothing of this version is visible",
        escaped(path)
    )]
    Full {
        /// The operation that failed.
        operation: &'static str,
        /// The path.
        path: PathBuf,
        /// The error from the kernel.
        source: io::Error,
    },

    /// The version is visible by its name, and not as the latest one.
    #[error(
        "{version} is published, and could not be made the latest version: {source}; publish another version"
    )]
    NotLatest {
        /// `NAME@VERSION`.
        version: String,
        /// The error.
        source: Box<PublishError>,
    },

    /// Not the name of something that can be published.
    #[error("{}: not NAME@VERSION; {}", escaped(text), name_hint(text))]
    Name {
        /// The text as given.
        text: String,
    },

    /// A version that would have the name by which readers find the newest one.
    #[error(
        "{name}@latest: readers find the newest version by the name latest; choose another name for this one, as {name}@v1"
    )]
    Latest {
        /// The name of the tree.
        name: String,
    },

    /// The store would be published too.
    #[error(
        "the store {} would be published too: name a store outside of the origin",
        escaped(store)
    )]
    Inside {
        /// The store.
        store: PathBuf,
    },

    /// A file with a key has no key in it.
    #[error(
        "{}: not {what}; `cachewise tier key FILE` makes a pair: FILE, and FILE.pub to trust",
        escaped(path)
    )]
    Key {
        /// The file.
        path: PathBuf,
        /// The kind of key that was expected.
        what: &'static str,
    },

    /// Others may read a secret key.
    #[error("{path}: other users may read this secret key (mode {mode:o}): chmod 600 {path}", path = escaped(path))]
    OpenKey {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },

    /// There is no store here.
    #[error(
        "{}: not a store of published versions; check the path, or publish there first",
        escaped(path)
    )]
    NoStore {
        /// The directory.
        path: PathBuf,
    },

    /// The address of something that versions are not published to.
    #[error(
        "no store is a {}; name a directory or s3://BUCKET/PREFIX{}",
        escaped(scheme),
        read_only(scheme)
    )]
    Scheme {
        /// The scheme of the address, in lower case. The rest may contain a password.
        scheme: String,
    },

    /// The store does not have that version.
    #[error("{version}: the store has no such version{}", listed(there))]
    NoVersion {
        /// `NAME@VERSION`.
        version: String,
        /// The versions of that name that there are.
        there: Vec<String>,
    },

    /// A version is published once.
    #[error(
        "{version}: published already (serial {serial}); a version never changes: choose another name for this one"
    )]
    Exists {
        /// `NAME@VERSION`.
        version: String,
        /// Its serial.
        serial: u64,
    },

    /// A record is cut, or not of this form.
    #[error(
        "the record of {version} is damaged or of a newer cachewise ({why}); update this program, or publish it again as another \
         version"
    )]
    Record {
        /// `NAME@VERSION`.
        version: String,
        /// The fault.
        why: &'static str,
    },

    /// Another key signed it.
    #[error(
        "{version} is signed by the key {found}, and {trusted} is trusted: its publisher changed keys, or it is forged; ask the \
         publisher, then name the new key with --trust"
    )]
    OtherKey {
        /// `NAME@VERSION`.
        version: String,
        /// The public key in the record.
        found: String,
        /// The trusted one.
        trusted: String,
    },

    /// The signature does not match.
    #[error(
        "the signature of {version} is wrong: the record was changed after it was signed; do not use it, and restore it"
    )]
    Signature {
        /// `NAME@VERSION`.
        version: String,
    },

    /// An older version than the newest that was seen here.
    #[error(
        "{version} has serial {serial}, and this machine has seen {seen}: the store was rolled back; --allow-rollback \
         accepts the older version"
    )]
    RolledBack {
        /// `NAME@VERSION`.
        version: String,
        /// Its serial.
        serial: u64,
        /// The highest serial seen.
        seen: u64,
    },

    /// The signature has expired, and this machine has not seen the name before.
    #[error(
        "the signature of {version} expired {}, and this machine has seen no version of it before, so a store could \
         hide newer ones; publish a new version, or check the clock", ago(*days)
    )]
    Expired {
        /// `NAME@VERSION`.
        version: String,
        /// Days since then.
        days: u64,
    },

    /// A file changed each time that it was read.
    #[error(
        "{}: changed while it was read, {times} times; publish when nothing writes to the origin, or from a snapshot of its file \
         system",
        escaped(path)
    )]
    Changing {
        /// The file.
        path: PathBuf,
        /// How often it was read.
        times: u32,
    },

    /// An object has a name that no object of a version can have.
    #[error(
        "{}: the last part of this path is no name of a version: 1 to 255 bytes, not . or ..; rename the object",
        escaped(path)
    )]
    ObjectName {
        /// The object.
        path: PathBuf,
    },

    /// An object has more attributes than a version can have.
    #[error(
        "{}: its extended attributes take more than 256 KiB, and a version has no more of an object; remove some",
        escaped(path)
    )]
    Attributes {
        /// The object.
        path: PathBuf,
    },

    /// `gc` and `publish` exclude each other.
    #[error(
        "{}: in use by another {by}; try again when it has ended",
        escaped(path)
    )]
    InUse {
        /// The store.
        path: PathBuf,
        /// The command that has it.
        by: &'static str,
    },

    /// The server ignores conditions of writes.
    #[error(
        "{}: this server overwrites objects although the request forbids it (If-None-Match, If-Match), so that two publishers at \
         once would lose a version; publish to a store with conditional writes, or to a directory",
        escaped(path)
    )]
    Unconditional {
        /// The store.
        path: PathBuf,
    },

    /// A pack that is needed is gone.
    #[error(
        "pack {pack} of the store is missing: `tier gc` removed it, or the store is damaged; publish again, without the state of \
         the last time (--full)"
    )]
    MissingPack {
        /// The pack.
        pack: String,
    },

    /// Bytes of the store are not those that were published.
    #[error("{0}")]
    Read(#[from] crate::Error),
}

impl PublishError {
    /// Returns an error of a publication before its version was visible.
    pub(super) fn unseen(self) -> Self {
        match self {
            Self::Io {
                operation,
                path,
                source,
            } if source.kind() == io::ErrorKind::StorageFull => Self::Full {
                operation,
                path,
                source,
            },
            other => other,
        }
    }

    pub(crate) fn io(operation: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io {
            operation,
            path: path.to_owned(),
            source,
        }
    }
}

fn name_hint(text: &str) -> &'static str {
    match text.contains('@') {
        true => "both are of letters, digits, dots, - and _, and begin with no dot",
        false => "the version is missing: add @VERSION; a reader finds the newest one by @latest",
    }
}

fn ago(days: u64) -> String {
    match days {
        0 => "less than a day ago".to_owned(),
        days => format!("{} ago", counted(days, "day")),
    }
}

fn listed(there: &[String]) -> String {
    match there {
        [] => "; it has no version of that name".to_owned(),
        there => format!("; it has {}", there.join(", ")),
    }
}

fn read_only(scheme: &str) -> &'static str {
    match scheme {
        "http" | "https" => {
            "; a server of HTTP with a copy of it is for `cachewise mount --store` alone"
        }
        _ => "",
    }
}

fn io_hint(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::StorageFull => "; free some room",
        io::ErrorKind::AlreadyExists => "; it is left as it is: name another file",
        _ => "",
    }
}
