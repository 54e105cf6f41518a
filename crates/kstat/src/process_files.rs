//! Open descriptors and mappings of a process, in its own mount namespace.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use crate::kernel::found;
use crate::mapping::Mapping;
use crate::{Device, Error, ErrorKind, Kernel};

/// Way in which a process holds a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Hold {
    /// An open descriptor, by its number.
    Descriptor(u32),
    /// A mapping into its memory.
    Mapping,
}

/// A file that a process holds. A file with two holds has two entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessFile {
    /// The hold.
    pub hold: Hold,
    /// Its path in the process's view; for files without a path (pipes, memfd) the kernel's name.
    pub path: PathBuf,
    /// Mapped as executable: a program or a library.
    pub executable: bool,
    /// The kernel marks its path as deleted.
    pub deleted: bool,
    /// A path by which this caller reaches the same file, even if it was renamed, deleted, or is in
    /// another mount namespace.
    pub link: PathBuf,
    /// Device and inode of a mapping; for descriptors, `stat` the link.
    pub identity: Option<(Device, u64)>,
}

/// The files of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessFiles {
    /// In the order of descriptors, then of addresses.
    pub files: Vec<ProcessFile>,
    /// Descriptors that were closed, or mappings that were removed, during the listing.
    pub vanished: u64,
}

impl Kernel {
    /// Lists the files that a process holds.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if there is no such process, [`ErrorKind::Denied`] if it belongs to
    /// another user: only its owner and root may list them (`PTRACE_MODE_READ`).
    ///
    /// # Cost
    /// A system call per descriptor and per mapped file, one for all mappings.
    pub fn process_files(&self, pid: u32) -> Result<ProcessFiles, Error> {
        let mut all = ProcessFiles::default();
        self.descriptors(pid, &mut all)?;
        self.mappings(pid, &mut all)?;
        Ok(all)
    }

    fn descriptors(&self, pid: u32, all: &mut ProcessFiles) -> Result<(), Error> {
        let directory = self.process(pid, "fd");
        let cannot = |source| Error::io("list", &directory, source);
        let mut numbers: Vec<u32> = Vec::new();
        for entry in fs::read_dir(&directory).map_err(cannot)? {
            let name = entry.map_err(cannot)?.file_name();
            numbers.extend(name.to_str().and_then(|name| name.parse::<u32>().ok()));
        }
        numbers.sort_unstable();
        for number in numbers {
            let link = directory.join(number.to_string());
            let Some(path) = self.link_target(&link)? else {
                all.vanished += 1;
                continue;
            };
            let (path, deleted) = without_mark(&path);
            all.files.push(ProcessFile {
                hold: Hold::Descriptor(number),
                path,
                executable: false,
                deleted,
                link,
                identity: None,
            });
        }
        Ok(())
    }

    fn mappings(&self, pid: u32, all: &mut ProcessFiles) -> Result<(), Error> {
        let path = self.process(pid, "maps");
        let text = self.read(&path)?;
        for line in text
            .split(|&byte| byte == b'\n')
            .filter(|line| !line.is_empty())
        {
            let Some(mapping) = Mapping::parse(line) else {
                return Err(Error::parse(&path, String::from_utf8_lossy(line)));
            };
            // Anonymous memory has inode 0; a repeated file is its next segment.
            if mapping.inode == 0 {
                continue;
            }
            let identity = Some((mapping.device, mapping.inode));
            if let Some(last) = all.files.last_mut()
                && last.identity == identity
            {
                last.executable |= mapping.executable;
                continue;
            }
            let (path, deleted) = without_mark(Path::new(OsStr::from_bytes(&mapping.path)));
            let link = self.process(pid, "map_files").join(mapping.addresses);
            all.files.push(ProcessFile {
                hold: Hold::Mapping,
                // Following map_files needs CAP_CHECKPOINT_RESTORE; the path below its root needs
                // only the process's owner.
                link: match fs::metadata(&link) {
                    Ok(_) => link,
                    Err(_) => self
                        .process(pid, "root")
                        .join(path.strip_prefix("/").unwrap_or(&path)),
                },
                path,
                executable: mapping.executable,
                deleted,
                identity,
            });
        }
        Ok(())
    }

    fn link_target(&self, link: &Path) -> Result<Option<PathBuf>, Error> {
        let target = fs::read_link(link).map_err(|source| Error::io("read the link", link, source));
        match found(target) {
            // The process may end during the listing.
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            result => result,
        }
    }
}

fn without_mark(path: &Path) -> (PathBuf, bool) {
    const MARK: &[u8] = b" (deleted)";
    let bytes = path.as_os_str().as_bytes();
    match bytes.strip_suffix(MARK) {
        Some(plain) => (
            PathBuf::from(std::ffi::OsString::from_vec(plain.to_vec())),
            true,
        ),
        None => (path.to_owned(), false),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn process_files_lists_open_and_deleted_files() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("held");
        let file = fs::File::create(&path).expect("a file");
        fs::remove_file(&path).expect("it can be deleted");
        let files = Kernel::new()
            .process_files(std::process::id())
            .expect("our own process");
        let held = files
            .files
            .iter()
            .find(|held| held.path == path)
            .expect("the deleted file is listed by its last path");
        assert!(held.deleted, "and marked");
        let reached = fs::metadata(&held.link).expect("the link leads to it");
        let ours = file.metadata().expect("it is open");
        assert_eq!(reached.ino(), ours.ino(), "to the same file");
        let program = fs::metadata("/proc/self/exe").expect("our program");
        assert!(
            files.files.iter().any(|held| held.hold == Hold::Mapping
                && held.executable
                && fs::metadata(&held.link).is_ok_and(|found| found.ino() == program.ino())),
            "the program itself is mapped"
        );
    }

    #[test]
    fn process_files_of_missing_process_is_not_found() {
        let error = Kernel::new()
            .process_files(u32::MAX)
            .expect_err("no such process");
        assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    }
}
