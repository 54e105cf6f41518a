//! Control groups of the hierarchy that accounts the page cache.

use std::fs;
use std::path::{Path, PathBuf};

use super::command::until;

/// A control group, gone when dropped.
pub struct Group(PathBuf);

impl Group {
    /// Makes one below the root, if that is allowed here.
    pub fn new() -> Option<Group> {
        let hierarchy = cachewise_kstat::Kernel::new().cgroup_hierarchy().ok()?;
        let mount = hierarchy.mount()?;
        // Unique among all that run at once on this machine.
        let name = tempfile::Builder::new()
            .prefix("cachewise-e2e-")
            .tempdir()
            .ok()?;
        let group = mount.join(name.path().file_name()?);
        fs::create_dir(&group).ok()?;
        Some(Group(group))
    }

    /// Makes a group that may use `micros` microseconds of CPU time per tenth of a second; `None` if the kernel has no
    /// such limit.
    pub fn with_quota(micros: u32) -> Option<Group> {
        const PERIOD: u32 = 100_000;
        let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
        let name = tempfile::Builder::new()
            .prefix("cachewise-e2e-")
            .tempdir()
            .ok()?;
        let name = name.path().file_name()?;
        mounts.lines().find_map(|line| {
            let mut words = line.split(' ').skip(1);
            let (mount, kind, options) = (words.next()?, words.next()?, words.next()?);
            let limit = match kind {
                "cgroup2" => vec![("cpu.max", format!("{micros} {PERIOD}"))],
                "cgroup" if options.split(',').any(|one| one == "cpu") => vec![
                    ("cpu.cfs_period_us", PERIOD.to_string()),
                    ("cpu.cfs_quota_us", micros.to_string()),
                ],
                _ => return None,
            };
            let group = Path::new(mount).join(name);
            fs::create_dir(&group).ok()?;
            let group = Group(group);
            let set = |(file, text)| fs::write(group.0.join(file), text);
            limit.into_iter().try_for_each(set).is_ok().then_some(group)
        })
    }

    /// Makes one in a hierarchy that limits how many processes and threads there are, if one is mounted.
    pub fn of_processes() -> Option<Group> {
        let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
        let name = tempfile::Builder::new()
            .prefix("cachewise-e2e-")
            .tempdir()
            .ok()?;
        let name = name.path().file_name()?;
        mounts.lines().find_map(|line| {
            let mut words = line.split(' ').skip(1);
            let (mount, kind, options) = (words.next()?, words.next()?, words.next()?);
            let is_v1 = kind == "cgroup" && options.split(',').any(|one| one == "pids");
            if !is_v1 && kind != "cgroup2" {
                return None;
            }
            let path = Path::new(mount).join(name);
            fs::create_dir(&path).ok()?;
            let group = Group(path);
            group.0.join("pids.max").exists().then_some(group)
        })
    }

    /// Limits its processes and threads.
    pub fn limit_processes(&self, most: u32) {
        let limited = fs::write(self.0.join("pids.max"), most.to_string());
        limited.expect("root may limit its own group");
    }

    /// Makes one below it.
    pub fn inner(&self) -> Group {
        self.inner_named("inner")
    }

    /// Makes one with this name below it.
    pub fn inner_named(&self, name: &str) -> Group {
        let inner = self.0.join(name);
        fs::create_dir(&inner).expect("a group below it can be made");
        Group(inner)
    }

    /// Its directory.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Limits the memory of it and of all below it; gives the file that says so, if there is one.
    pub fn limit_memory(&self, bytes: u64) -> Option<PathBuf> {
        let files = ["memory.max", "memory.limit_in_bytes"];
        let mut files = files.map(|file| self.0.join(file)).into_iter();
        let file = files.find(|file| file.exists())?;
        fs::write(&file, bytes.to_string()).expect("root may limit its own group");
        Some(file)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Busy until the kernel has put its last task away.
        let gone = || (fs::remove_dir(&self.0).is_ok() || !self.0.exists()).then_some(());
        if std::thread::panicking() {
            let _ = gone();
        } else {
            until("the control group can be removed", gone);
        }
    }
}
