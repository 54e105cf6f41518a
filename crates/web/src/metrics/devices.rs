//! Devices with metrics of their own: a bounded number, each with a name that means the same device as long as it has series.
//!
//! Block devices are named as in /dev. File systems without one (btrfs, overlay, NFS) have device numbers that the kernel
//! uses again for others; they are summed by their type. The counts of a device that is gone stay in `other`.

use cachewise_model::{DeviceRow, Measured, Row};

/// Devices with series of their own, without `--top-n`.
const MOST: usize = 64;
const OTHER: &str = "other";

/// A device, or a type of file systems.
#[derive(Debug)]
struct Place {
    name: String,
    /// It is in /dev, and can go.
    is_block: bool,
    row: Row,
}

/// Sums by device since the start.
#[derive(Debug)]
pub(crate) struct Devices {
    most: usize,
    placed: Vec<Place>,
    others: Option<Row>,
}

impl Devices {
    /// Sums for at most this many; 0 stands for the usual number.
    pub(crate) fn new(most: usize) -> Devices {
        Devices {
            most: if most == 0 { MOST } else { most },
            placed: Vec::new(),
            others: None,
        }
    }

    /// Adds the activity of an interval.
    pub(crate) fn add(&mut self, devices: &[DeviceRow]) {
        for device in devices {
            let (name, is_block) = name(device);
            let row = device.row();
            if let Some(place) = self.placed.iter_mut().find(|place| place.name == name) {
                sum(&mut place.row, &row);
            } else if self.placed.len() < self.most && name != OTHER {
                let place = Place {
                    name,
                    is_block,
                    row,
                };
                self.placed.push(place);
            } else {
                self.add_to_others(&row);
            }
        }
    }

    /// Takes the places of block devices that are gone.
    pub(crate) fn forget(&mut self, has_device: impl Fn(&str) -> bool) {
        let (kept, gone) = std::mem::take(&mut self.placed)
            .into_iter()
            .partition(|place| !place.is_block || has_device(&place.name));
        self.placed = kept;
        let gone: Vec<Place> = gone;
        for place in gone {
            self.add_to_others(&place.row);
        }
    }

    fn add_to_others(&mut self, row: &Row) {
        match &mut self.others {
            Some(others) => sum(others, row),
            None => self.others = Some(row.clone()),
        }
    }

    /// The rows by name, that of all others last.
    pub(crate) fn rows(&self) -> Vec<(String, Row)> {
        let placed = self.placed.iter();
        let placed = placed.map(|place| (place.name.clone(), place.row.clone()));
        let others = self
            .others
            .iter()
            .map(|row| (OTHER.to_owned(), row.clone()));
        placed.chain(others).collect()
    }
}

/// The name of a device, and whether it is a block device.
fn name(device: &DeviceRow) -> (String, bool) {
    match (&device.path, &device.filesystem) {
        (Measured::Exact(path), _) => {
            let name = path.file_name().unwrap_or(path.as_os_str());
            (name.to_string_lossy().into_owned(), true)
        }
        (_, Measured::Exact(filesystem) | Measured::Estimated(filesystem, _)) => {
            (filesystem.clone(), false)
        }
        _ => (OTHER.to_owned(), false),
    }
}

/// Adds a row; bytes that one of both does not have are those of the other.
fn sum(into: &mut Row, row: &Row) {
    into.ledger += &row.ledger;
    let (sum, part) = (&mut into.subject, &row.subject);
    for (sum, part) in [
        (&mut sum.device_read_bytes, part.device_read_bytes),
        (&mut sum.device_write_bytes, part.device_write_bytes),
    ] {
        *sum = match (sum.known(), part.known()) {
            (None, Some(_)) => part,
            (Some(_), None) => *sum,
            _ => sum.plus(part),
        };
    }
}

#[cfg(test)]
mod tests {
    use cachewise_model::{Counter, Ledger, Reason};

    use super::*;

    fn row(number: &str, path: Option<&str>, filesystem: &str, pages: u64) -> DeviceRow {
        let mut ledger = Ledger::default();
        ledger.set(Counter::ReadRequestedPages, pages);
        DeviceRow {
            device: number.into(),
            path: match path {
                Some(path) => Measured::Exact(path.into()),
                None => Measured::not_offered(Reason::NoBlockDevice),
            },
            filesystem: Measured::Exact(filesystem.into()),
            ledger,
            device_read_bytes: match path {
                Some(_) => Measured::Exact(pages << 12),
                None => Measured::not_offered(Reason::NoBlockDevice),
            },
            device_write_bytes: Measured::not_offered(Reason::NoBlockDevice),
            busy: Measured::Exact(0),
        }
    }

    fn pages(devices: &Devices) -> Vec<(String, u64)> {
        let of = |row: &Row| row.ledger[Counter::ReadRequestedPages];
        let rows = devices.rows();
        rows.iter()
            .map(|(name, row)| (name.clone(), of(row)))
            .collect()
    }

    #[test]
    fn anonymous_numbers_are_summed_by_file_system() {
        let mut devices = Devices::new(0);
        devices.add(&[
            row("0:41", None, "overlay", 3),
            row("8:1", Some("/dev/sda1"), "ext4", 1),
        ]);
        devices.add(&[
            row("0:41", None, "btrfs", 5),
            row("0:99", None, "overlay", 2),
        ]);
        assert_eq!(
            pages(&devices),
            [
                ("overlay".into(), 5),
                ("sda1".into(), 1),
                ("btrfs".into(), 5)
            ],
            "a number that is used again does not mix two"
        );
    }

    #[test]
    fn devices_that_are_gone_leave_their_counts_to_others() {
        let mut devices = Devices::new(0);
        devices.add(&[
            row("7:0", Some("/dev/loop0"), "ext4", 4),
            row("8:1", Some("/dev/sda1"), "ext4", 1),
            row("0:41", None, "overlay", 3),
        ]);
        devices.forget(|name| name == "sda1");
        assert_eq!(
            pages(&devices),
            [
                ("sda1".into(), 1),
                ("overlay".into(), 3),
                ("other".into(), 4)
            ]
        );
        let rows = devices.rows();
        assert_eq!(
            rows[2].1.subject.device_read_bytes,
            Measured::Exact(4 << 12)
        );
    }

    #[test]
    fn number_of_devices_is_bounded() {
        let mut devices = Devices::new(2);
        for number in 0..10 {
            let path = format!("/dev/nbd{number}");
            devices.add(&[row(&format!("43:{number}"), Some(&path), "ext4", 1)]);
        }
        assert_eq!(
            pages(&devices),
            [("nbd0".into(), 1), ("nbd1".into(), 1), ("other".into(), 8)]
        );
    }
}
