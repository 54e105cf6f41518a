//! The control groups of a report.

use std::cmp::Reverse;
use std::collections::HashMap;

use cachewise_cli::names::Namer;
use cachewise_model::{CgroupRow, GroupNames, Ledger, Measured, Missing, Reason, System};
use cachewise_probe::Snapshot;
use cachewise_units::PageSize;

use super::processes::of_tasks;
use super::sums::{sums, weight};
use crate::blame::Blame;

/// The counts of each control group, by the lower half of its id: requests of its processes, and pages that it lost.
pub fn group_ledgers(snapshot: &Snapshot, blame: &Blame) -> HashMap<u32, Ledger> {
    let mut ledgers = sums(&snapshot.rows, |row| row.process.map(|_| row.cgroup));
    blame.of_groups(&mut ledgers);
    ledgers
}

/// The control groups of a snapshot's processes, the heaviest first.
pub fn cgroup_rows(
    snapshot: &Snapshot,
    blame: &Blame,
    names: &HashMap<u64, String>,
    page: PageSize,
) -> Vec<CgroupRow> {
    const GONE: Missing = Missing::Unknown(Reason::GroupGone);
    let names: HashMap<u32, &String> = names.iter().map(|(id, name)| (*id as u32, name)).collect();
    let sums = group_ledgers(snapshot, blame);
    let mut namer = Namer::new();
    let met = sums.keys().filter_map(|id| names.get(id));
    namer.refresh(met.map(|name| name.as_str()));
    let mut rows: Vec<CgroupRow> = sums
        .into_iter()
        .map(|(id, ledger)| CgroupRow {
            path: names
                .get(&id)
                .map_or(Measured::unknown(Reason::GroupGone), |name| {
                    Measured::Exact((*name).clone())
                }),
            names: names
                .get(&id)
                .map_or(GroupNames::all_missing(GONE), |name| namer.names(name)),
            ledger: of_tasks(ledger),
            system: System::default(),
            memory_limit_path: Measured::not_offered(Reason::NotMeasured),
        })
        .collect();
    heaviest_groups_first(&mut rows, page);
    rows
}

/// Puts control groups in the order of what was done in them; those that did nothing by their memory.
pub fn heaviest_groups_first(rows: &mut [CgroupRow], page: PageSize) {
    rows.sort_by_cached_key(|row| {
        let memory = row.system.memory_used_bytes.known().unwrap_or(0);
        let name = row.path.clone().known();
        (
            Reverse(weight(&row.ledger, page.get())),
            Reverse(memory),
            name,
        )
    });
}
