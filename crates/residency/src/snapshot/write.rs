//! [`Writer`]: a snapshot is written.

use std::fs::{File, Metadata, Permissions};
use std::io::{BufWriter, ErrorKind, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use cachewise_sys::page_size;
use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use serde::Serialize;
use tempfile::TempPath;

use crate::Inode;

use super::{
    End, FORMAT, Head, Line, Reader, SnapshotEntry, SnapshotError, SnapshotFault, Totals, VERSION,
};

/// Writes a snapshot, file by file. Without [`finish`](Self::finish) it is not complete, and readers say so.
///
/// # Cost
/// Memory for one file's ranges.
#[derive(Debug)]
pub struct Writer<W> {
    writer: W,
    /// The snapshot's own path, where it is known.
    path: Option<PathBuf>,
    totals: Totals,
}

impl Writer<Replacement> {
    /// Begins a snapshot that is going to be, or to replace, the file at `path`: nothing is there, or what was
    /// there is, until [`Replacement::commit`]. Where `path` is a symbolic link, the file is the one it leads to.
    ///
    /// A new file is its owner's alone (mode 0600), for it lists paths that others may not see. The one that is
    /// replaced passes on its mode, and its owner and group as far as the caller may give files away.
    ///
    /// # Errors
    /// No file can be made in that directory; or the existing file is neither a snapshot nor empty,
    /// and is not replaced.
    pub fn create(path: &Path) -> Result<Self, SnapshotError> {
        let create = || Self::new(Replacement::for_path(&place(path)?)?);
        let mut new = create().map_err(|error| error.at(path))?;
        new.path = Some(path.to_owned());
        Ok(new)
    }

    /// Returns the file that is written, and the one that it is going to replace: what a snapshot of the tree
    /// that it is in should leave out.
    #[must_use]
    pub fn own(&self) -> Vec<Inode> {
        let Replacement { file, path, .. } = &self.writer;
        let inode = |file: &File| Inode::of_fd(file.as_fd()).ok();
        let replaced = File::open(path).ok().and_then(|file| inode(&file));
        inode(file.get_ref()).into_iter().chain(replaced).collect()
    }
}

impl<W: Write> Writer<W> {
    /// Begins a snapshot on any stream. It is written in small pieces: pass a buffered one.
    ///
    /// # Errors
    /// The stream takes nothing.
    pub fn new(writer: W) -> Result<Self, SnapshotError> {
        let created = SystemTime::now().duration_since(UNIX_EPOCH);
        let page_size = page_size().get();
        let head = Head {
            format: FORMAT.to_owned(),
            version: VERSION,
            page_size_bytes: u32::try_from(page_size).unwrap_or(u32::MAX),
            created_seconds: created.map_or(0, |since| since.as_secs()),
        };
        let totals = Totals::default();
        let mut new = Self {
            writer,
            path: None,
            totals,
        };
        new.line(&head)?;
        Ok(new)
    }

    /// Adds a file; a relative path is completed from the working directory. Files of which nothing is resident may
    /// be left out: [`restore()`](super::restore()) has nothing to do for them.
    ///
    /// # Errors
    /// The stream takes no more; there is no working directory.
    pub fn add(&mut self, entry: &SnapshotEntry) -> Result<(), SnapshotError> {
        let line = Line::from_entry(entry)
            .map_err(|source| SnapshotError::io("working directory", source))?;
        self.line(&line)?;
        self.totals.files += 1;
        self.totals.pages += entry.cached();
        Ok(())
    }

    /// Returns what was added so far.
    #[must_use]
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// Ends the snapshot and returns the stream, flushed.
    ///
    /// # Errors
    /// The stream takes no more.
    pub fn finish(mut self) -> Result<W, SnapshotError> {
        self.line(&End {
            end: true,
            files: self.totals.files,
            pages: self.totals.pages.0,
        })?;
        let flushed = self.writer.flush();
        flushed.map_err(|source| self.failed(source))?;
        Ok(self.writer)
    }

    fn line(&mut self, line: &impl Serialize) -> Result<(), SnapshotError> {
        let written = serde_json::to_writer(&mut self.writer, line)
            .map_err(std::io::Error::from)
            .and_then(|()| self.writer.write_all(b"\n"));
        written.map_err(|source| self.failed(source))
    }

    fn failed(&self, source: std::io::Error) -> SnapshotError {
        let error = SnapshotError::io("write", source);
        match &self.path {
            Some(path) => error.at(path),
            None => error,
        }
    }
}

/// A file that replaces another one only when it is complete. Dropped before, it leaves no file.
///
/// If the file system has unnamed files (`O_TMPFILE`), it has no name until then, so a process that is killed leaves no
/// file either. Only a file that replaces another one has a name of its own (`.cachewise-XXXXXX`, in the same directory)
/// between two system calls of [`commit`](Self::commit), because an unnamed file cannot take the name of an existing one.
/// On other file systems (NFS, FAT) it has that name from the beginning.
#[derive(Debug)]
pub struct Replacement {
    file: BufWriter<File>,
    /// Dropped, it removes the file; `None` of a file without a name.
    name: Option<TempPath>,
    path: PathBuf,
}

/// Permissions of a new snapshot: its owner reads and writes it.
const PRIVATE: u32 = 0o600;

impl Replacement {
    fn for_path(path: &Path) -> Result<Self, SnapshotError> {
        let replaced = may_be_replaced(path)?;
        let (file, name) = match nameless(directory(path)) {
            Some(file) => (file, None),
            None => {
                let made = named().tempfile_in(directory(path));
                let (file, name) = made
                    .map_err(|error| why_not(directory(path), error))
                    .map_err(|source| SnapshotError::io("create a file in its directory", source))?
                    .into_parts();
                (file, Some(name))
            }
        };
        if let Some(replaced) = replaced {
            pass_on(&replaced, &file)
                .map_err(|source| SnapshotError::io("keep its mode", source))?;
        }
        Ok(Self {
            file: BufWriter::with_capacity(1 << 16, file),
            name,
            path: path.to_owned(),
        })
    }

    /// Has the disk take the file, and gives it its name, in the place of what had it before. After a crash there is
    /// the one or the other.
    ///
    /// # Errors
    /// The disk does not take it; the name is a directory's, or that of something that came meanwhile and is no
    /// snapshot.
    pub fn commit(self) -> Result<(), SnapshotError> {
        let Self { file, name, path } = self;
        let failed = |source| SnapshotError::io("write", source).at(&path);
        let file = file
            .into_inner()
            .map_err(|error| failed(error.into_error()))?;
        file.sync_all().map_err(failed)?;
        let name = match name {
            Some(name) => Some(name),
            None => match link(&file, &path) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                    let linked = named().make_in(directory(&path), |name| link(&file, name));
                    Some(linked.map_err(failed)?.into_temp_path())
                }
                linked => linked.map(|()| None).map_err(failed)?,
            },
        };
        if let Some(name) = name {
            may_be_replaced(&path).map_err(|error| error.at(&path))?;
            name.persist(&path).map_err(|error| failed(error.error))?;
        }
        let synced = File::open(directory(&path)).and_then(|directory| directory.sync_all());
        synced.map_err(failed)
    }
}

/// Where a path leads: where there is no file yet, through symbolic links that lead nowhere.
fn place(path: &Path) -> Result<PathBuf, SnapshotError> {
    /// As many as the kernel follows.
    const LINKS: usize = 40;
    let failed = |source| SnapshotError::io("look at its place", source);
    match std::fs::metadata(path) {
        Ok(_) => std::fs::canonicalize(path).map_err(failed),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let mut path = path.to_owned();
            for _ in 0..LINKS {
                match std::fs::read_link(&path) {
                    Ok(target) => path = directory(&path).join(target),
                    Err(_) => break,
                }
            }
            Ok(path)
        }
        // The kernel does not follow everybody's links in everybody's directories: nor do we.
        Err(error) => Err(failed(error)),
    }
}

/// An unnamed file, if it can be given a name later.
fn nameless(directory: &Path) -> Option<File> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    // Errors are reported by the attempt with a name.
    let file = rustix::fs::open(directory, flags, Mode::from_raw_mode(PRIVATE)).ok()?;
    let file = File::from(file);
    // Without /proc there is no way to it.
    std::fs::metadata(by_descriptor(&file)).ok()?;
    Some(file)
}

fn by_descriptor(file: &File) -> PathBuf {
    format!("/proc/self/fd/{}", file.as_raw_fd()).into()
}

/// Gives a nameless file a name that is not in use.
fn link(file: &File, name: &Path) -> std::io::Result<()> {
    let flags = AtFlags::SYMLINK_FOLLOW;
    Ok(rustix::fs::linkat(
        CWD,
        by_descriptor(file),
        CWD,
        name,
        flags,
    )?)
}

fn named() -> tempfile::Builder<'static, 'static> {
    let mut named = tempfile::Builder::new();
    named
        .prefix(".cachewise-")
        .permissions(Permissions::from_mode(PRIVATE));
    named
}

/// Gives a file the mode of the one whose place it takes, and its owner and group where that is allowed.
fn pass_on(replaced: &Metadata, file: &File) -> std::io::Result<()> {
    let mut mode = replaced.mode() & 0o777;
    // The group alone may be changed by who is in both.
    let kept = fchown(file, Some(replaced.uid()), Some(replaced.gid()))
        .or_else(|_| fchown(file, None, Some(replaced.gid())));
    if kept.is_err() {
        // Permissions of the old group do not apply to another group.
        mode &= !0o070;
    }
    file.set_permissions(Permissions::from_mode(mode))
}

/// The metadata of the file to replace, if there is one. Only a snapshot or an empty file may be replaced.
fn may_be_replaced(path: &Path) -> Result<Option<Metadata>, SnapshotError> {
    let found = match std::fs::metadata(path) {
        // If the file is missing or hidden, replacing it reports the error.
        Err(_) => return Ok(None),
        Ok(found) => found,
    };
    let in_the_way = || Err(SnapshotError::new(None, SnapshotFault::InTheWay));
    if !found.is_file() {
        return in_the_way();
    }
    match Reader::open(path) {
        Ok(_) => Ok(Some(found)),
        Err(error) => match error.fault {
            SnapshotFault::Empty | SnapshotFault::Newer(_) => Ok(Some(found)),
            // Damaged as it may be, it begins as one.
            _ if error.line > Some(1) => Ok(Some(found)),
            _ => in_the_way(),
        },
    }
}

/// Returns why no file can be made in a directory, without the temporary name, which the caller
/// does not know.
fn why_not(directory: &Path, error: std::io::Error) -> std::io::Error {
    use rustix::fs::Access;
    match rustix::fs::access(directory, Access::WRITE_OK | Access::EXEC_OK) {
        Err(errno) => errno.into(),
        // The file systems of the kernel itself say so.
        Ok(()) if error.kind() == ErrorKind::NotFound => std::io::Error::other(format!(
            "nobody can make files in {}: name another place",
            directory.display()
        )),
        Ok(()) => error.kind().into(),
    }
}

fn directory(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}

impl Write for Replacement {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.flush()
    }
}
