//! Storage devices over time: pages requested from their files, and device I/O.
//!
//! The counters of a disk include those of its partitions. To count nothing twice, the row of a
//! disk with partitions has only the part that belongs to no partition; if that is empty, the disk
//! has no row.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use cachewise_kstat::{Device, DiskStat, Kernel};
use cachewise_model::{Count, DeviceRow, FileNumber, FileRow, Ledger, Measured, Missing, Reason};

const NO_DEVICE: Missing = Missing::NotOffered(Reason::NoBlockDevice);
const NOT_READ: Missing = Missing::Unknown(Reason::DiskstatsNotRead);
const NO_FILES: Missing = Missing::NotOffered(Reason::NoFilesUsed);

/// Device counters up to the last interval.
pub struct Devices {
    then: HashMap<Device, DiskStat>,
    /// The disk of each partition; looked up once.
    disks: HashMap<Device, Option<Device>>,
}

impl Devices {
    pub fn open(kernel: &Kernel) -> Devices {
        let then = kernel.diskstats().unwrap_or_default();
        Devices {
            then: by_number(then),
            disks: HashMap::new(),
        }
    }

    /// Rows of the devices with used files, and of those that read or wrote.
    pub fn rows(&mut self, kernel: &Kernel, files: &[FileRow]) -> Vec<DeviceRow> {
        let mut rows = of_files(files);
        let Ok(now) = kernel.diskstats() else {
            return rows
                .into_values()
                .map(|(filesystem, ledger, number)| {
                    row(
                        number,
                        None,
                        filesystem,
                        ledger,
                        [Measured::Missing(NOT_READ); 3],
                    )
                })
                .collect();
        };
        let now = by_number(now);
        let since = |device: &Device, of: fn(&DiskStat) -> u64| {
            let now = now.get(device).map_or(0, of);
            now.saturating_sub(self.then.get(device).map_or(0, of))
        };
        let mut moved: HashMap<Device, [u64; 2]> = now
            .keys()
            .map(|device| {
                let read = since(device, |disk| disk.read.0);
                (*device, [read, since(device, |disk| disk.written.0)])
            })
            .collect();
        for device in now.keys() {
            let disk = *self
                .disks
                .entry(*device)
                .or_insert_with(|| kernel.disk_of_partition(*device));
            let Some(disk) = disk else { continue };
            let part = moved[device];
            if let Some(whole) = moved.get_mut(&disk) {
                *whole = [0, 1].map(|way| whole[way].saturating_sub(part[way]));
            }
        }
        self.disks.retain(|device, _| now.contains_key(device));
        let mut told: Vec<DeviceRow> = Vec::new();
        for (device, bytes) in &moved {
            let number = device.to_string();
            let used = rows.remove(&number);
            if used.is_none() && *bytes == [0, 0] {
                continue;
            }
            let (filesystem, ledger, _) = used.unwrap_or((
                Measured::Missing(NO_FILES),
                Ledger::default(),
                String::new(),
            ));
            let name = now
                .get(device)
                .map(|disk| Path::new("/dev").join(&disk.name));
            // Requests to other parts of a disk keep it busy, too.
            let disk = self.disks.get(device).copied().flatten();
            let busy = since(&disk.unwrap_or(*device), |disk| {
                u64::try_from(disk.busy.as_nanos()).unwrap_or(u64::MAX)
            });
            let [read, written] = bytes.map(Measured::Exact);
            let busy = Measured::Estimated(busy, Reason::SampledAtTick);
            told.push(row(number, name, filesystem, ledger, [read, written, busy]));
        }
        told.extend(rows.into_values().map(|(filesystem, ledger, number)| {
            row(
                number,
                None,
                filesystem,
                ledger,
                [Measured::Missing(NO_DEVICE); 3],
            )
        }));
        told.sort_by(|one, other| one.device.cmp(&other.device));
        self.then = now;
        told
    }
}

fn by_number(disks: Vec<DiskStat>) -> HashMap<Device, DiskStat> {
    disks.into_iter().map(|disk| (disk.device, disk)).collect()
}

type OfFiles = HashMap<String, (Measured<String>, Ledger, String)>;

/// Pages requested from the files of each device.
fn of_files(files: &[FileRow]) -> OfFiles {
    let mut rows: OfFiles = HashMap::new();
    for file in files {
        let Some(FileNumber { device, inode }) = &file.number else {
            continue;
        };
        let (filesystem, ledger, _) = rows.entry(device.clone()).or_insert_with(|| {
            let unknown = Measured::Missing(NO_FILES);
            (unknown, Ledger::default(), device.clone())
        });
        // The device itself, as a file, is on no file system.
        if filesystem.missing().is_some() && *inode != 0 {
            filesystem.clone_from(&file.filesystem);
        }
        *ledger += &file.ledger;
    }
    rows
}

fn row(
    device: String,
    path: Option<PathBuf>,
    filesystem: Measured<String>,
    ledger: Ledger,
    [device_read_bytes, device_write_bytes, busy]: [Count; 3],
) -> DeviceRow {
    DeviceRow {
        device,
        path: path.map_or(Measured::Missing(NO_DEVICE), Measured::Exact),
        filesystem,
        ledger,
        device_read_bytes,
        device_write_bytes,
        busy,
    }
}
