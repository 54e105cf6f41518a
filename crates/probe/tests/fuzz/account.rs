//! The kernel's own account of tasks and of devices: /proc/PID/io and /sys/dev/block/*/stat.

use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::problem::{Context, Problem, Result};

/// An account in /proc.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Account {
    /// Bytes that read calls moved.
    pub read_calls: u64,
    /// Bytes that write calls moved.
    pub write_calls: u64,
    /// Read calls.
    pub reads: u64,
    /// Write calls.
    pub writes: u64,
    /// Bytes that the task had devices read.
    pub device_read: u64,
    /// Bytes that it made to be written to devices: a page for each that it made dirty.
    pub device_written: u64,
    /// Of these, bytes that were truncated before they were written.
    pub cancelled: u64,
}

impl Account {
    /// Reads one.
    pub fn read(path: &str) -> Result<Self> {
        let text = fs::read_to_string(path).context(format_args!("read {path}"))?;
        let number = |name: &str| {
            let mut lines = text.lines();
            let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
            value
                .and_then(|value| value.parse().ok())
                .ok_or_else(|| Problem::new(format!("{path} has no {name}")))
        };
        Ok(Account {
            read_calls: number("rchar")?,
            write_calls: number("wchar")?,
            reads: number("syscr")?,
            writes: number("syscw")?,
            device_read: number("read_bytes")?,
            device_written: number("write_bytes")?,
            cancelled: number("cancelled_write_bytes")?,
        })
    }

    /// The difference to an earlier one.
    pub fn since(self, earlier: Account) -> Account {
        let since = |now: u64, then: u64| now.saturating_sub(then);
        Account {
            read_calls: since(self.read_calls, earlier.read_calls),
            write_calls: since(self.write_calls, earlier.write_calls),
            reads: since(self.reads, earlier.reads),
            writes: since(self.writes, earlier.writes),
            device_read: since(self.device_read, earlier.device_read),
            device_written: since(self.device_written, earlier.device_written),
            cancelled: since(self.cancelled, earlier.cancelled),
        }
    }

    /// From the text that its `Display` gives.
    pub fn parse<'t>(words: &mut impl Iterator<Item = &'t str>) -> Option<Account> {
        let mut number = || words.next()?.parse().ok();
        Some(Account {
            read_calls: number()?,
            write_calls: number()?,
            reads: number()?,
            writes: number()?,
            device_read: number()?,
            device_written: number()?,
            cancelled: number()?,
        })
    }
}

impl fmt::Display for Account {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Account {
            read_calls,
            write_calls,
            reads,
            writes,
            device_read,
            device_written,
            cancelled,
        } = self;
        write!(
            formatter,
            "{read_calls} {write_calls} {reads} {writes} {device_read} {device_written} {cancelled}"
        )
    }
}

/// Milliseconds to wait for requests that are on their way.
const WAITS: usize = 10_000;

/// The device below a mount point.
#[derive(Debug, Clone)]
pub struct Disk(PathBuf);

impl Disk {
    /// Finds it; `None`: the file system has none, or the kernel keeps no account of it.
    pub fn below(directory: &Path) -> Result<Option<Disk>> {
        let mounts = fs::read_to_string("/proc/self/mounts").context("read /proc/self/mounts")?;
        let wanted = directory.to_string_lossy();
        let source = mounts.lines().rev().find_map(|line| {
            let mut words = line.split(' ');
            let source = words.next()?;
            (words.next()? == wanted).then_some(source)
        });
        let Some(metadata) = source.and_then(|source| fs::metadata(source).ok()) else {
            return Ok(None);
        };
        let device = metadata.rdev();
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        let disk = Disk(format!("/sys/dev/block/{major}:{minor}/stat").into());
        // Making and mounting the file system has read from it.
        Ok(disk
            .read_bytes()
            .ok()
            .filter(|bytes| *bytes > 0)
            .map(|_| disk))
    }

    /// Bytes read from it up to now, those on their way included: they are counted when they have come.
    pub fn read_bytes(&self) -> Result<u64> {
        const SECTOR_BYTES: u64 = 512;
        let path = self.0.display();
        for _ in 0..WAITS {
            let text = fs::read_to_string(&self.0).context(format_args!("read {path}"))?;
            let numbers: Option<Vec<u64>> = text
                .split_whitespace()
                .map(|number| number.parse().ok())
                .collect();
            let numbers = numbers.unwrap_or_default();
            match (numbers.get(2), numbers.get(8)) {
                (Some(sectors), Some(0)) => return Ok(sectors * SECTOR_BYTES),
                (Some(_), Some(_)) => std::thread::sleep(Duration::from_millis(1)),
                _ => return Err(Problem::new(format!("{path} is not of the known form"))),
            }
        }
        Err(Problem::new(format!("{path}: requests stay on their way")))
    }
}
