//! Mappings of a process, and the files behind them.

use std::fs;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::Error;

/// One line of a process's maps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mapping {
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// Where in the file it begins.
    pub(crate) offset: u64,
    /// Whether code in it may run.
    pub(crate) is_code: bool,
    /// The file's number; 0 where there is none.
    pub(crate) inode: u64,
    /// As the process calls it; nothing for memory without a name.
    pub(crate) path: PathBuf,
}

impl Mapping {
    /// Opens the mapped file; `None` if the mapping has no file, or it cannot be opened. The
    /// process may see other files at these paths than we do, so the file is opened by the mapping,
    /// which needs root, or below the root of the process.
    pub(crate) fn open(&self, pid: u32, is_program: bool) -> Option<fs::File> {
        let mapping = format!("/proc/{pid}/map_files/{:x}-{:x}", self.start, self.end);
        // Though its name may be another one's in the meantime.
        let program = is_program.then(|| format!("/proc/{pid}/exe"));
        let of_process = in_root_of(pid, &self.path)?;
        let places = program
            .into_iter()
            .chain([mapping])
            .map(PathBuf::from)
            .chain([of_process, self.path.clone()]);
        places.into_iter().find_map(|place| regular(&place))
    }
}

/// How we reach what a process calls so; nothing if that is no path.
pub(crate) fn in_root_of(pid: u32, path: &Path) -> Option<PathBuf> {
    let name = path.strip_prefix("/").ok()?;
    Some(Path::new(&format!("/proc/{pid}/root")).join(name))
}

/// Opens a regular file. A device or a pipe would do something, or wait.
pub(crate) fn regular(path: &Path) -> Option<fs::File> {
    let is_file = |found: fs::Metadata| found.is_file().then_some(());
    is_file(fs::metadata(path).ok()?)?;
    // It may be another one in the meantime.
    let mut options = fs::OpenOptions::new();
    let file = options
        .read(true)
        .custom_flags(OFlags::NONBLOCK.bits() as i32);
    let file = file.open(path).ok()?;
    is_file(file.metadata().ok()?)?;
    Some(file)
}

/// Returns the present mappings of a process.
pub(crate) fn mappings_of(pid: u32) -> Result<Vec<Mapping>, Error> {
    let path = format!("/proc/{pid}/maps");
    // Names need not be UTF-8; a name that is not leads to no file, which is what it does for other reasons too.
    let text = fs::read(&path).map_err(Error::io("read", path))?;
    Ok(mappings(&String::from_utf8_lossy(&text)))
}

fn mappings(text: &str) -> Vec<Mapping> {
    let parse = |line: &str| {
        let mut words = line.splitn(6, ' ');
        let (start, end) = words.next()?.split_once('-')?;
        let hex = |text: &str| u64::from_str_radix(text, 16).ok();
        let is_code = words.next()?.contains('x');
        let offset = words.next()?;
        let inode = words.nth(1)?;
        Some(Mapping {
            start: hex(start)?,
            end: hex(end)?,
            offset: hex(offset)?,
            is_code,
            inode: inode.trim().parse().ok()?,
            path: words.next().unwrap_or_default().trim_start().into(),
        })
    };
    text.lines().filter_map(parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_are_opened() {
        let place = tempfile::tempdir().unwrap();
        let pipe = place.path().join("pipe");
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        let kind = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, kind, mode, 0).unwrap();
        for no_file in [
            pipe.as_path(),
            place.path(),
            Path::new("/dev/zero"),
            Path::new("/nowhere"),
        ] {
            assert!(regular(no_file).is_none(), "{}", no_file.display());
        }
        assert!(regular(Path::new("/proc/self/exe")).is_some(), "a file");
        let own = Mapping {
            start: 0,
            end: 4096,
            offset: 0,
            is_code: true,
            inode: 1,
            path: std::env::current_exe().unwrap(),
        };
        // No such mapping: by the process's own root.
        let opened = own.open(std::process::id(), false);
        assert!(opened.is_some(), "{own:?}");
    }

    #[test]
    fn maps_are_read() {
        let text = "\
55d0c0000000-55d0c0002000 r-xp 00001000 fe:00 1234                       /bin/with space
7ffd00000000-7ffd00021000 rw-p 00000000 00:00 0
7ffd10000000-7ffd10021000 r-xp 00000000 00:00 0                          [vdso]
nonsense
";
        let found = mappings(text);
        assert_eq!(found.len(), 3, "what is no mapping is left out: {found:?}");
        assert_eq!(
            found[0].path,
            Path::new("/bin/with space"),
            "names may have spaces"
        );
        assert_eq!(
            (found[0].offset, found[1].end, found[0].inode),
            (0x1000, 0x7ffd_0002_1000, 1234),
            "{found:?}"
        );
        assert!(found[0].is_code && !found[1].is_code, "{found:?}");
        assert_eq!(found[2].path, Path::new("[vdso]"), "no file, but a name");
    }
}
