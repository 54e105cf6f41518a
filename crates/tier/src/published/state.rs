//! The memory of a machine: the newest serial seen of each name, and the index of its last version.

use std::path::{Path, PathBuf};

use super::address::Hash;
use super::error::PublishError;
use super::keys::PublicKey;
use super::record::Record;
use super::store::Store;

/// Returns the directory for the state: the given one, else `/var/lib/cachewise` of root and
/// `~/.local/state/cachewise` (or below `XDG_STATE_HOME`) of others.
#[must_use]
pub fn state_directory(given: Option<&Path>) -> PathBuf {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    if let Some(given) = given {
        return given.to_owned();
    }
    if rustix::process::geteuid().is_root() {
        return PathBuf::from("/var/lib/cachewise");
    }
    let home = || PathBuf::from(set("HOME").unwrap_or_else(|| "/".into())).join(".local/state");
    let state = set("XDG_STATE_HOME").map_or_else(home, PathBuf::from);
    state.join("cachewise")
}

/// Returns the path of the index of a tree that is published to a store.
pub(super) fn index_path(
    state: &Path,
    store: &Store,
    name: &str,
    origin: &Path,
) -> Result<PathBuf, PublishError> {
    let whole = store.identity()?;
    let mut parts = Vec::new();
    for part in [
        whole.as_os_str().as_encoded_bytes(),
        name.as_bytes(),
        origin.as_os_str().as_encoded_bytes(),
    ] {
        super::wire::put_bytes(&mut parts, part);
    }
    Ok(state.join("index").join(Hash::of(&parts).to_string()))
}

/// How a record that is older than the newest one seen, or expired, is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Acceptance {
    /// Whether an older one is accepted.
    pub allow_rollback: bool,
}

/// Checks a record against what this machine has seen of its name, and remembers it.
///
/// # Errors
/// [`PublishError::RolledBack`]; [`PublishError::Expired`] for a name that was not seen before; [`PublishError::Io`].
pub(crate) fn accept(
    state: &Path,
    key: &PublicKey,
    record: &Record,
    how: Acceptance,
    now: u64,
) -> Result<(), PublishError> {
    let folder = state.join("seen");
    let path = folder.join(format!("{}-{key}", record.name.name));
    let failed = |error| PublishError::io("write", &path, error);
    let seen = match std::fs::read_to_string(&path) {
        Ok(text) => Some(text.trim().parse::<u64>().map_err(|_| {
            let error = std::io::Error::other("not a serial: remove the file to begin anew");
            PublishError::io("read", &path, error)
        })?),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => return Err(PublishError::io("read", &path, error)),
    };
    match seen {
        Some(seen) if record.serial < seen => {
            return match how.allow_rollback {
                true => Ok(()),
                false => Err(PublishError::RolledBack {
                    version: record.name.to_string(),
                    serial: record.serial,
                    seen,
                }),
            };
        }
        Some(seen) if record.serial == seen => return Ok(()),
        Some(_) => {}
        None if record.expires <= now => {
            return Err(PublishError::Expired {
                version: record.name.to_string(),
                days: (now - record.expires) / 86_400,
            });
        }
        None => {}
    }
    std::fs::create_dir_all(&folder).map_err(failed)?;
    let mut file = tempfile::NamedTempFile::new_in(&folder).map_err(failed)?;
    let text = format!("{}\n", record.serial);
    std::io::Write::write_all(&mut file, text.as_bytes()).map_err(failed)?;
    file.as_file().sync_data().map_err(failed)?;
    let kept = file.persist(&path);
    kept.map(drop).map_err(|error| failed(error.error))
}
