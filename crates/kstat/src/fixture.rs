//! Captured and made-up machines for the tests.

use std::fs;
use std::path::{Path, PathBuf};

use crate::Kernel;

/// Opens a captured machine of `testdata/`.
pub(crate) fn captured(name: &str) -> Kernel {
    let root = testdata(name);
    Kernel::with_roots(root.join("proc"), root.join("sys"))
}

pub(crate) fn testdata(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("testdata")
        .join(name)
}

/// A machine that consists of the files that a test writes.
pub(crate) struct Fixture(tempfile::TempDir);

impl Fixture {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn kernel(&self) -> Kernel {
        Kernel::with_roots(self.path("proc"), self.path("sys"))
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    pub(crate) fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(crate) fn link(&self, path: &str, target: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(target, path).unwrap();
    }
}

/// A machine with the mounts of a captured one, and a group with one child.
pub(crate) fn with_cgroups(mounts: &str, mount: &str, v2_controllers: &str) -> Fixture {
    let fixture = Fixture::new();
    let text = fs::read(testdata("mountinfo").join(mounts)).unwrap();
    fixture.write("proc/self/mountinfo", text);
    fixture.write("sys/fs/cgroup/unified/cgroup.controllers", v2_controllers);
    fixture.write(&format!("{mount}/cgroup.procs"), "");
    fixture.write(&format!("{mount}/web.slice/nginx/cgroup.procs"), "");
    fixture
}

/// A machine with both versions mounted, where version 2 has no memory controller.
pub(crate) fn hybrid() -> Fixture {
    with_cgroups("hybrid.txt", "sys/fs/cgroup/memory", "hugetlb\n")
}
