//! [`DiskStat`]: I/O of block devices.

use std::fs;
use std::path::Path;
use std::time::Duration;

use cachewise_units::Bytes;

use crate::kernel::found;
use crate::{Device, Error, Kernel};

/// I/O of a block device since it was added, from `/proc/diskstats`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DiskStat {
    /// Its number.
    pub device: Device,
    /// Its name, without `/dev`.
    pub name: String,
    /// Bytes read from it.
    pub read: Bytes,
    /// Bytes written to it.
    pub written: Bytes,
    /// Time with a request in progress; the kernel looks at it once a clock tick.
    pub busy: Duration,
}

/// Unit of `/proc/diskstats`, independent of the device's sectors.
const SECTOR: u64 = 512;

impl Kernel {
    /// Returns the I/O of every block device, partitions and whole disks alike: a disk's counters
    /// include those of its partitions.
    ///
    /// # Errors
    /// Reading `/proc/diskstats` failed.
    pub fn diskstats(&self) -> Result<Vec<DiskStat>, Error> {
        let path = self.proc("diskstats");
        let text = self.text(&path)?;
        text.lines()
            .map(|line| parse(line).ok_or_else(|| Error::parse(&path, format!("line {line:?}"))))
            .collect()
    }

    /// Returns the disk of a partition; `None` for other devices.
    #[must_use]
    pub fn disk_of_partition(&self, device: Device) -> Option<Device> {
        let place = self.sys("dev/block").join(device.to_string());
        place.join("partition").exists().then_some(())?;
        // The link's target is below the disk's directory.
        let target = fs::canonicalize(&place).ok()?;
        let number = self.line(&target.parent()?.join("dev")).ok()?;
        Device::parse(&number)
    }

    /// Returns the maximum readahead of a block device, from `queue/read_ahead_kb` of its disk;
    /// `None` if the file does not exist.
    ///
    /// # Errors
    /// Reading the file failed.
    pub fn read_ahead(&self, disk: &str) -> Result<Option<Bytes>, Error> {
        let path = self.read_ahead_path(disk);
        let Some(line) = found(self.line(&path))? else {
            return Ok(None);
        };
        let kib: u64 = line
            .parse()
            .map_err(|_| Error::parse(&path, format!("{line:?} is not a number of KiB")))?;
        Ok(Some(Bytes(kib.saturating_mul(1024))))
    }

    /// Returns the file that sets the readahead of a disk.
    #[must_use]
    pub fn read_ahead_path(&self, disk: &str) -> std::path::PathBuf {
        self.sys("block")
            .join(disk.replace('/', "!"))
            .join("queue/read_ahead_kb")
    }

    /// Returns whether a disk rotates, if known.
    #[must_use]
    pub fn is_rotational(&self, disk: &str) -> Option<bool> {
        let path = self.sys("block").join(disk).join("queue/rotational");
        match self.line(Path::new(&path)).ok()?.as_str() {
            "0" => Some(false),
            "1" => Some(true),
            _ => None,
        }
    }
}

fn parse(line: &str) -> Option<DiskStat> {
    let mut fields = line.split_ascii_whitespace();
    let mut number = || fields.next()?.parse::<u64>().ok();
    let (major, minor) = (number()?, number()?);
    let name = fields.next()?.replace('!', "/");
    let numbers: Vec<u64> = fields.map_while(|field| field.parse().ok()).collect();
    let bytes = |place: usize| Some(Bytes(numbers.get(place)?.saturating_mul(SECTOR)));
    Some(DiskStat {
        device: Device {
            major: u32::try_from(major).ok()?,
            minor: u32::try_from(minor).ok()?,
        },
        name,
        read: bytes(2)?,
        written: bytes(6)?,
        busy: Duration::from_millis(numbers.get(9).copied().unwrap_or(0)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{Fixture, captured};

    #[test]
    fn diskstats_converts_sectors_to_bytes() {
        for (machine, disk, read) in [
            ("linux-6.18", "vda", 3_416_472_792u64 * 512),
            ("linux-6.1", "sda", 7_340_112 * 512),
        ] {
            let disks = captured(machine).diskstats().unwrap();
            let found = disks.iter().find(|found| found.name == disk).unwrap();
            assert_eq!(found.read, Bytes(read), "{machine}: {found:?}");
        }
        let disks = captured("linux-6.1").diskstats().unwrap();
        assert!(
            disks.iter().any(|disk| disk.name == "cciss/c0d0"),
            "a ! stands for a slash"
        );
    }

    #[test]
    fn diskstats_refuses_invalid_text() {
        let fixture = Fixture::new();
        for text in ["254 0 vda 1 2\n", "x 0 vda 1 2 3 4 5 6 7 8\n", "254\n"] {
            fixture.write("proc/diskstats", text);
            let error = fixture.kernel().diskstats().unwrap_err().to_string();
            assert!(error.contains("diskstats"), "{text:?}: {error}");
        }
    }

    #[test]
    fn disk_of_partition_finds_the_disk() {
        let fixture = Fixture::new();
        let disk = "sys/devices/pci0/block/sda";
        fixture.write(&format!("{disk}/dev"), "8:0\n");
        fixture.write(&format!("{disk}/sda1/dev"), "8:1\n");
        fixture.write(&format!("{disk}/sda1/partition"), "1\n");
        fixture.link("sys/dev/block/8:0", "../../devices/pci0/block/sda");
        fixture.link("sys/dev/block/8:1", "../../devices/pci0/block/sda/sda1");
        let kernel = fixture.kernel();
        let disk = Device { major: 8, minor: 0 };
        let partition = Device { major: 8, minor: 1 };
        assert_eq!(
            kernel.disk_of_partition(partition),
            Some(disk),
            "sda1 is on sda"
        );
        assert_eq!(
            kernel.disk_of_partition(disk),
            None,
            "sda is not a partition"
        );
    }

    #[test]
    fn read_ahead_is_in_bytes_or_none() {
        let kernel = captured("linux-6.18");
        assert_eq!(
            kernel.read_ahead("vda").unwrap(),
            Some(Bytes(8 << 20)),
            "8192 KiB"
        );
        assert_eq!(kernel.is_rotational("vda"), Some(true), "as virtio reports");
        assert_eq!(kernel.read_ahead("none").unwrap(), None, "no such disk");
        assert_eq!(kernel.is_rotational("none"), None, "unknown");
    }
}
