//! [`Setting`]: a kernel setting, its file and its valid values.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use cachewise_kstat::{Device, Kernel};
use cachewise_units::Bytes;

use crate::{Error, file};

/// A setting of the machine, of a device or of a control group.
#[derive(Debug)]
#[non_exhaustive]
pub struct Setting {
    /// Its name on the command line.
    pub name: &'static str,
    /// Its location.
    pub place: SettingLocation,
    /// Its valid values.
    pub kind: SettingKind,
    /// Its effect.
    pub about: &'static str,
    /// The first kernel that has it, or the build or boot option that it needs.
    pub since: &'static str,
    /// Names of settings that change with this one.
    pub beside: &'static [&'static str],
}

/// Location of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingLocation {
    /// A file below `/proc/sys`.
    Sysctl(&'static str),
    /// A file below `/sys`.
    Sys(&'static str),
    /// A file in the directory of a block device.
    Device(&'static str),
    /// A limit on the temporary control group of the workload; not saved.
    Group,
}

/// Valid values of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingKind {
    /// A whole number in this inclusive range.
    Number(u64, u64),
    /// One of these words.
    Choice(&'static [&'static str]),
    /// `Y` or `N`.
    Switch,
    /// `y`, `n`, or a mask such as `0x0007`.
    Mask,
    /// A word that the kernel checks.
    Word,
    /// A size, for example `512M`.
    Size,
}

/// The owner of the settings.
#[derive(Clone, Copy, Debug)]
pub struct SettingTarget<'a> {
    /// The machine.
    pub kernel: &'a Kernel,
    /// The file or block device of the workload, whose device has the device settings.
    pub file: Option<&'a Path>,
}

impl Setting {
    /// Returns a value in the kernel's form.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a value that this setting cannot have.
    pub fn checked(&self, value: &str) -> Result<String, Error> {
        let wrong = |wanted: String| Error::Invalid {
            what: format!("{} = {value:?}", self.name),
            problem: format!("it must be {wanted}"),
        };
        match self.kind {
            SettingKind::Number(least, most) => match value.parse::<u64>() {
                Ok(number) if (least..=most).contains(&number) => Ok(number.to_string()),
                _ => Err(wrong(self.kind.to_string())),
            },
            SettingKind::Size => match value.parse::<Bytes>() {
                Ok(bytes) => Ok(bytes.0.to_string()),
                Err(error) => Err(wrong(format!("a size: {error}"))),
            },
            SettingKind::Choice(words) if words.contains(&value) => Ok(value.to_owned()),
            SettingKind::Choice(_) => Err(wrong(self.kind.to_string())),
            SettingKind::Switch => match value {
                "Y" | "y" | "1" | "true" => Ok("Y".to_owned()),
                "N" | "n" | "0" | "false" => Ok("N".to_owned()),
                _ => Err(wrong(self.kind.to_string())),
            },
            SettingKind::Mask => {
                let number = value.strip_prefix("0x").unwrap_or(value);
                match value {
                    "y" | "Y" | "true" => Ok("y".to_owned()),
                    "n" | "N" | "false" => Ok("n".to_owned()),
                    _ if u32::from_str_radix(number, 16).is_ok() => Ok(value.to_owned()),
                    _ => Err(wrong(self.kind.to_string())),
                }
            }
            SettingKind::Word => {
                let is_word = |c: char| c.is_ascii_alphanumeric() || "-_+.".contains(c);
                match !value.is_empty() && value.chars().all(is_word) {
                    true => Ok(value.to_owned()),
                    false => Err(wrong(self.kind.to_string())),
                }
            }
        }
    }

    /// Returns its file; `None` for a limit on a temporary group.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if this machine has none, with the reason.
    pub fn path(&self, target: SettingTarget<'_>) -> Result<Option<PathBuf>, Error> {
        let path = match self.place {
            SettingLocation::Sysctl(name) => target.kernel.proc("sys").join(name),
            SettingLocation::Sys(name) => target.kernel.sys(name),
            SettingLocation::Device(name) => self.device(target)?.join(name),
            SettingLocation::Group => return Ok(None),
        };
        match file::value(&path)? {
            Some(_) => Ok(Some(path)),
            None => Err(self.absent(format!(
                "this kernel has no {}; it is there with {}",
                path.display(),
                self.since
            ))),
        }
    }

    /// The directory of the device of the file.
    fn device(&self, target: SettingTarget<'_>) -> Result<PathBuf, Error> {
        let Some(path) = target.file else {
            return Err(
                self.absent("no file, so no device: name the file of the workload".to_owned())
            );
        };
        let found = fs::metadata(path).map_err(|source| Error::io("stat", path, source))?;
        const BLOCK: u32 = 0o060_000;
        let number = match found.mode() & 0o170_000 {
            BLOCK => found.rdev(),
            _ => found.dev(),
        };
        let device = Device::from_stat(number);
        let link = target.kernel.sys("dev/block").join(device.to_string());
        // A partition has no queue of its own: its disk has, one directory above.
        let directory = fs::canonicalize(&link).ok();
        let mut places = directory.iter().flat_map(|path| path.ancestors().take(2));
        match places.find(|path| path.join("queue").is_dir()) {
            Some(place) => Ok(place.to_owned()),
            None => Err(self.absent(format!(
                "{} is on device {device}, which is not a single block device (tmpfs, btrfs, overlay, a network): use a \
                 file on a disk",
                path.display()
            ))),
        }
    }

    fn absent(&self, reason: String) -> Error {
        Error::Unsupported {
            what: self.name.to_owned(),
            reason,
        }
    }

    /// Returns the current value; `None` for a limit on a temporary group.
    ///
    /// # Errors
    /// As [`Setting::path`].
    pub fn read(&self, target: SettingTarget<'_>) -> Result<Option<String>, Error> {
        match self.path(target)? {
            Some(path) => file::value(&path),
            None => Ok(None),
        }
    }
}

impl std::fmt::Display for SettingKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Number(least, u64::MAX) => write!(f, "a whole number from {least} on"),
            Self::Number(least, most) => write!(f, "a whole number from {least} to {most}"),
            Self::Choice(words) => write!(f, "one of {}", words.join(", ")),
            Self::Switch => f.write_str("Y or N"),
            Self::Mask => f.write_str("y, n or a mask, for example 0x0007"),
            Self::Word => f.write_str("one word"),
            Self::Size => f.write_str("a size, for example 512M"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checked_refuses_invalid_values() {
        for (name, value, wanted) in [
            ("vm.swappiness", "100", Ok("100")),
            ("vm.swappiness", "201", Err("from 0 to 200")),
            ("vm.swappiness", "-1", Err("a whole number")),
            ("vm.swappiness", "", Err("a whole number")),
            ("transparent_hugepage.enabled", "madvise", Ok("madvise")),
            (
                "transparent_hugepage.enabled",
                "sometimes",
                Err("always, madvise, never"),
            ),
            ("zswap.enabled", "true", Ok("Y")),
            ("zswap.enabled", "2", Err("Y or N")),
            ("zswap.compressor", "lz4", Ok("lz4")),
            ("zswap.compressor", "../x", Err("one word")),
            ("lru_gen.enabled", "0x0007", Ok("0x0007")),
            ("lru_gen.enabled", "maybe", Err("a mask")),
            ("memory.max", "512M", Ok("536870912")),
            ("memory.max", "lots", Err("a size")),
        ] {
            let found = Setting::find(name).unwrap().checked(value);
            match (found, wanted) {
                (Ok(found), Ok(wanted)) => assert_eq!(found, wanted, "{name} = {value}"),
                (Err(error), Err(why)) => {
                    let text = error.to_string();
                    assert!(
                        text.contains(name) && text.contains(why),
                        "{name} = {value}: {text}"
                    );
                }
                (found, _) => panic!("{name} = {value}: {found:?}"),
            }
        }
    }

    #[test]
    fn partition_uses_its_disks_queue_and_tmpfs_has_none() {
        let root = tempfile::tempdir().unwrap();
        let sys = root.path().join("sys");
        let found = fs::metadata(root.path()).unwrap();
        let device = Device::from_stat(found.dev());
        fs::create_dir_all(sys.join("devices/vdx/queue")).unwrap();
        fs::create_dir_all(sys.join("devices/vdx/vdx1")).unwrap();
        fs::write(sys.join("devices/vdx/queue/read_ahead_kb"), "128\n").unwrap();
        fs::create_dir_all(sys.join("dev/block")).unwrap();
        let kernel = Kernel::with_roots(root.path().join("proc"), &sys);
        let target = SettingTarget {
            kernel: &kernel,
            file: Some(root.path()),
        };
        let setting = Setting::find("read_ahead_kb").unwrap();
        let error = setting.read(target).unwrap_err().to_string();
        assert!(error.contains("not a single block device"), "{error}");
        let link = sys.join("dev/block").join(device.to_string());
        std::os::unix::fs::symlink(sys.join("devices/vdx/vdx1"), link).unwrap();
        let value = setting.read(target).unwrap();
        assert_eq!(value.as_deref(), Some("128"), "of the disk");
        let error = Setting::find("lru_gen.enabled")
            .unwrap()
            .read(target)
            .unwrap_err();
        assert!(error.to_string().contains("6.1"), "since when: {error}");
    }
}
