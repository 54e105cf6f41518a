//! [`recover`]: restores the settings of killed runs.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use cachewise_kstat::ErrorKind;

use crate::journal::put_back;
use crate::owner::Life;
use crate::state_file::{Document, LOCKED_VERSION, NEW, boot, documents, life_by_lock, lock};
use crate::{Error, Owner, Restored};

/// A killed run's settings, and the result of restoring them.
#[derive(Debug)]
#[non_exhaustive]
pub struct Recovered {
    /// Its state file, which is removed unless a setting failed.
    pub path: PathBuf,
    /// Its command: `bench matrix`.
    pub by: String,
    /// Its process, which has ended.
    pub owner: Owner,
    /// The restored settings; empty if they are of an earlier boot.
    pub restored: Restored,
}

/// A live run that has changed settings.
#[derive(Debug)]
#[non_exhaustive]
pub struct Running {
    /// Its state file.
    pub path: PathBuf,
    /// Its command: `bench matrix`.
    pub by: String,
}

/// The treatment of a run in another PID namespace that may have ended or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsure {
    /// Leave its settings, and return an error that says so.
    Leave,
    /// Restore its settings.
    PutBack,
}

/// Restores the settings of ended runs from the state files in this directory. Settings of live
/// runs stay.
///
/// Each state file has its own result, so that an unreadable one does not block the others.
///
/// A run of another PID namespace (a container) holds a lock on its state file while it runs. Runs
/// of an earlier version, and those on a file system without locks, are left with
/// [`Unsure::Leave`].
///
/// # Errors
/// Listing the directory failed; a missing directory holds no state files.
pub fn recover(directory: &Path, unsure: Unsure) -> Result<Vec<Result<Recovered, Error>>, Error> {
    let _locked = match lock(directory) {
        // A directory without permission is reported below.
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Denied) => None,
        locked => Some(locked?),
    };
    let mut recovered = Vec::new();
    for found in documents(directory)? {
        let result = found.and_then(|(path, document)| ended(path, document, unsure));
        match result {
            Ok(None) => {}
            Ok(Some((path, document, owner))) => {
                // Its draft, if it was killed while it wrote one.
                let _ = fs::remove_file(directory.join(format!("{NEW}{owner}")));
                recovered.push(put_back_all(path, document, owner));
            }
            Err(error) => recovered.push(Err(error)),
        }
    }
    remove_drafts(directory);
    Ok(recovered)
}

/// Returns the live runs that have changed settings.
///
/// # Errors
/// Listing the directory failed; a missing directory holds no state files.
pub fn running(directory: &Path) -> Result<Vec<Running>, Error> {
    let mut running = Vec::new();
    // `recover` returns an error for each that cannot be read.
    for (path, document) in documents(directory)?.flatten() {
        let owner = document.owner.parse();
        let life = owner.and_then(|owner| life(&path, &document, &owner));
        if matches!(life, Ok(Life::Runs)) {
            running.push(Running {
                path,
                by: document.by,
            });
        }
    }
    Ok(running)
}

/// Returns the owner of a state file with it, if that has ended; nothing if it runs or if the file is gone: its run has
/// ended since the file was read, and has restored everything.
fn ended(
    path: PathBuf,
    document: Document,
    unsure: Unsure,
) -> Result<Option<(PathBuf, Document, Owner)>, Error> {
    let owner: Owner = document.owner.parse()?;
    let is_gone = |error: &Error| {
        error.kind() == ErrorKind::NotFound && matches!(path.try_exists(), Ok(false))
    };
    match life(&path, &document, &owner) {
        Err(error) if is_gone(&error) => Ok(None),
        Err(error) => Err(error),
        Ok(Life::Runs) => Ok(None),
        Ok(Life::Unknown) if unsure == Unsure::Leave => Err(unknown(&path, &document)),
        Ok(Life::Ended | Life::Unknown) => Ok(Some((path, document, owner))),
    }
}

fn life(path: &Path, document: &Document, owner: &Owner) -> Result<Life, Error> {
    let by_lock = match owner.life()? {
        Life::Unknown if document.schema_version >= LOCKED_VERSION => life_by_lock(path)?,
        life => life,
    };
    match by_lock {
        // No process outlives its boot.
        Life::Unknown if document.boot != boot()? => Ok(Life::Ended),
        life => Ok(life),
    }
}

fn unknown(path: &Path, document: &Document) -> Error {
    Error::Invalid {
        what: format!("the state file {}", path.display()),
        problem: format!(
            "`cachewise {}` has changed settings in another PID namespace (a container), and its state \
             is unknown from here: run `cachewise bench restore` there, or, once it has ended, `cachewise bench restore \
             --force` here",
            document.by
        ),
    }
}

/// Removes the incomplete state file of a killed run: the state file before that is complete.
fn remove_drafts(directory: &Path) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let owner = name
            .to_str()
            .and_then(|name| name.strip_prefix(NEW)?.parse::<Owner>().ok());
        if owner.is_some_and(|owner| matches!(owner.may_be_alive(), Ok(false))) {
            // It has no use, so it may stay.
            let _ = fs::remove_file(entry.path());
        }
    }
}

fn put_back_all(path: PathBuf, document: Document, owner: Owner) -> Result<Recovered, Error> {
    let restored = match document.boot == boot()? {
        true => put_back(document.entries),
        false => Restored::default(),
    };
    if restored.failed.is_empty() {
        match fs::remove_file(&path) {
            Ok(()) => {}
            // Its run was ending, and has removed it itself.
            Err(source) if source.kind() == io::ErrorKind::NotFound => {}
            Err(source) => return Err(Error::io("remove the state file", &path, source)),
        }
    }
    Ok(Recovered {
        path,
        by: document.by,
        owner,
        restored,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state_file::SCHEMA_VERSION;

    /// A state file's contents, of a process in a PID namespace that does not exist.
    fn document() -> Document {
        let text = serde_json::json!({
            "schema_version": SCHEMA_VERSION,
            "owner": "1-2-3",
            "by": "bench matrix",
            "boot": boot().unwrap(),
            "entries": [],
        });
        serde_json::from_value(text).unwrap()
    }

    #[test]
    fn a_state_file_that_its_run_removed_meanwhile_is_no_error() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state-1.json");
        for unsure in [Unsure::Leave, Unsure::PutBack] {
            let found = ended(path.clone(), document(), unsure);
            assert!(matches!(found, Ok(None)), "{found:?}");
        }
        fs::write(&path, "{}").unwrap();
        let found = ended(path.clone(), document(), Unsure::Leave);
        assert!(
            matches!(found, Ok(Some(_))),
            "the same, not removed: {found:?}"
        );
        let owner: Owner = document().owner.parse().unwrap();
        let absent = directory.path().join("state-2.json");
        assert!(put_back_all(absent, document(), owner).is_ok());
    }
}
