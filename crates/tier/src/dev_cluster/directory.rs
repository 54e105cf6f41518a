//! The directory in which the processes live, and its lock.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use super::error::DevClusterError;
use super::options::DevClusterOptions;

/// The directory to live in; the second is removed with the cluster.
pub(super) fn directory(
    options: &DevClusterOptions,
) -> Result<(PathBuf, Option<tempfile::TempDir>), DevClusterError> {
    let Some(asked) = &options.dir else {
        let made = tempfile::Builder::new()
            .prefix("cachewise-dev-cluster-")
            .tempdir()
            .map_err(|source| {
                DevClusterError::io("make a directory in", &std::env::temp_dir(), source)
            })?;
        return Ok((made.path().to_owned(), Some(made)));
    };
    fs::create_dir_all(asked)
        .map_err(|source| DevClusterError::io("make the directory", asked, source))?;
    // Absolute: servers change into theirs.
    let asked =
        fs::canonicalize(asked).map_err(|source| DevClusterError::io("open", asked, source))?;
    let entries =
        fs::read_dir(&asked).map_err(|source| DevClusterError::io("read", &asked, source))?;
    for entry in entries {
        let entry = entry.map_err(|source| DevClusterError::io("read", &asked, source))?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name != LOCK && !name.starts_with("node-") {
            return Err(DevClusterError::Invalid {
                problem: format!(
                    "{}: not empty, and not of an earlier dev-cluster ({name} is in it): name a new directory",
                    cachewise_units::escaped(&asked)
                ),
            });
        }
    }
    Ok((asked, None))
}

const LOCK: &str = "dev-cluster.lock";

/// Keeps others out of the directory, and removes what an earlier cluster left there.
pub(super) fn lock(directory: &Path) -> Result<File, DevClusterError> {
    let path = directory.join(LOCK);
    let file = File::options().create(true).append(true).open(&path);
    let file = file.map_err(|source| DevClusterError::io("make", &path, source))?;
    flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|errno| match errno {
        rustix::io::Errno::WOULDBLOCK => DevClusterError::Invalid {
            problem: format!(
                "{}: another dev-cluster runs there: end it, or name another directory",
                cachewise_units::escaped(directory)
            ),
        },
        errno => DevClusterError::io("lock", &path, errno.into()),
    })?;
    let entries =
        fs::read_dir(directory).map_err(|source| DevClusterError::io("read", directory, source))?;
    for entry in entries {
        let entry = entry.map_err(|source| DevClusterError::io("read", directory, source))?;
        let path = entry.path();
        if !entry.file_name().to_string_lossy().starts_with("node-") {
            continue;
        }
        // Not what a link leads to.
        match fs::remove_dir_all(&path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                return Err(DevClusterError::io("remove an earlier", &path, source));
            }
            _ => {}
        }
    }
    Ok(file)
}
