//! The directory to mount on, and what a killed mount left there.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use cachewise_kstat::{Kernel, Mount as ListedMount};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;

use super::MountError;

/// The prefix of our sources in the list of mounts.
const OURS: &str = "cachewise:";

/// Returns the source for the list of mounts.
pub(super) fn source(name: &str) -> String {
    // fusermount3 takes options separated by commas.
    let name: String = name
        .chars()
        .map(|letter| match letter {
            ',' | '\\' => '_',
            letter if letter.is_control() => '_',
            letter => letter,
        })
        .collect();
    format!("{OURS}{name}")
}

/// The device that delivers FUSE requests.
const DEVICE: &str = "/dev/fuse";

/// Checks that FUSE is available to this user, as the error from mounting does not say so.
///
/// # Errors
/// [`MountError::Device`].
pub fn device() -> Result<(), MountError> {
    let opened = fs::File::options().read(true).write(true).open(DEVICE);
    opened
        .map(drop)
        .map_err(|source| MountError::Device { source })
}

/// Makes sure that the directory can be mounted on, and returns its path without links.
pub(super) fn prepare(directory: &Path) -> Result<PathBuf, MountError> {
    let path = whole(directory)?;
    if let Some(mounted) = ours(&path)? {
        if !is_unserved(&path) {
            return Err(MountError::Mounted {
                path,
                source_name: mounted,
            });
        }
        detach(&path).map_err(|error| MountError::Dead {
            path: path.clone(),
            why: error.to_string(),
        })?;
    }
    let found = fs::metadata(&path).map_err(|error| match is_dead(&error) {
        true => MountError::Dead {
            path: path.clone(),
            why: "it is not cachewise's, so it is left alone".to_owned(),
        },
        false => MountError::io("open", &path, error),
    })?;
    if !found.is_dir() {
        return Err(MountError::NotADirectory { path });
    }
    let mut entries =
        fs::read_dir(&path).map_err(|source| MountError::io("read", &path, source))?;
    if entries.next().is_some() {
        return Err(MountError::NotEmpty { path });
    }
    Ok(path)
}

/// Returns the origin's name where a mount of a process that is gone is left on this directory.
///
/// # Errors
/// If the list of mounts cannot be read.
pub fn left_behind(directory: &Path) -> Result<Option<String>, MountError> {
    let path = whole(directory)?;
    Ok(ours(&path)?.filter(|_| is_unserved(&path)))
}

/// The topmost mount on a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MountState {
    /// Nothing.
    Free,
    /// A mount of this program.
    Served {
        /// Whether it is of the requested origin.
        is_same: bool,
    },
    /// A mount whose process has ended.
    Dead,
    /// Another file system.
    Foreign,
}

/// Returns what is mounted on a directory, compared with this origin.
///
/// # Errors
/// The directory cannot be opened, or the list of mounts not be read.
pub fn state(directory: &Path, origin: &str) -> Result<MountState, MountError> {
    let path = whole(directory)?;
    let Some(mounted) = topmost(&path)? else {
        return Ok(MountState::Free);
    };
    if !is_ours(&mounted) {
        return Ok(MountState::Foreign);
    }
    Ok(match is_unserved(&path) {
        true => MountState::Dead,
        false => MountState::Served {
            is_same: mounted.source == source(origin),
        },
    })
}

/// Shows the mount on one directory on another one too, which is empty. Does nothing where it is shown already.
///
/// # Errors
/// Another file system is mounted there; only root may.
pub fn bind(mounted: &Path, directory: &Path) -> Result<(), MountError> {
    let (from, to) = (whole(mounted)?, whole(directory)?);
    let device = |path: &Path| topmost(path).map(|mount| mount.map(|mount| mount.dev));
    match device(&to)? {
        shown @ Some(_) if shown == device(&from)? => return Ok(()),
        Some(_) if is_unserved(&to) && ours(&to)?.is_some() => detach(&to)?,
        Some(_) => {
            return Err(MountError::Mounted {
                path: to,
                source_name: "another file system".to_owned(),
            });
        }
        None => {}
    }
    rustix::mount::mount_bind(&from, &to)
        .map_err(|errno| MountError::io("show the mount on", &to, errno.into()))
}

/// Returns whether an error is that of a mount whose server has ended.
fn is_dead(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::NOTCONN.raw_os_error())
}

/// Returns whether a mount's server has ended. Attributes may be cached in the kernel, so stat(2) would not show it;
/// statfs(2) always queries the server.
fn is_unserved(path: &Path) -> bool {
    rustix::fs::statfs(path).is_err_and(|errno| errno == Errno::NOTCONN)
}

/// The directory's absolute path without links. Its last part is not looked at: it may be dead.
fn whole(directory: &Path) -> Result<PathBuf, MountError> {
    match fs::canonicalize(directory) {
        Ok(path) => Ok(path),
        Err(error) if is_dead(&error) => {
            let failed = |error| MountError::io("open", directory, error);
            let absolute = std::path::absolute(directory).map_err(failed)?;
            let (Some(parent), Some(name)) = (absolute.parent(), absolute.file_name()) else {
                return Err(failed(error));
            };
            Ok(fs::canonicalize(parent).map_err(failed)?.join(name))
        }
        Err(error) => Err(MountError::io("open", directory, error)),
    }
}

/// The origin's name, where the topmost mount on this directory is ours.
fn ours(path: &Path) -> Result<Option<String>, MountError> {
    Ok(topmost(path)?.filter(is_ours).and_then(|mount| {
        let name = mount.source.strip_prefix(OURS)?;
        Some(name.to_owned())
    }))
}

/// The topmost mount on this directory.
fn topmost(path: &Path) -> Result<Option<ListedMount>, MountError> {
    let mounts = Kernel::new()
        .mounts(None)
        .map_err(|error| MountError::io("read the mounts at", path, io::Error::other(error)))?;
    Ok(mounts
        .into_iter()
        .rfind(|mount| mount.mount_point == path)
        .cloned())
}

fn is_ours(mount: &ListedMount) -> bool {
    let is_fuse = mount.fs_type == "fuse" || mount.fs_type.starts_with("fuse.");
    is_fuse && mount.source.starts_with(OURS)
}

/// Returns the other mounts of the same origin on this machine.
///
/// # Errors
/// If the mounts cannot be read.
pub fn beside(directory: &Path) -> Result<Vec<PathBuf>, MountError> {
    let Some(origin) = ours(directory)? else {
        return Ok(Vec::new());
    };
    let mounts = Kernel::new().mounts(None).map_err(|error| {
        MountError::io("read the mounts at", directory, io::Error::other(error))
    })?;
    let others = mounts.into_iter().filter(|mount| {
        let is_same = mount.source.strip_prefix(OURS) == Some(origin.as_str());
        is_same && mount.mount_point != directory && !is_unserved(&mount.mount_point)
    });
    Ok(others.map(|mount| mount.mount_point.clone()).collect())
}

/// Detaches the topmost mount at once; files that are open stay open.
///
/// # Errors
/// [`MountError::Unmount`].
pub fn detach(path: &Path) -> Result<(), MountError> {
    let flags = UnmountFlags::DETACH | UnmountFlags::NOFOLLOW;
    match rustix::mount::unmount(path, flags) {
        Ok(()) => Ok(()),
        // Another process has unmounted it already.
        Err(Errno::INVAL) => Ok(()),
        // Only root may: fusermount3 does it for others.
        Err(Errno::PERM) => fusermount(path),
        Err(errno) => Err(MountError::Unmount {
            path: path.to_owned(),
            why: errno.to_string(),
        }),
    }
}

fn fusermount(path: &Path) -> Result<(), MountError> {
    let failed = |why: String| MountError::Unmount {
        path: path.to_owned(),
        why,
    };
    let ended = Command::new("fusermount3")
        .args([OsStr::new("-u"), OsStr::new("-z"), OsStr::new("--")])
        .arg(path)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| failed(format!("fusermount3 (package fuse3): {error}")))?;
    if ended.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&ended.stderr);
    Err(failed(said.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_one_word_of_options() {
        assert_eq!(source("/data/a,b"), "cachewise:/data/a_b");
        assert_eq!(source("s3://x\n"), "cachewise:s3://x_");
    }

    #[test]
    fn what_cannot_be_mounted_on_is_refused_with_a_reason() {
        let scratch = tempfile::tempdir().unwrap();
        let file = scratch.path().join("file");
        fs::write(&file, "").unwrap();
        let refused = |path: &Path| prepare(path).unwrap_err().to_string();
        assert!(refused(&file).contains("not a directory"));
        assert!(refused(scratch.path()).contains("not empty"));
        let missing = refused(&scratch.path().join("missing"));
        assert!(missing.contains("mkdir -p"), "{missing}");
        let empty = scratch.path().join("empty");
        fs::create_dir(&empty).unwrap();
        let link = scratch.path().join("link");
        std::os::unix::fs::symlink(&empty, &link).unwrap();
        assert_eq!(prepare(&link).unwrap(), fs::canonicalize(&empty).unwrap());
        assert_eq!(left_behind(&empty).unwrap(), None, "nothing was mounted");
    }
}
