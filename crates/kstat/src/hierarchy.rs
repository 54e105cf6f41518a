//! [`Hierarchy`]: the hierarchy that accounts the page cache.

use std::fs;
use std::path::{Path, PathBuf};

use crate::kernel::{found, is_gone};
use crate::{Error, Kernel, Mount};

/// The hierarchy of control groups to which the kernel charges the page cache.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Hierarchy {
    /// The unified hierarchy.
    V2 {
        /// Its mount point.
        mount: PathBuf,
    },
    /// The memory controller of version 1.
    V1Memory {
        /// Its mount point.
        mount: PathBuf,
    },
    /// No hierarchy is mounted.
    None,
}

impl Hierarchy {
    /// Returns the mount point.
    #[must_use]
    pub fn mount(&self) -> Option<&Path> {
        match self {
            Self::V2 { mount } | Self::V1Memory { mount } => Some(mount),
            Self::None => None,
        }
    }
}

/// The kernel's inode number of the initial cgroup namespace.
const FIRST_NAMESPACE: &str = "cgroup:[4026531835]";

impl Kernel {
    /// Returns the hierarchy to which this kernel charges the page cache.
    ///
    /// # Errors
    /// Reading the mounts failed.
    ///
    /// # Kernel
    /// Both versions can be mounted; version 2 accounts memory if it has the memory controller, or
    /// if version 1 has not.
    pub fn cgroup_hierarchy(&self) -> Result<Hierarchy, Error> {
        Ok(self.hierarchy()?.0)
    }

    /// Returns the mount point of the unified hierarchy, whether it accounts memory or not: its
    /// groups always have pressure files. `None` if it is not mounted.
    ///
    /// # Errors
    /// Reading the mounts failed.
    pub fn unified_hierarchy(&self) -> Result<Option<PathBuf>, Error> {
        let mounts = self.mounts(None)?;
        let unified = mounts.into_iter().find(|mount| {
            mount.fs_type == "cgroup2"
                && mounts
                    .covering(&mount.mount_point)
                    .is_some_and(|top| top.id == mount.id)
        });
        Ok(unified.map(|mount| self.rooted(&mount.mount_point)))
    }

    /// Finds the hierarchy, and its mounted group.
    pub(crate) fn hierarchy(&self) -> Result<(Hierarchy, PathBuf), Error> {
        let mounts = self.mounts(None)?;
        let visible = |mount: &&Mount| {
            mounts
                .covering(&mount.mount_point)
                .is_some_and(|top| top.id == mount.id)
        };
        let v1 = mounts
            .into_iter()
            .filter(|mount| mount.fs_type == "cgroup" && mount.has_option("memory"))
            .find(visible);
        let v2 = mounts
            .into_iter()
            .filter(|mount| mount.fs_type == "cgroup2")
            .find(visible);
        let place = |mount: &Mount| self.rooted(&mount.mount_point);
        Ok(match (v1, v2) {
            (v1, Some(v2)) if v1.is_none() || self.has_memory(&place(v2))? => {
                (Hierarchy::V2 { mount: place(v2) }, v2.root.clone())
            }
            (Some(v1), _) => (Hierarchy::V1Memory { mount: place(v1) }, v1.root.clone()),
            (None, _) => (Hierarchy::None, PathBuf::new()),
        })
    }

    fn has_memory(&self, mount: &Path) -> Result<bool, Error> {
        let controllers = found(self.text(&mount.join("cgroup.controllers")))?.unwrap_or_default();
        Ok(controllers
            .split_ascii_whitespace()
            .any(|name| name == "memory"))
    }

    /// Whether no namespace hides groups above the visible ones.
    pub(crate) fn sees_all_cgroups(&self) -> bool {
        match fs::read_link(self.proc("self/ns/cgroup")) {
            Ok(namespace) => namespace == Path::new(FIRST_NAMESPACE),
            // A kernel without these namespaces hides no groups.
            Err(error) => is_gone(&error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;
    use crate::fixture::{hybrid, with_cgroups};

    #[test]
    fn hierarchy_is_v2_only_with_memory_controller_or_alone() {
        let fixture = hybrid();
        let v1 = Hierarchy::V1Memory {
            mount: fixture.path("sys/fs/cgroup/memory"),
        };
        assert_eq!(
            fixture.kernel().cgroup_hierarchy().unwrap(),
            v1,
            "2 without memory"
        );
        let unified = Some(fixture.path("sys/fs/cgroup/unified"));
        assert_eq!(
            fixture.kernel().unified_hierarchy().unwrap(),
            unified,
            "which is mounted anyway"
        );

        let fixture = with_cgroups("hybrid.txt", "sys/fs/cgroup/memory", "cpu memory io\n");
        let v2 = Hierarchy::V2 {
            mount: fixture.path("sys/fs/cgroup/unified"),
        };
        assert_eq!(
            fixture.kernel().cgroup_hierarchy().unwrap(),
            v2,
            "2 with memory"
        );

        let fixture = with_cgroups("btrfs.txt", "sys/fs/cgroup", "");
        let v2 = Hierarchy::V2 {
            mount: fixture.path("sys/fs/cgroup"),
        };
        assert_eq!(fixture.kernel().cgroup_hierarchy().unwrap(), v2, "2 alone");

        let fixture = with_cgroups("binds.txt", "sys/fs/cgroup", "");
        let kernel = fixture.kernel();
        assert_eq!(
            kernel.cgroup_hierarchy().unwrap(),
            Hierarchy::None,
            "nothing is mounted"
        );
        assert!(
            kernel.cgroup_names().unwrap().is_empty(),
            "so nothing has a name"
        );
        let error = kernel.resolve_cgroup("a").unwrap_err();
        assert_eq!(
            error.kind(),
            ErrorKind::Unsupported,
            "nor can be found: {error}"
        );
    }
}
