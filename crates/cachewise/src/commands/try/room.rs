//! [`wait_for_room`]: room for the tables of the next probe in the memory of a control group.

use std::thread::sleep;
use std::time::{Duration, Instant};

use cachewise_kstat::{CgroupFiles, Hierarchy, Kernel};
use cachewise_units::Bytes;

/// Longest wait. The kernel frees tables after grace periods of RCU, which take some milliseconds.
const LONGEST: Duration = Duration::from_secs(5);

/// Time between two looks.
const POLL: Duration = Duration::from_millis(10);

/// Waits until the control group of this process has room for `needed` bytes beside what cannot be reclaimed. It returns
/// at once where no limit is set.
///
/// The kernel frees the tables of a detached probe later. With those of the next one they may exceed the limit, and the
/// kernel would end this process.
pub fn wait_for_room(kernel: &Kernel, needed: Bytes) {
    let own = kernel.cgroup_of(std::process::id()).ok().flatten();
    let limit = own.and_then(|group| kernel.memory_limit(&group).ok().flatten());
    let (Some(limit), Ok(hierarchy)) = (limit, kernel.cgroup_hierarchy()) else {
        return;
    };
    let Some(directory) = limit.path.parent() else {
        return;
    };
    let mut files = CgroupFiles::once(directory.to_owned());
    let end = Instant::now() + LONGEST;
    while Instant::now() < end {
        let room = taken(&mut files, &hierarchy).map(|taken| limit.bytes.0.saturating_sub(taken.0));
        if room.is_none_or(|room| room >= needed.0) {
            return;
        }
        sleep(POLL);
    }
}

/// Returns the memory of a group that is not of pages of files.
fn taken(files: &mut CgroupFiles, hierarchy: &Hierarchy) -> Option<Bytes> {
    let memory = files.memory(hierarchy).ok().flatten()?;
    let pages = memory.active_file? + memory.inactive_file?;
    Some(Bytes(memory.used?.0.saturating_sub(pages.0)))
}
