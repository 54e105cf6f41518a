//! The watch options of `stat`, from the command line.

use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use anyhow::{Context, Result, bail};
use cachewise_kstat::{Device, Kernel};
use cachewise_probe::options::WantedFile;
use cachewise_probe::{Detail, Options, Scope};
use cachewise_units::escaped;

use super::arguments::Stat;
use crate::selection::Selected;

/// The watch options.
pub fn options(arguments: &Stat, selected: &Selected, kernel: &Kernel) -> Result<Options> {
    let mut options = selected.options(kernel, Scope::System, Detail::Totals)?;
    options.files = arguments
        .file
        .iter()
        .map(|path| wanted(path))
        .collect::<Result<_>>()?;
    Ok(options)
}

fn wanted(path: &Path) -> Result<WantedFile> {
    let stat = path
        .metadata()
        .with_context(|| format!("cannot watch the file {}", escaped(path)))?;
    if is_on_overlay(path) {
        bail!(
            "{} is on an overlay, and its pages belong to the file in the layer below: name that file",
            escaped(path)
        );
    }
    let kind = stat.file_type();
    let (device, inode) = if kind.is_block_device() {
        (stat.rdev(), 0)
    } else if kind.is_file() {
        (stat.dev(), stat.ino())
    } else {
        bail!(
            "{} is neither a file nor a block device: it has no page cache",
            escaped(path)
        );
    };
    let Device { major, minor } = Device::from_stat(device);
    Ok(WantedFile {
        major,
        minor,
        inode,
    })
}

fn is_on_overlay(path: &Path) -> bool {
    const OVERLAYFS_SUPER_MAGIC: u64 = 0x794c_7630;
    rustix::fs::statfs(path).is_ok_and(|stat| stat.f_type as u64 == OVERLAYFS_SUPER_MAGIC)
}
