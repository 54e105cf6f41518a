//! Shared parts of the rules about scarce memory: the control groups concerned, their refaults, and
//! the limit to raise.

use cachewise_units::{Bytes, shell_quoted};

use crate::counter::Counter;
use crate::group_memory::{Room, holds};
use crate::interval::Interval;
use crate::measured::Count;
use crate::parts::CgroupRow;

/// Groups with a count of at least `worth` that does not come mostly from one group below: counts
/// of a group are included in those above it.
pub(super) fn of_their_own(
    interval: &Interval,
    worth: u64,
    count: impl Fn(&CgroupRow) -> Count,
) -> Vec<&CgroupRow> {
    let counted: Vec<(&str, u64, &CgroupRow)> = interval
        .groups_of_tasks()
        .filter_map(|group| {
            let name = group.path.as_ref().exact()?;
            let number = count(group).exact().filter(|number| *number >= worth)?;
            // The root is the machine.
            (name != "/").then_some((name.as_str(), number, group))
        })
        .collect();
    let is_below = |name: &str, above: &str| name != above && holds(above, name);
    counted
        .iter()
        .filter(|(above, whole, _)| {
            !counted
                .iter()
                .any(|(name, part, _)| is_below(name, above) && part.saturating_mul(2) >= *whole)
        })
        .map(|(.., group)| *group)
        .collect()
}

/// Refaulted file pages and anonymous pages.
pub(super) fn refaults(system: &crate::System) -> Count {
    let anon = system.anon_refault_pages;
    match anon.missing() {
        // Some kernels do not separate them.
        Some(_) => system.file_refault_pages,
        None => system.file_refault_pages.plus(anon),
    }
}

/// Refaults of a group: those that the kernel counted, or the probe, whichever are more. The kernel
/// remembers pages evicted before the watch; the probe remembers more of those evicted since.
pub(super) fn refaults_of(group: &CgroupRow) -> Count {
    larger(
        refaults(&group.system),
        group.ledger.get(Counter::RefaultPages),
    )
}

/// The larger of two counts of the same pages; the known one if the other is missing.
pub(super) fn larger(one: Count, other: Count) -> Count {
    match (one.known(), other.known()) {
        (Some(a), Some(b)) if b > a => other,
        (None, Some(_)) => other,
        _ => one,
    }
}

/// A number of bytes with the mark of its quality.
pub(super) fn bytes_text(bytes: Count) -> String {
    match (bytes.known(), bytes.estimate()) {
        (Some(bytes), None) => Bytes(bytes).to_string(),
        (Some(bytes), Some(_)) => format!("~{}", Bytes(bytes)),
        (None, _) => "?".to_owned(),
    }
}

/// A group's own limit, its file and its present value.
pub(super) fn limit_text(group: &CgroupRow) -> String {
    let name = group.path.as_ref().known();
    let name = name.map_or("?".to_owned(), |name| shell_quoted(name.as_ref()));
    let path = group.memory_limit_path.as_ref().known();
    let path = path.map_or(String::new(), |path| {
        format!(" in {}", shell_quoted(path.as_ref()))
    });
    let limit = bytes_text(group.system.memory_limit_bytes);
    format!("the memory limit of control group {name}{path}, now {limit}")
}

/// The fix for a room that is too small: the limit to raise, or memory to add.
pub(super) fn more_memory(room: &Room<'_>) -> String {
    match (room.limited, room.bytes.known()) {
        (Some(group), _) => format!("raise {}", limit_text(group)),
        (None, Some(_)) => "add memory".to_owned(),
        // Of the machine or of a group: it is not known which one limits the readers.
        (None, None) => {
            "add memory, or raise the memory limit of the control group that reads it".to_owned()
        }
    }
}

/// Memory in use this close to the limit counts as at the limit: the kernel frees some pages in
/// advance.
const NEARLY: u64 = 90;
/// For a group that reached its limit again and again, this is close enough: its use is that of one
/// moment, and reclaim makes room for a whole readahead window at once.
const NEARLY_AFTER_RECLAIM: u64 = 66;
/// Filling a group reaches its limit once; working at the limit reaches it all the time.
pub(super) const REACHED_OFTEN: u64 = 10;

/// Whether a group has used up its own limit.
pub(super) fn is_at_limit(group: &CgroupRow) -> bool {
    let system = &group.system;
    let nearly = match system.memory_limit_reached.known() {
        Some(reached) if reached >= REACHED_OFTEN => NEARLY_AFTER_RECLAIM,
        _ => NEARLY,
    };
    // For an idle group the numbers are some seconds old, which is good enough.
    match (
        system.memory_used_bytes.known(),
        system.memory_limit_bytes.known(),
    ) {
        (Some(used), Some(limit)) => used.saturating_mul(100) >= limit.saturating_mul(nearly),
        _ => false,
    }
}
