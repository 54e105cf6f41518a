//! Memory for pages that are locked: what the control groups of this process and the machine have left.

use std::fmt;
use std::path::PathBuf;

use anyhow::Result;
use cachewise_kstat::{CgroupFiles, Hierarchy, Kernel};
use cachewise_residency::{Pick, WouldWarm};
use cachewise_sys::page_size;
use cachewise_units::{Bytes, Pages, escaped};

/// The divisor of the part of a limit, or of the machine's memory, that is left to programs.
const MARGIN: u64 = 16;

/// The memory that is to be locked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryNeed {
    /// Pages that are resident already.
    pub resident: Bytes,
    /// Pages that have to be read.
    pub absent: Bytes,
}

impl MemoryNeed {
    /// The memory that locking a file takes. Pages whose residency is unknown count as absent.
    pub fn to_lock(missing: &WouldWarm, pick: Pick) -> MemoryNeed {
        let resident = missing.before.unwrap_or(Pages::ZERO);
        let absent = match pick {
            Pick::All => missing.pages.saturating_sub(resident),
            Pick::Resident => Pages::ZERO,
        };
        MemoryNeed {
            resident: resident.bytes(page_size()),
            absent: absent.bytes(page_size()),
        }
    }

    /// All of it.
    pub fn total(self) -> Bytes {
        Bytes(self.resident.0.saturating_add(self.absent.0))
    }

    /// Adds what is to be locked of another file.
    pub fn add(&mut self, other: MemoryNeed) {
        self.resident = Bytes(self.resident.0.saturating_add(other.resident.0));
        self.absent = Bytes(self.absent.0.saturating_add(other.absent.0));
    }
}

/// Why there is no room.
#[derive(Debug, PartialEq, Eq)]
pub struct NoRoom {
    wanted: MemoryNeed,
    left: Bytes,
    whose: Whose,
}

#[derive(Debug, PartialEq, Eq)]
enum Whose {
    Group { limit: Bytes, directory: PathBuf },
    Machine { total: Bytes },
}

impl fmt::Display for NoRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (all, absent, left) = (self.wanted.total(), self.wanted.absent, self.left);
        write!(
            f,
            "cannot lock {all}, of which {absent} are not in memory: "
        )?;
        match &self.whose {
            Whose::Group { limit, directory } => write!(
                f,
                "the control group {} is limited to {limit}, and {left} of that can be locked; raise its limit, or ",
                escaped(directory)
            )?,
            Whose::Machine { total } => write!(
                f,
                "the machine has {total}, and {left} of that can be locked (MemAvailable less 1/{MARGIN} of all); "
            )?,
        }
        f.write_str("lock less (--range, --exclude), or add --force, which may cause the kernel to kill processes")
    }
}

/// Says whether so much can be locked without running out of memory, in this process's control groups and in the
/// machine.
pub fn look(wanted: MemoryNeed) -> Result<Option<NoRoom>> {
    let kernel = Kernel::new();
    if let Some(no_room) = in_groups(&kernel, wanted)? {
        return Ok(Some(no_room));
    }
    let memory = kernel.meminfo()?;
    let Some(available) = memory.available else {
        return Ok(None);
    };
    // MemAvailable has the resident pages, as long as they are not locked.
    let left = available.saturating_sub(Bytes(memory.total.0 / MARGIN));
    Ok((wanted.total() > left).then_some(NoRoom {
        wanted,
        left,
        whose: Whose::Machine {
            total: memory.total,
        },
    }))
}

/// The group of this process, and those above it.
fn in_groups(kernel: &Kernel, wanted: MemoryNeed) -> Result<Option<NoRoom>> {
    let hierarchy = kernel.cgroup_hierarchy()?;
    let mount = match &hierarchy {
        Hierarchy::V2 { mount } | Hierarchy::V1Memory { mount } => mount,
        Hierarchy::None => return Ok(None),
    };
    let Some(group) = kernel.cgroup_of(std::process::id())? else {
        return Ok(None);
    };
    for directory in group.path.ancestors() {
        if !directory.starts_with(mount) {
            break;
        }
        let Some(memory) = CgroupFiles::once(directory).memory(&hierarchy)? else {
            continue;
        };
        let (Some(limit), Some(used)) = (memory.limit, memory.used) else {
            continue;
        };
        let files =
            memory.active_file.unwrap_or_default() + memory.inactive_file.unwrap_or_default();
        if let Some(left) = lacks(limit, used, files, wanted) {
            let whose = Whose::Group {
                limit,
                directory: directory.to_owned(),
            };
            return Ok(Some(NoRoom {
                wanted,
                left,
                whose,
            }));
        }
    }
    Ok(None)
}

/// How much can be locked in a group, where that is less than what is wanted.
///
/// The group is charged for pages that are read, and for resident pages at most up to its own page cache.
fn lacks(limit: Bytes, used: Bytes, files: Bytes, wanted: MemoryNeed) -> Option<Bytes> {
    let kept = used.saturating_sub(files);
    let left = limit
        .saturating_sub(Bytes(limit.0 / MARGIN))
        .saturating_sub(kept);
    let charged = wanted.resident.min(files).0.saturating_add(wanted.absent.0);
    (Bytes(charged) > left).then_some(left)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn wanted(resident: u64, absent: u64) -> MemoryNeed {
        MemoryNeed {
            resident: Bytes(resident * MIB),
            absent: Bytes(absent * MIB),
        }
    }

    #[test]
    fn a_group_can_lock_what_its_programs_leave() {
        let lacks = |used, files, wanted| {
            lacks(
                Bytes(160 * MIB),
                Bytes(used * MIB),
                Bytes(files * MIB),
                wanted,
            )
            .map(|left| left.0 / MIB)
        };
        assert_eq!(
            lacks(50, 0, wanted(0, 100)),
            None,
            "150 MiB without the margin"
        );
        assert_eq!(lacks(50, 0, wanted(0, 101)), Some(100), "one too many");
        assert_eq!(
            lacks(150, 140, wanted(0, 140)),
            None,
            "page cache makes room"
        );
        assert_eq!(
            lacks(150, 140, wanted(140, 1)),
            Some(140),
            "but for what is locked of it"
        );
        assert_eq!(
            lacks(10, 0, wanted(1000, 1)),
            None,
            "what is charged to another group needs no room in this one"
        );
    }

    #[test]
    fn a_refusal_says_what_to_do() {
        let text = NoRoom {
            wanted: wanted(1, 2),
            left: Bytes(MIB),
            whose: Whose::Group {
                limit: Bytes(4 * MIB),
                directory: "/sys/fs/cgroup/x".into(),
            },
        }
        .to_string();
        for part in [
            "lock 3.0 MiB",
            "2.0 MiB are not",
            "/sys/fs/cgroup/x",
            "4.0 MiB",
            "--force",
        ] {
            assert!(text.contains(part), "{part:?} should be in {text:?}");
        }
    }
}
