//! [`sweep`]: removes the groups that earlier runs could not.

use std::fs;
use std::path::{Path, PathBuf};

use cachewise_kstat::Kernel;

use crate::group::{owner_in, parents, remove_directory};
use crate::{Error, Owner};

/// What was found of earlier runs.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Swept {
    /// Groups that are gone now.
    pub removed: Vec<PathBuf>,
    /// Groups that are still there, and why.
    pub failed: Vec<(PathBuf, Error)>,
}

/// Removes the groups of earlier runs that ended without doing so. Those of a run that goes on, or of one in
/// another namespace of process ids, are left alone, unless it is among those known to have `ended`. Processes in them
/// are moved to the group above.
///
/// # Errors
/// What reading the mounts says.
pub fn sweep(kernel: &Kernel, ended: &[Owner]) -> Result<Swept, Error> {
    let mut places: Vec<PathBuf> = parents(kernel)?.into_iter().collect();
    places.extend(kernel.unified_hierarchy()?);
    places.sort();
    places.dedup();
    let mut swept = Swept::default();
    for place in places {
        // Who may not list it has made nothing there.
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
    // Where it cannot be known, it stays.
    owner.is_some_and(|owner| ended.contains(&owner) || matches!(owner.may_be_alive(), Ok(false)))
}
