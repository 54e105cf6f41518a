//! The evictions of a report: of which file, by whom.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use cachewise_model::{Counter, Culprit, Eviction, Ledger, Measured, NOT_APPLICABLE, Reason};
use cachewise_probe::{FileId, ProcessId, Snapshot};

/// The evictions of a snapshot, the largest first. `files` are those of the interval, in its order.
pub fn evictions(
    snapshot: &Snapshot,
    files: &[Option<FileId>],
    names: &HashMap<u64, String>,
) -> Vec<Eviction> {
    let places: HashMap<&Option<FileId>, usize> = files
        .iter()
        .enumerate()
        .map(|(place, id)| (id, place))
        .collect();
    // The probe has the lower half of each id.
    let names: HashMap<u32, &String> = names.iter().map(|(id, name)| (*id as u32, name)).collect();
    let group = |id: u32| {
        names
            .get(&id)
            .map_or(Measured::unknown(Reason::GroupGone), |name| {
                Measured::Exact((*name).clone())
            })
    };
    let used = uses_of_culprits(snapshot);
    let mut evictions: Vec<Eviction> = snapshot
        .evictions
        .iter()
        .filter_map(|eviction| {
            let culprit = eviction.culprit.map(|id| {
                let known = snapshot.culprits.get(&id);
                let pid = known.map(|known| known.pid).filter(|pid| *pid != 0);
                Culprit {
                    pid: pid.map_or(Measured::unknown(Reason::ProcessesFull), Measured::Exact),
                    started: id.start,
                    command: known.map_or(Measured::unknown(Reason::ProcessesFull), |known| {
                        Measured::Exact(known.command.clone())
                    }),
                    cgroup: group(eviction.culprit_cgroup),
                }
            });
            Some(Eviction {
                file: *places.get(&eviction.file)?,
                charged: eviction
                    .charged
                    .map_or(Measured::Missing(NOT_APPLICABLE), group),
                cause: eviction.cause,
                culprit,
                own: eviction
                    .culprit
                    .is_some_and(|process| used.contains(&(process, eviction.file))),
                pages: eviction.pages.0,
            })
        })
        .collect();
    evictions.sort_by_key(|eviction| (Reverse(eviction.pages), eviction.file));
    evictions
}

/// The files that processes which evicted pages requested themselves.
fn uses_of_culprits(snapshot: &Snapshot) -> HashSet<(ProcessId, Option<FileId>)> {
    let evictions = snapshot.evictions.iter();
    let culprits: HashSet<ProcessId> = evictions.filter_map(|eviction| eviction.culprit).collect();
    let rows = snapshot.rows.iter();
    rows.filter_map(|row| Some((row.process?, row)))
        .filter(|(process, row)| culprits.contains(process) && uses_file(&row.ledger))
        .map(|(process, row)| (process, row.file))
        .collect()
}

/// Whether requests were counted, and not only the pages that other tasks moved.
fn uses_file(ledger: &Ledger) -> bool {
    use Counter::{
        DirectReadRequests, DirectWriteRequests, FaultRequests, ReadRequests, WriteRequests,
    };
    let requests = [
        ReadRequests,
        WriteRequests,
        FaultRequests,
        DirectReadRequests,
        DirectWriteRequests,
    ];
    requests.iter().any(|counter| ledger[*counter] > 0)
}
