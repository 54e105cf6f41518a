//! [`sweep`]: removes the groups that earlier runs left.

use std::fs;
use std::path::{Path, PathBuf};

use cachewise_kstat::Kernel;

use crate::group::{owner_in, parents, remove_directory};
use crate::{Error, Owner};

/// Groups of earlier runs.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Swept {
    /// Groups that were removed.
    pub removed: Vec<PathBuf>,
    /// Groups that remain, with the error.
    pub failed: Vec<(PathBuf, Error)>,
}

/// Removes the groups of earlier runs that ended without removing them. Groups of a live run are
/// left alone, and so are those of a run in another pid namespace, unless `ended` contains it.
/// Their processes move to the parent group.
///
/// # Errors
/// Reading the mounts failed.
pub fn sweep(kernel: &Kernel, ended: &[Owner]) -> Result<Swept, Error> {
    let mut places: Vec<PathBuf> = parents(kernel)?.into_iter().collect();
    places.extend(kernel.unified_hierarchy()?);
    places.sort();
    places.dedup();
    let mut swept = Swept::default();
    for place in places {
        // A directory that this user may not list holds none of its groups.
        for entry in fs::read_dir(&place).into_iter().flatten().flatten() {
            let path = entry.path();
            if !is_left(&path, ended) {
                continue;
            }
            match remove_directory(&path, std::slice::from_ref(&place)) {
                Ok(()) => swept.removed.push(path),
                Err(error) => swept.failed.push((path, error)),
            }
        }
    }
    Ok(swept)
}

fn is_left(path: &Path, ended: &[Owner]) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    let owner = name.and_then(owner_in);
    // A group with an unknown owner stays.
    owner.is_some_and(|owner| ended.contains(&owner) || matches!(owner.may_be_alive(), Ok(false)))
}
