//! The files of a report.

use std::cmp::Reverse;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use cachewise_kstat::{Device, Kernel};
use cachewise_model::{
    Count, Counter, FileNumber, FileRow, Ledger, Measured, Missing, NOT_APPLICABLE, Reason,
};
use cachewise_probe::{FileId, FileInfo, FileKind, Snapshot};
use cachewise_units::PageSize;

use super::sums::{sums, weight};

/// Present properties of a file to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileDetail {
    /// Its size: one system call, however large it is.
    Size,
    /// And how much of it is resident, which the kernel counts folio by folio.
    Residency,
}

/// The files of a snapshot, the most active first. `detail` is read of the first `detailed_files` of them.
pub fn file_rows(
    snapshot: &Snapshot,
    page: PageSize,
    kernel: &Kernel,
    (detail, detailed_files): (FileDetail, usize),
) -> impl Iterator<Item = (Option<FileId>, FileRow)> {
    let sums = sums(&snapshot.rows, |row| {
        (!row.is_of_no_file()).then_some(row.file)
    });
    let mut files: Vec<(Option<FileId>, Ledger)> = sums.into_iter().collect();
    files.sort_by_cached_key(|(id, ledger)| (Reverse(weight(ledger, page.get())), *id));
    files
        .into_iter()
        .enumerate()
        .map(move |(place, (id, ledger))| {
            let info = id.and_then(|id| snapshot.files.get(&id).map(|info| (id, info)));
            let row = match info {
                Some((id, info)) => {
                    file(id, info, ledger, (place < detailed_files).then_some(detail))
                }
                None => nameless(id, ledger, kernel),
            };
            (id, row)
        })
}

fn file(id: FileId, info: &FileInfo, mut ledger: Ledger, detail: Option<FileDetail>) -> FileRow {
    // New pages of a device come from a write call to it: those of a file system on it are metadata.
    let is_written_device =
        info.kind == FileKind::BlockDevice && ledger[Counter::WriteNewPages] > 0;
    if is_written_device || !info.writes_are_seen && info.kind == FileKind::File {
        for counter in [
            Counter::WriteRequests,
            Counter::WritePages,
            Counter::WriteBytes,
        ] {
            ledger.set_missing(counter, Missing::Unknown(Reason::WritesNotSeen));
        }
    }
    let path = match (&info.path, &info.path_in_file_system, info.kind) {
        (Some(path), ..) => Measured::Exact(path.clone()),
        (None, _, FileKind::Internal) => Measured::not_offered(Reason::FileSystemData),
        (None, Some(path), _) if path.is_relative() => {
            Measured::Estimated(path.clone(), Reason::PathCut)
        }
        (None, Some(path), _) => Measured::Estimated(path.clone(), Reason::NotMountedHere),
        (None, None, _) => Measured::unknown(Reason::NoName),
    };
    let now = match (&info.path, info.kind, detail) {
        _ if info.deleted => Now::without(Measured::not_offered(Reason::FileDeleted), info),
        (Some(path), FileKind::File, Some(detail)) => Now::of(id, path, info, detail),
        (Some(_), FileKind::File, None) => Now {
            resident: Measured::unknown(Reason::HeaviestOnly),
            size: size_at_first(info),
        },
        _ => Now::without(Measured::not_offered(Reason::NoPathHere), info),
    };
    let direct = ledger[Counter::DirectReadRequests] + ledger[Counter::DirectWriteRequests] > 0;
    FileRow {
        path,
        label: Measured::Missing(NOT_APPLICABLE),
        deleted: info.deleted,
        filesystem: info.file_system.clone().map_or(
            Measured::unknown(Reason::FileSystemNotMounted),
            Measured::Exact,
        ),
        number: Some(number(id)),
        size_bytes: now.size,
        resident_before_pages: Measured::Exact(info.resident_before.0),
        resident_after_pages: now.resident,
        ledger,
        direct,
    }
}

/// A row of which no record came through: its inode number is all there is, or not even that.
fn nameless(id: Option<FileId>, ledger: Ledger, kernel: &Kernel) -> FileRow {
    let why = match id {
        Some(_) => Reason::NameLost,
        None => Reason::FilesFull,
    };
    // A block device that was only written to or read from directly is known by its number alone.
    let device = id.filter(|id| id.inode == 0).and_then(|id| {
        kernel.block_device_name(Device {
            major: id.major,
            minor: id.minor,
        })
    });
    FileRow {
        path: device.map_or(Measured::unknown(why), Measured::Exact),
        label: Measured::Missing(NOT_APPLICABLE),
        deleted: false,
        filesystem: Measured::unknown(why),
        number: id.map(number),
        size_bytes: Measured::unknown(why),
        resident_before_pages: Measured::unknown(why),
        resident_after_pages: Measured::unknown(why),
        direct: ledger[Counter::DirectReadRequests] + ledger[Counter::DirectWriteRequests] > 0,
        ledger,
    }
}

fn number(id: FileId) -> FileNumber {
    FileNumber {
        device: format!("{}:{}", id.major, id.minor),
        inode: id.inode,
    }
}

/// The size of a file whose present size is not read: it may have grown since, and a file that the same process created
/// was empty at first.
fn size_at_first(info: &FileInfo) -> Count {
    match (info.kind, info.size.0) {
        (FileKind::BlockDevice | FileKind::Internal, size) => Measured::Exact(size),
        (FileKind::File, 0) => Measured::unknown(Reason::WasEmpty),
        (FileKind::File, size) => Measured::Estimated(size, Reason::SizeAtFirst),
    }
}

/// A file as it is after the run.
struct Now {
    resident: Count,
    size: Count,
}

impl Now {
    fn without(resident: Count, info: &FileInfo) -> Now {
        Now {
            resident,
            size: size_at_first(info),
        }
    }

    fn of(id: FileId, path: &Path, info: &FileInfo, detail: FileDetail) -> Now {
        // The probe names a file's device as stat(2) does, a subvolume's of btrfs too.
        let same = |stat: &Metadata| {
            let device = Device::from_stat(stat.dev());
            (device.major, device.minor, stat.ino()) == (id.major, id.minor, id.inode)
        };
        let stat = match path.symlink_metadata() {
            Ok(stat) if same(&stat) => stat,
            Ok(_) => return Now::without(Measured::unknown(Reason::NameReused), info),
            Err(_) => return Now::without(Measured::unknown(Reason::FileGone), info),
        };
        if detail == FileDetail::Size {
            return Now {
                resident: Measured::unknown(Reason::NotAskedEachTime),
                size: Measured::Exact(stat.len()),
            };
        }
        let resident = match cachewise_sys::resident(path) {
            Ok(stat) => Measured::Exact(stat.cached.0),
            Err(error) => Measured::unknown(match error.kind() {
                cachewise_sys::ErrorKind::Denied => Reason::NotWritable,
                cachewise_sys::ErrorKind::Unsupported => Reason::NotSupported,
                _ => Reason::LookFailed,
            }),
        };
        Now {
            resident,
            size: Measured::Exact(stat.len()),
        }
    }
}

#[cfg(test)]
mod tests {
    use cachewise_units::{Bytes, Pages};

    use super::*;

    #[test]
    fn the_size_of_a_file_that_is_gone_is_not_zero() {
        let mut info = FileInfo {
            path: None,
            path_in_file_system: None,
            file_system: None,
            kind: FileKind::File,
            deleted: true,
            size: Bytes(0),
            resident_before: Pages(0),
            first_used_alone: true,
            writes_are_seen: true,
        };
        let size = |info: &FileInfo| Now::without(Measured::unknown(Reason::FileGone), info).size;
        assert!(
            size(&info).missing().is_some(),
            "who made it wrote to it later"
        );
        info.size = Bytes(4096);
        assert_eq!(
            (size(&info).exact(), size(&info).known()),
            (None, Some(4096)),
            "it had at least that much once"
        );
        info.kind = FileKind::BlockDevice;
        assert_eq!(size(&info), Measured::Exact(4096), "devices do not grow");
    }
}
