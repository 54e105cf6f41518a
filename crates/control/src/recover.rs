//! [`recover`]: puts back what runs changed that were killed.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use cachewise_kstat::ErrorKind;

use crate::journal::{Document, NEW, SCHEMA_VERSION, boot, is_ours, lock, put_back};
use crate::{Error, Owner, Restored};

/// What a run that was killed left, and what came of it.
#[derive(Debug)]
#[non_exhaustive]
pub struct Recovered {
    /// Its state file, which is gone unless something failed.
    pub path: PathBuf,
    /// What it was: `bench matrix`.
    pub by: String,
    /// What was put back; nothing, if it was of an earlier boot.
    pub restored: Restored,
}

/// Puts back what runs left that ended without doing so, by the state files in this directory. What runs
/// that still run have changed stays.
///
/// One state file that cannot be understood does not keep the others from being used: each has its own result.
///
/// # Errors
/// What listing the directory says; one that is not there has nothing in it.
pub fn recover(directory: &Path) -> Result<Vec<Result<Recovered, Error>>, Error> {
    let _locked = match lock(directory) {
        // Who may not read it is told so below.
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Denied) => None,
        locked => Some(locked?),
    };
    let mut recovered = Vec::new();
    for found in documents(directory)? {
        let result = found.and_then(|(path, document)| {
            let owner: Owner = document.owner.parse()?;
            Ok((!owner.may_be_alive()?).then_some((path, document)))
        });
        match result {
            Ok(None) => {}
            Ok(Some((path, document))) => recovered.push(put_back_all(path, document)),
            Err(error) => recovered.push(Err(error)),
        }
    }
    remove_drafts(directory);
    Ok(recovered)
}

/// Removes what a run was writing when it was killed: the state file before that is complete.
fn remove_drafts(directory: &Path) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let owner = name
            .to_str()
            .and_then(|name| name.strip_prefix(NEW)?.parse::<Owner>().ok());
        if owner.is_some_and(|owner| matches!(owner.may_be_alive(), Ok(false))) {
            // Nobody needs it, so it is no failure if it stays.
            let _ = fs::remove_file(entry.path());
        }
    }
}

fn put_back_all(path: PathBuf, document: Document) -> Result<Recovered, Error> {
    let restored = match document.boot == boot()? {
        true => put_back(document.entries),
        false => Restored::default(),
    };
    if restored.failed.is_empty() {
        fs::remove_file(&path)
            .map_err(|source| Error::io("remove the state file", &path, source))?;
    }
    Ok(Recovered {
        path,
        by: document.by,
        restored,
    })
}

/// The state files of a directory, read.
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
        // Its run has ended meanwhile, and put everything back.
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
            "{problem}; settings of an earlier run may not have been put back: look into it, set them by hand, and \
             remove it"
        ),
    };
    let document: Document =
        serde_json::from_slice(&text).map_err(|error| wrong(error.to_string()))?;
    match document.schema_version {
        SCHEMA_VERSION => Ok(document),
        other => Err(wrong(format!(
            "it has version {other}, and this program knows {SCHEMA_VERSION}"
        ))),
    }
}
