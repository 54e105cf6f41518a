//! Properties of a file's device in `/sys`, by major and minor number.

use std::fs;
use std::path::{Path, PathBuf};

use cachewise_units::Bytes;

/// Readahead window of the kernel on a device. If the device has none, the largest of all devices, because some file
/// systems (btrfs, overlayfs) have a device number that none of their files shows.
pub(crate) fn read_ahead(device: (u32, u32)) -> Bytes {
    /// Default of the kernel in KiB, if no device has a setting.
    const USUAL: u64 = 128;
    let (major, minor) = device;
    let devices = Path::new("/sys/class/bdi");
    let number = |path: PathBuf| parsed(&fs::read_to_string(path.join("read_ahead_kb")).ok()?);
    let most = || {
        let entries = fs::read_dir(devices).ok()?;
        entries
            .flatten()
            .filter_map(|entry| number(entry.path()))
            .max()
    };
    let kibibytes = of_queue(device, "read_ahead_kb")
        .and_then(|text| parsed(&text))
        .or_else(|| number(devices.join(format!("{major}:{minor}"))))
        .or_else(most)
        .unwrap_or(USUAL);
    Bytes(kibibytes.saturating_mul(1 << 10))
}

/// Whether a block device can be read by mapping its memory.
pub(crate) fn has_dax(device: (u32, u32)) -> bool {
    of_queue(device, "dax").and_then(|text| parsed(&text)) == Some(1)
}

/// Reads a property of a block device's queue; a partition has that of its disk.
fn of_queue((major, minor): (u32, u32), name: &str) -> Option<String> {
    ["queue", "../queue"].iter().find_map(|queue| {
        fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/{queue}/{name}")).ok()
    })
}

fn parsed(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_ahead_of_a_device_without_a_number_is_the_most_of_all() {
        let unknown = read_ahead((u32::MAX, u32::MAX));
        assert!(unknown > Bytes::ZERO, "some device has one: {unknown}");
        assert!(
            read_ahead((7, 0)) <= unknown,
            "and a device that has its own has no more than that"
        );
    }

    #[test]
    fn a_queue_tells_what_its_backing_device_does() {
        for entry in fs::read_dir("/sys/class/bdi").into_iter().flatten() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let path = format!("/sys/class/bdi/{name}/read_ahead_kb");
            let numbers = name.split_once(':').and_then(|(major, minor)| {
                Some((major.parse::<u32>().ok()?, minor.parse::<u32>().ok()?))
            });
            // A file system may be unmounted meanwhile.
            let (Some(device), Ok(text)) = (numbers, fs::read_to_string(path)) else {
                continue;
            };
            let kibibytes = parsed(&text).unwrap();
            assert_eq!(read_ahead(device), Bytes(kibibytes << 10), "{name}");
        }
    }
}
