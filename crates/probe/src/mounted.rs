//! Mounts of file systems at their first use: at the time of the report they may be unmounted, and their device numbers
//! reused.

use std::path::{Path, PathBuf};

use cachewise_kstat::{Device, Mount, Mounts};

/// A mount as the kernel's side saw it, in this process's mount namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SeenMount {
    pub(crate) device: Device,
    /// The directory of the file system that it shows.
    pub(crate) root: PathBuf,
    pub(crate) mount_point: PathBuf,
    pub(crate) file_system: String,
}

impl SeenMount {
    /// Returns whether it is among the mounts of now.
    pub(crate) fn is_still_there(&self, mounts: &Mounts) -> bool {
        let same = |mount: &Mount| {
            mount.dev == self.device
                && mount.root == self.root
                && mount.mount_point == self.mount_point
        };
        mounts.as_slice().iter().any(same)
    }

    /// Returns the path under which a file of the file system was seen.
    pub(crate) fn resolve(&self, path_in_file_system: &Path) -> Option<PathBuf> {
        let rest = path_in_file_system.strip_prefix(&self.root).ok()?;
        Some(match rest.as_os_str().is_empty() {
            true => self.mount_point.clone(),
            false => self.mount_point.join(rest),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_that_below_the_mount_point() {
        let mount = |root: &str| SeenMount {
            device: Device { major: 7, minor: 0 },
            root: root.into(),
            mount_point: "/mnt/a".into(),
            file_system: "squashfs".into(),
        };
        let resolve = |root: &str, path: &str| mount(root).resolve(Path::new(path));
        assert_eq!(resolve("/", "/d/file"), Some("/mnt/a/d/file".into()));
        assert_eq!(resolve("/d", "/d/file"), Some("/mnt/a/file".into()));
        assert_eq!(
            resolve("/d", "/d"),
            Some("/mnt/a".into()),
            "of one file alone"
        );
        assert_eq!(resolve("/d", "/data"), None, "the mount does not show it");
    }
}
