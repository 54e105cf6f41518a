//! [`Journal`]: what settings were before, kept in a file, so that they can be put back after a crash too.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use cachewise_kstat::ErrorKind;

use crate::state_file::{
    Document, JournalEntry, NEW, SCHEMA_VERSION, boot, documents, hold, is_ours, lock,
};
use crate::{Error, Owner, file};

/// Result of restoring settings.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Restored {
    /// Settings that are again what they were.
    pub restored: Vec<JournalEntry>,
    /// Settings that another process has changed since, with their current values. They were not
    /// restored.
    pub left: Vec<(JournalEntry, String)>,
    /// Settings whose file, group or device is gone.
    pub gone: Vec<JournalEntry>,
    /// Settings that could not be put back, and why.
    pub failed: Vec<(JournalEntry, Error)>,
}

/// Settings that this process has changed. They are put back when it is dropped, by an unwinding panic too;
/// after a crash [`recover`](crate::recover) does so.
#[derive(Debug)]
pub struct Journal {
    directory: PathBuf,
    path: PathBuf,
    document: Document,
    /// The state file, locked: the kernel releases it when this process ends, and processes of other namespaces see that.
    held: Option<fs::File>,
}

impl Journal {
    /// Starts a journal in a state file of this process in this directory, and creates the
    /// directory if it is missing. `by` names the command in messages. Nothing is written until a
    /// setting is changed.
    ///
    /// # Errors
    /// Creating the directory fails, or other users may write to it.
    pub fn open(directory: &Path, by: &str) -> Result<Self, Error> {
        let mut builder = DirBuilder::new();
        let made = builder.recursive(true).mode(0o700).create(directory);
        made.map_err(|source| Error::io("make the directory of state files", directory, source))?;
        is_ours(directory)?;
        let owner = Owner::current()?.to_string();
        Ok(Self {
            held: None,
            path: directory.join(format!("state-{owner}.json")),
            directory: directory.to_owned(),
            document: Document {
                schema_version: SCHEMA_VERSION,
                by: by.to_owned(),
                owner,
                boot: boot()?,
                entries: Vec::new(),
            },
        })
    }

    /// Returns the state file, which is there while something is changed.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a value to the file of a setting. The old value, and those of the files `beside` that
    /// change with it, are stored on disk first.
    ///
    /// # Errors
    /// [`Error::Invalid`] if another running process has changed the setting; otherwise errors of
    /// reading and writing. If only the write failed, the setting is unchanged.
    pub fn change(
        &mut self,
        name: &str,
        path: &Path,
        value: &str,
        beside: &[PathBuf],
    ) -> Result<(), Error> {
        // Another process that notes the same setting now would take our value for what was there before.
        let locked = lock(&self.directory)?;
        for path in beside {
            if let Some(before) = file::value(path)? {
                let name = path.display().to_string();
                self.note(&name, path, before)?;
            }
        }
        let before = file::value(path)?
            .ok_or_else(|| Error::io("read", path, io::ErrorKind::NotFound.into()))?;
        let index = self.note(name, path, before.clone())?;
        // After a crash at this point, the file may hold either value.
        if let Some(entry) = self.document.entries.get_mut(index) {
            entry.ours = vec![before, value.to_owned()];
        }
        self.save()?;
        // It stands in our state file now, which all others look into.
        drop(locked);
        file::write(path, value)?;
        for path in beside.iter().map(PathBuf::as_path).chain([path]) {
            self.look_back(path)?;
        }
        self.save()
    }

    /// Says whether a file is still as this process, or who was there before, has set it. One that this process has not
    /// changed is not.
    ///
    /// # Errors
    /// What reading says.
    pub fn holds(&self, path: &Path) -> Result<bool, Error> {
        let now = file::value(path)?;
        let mut entries = self.document.entries.iter();
        let entry = entries.find(|entry| entry.path == path);
        Ok(entry
            .zip(now)
            .is_some_and(|(entry, now)| entry.before == now || entry.ours.contains(&now)))
    }

    /// Records the current value of a file as ours: the kernel rounds sizes to pages, and one
    /// setting changes another.
    fn look_back(&mut self, path: &Path) -> Result<(), Error> {
        let now = file::value(path)?;
        let mut entries = self.document.entries.iter_mut();
        if let (Some(now), Some(entry)) = (now, entries.find(|entry| entry.path == path))
            && !entry.ours.contains(&now)
        {
            entry.ours.push(now);
        }
        Ok(())
    }

    /// Notes what a file says before the first change of it; gives the place of the note.
    fn note(&mut self, name: &str, path: &Path, before: String) -> Result<usize, Error> {
        let entries = &mut self.document.entries;
        if let Some(index) = entries.iter().position(|entry| entry.path == path) {
            return Ok(index);
        }
        for (file, document) in documents(&self.directory)?.flatten() {
            let is_other = file != self.path && document.entries.iter().any(|e| e.path == path);
            if is_other {
                return Err(Error::Invalid {
                    what: format!("change {name}"),
                    problem: format!(
                        "`cachewise {}` has changed it, and not put it back yet ({}): wait for its end, or where it \
                         has crashed: cachewise bench restore",
                        document.by,
                        file.display()
                    ),
                });
            }
        }
        self.document.entries.push(JournalEntry {
            name: name.to_owned(),
            path: path.to_owned(),
            before,
            ours: Vec::new(),
        });
        Ok(self.document.entries.len() - 1)
    }

    /// Replaces the state file by one that is complete.
    fn save(&mut self) -> Result<(), Error> {
        let failed = |source| Error::io("write the state file", &self.path, source);
        let text =
            serde_json::to_vec_pretty(&self.document).map_err(|error| failed(error.into()))?;
        // Its owner is in its name, so that it is known whose it is if nothing comes of it.
        let new = self.directory.join(format!("{NEW}{}", self.document.owner));
        let written = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&new)
            .and_then(|mut file| {
                file.write_all(&text)?;
                file.sync_all()?;
                // Before it has its name: a file of this name that is not locked is of a process that has ended.
                let is_locked = hold(&file)?;
                fs::rename(&new, &self.path)?;
                Ok(is_locked.then_some(file))
            });
        self.held = written.map_err(failed)?;
        Ok(())
    }

    /// Puts one setting back, so that it may be changed again later.
    ///
    /// # Errors
    /// What writing the state file says.
    pub fn restore_one(&mut self, path: &Path) -> Result<Restored, Error> {
        let entries = std::mem::take(&mut self.document.entries);
        let (these, others) = entries.into_iter().partition(|entry| entry.path == path);
        self.document.entries = others;
        let restored = put_back(these);
        self.keep_failed(&restored)?;
        Ok(restored)
    }

    /// Puts everything back, what was changed last first.
    ///
    /// # Errors
    /// Writing the state file fails. Settings that could not be restored are in the result, and
    /// stay in the state file.
    pub fn restore(&mut self) -> Result<Restored, Error> {
        let restored = put_back(std::mem::take(&mut self.document.entries));
        self.keep_failed(&restored)?;
        Ok(restored)
    }

    fn keep_failed(&mut self, restored: &Restored) -> Result<(), Error> {
        let failed = restored.failed.iter().map(|(entry, _)| entry.clone());
        self.document.entries.extend(failed);
        if !self.document.entries.is_empty() {
            return self.save();
        }
        // After its name: see `life_by_lock`.
        let removed = fs::remove_file(&self.path);
        self.held = None;
        match removed {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(Error::io("remove the state file", &self.path, error))
            }
            _ => Ok(()),
        }
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        // Settings that cannot be restored stay in the state file, for the next start.
        let _ = self.restore();
    }
}

/// Puts settings back. Some can only be put back through another (vm.dirty_bytes is 0 again when
/// vm.dirty_ratio is set), so what fails is looked at again after the others.
pub(crate) fn put_back(entries: Vec<JournalEntry>) -> Restored {
    let mut restored = Restored::default();
    let mut again = Vec::new();
    for entry in entries.into_iter().rev() {
        match file::value(&entry.path) {
            Ok(None) => restored.gone.push(entry),
            Err(error) if is_gone(&error) => restored.gone.push(entry),
            Err(error) => restored.failed.push((entry, error)),
            Ok(Some(now)) if now == entry.before => restored.restored.push(entry),
            Ok(Some(now)) if !entry.ours.is_empty() && !entry.ours.contains(&now) => {
                restored.left.push((entry, now));
            }
            Ok(Some(_)) => again.extend(write_back(entry, &mut restored)),
        }
    }
    for (entry, error) in again {
        match file::value(&entry.path) {
            Ok(Some(now)) if now == entry.before => restored.restored.push(entry),
            _ => match write_back(entry, &mut restored) {
                Some((entry, _)) => restored.failed.push((entry, error)),
                None => continue,
            },
        }
    }
    restored
}

fn write_back(entry: JournalEntry, restored: &mut Restored) -> Option<(JournalEntry, Error)> {
    match file::write(&entry.path, &entry.before) {
        Ok(()) => restored.restored.push(entry),
        Err(error) if is_gone(&error) => restored.gone.push(entry),
        Err(error) => return Some((entry, error)),
    }
    None
}

/// A device that is unplugged, a group that is removed: also while its file is open.
fn is_gone(error: &Error) -> bool {
    const ENODEV: i32 = 19;
    let removed =
        matches!(error, Error::Io { source, .. } if source.raw_os_error() == Some(ENODEV));
    removed || error.kind() == ErrorKind::NotFound
}
