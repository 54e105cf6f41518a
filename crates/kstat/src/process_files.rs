//! Open descriptors and mappings of a process, in its own mount namespace.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use crate::kernel::found;
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

/// A line of `/proc/PID/maps`: addresses, rights, offset, device, inode, path.
struct Mapping {
    addresses: String,
    executable: bool,
    device: Device,
    inode: u64,
    path: Vec<u8>,
}

impl Mapping {
    fn parse(line: &[u8]) -> Option<Self> {
        let mut rest = line;
        let mut word = || {
            let start = rest.iter().position(|&byte| byte != b' ')?;
            let end = rest[start..]
                .iter()
                .position(|&byte| byte == b' ')
                .map_or(rest.len(), |length| start + length);
            let word = std::str::from_utf8(&rest[start..end]).ok()?;
            rest = &rest[end..];
            Some(word)
        };
        let addresses = word()?.to_owned();
        let (rights, _offset) = (word()?, word()?);
        let executable = rights.contains('x');
        let (major, minor) = word()?.split_once(':')?;
        let device = Device {
            major: u32::from_str_radix(major, 16).ok()?,
            minor: u32::from_str_radix(minor, 16).ok()?,
        };
        let inode = word()?.parse().ok()?;
        let start = rest.iter().position(|&byte| byte != b' ');
        Some(Self {
            addresses,
            executable,
            device,
            inode,
            path: start.map_or_else(Vec::new, |start| unescaped(&rest[start..])),
        })
    }
}

/// The kernel writes a newline in a path of `maps` as `\012`, and changes no other byte.
fn unescaped(path: &[u8]) -> Vec<u8> {
    const NEWLINE: &[u8] = br"\012";
    let mut plain = Vec::with_capacity(path.len());
    let mut rest = path;
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix(NEWLINE) {
            plain.push(b'\n');
            rest = after;
        } else {
            plain.push(rest[0]);
            rest = &rest[1..];
        }
    }
    plain
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
    fn mapping_parses_a_line_of_maps() {
        let mapping = Mapping::parse(
            br"7f0a0000-7f0b0000 r-xp 00026000 fe:01 1837                       /opt/a b\012c (deleted)",
        )
        .expect("it is well formed");
        assert_eq!(
            mapping.addresses, "7f0a0000-7f0b0000",
            "as map_files has it"
        );
        assert!(mapping.executable, "by its rights");
        assert_eq!(
            (mapping.device.major, mapping.device.minor),
            (0xfe, 1),
            "hexadecimal"
        );
        assert_eq!(mapping.inode, 1837, "decimal");
        assert_eq!(
            mapping.path, b"/opt/a b\nc (deleted)",
            "the path keeps blanks and newlines"
        );
        let anonymous = Mapping::parse(b"7ffc-7ffd rw-p 00000000 00:00 0 ").expect("no path");
        assert!(anonymous.path.is_empty(), "memory without a file has none");
        assert!(Mapping::parse(b"7ffc-7ffd rw-p").is_none(), "a cut line");
    }

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
