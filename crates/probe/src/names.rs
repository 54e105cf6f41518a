//! The files' records: the kernel sends one for each file when it is first seen, through a ring buffer.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::mem::{offset_of, size_of};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use cachewise_kstat::{Device, Kernel};
use cachewise_units::{Bytes, Pages};
use libbpf_rs::{MapHandle, RingBufferBuilder};

use crate::error::Error;
use crate::object::types;
use crate::record::{Raw, device, file_id};
use crate::snapshot::{FileId, FileInfo, FileKind};

/// How long records may wait. The ring holds some 20,000; the fastest walk seen makes 5,000 in this time.
const INTERVAL: Duration = Duration::from_millis(50);

const S_IFMT: u32 = 0o170_000;
const S_IFBLK: u32 = 0o060_000;

/// A record as it came.
#[derive(Debug, Clone)]
struct FileRecord {
    size: u64,
    resident: u64,
    magic: u64,
    super_device: (u32, u32),
    mode: u32,
    unlinked: bool,
    path: Option<PathBuf>,
}

type Records = HashMap<FileId, FileRecord>;

/// Takes the records out of the ring in the background, so that it does not run full.
pub(crate) struct Names {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    ring: MapHandle,
    /// Held while the ring is read: it has one reader at a time.
    records: Mutex<Records>,
    stop: AtomicBool,
}

impl Names {
    pub(crate) fn collect(ring: MapHandle) -> Result<Self, Error> {
        let shared = Arc::new(Shared {
            ring,
            records: Mutex::new(Records::new()),
            stop: AtomicBool::new(false),
        });
        let collector = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("names".into())
            .spawn(move || {
                while !collector.stop.load(Ordering::Relaxed) {
                    // If the ring cannot be read, the snapshot's own try says so.
                    drop(collector.drain());
                    std::thread::park_timeout(INTERVAL);
                }
            })
            .map_err(Error::Thread)?;
        Ok(Names {
            shared,
            thread: Some(thread),
        })
    }

    /// Every file seen so far, named as this process sees the file systems mounted now.
    pub(crate) fn files(&self, writes_seen: &[u64]) -> Result<HashMap<FileId, FileInfo>, Error> {
        let records = self.shared.drain()?;
        let kernel = Kernel::new();
        let mounts = kernel.mounts(None).ok();
        Ok(records
            .iter()
            .map(|(id, record)| {
                let device = Device {
                    major: record.super_device.0,
                    minor: record.super_device.1,
                };
                let kind = match record.mode & S_IFMT {
                    S_IFBLK => FileKind::BlockDevice,
                    _ if record.path.is_none() => FileKind::Internal,
                    _ => FileKind::File,
                };
                let path = match kind {
                    FileKind::BlockDevice => kernel.block_device_name(Device {
                        major: id.major,
                        minor: id.minor,
                    }),
                    FileKind::Internal => None,
                    FileKind::File => mounts.as_ref().and_then(|mounts| {
                        record
                            .path
                            .as_ref()
                            .and_then(|path| mounts.resolve(device, path))
                    }),
                };
                let info = FileInfo {
                    path,
                    path_in_file_system: record.path.clone(),
                    deleted: record.unlinked,
                    kind,
                    file_system: mounts.as_ref().and_then(|mounts| {
                        mounts
                            .as_slice()
                            .iter()
                            .find(|mount| mount.dev == device)
                            .map(|mount| mount.fs_type.clone())
                    }),
                    size: Bytes(record.size),
                    resident_before: Pages(record.resident),
                    writes_are_seen: writes_seen.contains(&record.magic),
                };
                (*id, info)
            })
            .collect())
    }
}

impl Drop for Names {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A panic of the collector was printed when it happened, and nothing is left to undo.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn drain(&self) -> Result<MutexGuard<'_, Records>, Error> {
        let mut records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        let mut bad = None;
        {
            let mut ring = RingBufferBuilder::new();
            let map_error = |source| Error::Map {
                operation: "read the files' names",
                source,
            };
            ring.add(&self.ring, |bytes| {
                match parse(bytes) {
                    Ok((id, record)) => {
                        records.insert(id, record);
                    }
                    Err(error) => bad = Some(error),
                }
                0
            })
            .map_err(map_error)?;
            ring.build()
                .map_err(map_error)?
                .consume()
                .map_err(map_error)?;
        }
        bad.map_or(Ok(records), Err)
    }
}

fn parse(bytes: &[u8]) -> Result<(FileId, FileRecord), Error> {
    let raw = Raw::new(bytes, "file record", offset_of!(types::file_record, names))?;
    let length = raw.u32(offset_of!(types::file_record, length)) as usize;
    let names = raw.tail(offset_of!(types::file_record, names));
    let record = FileRecord {
        size: raw.u64(offset_of!(types::file_record, size)),
        resident: raw.u64(offset_of!(types::file_record, resident_pages)),
        magic: raw.u64(offset_of!(types::file_record, magic)),
        super_device: device(raw.u32(offset_of!(types::file_record, super_dev))),
        mode: raw.u32(offset_of!(types::file_record, mode)),
        unlinked: raw.u32(offset_of!(types::file_record, unlinked)) != 0,
        path: path(names.get(..length).unwrap_or(names)),
    };
    const { assert!(offset_of!(types::file_record, id) == 0 && size_of::<types::file_id>() == 16) };
    Ok((file_id(raw, 0), record))
}

/// The path from the root of the file system; the names come from the file upwards.
fn path(names: &[u8]) -> Option<PathBuf> {
    if names.is_empty() {
        return None;
    }
    let mut path = PathBuf::from("/");
    let names = names.strip_suffix(&[0]).unwrap_or(names);
    path.extend(names.split(|byte| *byte == 0).rev().map(OsStr::from_bytes));
    Some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_put_together_from_the_root_down() {
        assert_eq!(
            path(b"c.txt\0b\0a\0"),
            Some(PathBuf::from("/a/b/c.txt")),
            "upwards in, downwards out"
        );
        assert_eq!(path(b""), None, "an inode without a dentry has no path");
        let odd = path(b"\xff\n\0").unwrap();
        assert_eq!(
            odd.as_os_str().as_bytes(),
            b"/\xff\n",
            "names are bytes, not text"
        );
    }

    #[test]
    fn a_short_record_is_an_error() {
        assert!(parse(&[0; 3]).is_err(), "nothing is read past the end");
    }
}
