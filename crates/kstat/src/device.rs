//! [`Device`]: the number of a device, in its three encodings, and its name.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use crate::Kernel;

/// A device number, which also identifies a file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Device {
    /// The driver; 0 for file systems without a block device.
    pub major: u32,
    /// The device of that driver.
    pub minor: u32,
}

impl Device {
    /// Decodes a `dev_t` in the kernel's form: `s_dev` and `i_rdev` in eBPF.
    #[must_use]
    pub const fn from_kernel(dev: u32) -> Self {
        Self {
            major: dev >> 20,
            minor: dev & 0xF_FFFF,
        }
    }

    /// Encodes it in the kernel's form: 12 bits of major, 20 of minor.
    #[must_use]
    pub const fn to_kernel(self) -> u32 {
        self.major << 20 | self.minor & 0xF_FFFF
    }

    /// Decodes a `dev_t` in the form of `stat(2)`: `st_dev` and `st_rdev`.
    #[must_use]
    pub const fn from_stat(dev: u64) -> Self {
        let major = ((dev >> 8) & 0xFFF) | ((dev >> 32) & 0xFFFF_F000);
        let minor = (dev & 0xFF) | ((dev >> 12) & 0xFFFF_FF00);
        Self {
            major: major as u32,
            minor: minor as u32,
        }
    }

    /// Parses `254:0`, the form of `mountinfo` and `/sys/dev`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (major, minor) = text.split_once(':')?;
        Some(Self {
            major: major.parse().ok()?,
            minor: minor.parse().ok()?,
        })
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

impl Kernel {
    /// Returns the path of a block device, for example `/dev/sda1`, or `None` if there is no block
    /// device with this number (as for tmpfs, btrfs, NFS).
    ///
    /// # Cost
    /// One system call.
    #[must_use]
    pub fn block_device_name(&self, device: Device) -> Option<PathBuf> {
        let target = fs::read_link(self.sys("dev/block").join(device.to_string())).ok()?;
        // A name in sysfs cannot contain a slash: "cciss!c0d0" stands for /dev/cciss/c0d0.
        let name = target.file_name()?.to_string_lossy().replace('!', "/");
        Some(Path::new("/dev").join(name))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::fixture::Fixture;

    #[test]
    fn device_decodes_kernel_and_stat_forms() {
        let vda1 = Device {
            major: 254,
            minor: 1,
        };
        assert_eq!(Device::from_kernel(0x0FE0_0001), vda1, "inside the kernel");
        assert_eq!(Device::from_stat(0xFE01), vda1, "out of stat(2)");
        let large = Device {
            major: 259,
            minor: 300,
        };
        assert_eq!(
            Device::from_stat(0x11_032C),
            large,
            "a minor above 255, in two parts"
        );
        assert_eq!(Device::from_kernel((259 << 20) | 300), large, "and in one");
        assert_eq!(Device::from_kernel(large.to_kernel()), large, "and back");
        assert_eq!(large.to_string(), "259:300", "as the kernel writes it");
    }

    #[test]
    fn device_numbers_match_this_machine() {
        use std::os::unix::fs::MetadataExt;
        let null = std::fs::metadata("/dev/null").unwrap();
        assert_eq!(
            Device::from_stat(null.rdev()).to_string(),
            "1:3",
            "/dev/null is 1:3"
        );
    }

    #[test]
    fn block_device_name_comes_from_sysfs() {
        let fixture = Fixture::new();
        fixture.link(
            "sys/dev/block/254:0",
            "../../devices/pci0000:00/virtio1/block/vda",
        );
        fixture.link(
            "sys/dev/block/104:0",
            "../../devices/pci0000:00/block/cciss!c0d0",
        );
        let name = |major| {
            fixture
                .kernel()
                .block_device_name(Device { major, minor: 0 })
        };
        assert_eq!(
            name(254),
            Some("/dev/vda".into()),
            "the last part of the link"
        );
        assert_eq!(
            name(104),
            Some("/dev/cciss/c0d0".into()),
            "a ! stands for a slash"
        );
        assert_eq!(name(0), None, "no block device has major 0");
    }

    proptest! {
        #[test]
        fn printed_form_parses_back(major: u32, minor: u32) {
            let device = Device { major, minor };
            prop_assert_eq!(Device::parse(&device.to_string()), Some(device), "a round trip");
        }
    }
}
