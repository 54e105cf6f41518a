//! Snapshots: saving, restoring and comparing residency.
//!
//! - `restored`: restored pages; `unknown`: unknown residency, restored as far as permitted.
//! - `format`: written snapshots can be read, and damage is reported. `written`: a snapshot is replaced as a whole.
//! - `compared`: two snapshots, or one and the present.

mod compared;
mod format;
mod restored;
mod unknown;
mod written;

use std::io::Cursor;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use crate::support::bytes;
use cachewise_residency::snapshot::{
    Reader, RestoreOptions, Restored, SnapshotEntry, SnapshotError, Writer, restore,
};
use cachewise_units::{Bytes, PageRange};
use tempfile::TempDir;

/// Beside the build, because /tmp is in memory on many machines.
fn directory() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn save(path: &Path, files: &[PathBuf]) {
    let mut writer = Writer::create(path).unwrap();
    for file in files {
        writer
            .add(&SnapshotEntry::from_path(file).unwrap())
            .unwrap();
    }
    writer.finish().unwrap().commit().unwrap();
}

fn back(path: &Path, options: &RestoreOptions<'_>) -> Restored {
    restore(Reader::open(path).unwrap(), options)
}

fn parallel() -> RestoreOptions<'static> {
    RestoreOptions {
        threads: NonZeroUsize::new(3).unwrap(),
        ..RestoreOptions::default()
    }
}

fn pages(start: u64, end: u64) -> PageRange {
    PageRange { start, end }
}

/// A sound snapshot of two files, as text.
fn text() -> String {
    let mut writer = Writer::new(Vec::new()).unwrap();
    for (name, ranges) in [("/a", vec![pages(0, 2), pages(5, 9)]), ("/b", Vec::new())] {
        let entry = SnapshotEntry {
            path: name.into(),
            device: (8, 1),
            inode: 7,
            size: Bytes(100_000),
            modified: (-1, 5),
            place: None,
            ranges,
        };
        writer.add(&entry).unwrap();
    }
    String::from_utf8(writer.finish().unwrap()).unwrap()
}

fn read(text: &str) -> Result<Vec<SnapshotEntry>, SnapshotError> {
    Reader::new(Cursor::new(text))?.collect()
}

fn entry(name: &str, modified: i64, ranges: &[PageRange]) -> SnapshotEntry {
    SnapshotEntry {
        path: name.into(),
        device: (8, 1),
        // Another one for each name.
        inode: name.bytes().fold(7, |sum, byte| 31 * sum + u64::from(byte)),
        size: Bytes(bytes(100)),
        modified: (modified, 0),
        place: None,
        ranges: ranges.to_vec(),
    }
}
