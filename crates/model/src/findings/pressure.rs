//! Shared parts of the rules about scarce memory: choice of the control groups concerned.

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
        .cgroups
        .iter()
        .filter_map(|group| {
            let name = group.path.as_ref().exact()?;
            let number = count(group).exact().filter(|number| *number >= worth)?;
            // The root is the machine.
            (name != "/").then_some((name.as_str(), number, group))
        })
        .collect();
    let is_below = |name: &str, above: &str| {
        name.strip_prefix(above)
            .is_some_and(|rest| rest.starts_with('/'))
    };
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

/// Memory in use this close to the limit counts as at the limit: the kernel frees some pages in
/// advance.
const NEARLY: u64 = 90;

/// Whether a group has used up its own limit.
pub(super) fn is_at_limit(group: &CgroupRow) -> bool {
    let system = &group.system;
    // For an idle group the numbers are some seconds old, which is good enough.
    match (
        system.memory_used_bytes.known(),
        system.memory_limit_bytes.known(),
    ) {
        (Some(used), Some(limit)) => used.saturating_mul(100) >= limit.saturating_mul(NEARLY),
        _ => false,
    }
}
