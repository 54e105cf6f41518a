//! State files: their format, their locks, and reading those of a directory.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::owner::Life;
use crate::{Error, file};

/// Contents of a state file.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Document {
    pub(crate) schema_version: u32,
    /// The command that changed the settings: `bench matrix`.
    pub(crate) by: String,
    /// The process, as [`Owner`] writes itself.
    pub(crate) owner: String,
    /// After another boot settings are what that made them, and not to be touched.
    pub(crate) boot: String,
    pub(crate) entries: Vec<JournalEntry>,
}

/// A state file that is not complete yet.
pub(crate) const NEW: &str = ".new-";

/// Version 1 had the same content; from version 2 on the process holds a lock on the file while it runs.
pub(crate) const SCHEMA_VERSION: u32 = 2;

/// The versions that are read.
pub(crate) const READ_VERSIONS: std::ops::RangeInclusive<u32> = 1..=SCHEMA_VERSION;

/// The first version whose process holds a lock on the file.
pub(crate) const LOCKED_VERSION: u32 = 2;

/// One setting that was changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct JournalEntry {
    /// Its name, for people.
    pub name: String,
    /// Its file.
    pub path: PathBuf,
    /// The old value.
    pub before: String,
    /// The values that this process may have set; any other value was set by another process, and
    /// is kept. Empty for a setting that is about to change with another one, because its new value
    /// is not known yet.
    pub ours: Vec<String>,
}

/// Returns where state files are: `$XDG_RUNTIME_DIR/cachewise` for an ordinary user, else `/run/cachewise`. Both
/// are empty after a boot, as the settings are what that made them.
#[must_use]
pub fn state_directory() -> PathBuf {
    let of_user =
        std::env::var_os("XDG_RUNTIME_DIR").filter(|_| !rustix::process::geteuid().is_root());
    of_user
        .map_or_else(|| "/run".into(), PathBuf::from)
        .join("cachewise")
}

/// Reads the state files of a directory.
pub(crate) fn documents(
    directory: &Path,
) -> Result<impl Iterator<Item = Result<(PathBuf, Document), Error>>, Error> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => Some(entries),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            return Err(Error::Invalid {
                what: format!("the state files in {}", directory.display()),
                problem: format!(
                    "{error}; they are those of another user: name a directory of your own with --state DIR, or run \
                     it with sudo"
                ),
            });
        }
        Err(error) => return Err(Error::io("list", directory, error)),
    };
    let mut paths: Vec<PathBuf> = entries
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            let name = path.file_name().and_then(|name| name.to_str());
            name.is_some_and(|name| name.starts_with("state-") && name.ends_with(".json"))
        })
        .collect();
    paths.sort();
    if !paths.is_empty() {
        is_ours(directory)?;
    }
    Ok(paths.into_iter().filter_map(|path| match read(&path) {
        // Its run has ended meanwhile and restored everything.
        Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => None,
        result => Some(result.map(|document| (path, document))),
    }))
}

fn read(path: &Path) -> Result<Document, Error> {
    is_ours(path)?;
    let text = fs::read(path).map_err(|source| Error::io("read the state file", path, source))?;
    let wrong = |problem: String| Error::Invalid {
        what: format!("the state file {}", path.display()),
        problem: format!(
            "{problem}; settings of an earlier run may not be restored: read the file, set them by hand, and \
             remove it"
        ),
    };
    let document: Document =
        serde_json::from_slice(&text).map_err(|error| wrong(error.to_string()))?;
    match document.schema_version {
        known if READ_VERSIONS.contains(&known) => Ok(document),
        other => Err(wrong(format!(
            "it has version {other}, and this program knows {SCHEMA_VERSION}"
        ))),
    }
}

/// Locks the directory, so that no other process adds a journal or restores settings, until the
/// returned file is dropped. If the process is killed, the kernel releases the lock.
pub(crate) fn lock(directory: &Path) -> Result<fs::File, Error> {
    let locked = fs::File::open(directory).and_then(|file| {
        rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive)?;
        Ok(file)
    });
    locked.map_err(|source| Error::io("lock the directory of state files", directory, source))
}

/// Locks a state file for as long as this process has it open; false where its file system has no locks.
pub(crate) fn hold(file: &fs::File) -> io::Result<bool> {
    use rustix::io::Errno;
    match rustix::fs::flock(file, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(Errno::NOLCK | Errno::OPNOTSUPP | Errno::NOSYS) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Says whether the process of a state file holds its lock.
pub(crate) fn life_by_lock(path: &Path) -> Result<Life, Error> {
    use rustix::io::Errno;
    let failed = |source| Error::io("lock the state file", path, source);
    let file = fs::File::open(path).map_err(failed)?;
    match rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockShared) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => return Ok(Life::Runs),
        Err(Errno::NOLCK | Errno::OPNOTSUPP | Errno::NOSYS) => return Ok(Life::Unknown),
        Err(error) => return Err(failed(error.into())),
    }
    // A process that runs releases the old file once the new one, which it has locked, has its name.
    let (opened, named) = (file.metadata().map_err(failed)?, fs::metadata(path));
    let is_same = named
        .map_err(failed)
        .is_ok_and(|named| (named.dev(), named.ino()) == (opened.dev(), opened.ino()));
    Ok(match is_same {
        true => Life::Ended,
        false => Life::Runs,
    })
}

/// Refuses what others may write: a state file says what is written where, with our rights.
pub(crate) fn is_ours(path: &Path) -> Result<(), Error> {
    let found = rustix::fs::lstat(path).map_err(|source| Error::io("stat", path, source.into()))?;
    cachewise_sys::check_private(&found).map_err(|why| Error::Invalid {
        what: path.display().to_string(),
        problem: format!(
            "others may write it, so it is not trusted with settings ({why}): name a directory of your own that no \
             other user can write to"
        ),
    })
}

/// The number of this boot.
pub(crate) fn boot() -> Result<String, Error> {
    let path = Path::new("/proc/sys/kernel/random/boot_id");
    file::read(path)?.ok_or_else(|| Error::io("read", path, io::ErrorKind::NotFound.into()))
}
