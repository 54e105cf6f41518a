//! [`open_input`], [`read_input`] and [`read_input_text`]: small files that a user names, read within a limit.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use cachewise_units::Bytes;
use rustix::fs::{CWD, FileType, Mode, OFlags};

use crate::FileKind;

/// Type of the file system of pipes without a name (`PIPEFS_MAGIC` in `linux/magic.h`).
const PIPEFS: u64 = 0x5049_5045;

/// Opens a regular file for reading, or a pipe without a name, as a shell passes it for `<(...)`. Devices and FIFOs are not
/// opened, as they may have no end, or block.
///
/// # Errors
/// The kind of a file that is refused; otherwise the errors of `open(2)`.
pub fn open_input(path: &Path) -> io::Result<File> {
    // By a descriptor that opens nothing, as opening a device or a FIFO has effects of its own.
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let place = rustix::fs::openat(CWD, path, flags, Mode::empty())?;
    check(&place)?;
    // A FIFO that takes its place in between does not block.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
    let file = rustix::fs::openat(CWD, path, flags, Mode::empty())?;
    check(&file)?;
    let flags = rustix::fs::fcntl_getfl(&file)?;
    rustix::fs::fcntl_setfl(&file, flags - OFlags::NONBLOCK)?;
    Ok(file.into())
}

fn check(file: &rustix::fd::OwnedFd) -> io::Result<()> {
    let kind = FileType::from_raw_mode(rustix::fs::fstat(file)?.st_mode);
    let kind = match kind {
        FileType::RegularFile => return Ok(()),
        FileType::Fifo if is_pipe(file)? => return Ok(()),
        FileType::BlockDevice => "a block device".to_owned(),
        kind => FileKind::without_pages(kind).map_or_else(String::new, |kind| kind.to_string()),
    };
    Err(io::Error::other(format!("is {kind}, not a file")))
}

/// Whether it is a pipe without a name: opening it does not wait for a writer.
fn is_pipe(file: &rustix::fd::OwnedFd) -> io::Result<bool> {
    let found = rustix::fs::fstatfs(file)?.f_type;
    Ok(u64::try_from(found).is_ok_and(|found| found == PIPEFS))
}

/// Reads a file of [`open_input`] to its end. The bytes are at one place in memory, so that the caller can clear it, if the
/// limit is at most 64 KiB.
///
/// # Errors
/// The file has more than `most` bytes; otherwise what `read(2)` says.
pub fn read_input(file: File, most: Bytes) -> io::Result<Vec<u8>> {
    let limit = most.0.saturating_add(1);
    let mut bytes =
        Vec::with_capacity(usize::try_from(limit.min(64 << 10)).unwrap_or_default() + 1);
    file.take(limit).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most.0 {
        return Err(io::Error::other(format!("is longer than {most}")));
    }
    Ok(bytes)
}

/// Reads a file as [`open_input`] and [`read_input`] do, as text.
///
/// # Errors
/// Those of [`open_input`] and [`read_input`]; text that is not UTF-8.
pub fn read_input_text(path: &Path, most: Bytes) -> io::Result<String> {
    let bytes = read_input(open_input(path)?, most)?;
    String::from_utf8(bytes).map_err(|_| io::Error::other("is no text in UTF-8"))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn files_and_pipes_are_read_within_the_limit() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("file");
        std::fs::write(&path, "12345678").unwrap();
        assert_eq!(read_input_text(&path, Bytes(8)).unwrap(), "12345678");
        let error = read_input_text(&path, Bytes(7)).unwrap_err();
        assert_eq!(error.to_string(), "is longer than 7 B");
        std::fs::write(&path, [0xff]).unwrap();
        let error = read_input_text(&path, Bytes(7)).unwrap_err();
        assert_eq!(error.to_string(), "is no text in UTF-8");

        let (reader, mut writer) = io::pipe().unwrap();
        let pipe = format!("/dev/fd/{}", reader.as_raw_fd());
        let written = std::thread::spawn(move || writer.write_all(b"later"));
        let text = read_input_text(pipe.as_ref(), Bytes(7));
        written.join().unwrap().unwrap();
        assert_eq!(text.unwrap(), "later", "it waits for the writer to end");
    }

    #[test]
    fn what_is_no_file_is_refused_and_not_waited_for() {
        let scratch = tempfile::tempdir().unwrap();
        let fifo = scratch.path().join("fifo");
        rustix::fs::mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        for (path, why) in [
            (Path::new("/dev/zero"), "is a character device, not a file"),
            (scratch.path(), "is a directory, not a file"),
            (&fifo, "is a FIFO, not a file"),
        ] {
            let error = open_input(path).unwrap_err();
            assert_eq!(error.to_string(), why);
        }
        let error = open_input(&scratch.path().join("missing")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
