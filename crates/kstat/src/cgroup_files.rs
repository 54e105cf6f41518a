//! [`CgroupFiles`]: the files of a control group, kept open for repeated reads.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::Error;
use crate::kernel::found;

/// A limit on open files, shared by several groups.
#[derive(Clone, Debug)]
pub struct Descriptors {
    most: usize,
    taken: Arc<AtomicUsize>,
}

impl Descriptors {
    /// A limit of this many files.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self {
            most,
            taken: Arc::default(),
        }
    }

    /// Returns the number of open files.
    #[must_use]
    pub fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    /// Keeps a file open if the limit allows it.
    fn keep(&self, name: &'static str, file: File) -> Option<Kept> {
        let more = |taken: usize| (taken < self.most).then_some(taken + 1);
        let order = Ordering::Relaxed;
        self.taken.fetch_update(order, order, more).ok()?;
        let taken = Arc::clone(&self.taken);
        Some(Kept { name, file, taken })
    }
}

/// A file that stays open; dropping it frees its slot.
#[derive(Debug)]
struct Kept {
    name: &'static str,
    file: File,
    taken: Arc<AtomicUsize>,
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.taken.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The files of a control group.
///
/// Finding and opening a file costs more than reading it. The most used file, the group's memory
/// size, therefore stays open as long as the limit allows it; after [`keep_all`](Self::keep_all)
/// all files do.
///
/// # Kernel
/// An open file does not keep a group from being removed. Reading it then returns ENODEV; it never
/// becomes a file of a new group with the same name.
#[derive(Debug)]
pub struct CgroupFiles {
    directory: PathBuf,
    descriptors: Descriptors,
    kept: Vec<Kept>,
    keeps_all: bool,
}

/// Longer than any number.
const NUMBER: usize = 32;

/// Longer than most files of a group; longer files take several reads.
const PIECE: usize = 8 << 10;

impl CgroupFiles {
    /// The files of the group in this directory, none of them open yet.
    #[must_use]
    pub fn new(directory: impl Into<PathBuf>, descriptors: &Descriptors) -> Self {
        Self {
            directory: directory.into(),
            descriptors: descriptors.clone(),
            kept: Vec::new(),
            keeps_all: false,
        }
    }

    /// The files of the group in this directory, for a single read: none stays open.
    #[must_use]
    pub fn once(directory: impl Into<PathBuf>) -> Self {
        Self::new(directory, &Descriptors::new(0))
    }

    /// Sets whether the group will be read again soon: then all of its files stay open, otherwise
    /// one.
    pub fn keep_all(&mut self, keeps_all: bool) {
        self.keeps_all = keeps_all;
        if !keeps_all {
            self.kept.retain(|kept| is_asked_often(kept.name));
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// The text of a file; `None` if the file does not exist or the group is gone.
    pub(crate) fn text(&mut self, name: &'static str) -> Result<Option<String>, Error> {
        let bytes = self.read(name, |file| {
            let mut bytes = Vec::new();
            loop {
                let end = bytes.len();
                bytes.resize(end + PIECE, 0);
                let read = read_at(file, &mut bytes[end..], end)?;
                bytes.truncate(end + read);
                if read == 0 {
                    return Ok(bytes);
                }
            }
        })?;
        Ok(bytes.map(|bytes| match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
        }))
    }

    /// The number in a file; `None` if the file does not exist or the group is gone.
    pub(crate) fn number(&mut self, name: &'static str) -> Result<Option<u64>, Error> {
        // One read, because hundreds of groups are read each second; the kernel returns a number in
        // one piece.
        let read = self.read(name, |file| {
            let mut text = [0; NUMBER];
            let length = read_at(file, &mut text, 0)?;
            Ok((text, length))
        })?;
        let Some((text, length)) = read else {
            return Ok(None);
        };
        let text = String::from_utf8_lossy(&text[..length]);
        let line = text.trim_end();
        let number = line
            .parse()
            .map_err(|_| Error::parse(&self.path(name), format!("{line:?} is not a number")))?;
        Ok(Some(number))
    }

    fn read<T>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(&File) -> io::Result<T>,
    ) -> Result<Option<T>, Error> {
        let failed =
            |operation, path: &Path, source| found(Err(Error::io(operation, path, source)));
        if let Some(place) = self.kept.iter().position(|kept| kept.name == name) {
            return match read(&self.kept[place].file) {
                Ok(read) => Ok(Some(read)),
                Err(source) => {
                    self.kept.swap_remove(place);
                    failed("read", &self.path(name), source)
                }
            };
        }
        let path = self.path(name);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(source) => return failed("open", &path, source),
        };
        let read = match read(&file) {
            Ok(read) => read,
            Err(source) => return failed("read", &path, source),
        };
        if self.keeps_all || is_asked_often(name) {
            self.kept.extend(self.descriptors.keep(name, file));
        }
        Ok(Some(read))
    }
}

/// The memory size of a group, in version 2 and 1.
pub(crate) const USED_V2: &str = "memory.current";
pub(crate) const USED_V1: &str = "memory.usage_in_bytes";

fn is_asked_often(name: &str) -> bool {
    [USED_V2, USED_V1].contains(&name)
}

/// Reads from an offset of a file, and repeats after signals.
fn read_at(file: &File, buffer: &mut [u8], at: usize) -> io::Result<usize> {
    loop {
        match file.read_at(buffer, at as u64) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => return read,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Fixture;
    use crate::{ErrorKind, Hierarchy};
    use cachewise_units::Bytes;

    const STAT: &str = "memory.stat";

    fn group(fixture: &Fixture, name: &str) -> PathBuf {
        fixture.write(&format!("{name}/{USED_V2}"), "4096\n");
        fixture.write(&format!("{name}/{STAT}"), "file 1\n");
        fixture.path(name)
    }

    #[test]
    fn kept_file_is_read_again_from_disk() {
        let fixture = Fixture::new();
        let descriptors = Descriptors::new(8);
        let mut files = CgroupFiles::new(group(&fixture, "a"), &descriptors);
        assert_eq!(descriptors.taken(), 0, "no file was read yet");
        assert_eq!(files.number(USED_V2).unwrap(), Some(4096), "its value");
        assert_eq!(
            files.text(STAT).unwrap().unwrap(),
            "file 1\n",
            "the whole text"
        );
        assert_eq!(descriptors.taken(), 1, "the number stays open alone");
        fixture.write(&format!("a/{USED_V2}"), "123456789\n");
        assert_eq!(
            files.number(USED_V2).unwrap(),
            Some(123_456_789),
            "its current value"
        );

        files.keep_all(true);
        assert_eq!(files.text(STAT).unwrap().unwrap(), "file 1\n", "opened");
        assert_eq!(descriptors.taken(), 2, "and kept");
        let long = format!("file 2\n{}", "x 1\n".repeat(PIECE));
        fixture.write(&format!("a/{STAT}"), &long);
        assert_eq!(
            files.text(STAT).unwrap().unwrap(),
            long,
            "in several pieces"
        );
        files.keep_all(false);
        assert_eq!(descriptors.taken(), 1, "released");
        drop(files);
        assert_eq!(descriptors.taken(), 0, "released, too");
    }

    #[test]
    fn files_beyond_the_limit_are_read_without_keeping() {
        let fixture = Fixture::new();
        for most in [0, 1] {
            let descriptors = Descriptors::new(most);
            let mut groups = ["a", "b"].map(|name| {
                let mut files = CgroupFiles::new(group(&fixture, name), &descriptors);
                files.keep_all(true);
                files
            });
            for _ in 0..2 {
                for files in &mut groups {
                    assert_eq!(files.number(USED_V2).unwrap(), Some(4096), "read");
                    assert!(files.text(STAT).unwrap().is_some(), "and read");
                }
            }
            assert_eq!(descriptors.taken(), most, "at most the limit");
        }
    }

    #[test]
    fn missing_file_is_none_and_text_is_an_error() {
        let fixture = Fixture::new();
        let descriptors = Descriptors::new(8);
        let mut files = CgroupFiles::new(fixture.path("none"), &descriptors);
        assert_eq!(files.number(USED_V2).unwrap(), None, "no group");
        assert_eq!(files.text(STAT).unwrap(), None, "and no text of it");
        let mut files = CgroupFiles::new(group(&fixture, "a"), &descriptors);
        fixture.write(&format!("a/{USED_V2}"), "much\n");
        let error = files.number(USED_V2).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Other, "{error}");
        assert!(
            error.to_string().contains("memory.current") && error.to_string().contains("much"),
            "the file and its text: {error}"
        );
    }

    #[test]
    fn open_file_never_reads_a_recreated_group() {
        let kernel = crate::Kernel::new();
        let hierarchy = kernel.cgroup_hierarchy().unwrap_or(Hierarchy::None);
        let Some(mount) = hierarchy.mount() else {
            println!("skipped: a recreated group: no control groups are mounted");
            return;
        };
        let directory = mount.join(format!("cachewise-again-{}", std::process::id()));
        if let Err(error) = std::fs::create_dir(&directory) {
            println!("skipped: a recreated group: {error}");
            return;
        }
        let made = Made(directory);
        let descriptors = Descriptors::new(64);
        let mut files = CgroupFiles::new(&made.0, &descriptors);
        files.keep_all(true);
        let first = files.memory(&hierarchy).unwrap();
        if first.is_none() {
            println!("skipped: a recreated group: its memory is not accounted");
            return;
        }
        assert!(
            descriptors.taken() > 1,
            "all are open: {}",
            descriptors.taken()
        );
        std::fs::remove_dir(&made.0).expect("open files do not keep it from being removed");
        std::fs::create_dir(&made.0).unwrap();
        assert_eq!(
            files.memory_used(&hierarchy).unwrap(),
            None,
            "the old group is gone, even if a new one has its name"
        );
        let mut files = CgroupFiles::new(&made.0, &descriptors);
        assert_eq!(
            files.memory_used(&hierarchy).unwrap(),
            Some(Bytes(0)),
            "the new one has nothing yet"
        );
    }

    /// A group, removed when dropped.
    struct Made(PathBuf);

    impl Drop for Made {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir(&self.0);
        }
    }
}
