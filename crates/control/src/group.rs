//! [`Group`]: a control group of one's own, limited, and gone afterwards.

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

/// All groups of ours begin with this: `cachewise-PURPOSE-PID-START-NAMESPACE-NUMBER`.
const PREFIX: &str = "cachewise-";

/// How long a group may stay busy after its last process: the kernel puts tasks away a little later.
const PATIENCE: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(5);

/// A control group of this process's own, where memory is accounted. It is gone when dropped; what
/// [`Group::remove`] would say is lost then.
#[derive(Debug)]
pub struct Group {
    hierarchy: Hierarchy,
    path: PathBuf,
    /// The group's twin in the unified hierarchy, where memory is not accounted in that: it has pressure. And where
    /// processes go that are left in it.
    twin: Option<(PathBuf, Vec<PathBuf>)>,
    /// Where processes go that are left in it.
    homes: Vec<PathBuf>,
    is_removed: bool,
}

/// Limits on a group; `None` leaves one as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Memory at most: `memory.max`, `memory.limit_in_bytes`.
    pub max: Option<Bytes>,
    /// Memory beyond which the kernel reclaims: `memory.high`. Version 1 has `memory.soft_limit_in_bytes`, which
    /// matters only when the whole machine wants memory.
    pub high: Option<Bytes>,
    /// Swap at most: `memory.swap.max`. Version 1 limits memory and swap together, so it takes `max` too.
    pub swap_max: Option<Bytes>,
    /// How readily anonymous memory is swapped, 0 to 200: `memory.swappiness`, of version 1 only.
    pub swappiness: Option<u32>,
}

impl Group {
    /// Makes a group for a purpose, which becomes part of its name: small letters.
    ///
    /// It is made at the root of the hierarchy, or where that is not allowed beside the group of this process
    /// or below it.
    ///
    /// # Errors
    /// [`Error::Unsupported`] where no hierarchy accounts memory, else why the last place was refused.
    pub fn create(kernel: &Kernel, purpose: &str) -> Result<Self, Error> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        if purpose.is_empty() || !purpose.bytes().all(|byte| byte.is_ascii_lowercase()) {
            return Err(Error::Invalid {
                what: format!("{purpose:?} as a control group's purpose"),
                problem: "it is of small letters".to_owned(),
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
                    let mut homes: Vec<PathBuf> = own_group(kernel).into_iter().collect();
                    homes.push(parent);
                    let twin = twin(kernel, &hierarchy, &name);
                    return Ok(Self {
                        hierarchy,
                        path,
                        twin,
                        homes,
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

    /// Returns the hierarchy that it is in.
    #[must_use]
    pub fn hierarchy(&self) -> &Hierarchy {
        &self.hierarchy
    }

    /// Sets limits.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for what this version of control groups, or this kernel, does not limit;
    /// [`Error::Invalid`] for swap without memory where these are limited together; else what writing says.
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
                // Together they are never less than memory alone, not for a moment.
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

    /// Has the command join the group before it is executed, and end with the thread that spawns it.
    ///
    /// # Errors
    /// What opening the group's list of processes says. What joining says, spawning does.
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

    /// Moves a process into the group; what it has already stays charged where it was.
    ///
    /// # Errors
    /// What writing its id says.
    pub fn take_in(&self, pid: u32) -> Result<(), Error> {
        let twin = self.twin.as_ref().map(|(twin, _)| twin);
        for group in [Some(&self.path), twin].into_iter().flatten() {
            file::write(&group.join("cgroup.procs"), &pid.to_string())?;
        }
        Ok(())
    }

    /// Returns how much memory is charged to it; `None` where that is not told.
    ///
    /// # Errors
    /// What reading says.
    pub fn used(&self) -> Result<Option<Bytes>, Error> {
        Ok(CgroupFiles::once(&self.path).memory_used(&self.hierarchy)?)
    }

    /// Returns what memory it has and what happened to it, kills for want of memory included.
    ///
    /// # Errors
    /// What reading says; a group that somebody else removed is one.
    pub fn memory(&self) -> Result<CgroupMemory, Error> {
        let memory = CgroupFiles::once(&self.path).memory(&self.hierarchy)?;
        memory.ok_or_else(|| Error::io("read", &self.path, io::ErrorKind::NotFound.into()))
    }

    /// Returns the pressure that its processes feel; `None` where this kernel does not tell. With version 1 it
    /// is that of the group's twin in the unified hierarchy.
    ///
    /// # Errors
    /// What reading says.
    pub fn pressure(&self, resource: Resource) -> Result<Option<Pressure>, Error> {
        let group = match (&self.hierarchy, &self.twin) {
            (Hierarchy::V2 { .. }, _) => &self.path,
            (_, Some((twin, _))) => twin,
            (_, None) => return Ok(None),
        };
        Ok(CgroupFiles::once(group).pressure(resource)?)
    }

    /// Takes so much memory from it; all that can be had with version 1.
    ///
    /// # Errors
    /// As [`reclaim`].
    pub fn reclaim(&self, bytes: Bytes) -> Result<Reclaimed, Error> {
        reclaim(&self.hierarchy, &self.path, bytes)
    }

    /// Removes it; processes that are still in it are moved to where this process is.
    ///
    /// # Errors
    /// What the kernel says, when it has been busy for two seconds; then a later [`sweep`](crate::sweep) tries again.
    pub fn remove(mut self) -> Result<(), Error> {
        self.remove_now()
    }

    fn remove_now(&mut self) -> Result<(), Error> {
        if std::mem::replace(&mut self.is_removed, true) {
            return Ok(());
        }
        let twin = match &self.twin {
            Some((twin, homes)) => remove_directory(twin, homes),
            None => Ok(()),
        };
        remove_directory(&self.path, &self.homes).and(twin)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // There is nobody to tell; the next run sweeps.
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

/// Who made the group of this name, if one of us did.
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

/// Where groups can be made, the best first.
pub(crate) fn parents(kernel: &Kernel) -> Result<Vec<PathBuf>, Error> {
    let hierarchy = kernel.cgroup_hierarchy()?;
    let mount = hierarchy.mount().ok_or_else(no_hierarchy)?;
    let mut parents = vec![mount.to_owned()];
    if let Some(own) = own_group(kernel) {
        // Beside it first: with version 2 a group that has processes cannot hand memory on.
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

/// Makes the group's twin. Without it the pressure is not known, and all else is.
fn twin(kernel: &Kernel, hierarchy: &Hierarchy, name: &str) -> Option<(PathBuf, Vec<PathBuf>)> {
    if matches!(hierarchy, Hierarchy::V2 { .. }) {
        return None;
    }
    let root = kernel.unified_hierarchy().ok()??;
    let path = root.join(name);
    // Back to where this process was: whoever supervises it looks for it there.
    let own = kernel.unified_cgroup_of(std::process::id());
    let homes = own.ok().flatten().into_iter().chain([root]).collect();
    fs::create_dir(&path).ok()?;
    Some((path, homes))
}

/// Moves what is in the group to the first of the homes that takes it, and removes the group.
pub(crate) fn remove_directory(group: &Path, homes: &[PathBuf]) -> Result<(), Error> {
    let tries = PATIENCE.as_millis() / LOOK.as_millis();
    let mut last = io::Error::from(io::ErrorKind::ResourceBusy);
    for _ in 0..tries {
        evacuate(group, homes);
        match fs::remove_dir(group) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => last = error,
            Err(error) => return Err(Error::io("remove the control group", group, error)),
        }
        std::thread::sleep(LOOK);
    }
    Err(Error::io("remove the control group", group, last))
}

fn evacuate(group: &Path, homes: &[PathBuf]) {
    let processes = file::read(&group.join("cgroup.procs"));
    let processes = processes.ok().flatten().unwrap_or_default();
    for pid in processes.lines() {
        // One that has ended meanwhile needs no home.
        let _ = homes
            .iter()
            .find(|home| file::write(&home.join("cgroup.procs"), pid).is_ok());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_owner_is_in_the_name() {
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
