//! [`Group`]: a temporary control group with limits.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use cachewise_kstat::{CgroupFiles, CgroupMemory, Hierarchy, Kernel, Pressure, Resource};
use cachewise_units::Bytes;

use crate::reclaim::Reclaimed;
use crate::{Error, Owner, file, reclaim};

/// Prefix of all our groups: `cachewise-PURPOSE-PID-START-NAMESPACE-NUMBER`.
const PREFIX: &str = "cachewise-";

/// Maximum time a group may stay busy after its last process: the kernel frees tasks a little
/// later.
const BUSY_TIMEOUT: Duration = Duration::from_secs(2);
const CHECK_INTERVAL: Duration = Duration::from_millis(5);

/// A control group of this process in the hierarchy that accounts memory. Removed on drop, without
/// reporting errors; [`Group::remove`] reports them.
#[derive(Debug)]
pub struct Group {
    hierarchy: Hierarchy,
    path: PathBuf,
    /// The group's twin in the unified hierarchy, if that does not account memory: it reports
    /// pressure. With the groups that get processes left in it.
    twin: Option<(PathBuf, Vec<PathBuf>)>,
    /// Groups that get processes left in it.
    fallbacks: Vec<PathBuf>,
    is_removed: bool,
}

/// Limits of a group; `None` leaves a limit as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Maximum memory: `memory.max`, `memory.limit_in_bytes`.
    pub max: Option<Bytes>,
    /// Memory beyond which the kernel reclaims: `memory.high`. Version 1 has
    /// `memory.soft_limit_in_bytes`, which takes effect only when the whole machine needs memory.
    pub high: Option<Bytes>,
    /// Maximum swap: `memory.swap.max`. Version 1 limits memory and swap together, and needs `max`
    /// too.
    pub swap_max: Option<Bytes>,
    /// Tendency to swap anonymous memory, 0 to 200: `memory.swappiness`, only in version 1.
    pub swappiness: Option<u32>,
}

impl Group {
    /// Makes a group; its purpose, in small letters, becomes part of its name.
    ///
    /// It is made at the root of the hierarchy, or, if that is not allowed, beside or below the
    /// group of this process.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if no hierarchy accounts memory, otherwise the error of the last
    /// attempt.
    pub fn create(kernel: &Kernel, purpose: &str) -> Result<Self, Error> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        if purpose.is_empty() || !purpose.bytes().all(|byte| byte.is_ascii_lowercase()) {
            return Err(Error::Invalid {
                what: format!("{purpose:?} as a control group's purpose"),
                problem: "it must be small letters".to_owned(),
            });
        }
        let hierarchy = kernel.cgroup_hierarchy()?;
        let parents = parents(kernel)?;
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{PREFIX}{purpose}-{}-{number}", Owner::current()?);
        let mut refused = None;
        for parent in parents {
            let path = parent.join(&name);
            match make(&hierarchy, &parent, &path) {
                Ok(()) => {
                    let mut fallbacks: Vec<PathBuf> = own_group(kernel).into_iter().collect();
                    fallbacks.push(parent);
                    let twin = twin(kernel, &hierarchy, &name);
                    return Ok(Self {
                        hierarchy,
                        path,
                        twin,
                        fallbacks,
                        is_removed: false,
                    });
                }
                Err(error) => refused = refused.or(Some(error)),
            }
        }
        Err(refused.unwrap_or_else(no_hierarchy))
    }

    /// Returns its directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns its hierarchy.
    #[must_use]
    pub fn hierarchy(&self) -> &Hierarchy {
        &self.hierarchy
    }

    /// Sets limits.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for a limit that this version of control groups, or this kernel, does
    /// not have; [`Error::Invalid`] for swap without memory if these are limited together;
    /// [`Error::Io`] if a write fails.
    pub fn limit(&self, limits: &Limits) -> Result<(), Error> {
        let set = |name: &str, value: String, missing: &str| {
            let path = self.path.join(name);
            if !path.exists() {
                return Err(Error::Unsupported {
                    what: format!("set {name} of {}", self.path.display()),
                    reason: missing.to_owned(),
                });
            }
            file::write(&path, &value)
        };
        let is_v1 = matches!(self.hierarchy, Hierarchy::V1Memory { .. });
        let plain = "this kernel has no such limit: was it built with CONFIG_MEMCG?";
        let no_swap = "this kernel does not account swap by group: boot it with swapaccount=1";
        match (is_v1, limits.max, limits.swap_max) {
            (true, max, swap) => {
                let both = "memory.memsw.limit_in_bytes";
                // Their sum is never below memory alone, not even for a moment.
                if max.is_some() && self.path.join(both).exists() {
                    set(both, "-1".to_owned(), no_swap)?;
                }
                if let Some(max) = max {
                    set("memory.limit_in_bytes", max.0.to_string(), plain)?;
                }
                match (max, swap) {
                    (Some(max), Some(swap)) => {
                        set(both, max.0.saturating_add(swap.0).to_string(), no_swap)?;
                    }
                    (None, Some(_)) => {
                        return Err(Error::Invalid {
                            what: "a limit on swap alone".to_owned(),
                            problem: "control groups of version 1 limit memory and swap together: limit the \
                                      memory too"
                                .to_owned(),
                        });
                    }
                    (_, None) => {}
                }
            }
            (false, max, swap) => {
                if let Some(max) = max {
                    set("memory.max", max.0.to_string(), plain)?;
                }
                if let Some(swap) = swap {
                    set("memory.swap.max", swap.0.to_string(), no_swap)?;
                }
            }
        }
        if let Some(high) = limits.high {
            let name = if is_v1 {
                "memory.soft_limit_in_bytes"
            } else {
                "memory.high"
            };
            set(name, high.0.to_string(), plain)?;
        }
        if let Some(swappiness) = limits.swappiness {
            let only_v1 =
                "control groups of version 2 have none of their own; vm.swappiness is for all";
            set("memory.swappiness", swappiness.to_string(), only_v1)?;
        }
        Ok(())
    }

    /// Makes the command join the group before it is executed, and end with the thread that spawns
    /// it.
    ///
    /// # Errors
    /// The group's list of processes cannot be opened. Spawning reports a failure to join.
    pub fn admit(&self, command: &mut Command) -> Result<(), Error> {
        let open = |group: &Path| {
            let path = group.join("cgroup.procs");
            let opened = OpenOptions::new().write(true).open(&path);
            opened.map_err(|source| Error::io("open", &path, source))
        };
        let mut groups = vec![open(&self.path)?];
        if let Some((twin, _)) = &self.twin {
            groups.push(open(twin)?);
        }
        cachewise_sys::join_before_exec(command, groups);
        cachewise_sys::die_with_spawner(command);
        Ok(())
    }

    /// Moves a process into the group; its existing memory stays charged to its old group.
    ///
    /// # Errors
    /// Writing its id failed.
    pub fn take_in(&self, pid: u32) -> Result<(), Error> {
        let twin = self.twin.as_ref().map(|(twin, _)| twin);
        for group in [Some(&self.path), twin].into_iter().flatten() {
            file::write(&group.join("cgroup.procs"), &pid.to_string())?;
        }
        Ok(())
    }

    /// Returns the memory charged to it; `None` if the kernel does not report it.
    ///
    /// # Errors
    /// Reading failed.
    pub fn used(&self) -> Result<Option<Bytes>, Error> {
        Ok(CgroupFiles::once(&self.path).memory_used(&self.hierarchy)?)
    }

    /// Returns its memory and its events, OOM kills included.
    ///
    /// # Errors
    /// Reading failed, also because another program removed the group.
    pub fn memory(&self) -> Result<CgroupMemory, Error> {
        let memory = CgroupFiles::once(&self.path).memory(&self.hierarchy)?;
        memory.ok_or_else(|| Error::io("read", &self.path, io::ErrorKind::NotFound.into()))
    }

    /// Returns the pressure on its processes; `None` if this kernel does not report it. Version 1
    /// uses the group's twin in the unified hierarchy.
    ///
    /// # Errors
    /// Reading failed.
    pub fn pressure(&self, resource: Resource) -> Result<Option<Pressure>, Error> {
        let group = match (&self.hierarchy, &self.twin) {
            (Hierarchy::V2 { .. }, _) => &self.path,
            (_, Some((twin, _))) => twin,
            (_, None) => return Ok(None),
        };
        Ok(CgroupFiles::once(group).pressure(resource)?)
    }

    /// Reclaims this much of its memory; version 1 reclaims all it can.
    ///
    /// # Errors
    /// As [`reclaim`].
    pub fn reclaim(&self, bytes: Bytes) -> Result<Reclaimed, Error> {
        reclaim(&self.hierarchy, &self.path, bytes)
    }

    /// Removes it; processes that are still in it move to the group of this process.
    ///
    /// # Errors
    /// The kernel's error after the group has been busy for two seconds; a later
    /// [`sweep`](crate::sweep) tries again.
    pub fn remove(mut self) -> Result<(), Error> {
        self.remove_now()
    }

    fn remove_now(&mut self) -> Result<(), Error> {
        if std::mem::replace(&mut self.is_removed, true) {
            return Ok(());
        }
        let twin = match &self.twin {
            Some((twin, fallbacks)) => remove_directory(twin, fallbacks),
            None => Ok(()),
        };
        remove_directory(&self.path, &self.fallbacks).and(twin)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // A drop cannot report an error; the next run sweeps.
        let _ = self.remove_now();
    }
}

fn no_hierarchy() -> Error {
    Error::Unsupported {
        what: "make a control group".to_owned(),
        reason: "no hierarchy that accounts memory is mounted; mount one: mount -t cgroup2 none /sys/fs/cgroup"
            .to_owned(),
    }
}

/// The owner in the name of a group, if it is one of ours.
pub(crate) fn owner_in(name: &str) -> Option<Owner> {
    let rest = name.strip_prefix(PREFIX)?;
    let (_purpose, rest) = rest.split_once('-')?;
    let (owner, number) = rest.rsplit_once('-')?;
    number.parse::<u32>().ok()?;
    owner.parse().ok()
}

fn own_group(kernel: &Kernel) -> Option<PathBuf> {
    let group = kernel.cgroup_of(std::process::id());
    group.ok().flatten().map(|group| group.path)
}

/// Directories for groups, the best first.
pub(crate) fn parents(kernel: &Kernel) -> Result<Vec<PathBuf>, Error> {
    let hierarchy = kernel.cgroup_hierarchy()?;
    let mount = hierarchy.mount().ok_or_else(no_hierarchy)?;
    let mut parents = vec![mount.to_owned()];
    if let Some(own) = own_group(kernel) {
        // Beside it first: in version 2 a group with processes cannot hand the memory controller
        // on.
        let beside = own.parent().filter(|parent| parent.starts_with(mount));
        for place in [beside.map(Path::to_owned), Some(own)]
            .into_iter()
            .flatten()
        {
            if !parents.contains(&place) {
                parents.push(place);
            }
        }
    }
    Ok(parents)
}

fn make(hierarchy: &Hierarchy, parent: &Path, path: &Path) -> Result<(), Error> {
    if matches!(hierarchy, Hierarchy::V2 { .. }) {
        let control = parent.join("cgroup.subtree_control");
        let controllers = file::read(&control)?.unwrap_or_default();
        if !controllers
            .split_ascii_whitespace()
            .any(|name| name == "memory")
        {
            return Err(Error::Unsupported {
                what: format!("make a control group in {}", parent.display()),
                reason: format!(
                    "memory is not accounted for the groups in it; if you may: echo +memory >{}",
                    control.display()
                ),
            });
        }
    }
    fs::create_dir(path).map_err(|source| Error::io("make the control group", path, source))
}

/// Makes the group's twin. Without it only the pressure is unknown.
fn twin(kernel: &Kernel, hierarchy: &Hierarchy, name: &str) -> Option<(PathBuf, Vec<PathBuf>)> {
    if matches!(hierarchy, Hierarchy::V2 { .. }) {
        return None;
    }
    let root = kernel.unified_hierarchy().ok()??;
    let path = root.join(name);
    // Back to the group of this process, where its supervisor expects it.
    let own = kernel.unified_cgroup_of(std::process::id());
    let fallbacks = own.ok().flatten().into_iter().chain([root]).collect();
    fs::create_dir(&path).ok()?;
    Some((path, fallbacks))
}

/// Moves the processes of the group to the first fallback that accepts them, and removes the group.
pub(crate) fn remove_directory(group: &Path, fallbacks: &[PathBuf]) -> Result<(), Error> {
    let tries = BUSY_TIMEOUT.as_millis() / CHECK_INTERVAL.as_millis();
    let mut last = io::Error::from(io::ErrorKind::ResourceBusy);
    for _ in 0..tries {
        evacuate(group, fallbacks);
        match fs::remove_dir(group) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => last = error,
            Err(error) => return Err(Error::io("remove the control group", group, error)),
        }
        std::thread::sleep(CHECK_INTERVAL);
    }
    Err(Error::io("remove the control group", group, last))
}

fn evacuate(group: &Path, fallbacks: &[PathBuf]) {
    let processes = file::read(&group.join("cgroup.procs"));
    let processes = processes.ok().flatten().unwrap_or_default();
    for pid in processes.lines() {
        // A process that has ended meanwhile need not move.
        let _ = fallbacks
            .iter()
            .find(|fallback| file::write(&fallback.join("cgroup.procs"), pid).is_ok());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn group_name_contains_its_owner() {
        let owner = Owner::current().unwrap();
        let name = format!("cachewise-bench-{owner}-3");
        assert_eq!(owner_in(&name), Some(owner), "{name}");
        for other in [
            "system.slice",
            "cachewise",
            "cachewise-bench",
            "cachewise-bench-1",
            "cachewise-e2e-XYZ123",
            "cachewise-bench-1-2-3-x",
            "cachewise-my-service-1-2-3-4",
        ] {
            assert_eq!(owner_in(other), None, "{other} is not ours");
        }
    }
}
