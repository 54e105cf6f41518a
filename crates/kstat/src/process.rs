//! What is known of a process.

use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use cachewise_units::Bytes;
use procfs_core::FromRead;
use procfs_core::process::Io;

use crate::{Error, ErrorKind, Kernel};

/// What a process has read and written since it started, from `/proc/PID/io`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessIo {
    /// Got from system calls such as `read(2)`: pipes, sockets and cached files included.
    pub rchar: Bytes,
    /// Given to system calls such as `write(2)`.
    pub wchar: Bytes,
    /// How many system calls read.
    pub syscr: u64,
    /// How many system calls wrote.
    pub syscw: u64,
    /// Fetched from storage for it, read-ahead included.
    pub read_bytes: Bytes,
    /// Made dirty by it, to be sent to storage.
    pub write_bytes: Bytes,
    /// Dirty bytes that never will be sent, because it truncated the files.
    pub cancelled_write_bytes: Bytes,
}

/// A process's account, opened while it runs.
#[derive(Debug)]
pub struct OpenProcessIo {
    file: fs::File,
    path: PathBuf,
}

impl OpenProcessIo {
    /// Returns what the process has read and written so far.
    ///
    /// # Errors
    /// What reading says; [`ErrorKind::NotFound`] once the process was reaped.
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
    /// Returns what a process has read and written, or a thread, where `pid` is that of one.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] where there is no such process, [`ErrorKind::Denied`] where it
    /// belongs to somebody else, [`ErrorKind::Unsupported`] where the kernel was built without
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

    /// Opens the account of a process, to be read once the process has ended and waits to be reaped:
    /// by then the kernel opens it for root only, but still lets its owner read it.
    ///
    /// # Errors
    /// As for [`process_io`](Kernel::process_io).
    pub fn open_process_io(&self, pid: u32) -> Result<OpenProcessIo, Error> {
        let path = self.process(pid, "io");
        let file = fs::File::open(&path).map_err(|source| Error::io("open", &path, source))?;
        Ok(OpenProcessIo { file, path })
    }

    /// Says whether there is such a process or thread that this caller can see.
    #[must_use]
    pub fn process_exists(&self, pid: u32) -> bool {
        fs::metadata(self.process(pid, "")).is_ok()
    }

    /// Returns the name of a process, as `ps -o comm` shows it: 15 bytes at most.
    ///
    /// Bytes that are not UTF-8 are replaced; control characters are not, and the process can set
    /// them at will, so clean it before it goes to a terminal.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] where there is no such process.
    pub fn process_command(&self, pid: u32) -> Result<String, Error> {
        self.line(&self.process(pid, "comm"))
    }

    /// Returns the user whose rights a process has: the effective one.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] where there is no such process.
    pub fn process_uid(&self, pid: u32) -> Result<u32, Error> {
        // Not the owner of /proc/PID, which is root for a process that may not be dumped.
        let path = self.process(pid, "status");
        self.text(&path)?
            .lines()
            .find_map(|line| line.strip_prefix("Uid:"))
            .and_then(|uids| uids.split_ascii_whitespace().nth(1)?.parse().ok())
            .ok_or_else(|| Error::parse(&path, "no effective user in its Uid: line"))
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
    fn a_captured_process_is_read() {
        let kernel = captured("linux-6.18");
        let io = kernel.process_io(PID).unwrap();
        assert_eq!(io.rchar, Bytes(7_800_332), "what it read");
        assert_eq!(io.syscw, 935, "how often it wrote");
        assert_eq!(io.write_bytes, Bytes(3_686_400), "what it made dirty");
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
        assert!(kernel.process_exists(PID), "it is there");
    }

    #[test]
    fn a_process_that_is_gone_is_not_found() {
        let kernel = captured("linux-6.18");
        assert!(!kernel.process_exists(1), "there is none");
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
    fn a_kernel_without_accounting_is_not_a_missing_process() {
        let fixture = Fixture::new();
        fixture.write("proc/7/comm", "odd\nname\n");
        fixture.write("proc/7/status", "Name:\todd\n");
        let kernel = fixture.kernel();
        let error = kernel.process_io(7).unwrap_err();
        assert_eq!(
            error.kind(),
            ErrorKind::Unsupported,
            "the process is there: {error}"
        );
        assert_eq!(
            kernel.process_command(7).unwrap(),
            "odd\nname",
            "one newline is the file's"
        );
        let error = kernel.process_uid(7).unwrap_err().to_string();
        assert!(error.contains("Uid:"), "what is missing is named: {error}");
    }
}
