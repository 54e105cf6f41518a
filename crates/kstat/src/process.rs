//! Facts about a process.

use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use cachewise_units::Bytes;
use procfs_core::FromRead;
use procfs_core::process::Io;

use crate::{Error, ErrorKind, Kernel};

/// I/O of a process since its start, from `/proc/PID/io`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessIo {
    /// Bytes returned by system calls such as `read(2)`, including pipes, sockets and cached files.
    pub rchar: Bytes,
    /// Bytes passed to system calls such as `write(2)`.
    pub wchar: Bytes,
    /// Number of system calls that read.
    pub syscr: u64,
    /// Number of system calls that wrote.
    pub syscw: u64,
    /// Bytes read from storage for it, readahead included.
    pub read_bytes: Bytes,
    /// Bytes that it made dirty, to be written to storage.
    pub write_bytes: Bytes,
    /// Dirty bytes that will never be written, because it truncated the files.
    pub cancelled_write_bytes: Bytes,
}

/// The I/O counters of a process, opened while it runs.
#[derive(Debug)]
pub struct OpenProcessIo {
    file: fs::File,
    path: PathBuf,
}

impl OpenProcessIo {
    /// Returns the I/O of the process so far.
    ///
    /// # Errors
    /// Reading failed; [`ErrorKind::NotFound`] after the process was reaped.
    pub fn read(&self) -> Result<ProcessIo, Error> {
        let mut text = Vec::new();
        (&self.file)
            .seek(SeekFrom::Start(0))
            .and_then(|_| (&self.file).read_to_end(&mut text))
            .map_err(|source| Error::io("read", &self.path, source))?;
        ProcessIo::parse(&text, &self.path)
    }
}

impl ProcessIo {
    fn parse(text: &[u8], path: &Path) -> Result<ProcessIo, Error> {
        let io = Io::from_read(text).map_err(|error| Error::parse(path, error.to_string()))?;
        Ok(ProcessIo {
            rchar: Bytes(io.rchar),
            wchar: Bytes(io.wchar),
            syscr: io.syscr,
            syscw: io.syscw,
            read_bytes: Bytes(io.read_bytes),
            write_bytes: Bytes(io.write_bytes),
            cancelled_write_bytes: Bytes(io.cancelled_write_bytes),
        })
    }
}

impl Kernel {
    /// Returns the I/O of a process, or of a thread if `pid` is a thread id.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if there is no such process, [`ErrorKind::Denied`] if it belongs to
    /// another user, [`ErrorKind::Unsupported`] if the kernel was built without
    /// `CONFIG_TASK_IO_ACCOUNTING`.
    pub fn process_io(&self, pid: u32) -> Result<ProcessIo, Error> {
        let path = self.process(pid, "io");
        let text = self.read(&path).map_err(|error| {
            if error.kind() == ErrorKind::NotFound && self.process_exists(pid) {
                return Error::Unsupported {
                    operation: "read",
                    path: path.clone(),
                    advice: "needs a kernel built with CONFIG_TASK_IO_ACCOUNTING",
                };
            }
            error
        })?;
        ProcessIo::parse(&text, &path)
    }

    /// Opens the I/O counters of a process, to be read while it is a zombie: then only root may
    /// open them, but their owner may still read them.
    ///
    /// # Errors
    /// As for [`process_io`](Kernel::process_io).
    pub fn open_process_io(&self, pid: u32) -> Result<OpenProcessIo, Error> {
        let path = self.process(pid, "io");
        let file = fs::File::open(&path).map_err(|source| Error::io("open", &path, source))?;
        Ok(OpenProcessIo { file, path })
    }

    /// Returns the ids of all processes that this caller sees, in ascending order.
    ///
    /// # Errors
    /// `/proc` cannot be listed.
    pub fn process_ids(&self) -> Result<Vec<u32>, Error> {
        let directory = self.proc("");
        let entries =
            fs::read_dir(&directory).map_err(|source| Error::io("list", &directory, source))?;
        let ids = entries
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let mut ids: Vec<u32> = ids.collect();
        ids.sort_unstable();
        Ok(ids)
    }

    /// Whether this caller sees a process or thread with this id.
    #[must_use]
    pub fn process_exists(&self, pid: u32) -> bool {
        fs::metadata(self.process(pid, "")).is_ok()
    }

    /// Returns the name of a process, as `ps -o comm` shows it: at most 15 bytes.
    ///
    /// Bytes that are not UTF-8 are replaced, control characters are kept. The process can set them
    /// at will, so escape the name before printing it on a terminal.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if there is no such process.
    pub fn process_command(&self, pid: u32) -> Result<String, Error> {
        self.line(&self.process(pid, "comm"))
    }

    /// Returns the effective user id of a process.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if there is no such process.
    pub fn process_uid(&self, pid: u32) -> Result<u32, Error> {
        // Not the owner of /proc/PID, which is root for a process that is not dumpable.
        let path = self.process(pid, "status");
        self.text(&path)?
            .lines()
            .find_map(|line| line.strip_prefix("Uid:"))
            .and_then(|uids| uids.split_ascii_whitespace().nth(1)?.parse().ok())
            .ok_or_else(|| Error::parse(&path, "no effective user in its Uid: line"))
    }

    /// Returns the id of a process in its own PID namespace; `None` if there is no such process.
    #[must_use]
    pub fn innermost_pid(&self, pid: u32) -> Option<u32> {
        let text = self.text(&self.process(pid, "status")).ok()?;
        let ids = text.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
        ids.split_ascii_whitespace().next_back()?.parse().ok()
    }

    pub(crate) fn process(&self, pid: u32, file: &str) -> std::path::PathBuf {
        self.proc(pid.to_string()).join(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{Fixture, captured};

    const PID: u32 = 4242;

    #[test]
    fn process_io_reads_a_captured_process() {
        let kernel = captured("linux-6.18");
        let io = kernel.process_io(PID).unwrap();
        assert_eq!(io.rchar, Bytes(7_800_332), "bytes read");
        assert_eq!(io.syscw, 935, "how often it wrote");
        assert_eq!(io.write_bytes, Bytes(3_686_400), "bytes made dirty");
        assert_eq!(
            kernel.process_command(PID).unwrap(),
            "postgres: writer",
            "its name"
        );
        assert_eq!(
            kernel.process_uid(PID).unwrap(),
            999,
            "the effective user, not the real one"
        );
        assert!(kernel.process_exists(PID), "it exists");
    }

    #[test]
    fn missing_process_is_not_found() {
        let kernel = captured("linux-6.18");
        assert!(!kernel.process_exists(1), "it does not exist");
        for error in [
            kernel.process_io(1).unwrap_err(),
            kernel.process_command(1).unwrap_err(),
            kernel.process_uid(1).unwrap_err(),
        ] {
            assert_eq!(
                error.kind(),
                ErrorKind::NotFound,
                "and that is the reason: {error}"
            );
        }
    }

    #[test]
    fn missing_io_accounting_is_unsupported() {
        let fixture = Fixture::new();
        fixture.write("proc/7/comm", "odd\nname\n");
        fixture.write("proc/7/status", "Name:\todd\n");
        let kernel = fixture.kernel();
        let error = kernel.process_io(7).unwrap_err();
        assert_eq!(
            error.kind(),
            ErrorKind::Unsupported,
            "the process exists: {error}"
        );
        assert_eq!(
            kernel.process_command(7).unwrap(),
            "odd\nname",
            "one newline is the file's"
        );
        let error = kernel.process_uid(7).unwrap_err().to_string();
        assert!(error.contains("Uid:"), "the missing line is named: {error}");
    }
}
