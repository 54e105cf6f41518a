//! Memory that the control group of this process has left.

use cachewise_kstat::{CgroupFiles, Kernel};
use cachewise_units::Bytes;

/// Returns the bytes that can be charged to the control group of this process, or to a group above, until a limit is
/// reached; `None` without a limit, or if it cannot be read.
pub fn room() -> Option<Bytes> {
    let kernel = Kernel::new();
    let group = kernel.cgroup_of(std::process::id()).ok().flatten()?;
    let limit = kernel.memory_limit(&group).ok().flatten()?;
    let hierarchy = kernel.cgroup_hierarchy().ok()?;
    let directory = limit.path.parent()?.to_owned();
    let memory = CgroupFiles::once(directory)
        .memory(&hierarchy)
        .ok()
        .flatten()?;
    Some(limit.bytes.saturating_sub(memory.used?))
}
