//! [`CpuQuota`]: limit on CPU time of this process's control group.

use std::path::{Path, PathBuf};

use crate::kernel::found;
use crate::{Error, Kernel, Mount};

/// A limit on the CPU time of a control group and its descendants.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct CpuQuota {
    /// The limit in CPUs: half a period in each period is 0.5.
    pub cpus: f64,
    /// Its file: `cpu.max`, or `cpu.cfs_quota_us` in version 1.
    pub path: PathBuf,
    /// Number of periods in which the group was throttled since it was made.
    ///
    /// `None` if this kernel does not count it.
    pub throttled: Option<u64>,
}

impl Kernel {
    /// Returns the tightest limit on the CPU time of this process: of its group, or of one above.
    /// `None` without a limit.
    ///
    /// # Errors
    /// Reading the mounts or the files of the groups failed; a missing file sets no limit.
    ///
    /// # Kernel
    /// A cgroup namespace hides limits above its root.
    pub fn cpu_quota(&self) -> Result<Option<CpuQuota>, Error> {
        let text = self.text(&self.proc("self/cgroup"))?;
        let mounts = self.mounts(None)?;
        let mut tightest: Option<CpuQuota> = None;
        for line in text.lines() {
            let mut fields = line.splitn(3, ':');
            let (Some(_), Some(controllers), Some(path)) =
                (fields.next(), fields.next(), fields.next())
            else {
                continue;
            };
            let is_unified = controllers.is_empty();
            if !is_unified && !controllers.split(',').any(|name| name == "cpu") {
                continue;
            }
            let wanted = |mount: &&Mount| match is_unified {
                true => mount.fs_type == "cgroup2",
                false => mount.fs_type == "cgroup" && mount.has_option("cpu"),
            };
            let Some(mount) = mounts.into_iter().find(wanted) else {
                continue;
            };
            let Ok(below) = Path::new(path).strip_prefix(&mount.root) else {
                continue;
            };
            let top = self.rooted(&mount.mount_point);
            let group = top.join(below);
            for directory in group
                .ancestors()
                .take_while(|directory| directory.starts_with(&top))
            {
                let quota = match is_unified {
                    true => self.quota_v2(directory)?,
                    false => self.quota_v1(directory)?,
                };
                if let Some(quota) = quota
                    && tightest
                        .as_ref()
                        .is_none_or(|least| quota.cpus < least.cpus)
                {
                    tightest = Some(quota);
                }
            }
        }
        Ok(tightest)
    }

    /// Reads a file with quota and period in microseconds: `50000 100000`, `max 100000`.
    fn quota_v2(&self, directory: &Path) -> Result<Option<CpuQuota>, Error> {
        let path = directory.join("cpu.max");
        let Some(line) = found(self.line(&path))? else {
            return Ok(None);
        };
        let (quota, period) = line.split_once(' ').unwrap_or((&line, "100000"));
        if quota == "max" {
            return Ok(None);
        }
        self.quota(path, quota, period)
    }

    /// Reads two files; -1 means no limit.
    fn quota_v1(&self, directory: &Path) -> Result<Option<CpuQuota>, Error> {
        let path = directory.join("cpu.cfs_quota_us");
        let Some(quota) = found(self.line(&path))? else {
            return Ok(None);
        };
        if quota == "-1" {
            return Ok(None);
        }
        let period = self.line(&directory.join("cpu.cfs_period_us"))?;
        self.quota(path, &quota, &period)
    }

    fn quota(&self, path: PathBuf, quota: &str, period: &str) -> Result<Option<CpuQuota>, Error> {
        let number = |text: &str| {
            let number = text.parse::<u64>().ok().filter(|number| *number > 0);
            number.ok_or_else(|| Error::parse(&path, format!("{text:?} is not a time")))
        };
        let cpus = number(quota)? as f64 / number(period)? as f64;
        let counts = found(self.text(&path.with_file_name("cpu.stat")))?.unwrap_or_default();
        let throttled = counts
            .lines()
            .find_map(|line| line.strip_prefix("nr_throttled "));
        Ok(Some(CpuQuota {
            cpus,
            throttled: throttled.and_then(|number| number.trim().parse().ok()),
            path,
        }))
    }
}

#[cfg(test)]
mod tests {
    use crate::fixture::Fixture;

    fn machine(group: &str, mounts: &str) -> Fixture {
        let fixture = Fixture::new();
        fixture.write("proc/self/cgroup", group);
        fixture.write("proc/self/mountinfo", mounts);
        fixture
    }

    const V2: &str = "30 20 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
    const V1: &str = "30 20 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n";

    #[test]
    fn cpu_quota_reads_cpu_max_of_version_2() {
        let fixture = machine("0::/a/b\n", V2);
        let kernel = fixture.kernel();
        assert_eq!(kernel.cpu_quota().unwrap(), None, "no files, no limit");
        fixture.write("sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
        fixture.write("sys/fs/cgroup/a/cpu.max", "50000 100000\n");
        fixture.write("sys/fs/cgroup/a/cpu.stat", "usage_usec 5\nnr_throttled 7\n");
        let found = kernel.cpu_quota().unwrap().unwrap();
        assert_eq!(
            (found.cpus, found.throttled),
            (0.5, Some(7)),
            "of the group above"
        );
        fixture.write("sys/fs/cgroup/a/b/cpu.max", "20000 100000\n");
        let found = kernel.cpu_quota().unwrap().unwrap();
        assert_eq!(
            (found.cpus, found.throttled),
            (0.2, None),
            "the tightest: {found:?}"
        );
        assert!(found.path.ends_with("a/b/cpu.max"), "{found:?}");
    }

    #[test]
    fn cpu_quota_reads_cfs_files_of_version_1() {
        let fixture = machine("3:cpu,cpuacct:/x\n2:memory:/y\n", V1);
        fixture.write("sys/fs/cgroup/cpu/x/cpu.cfs_quota_us", "-1\n");
        fixture.write("sys/fs/cgroup/cpu/x/cpu.cfs_period_us", "100000\n");
        assert_eq!(fixture.kernel().cpu_quota().unwrap(), None, "-1 is none");
        fixture.write("sys/fs/cgroup/cpu/x/cpu.cfs_quota_us", "150000\n");
        let found = fixture.kernel().cpu_quota().unwrap().unwrap();
        assert_eq!(found.cpus, 1.5, "more than one CPU is a limit too");
    }

    #[test]
    fn cpu_quota_refuses_invalid_text() {
        let fixture = machine("0::/\n", V2);
        for text in ["0 100000\n", "many\n", "5 0\n", "\n"] {
            fixture.write("sys/fs/cgroup/cpu.max", text);
            let error = fixture.kernel().cpu_quota().unwrap_err().to_string();
            assert!(error.contains("cpu.max"), "{text:?}: {error}");
        }
    }
}
