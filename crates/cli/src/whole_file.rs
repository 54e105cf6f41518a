//! Files that are replaced only once they are complete.

use std::fs::{self, File, Permissions};
use std::io::{self, Seek, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// A file that takes its place when it is complete: until then, what was there stays.
#[derive(Debug)]
pub(crate) struct Replaced {
    /// Without a name, so that it vanishes however the process ends.
    pub(crate) draft: File,
    /// Its name; not a symbolic link when it was checked, and no link is followed when it is replaced.
    path: PathBuf,
    /// Permissions of the existing file.
    permissions: Option<Permissions>,
}

impl Replaced {
    /// Begins a replacement; `None` for targets that must be written in place: a device or a pipe, a symbolic link, a file
    /// of another user, one with several names, or one in a directory that is not writable.
    pub(crate) fn begin(path: &Path) -> io::Result<Option<Replaced>> {
        // Descriptors of this process too: writing continues at their position.
        if path.starts_with("/dev") || directory(path).ends_with("fd") {
            return Ok(None);
        }
        let path = path.to_owned();
        let is_there = match path.symlink_metadata() {
            // Only open(2) knows whether this link may be followed (fs.protected_symlinks).
            Ok(found) if found.is_symlink() => return Ok(None),
            Ok(_) => true,
            Err(error) if error.kind() == io::ErrorKind::NotFound => false,
            Err(_) => return Ok(None),
        };
        let mut permissions = None;
        if is_there {
            let found = fs::metadata(&path)?;
            let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
            let is_ours = found.uid() == user.as_raw() && found.gid() == group.as_raw();
            if !found.is_file() || found.nlink() > 1 || !is_ours {
                return Ok(None);
            }
            // A caller without permission to write must not replace it.
            File::options().write(true).open(&path)?;
            permissions = Some(found.permissions());
        }
        let draft = tempfile::tempfile_in(directory(&path));
        Ok(draft.ok().map(|draft| Replaced {
            draft,
            path,
            permissions,
        }))
    }

    /// Has it take its place.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        let mut file = tempfile::Builder::new()
            .prefix(".cachewise-")
            // As any new file: the umask takes from it.
            .permissions(Permissions::from_mode(0o666))
            .tempfile_in(directory(&self.path))
            // Without the temporary name, which the caller does not know.
            .map_err(|error| io::Error::from(error.kind()))?;
        self.draft.rewind()?;
        io::copy(&mut self.draft, &mut file)?;
        if let Some(permissions) = self.permissions {
            file.as_file().set_permissions(permissions)?;
        }
        file.persist(&self.path).map_err(|error| error.error)?;
        Ok(())
    }
}

/// Writes a file that takes its place when it is complete.
///
/// # Errors
/// The file system's error; the old file is unchanged.
pub fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    Whole::begin(path)?.write(bytes)
}

/// A file that is written as a whole, later: that it cannot be is known before.
#[derive(Debug)]
pub struct Whole(Result<Replaced, File>);

impl Whole {
    /// Opens what there is to be opened.
    ///
    /// # Errors
    /// The file system's error; the old file is unchanged.
    pub fn begin(path: &Path) -> io::Result<Whole> {
        Ok(Whole(match Replaced::begin(path)? {
            Some(replaced) => Ok(replaced),
            None => Err(File::options()
                .write(true)
                .create(true)
                .truncate(false)
                .open(path)?),
        }))
    }

    /// Writes it.
    ///
    /// # Errors
    /// The file system's error.
    pub fn write(self, bytes: &[u8]) -> io::Result<()> {
        match self.0 {
            Ok(mut replaced) => {
                replaced.draft.write_all(bytes)?;
                replaced.finish()
            }
            Err(mut file) => {
                // Of what has a length; a pipe has none.
                if file.metadata()?.is_file() {
                    file.set_len(0)?;
                }
                file.write_all(bytes)
            }
        }
    }
}

/// The directory that a file is in.
fn directory(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}
