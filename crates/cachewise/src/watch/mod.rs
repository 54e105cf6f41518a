//! Watches the machine over time, an interval at a time. `top`, `record`, `serve`, `stat` and
//! `doctor` build on it.
//!
//! # Layout
//! - [`Watch`]: the probe and the kernel's own counters, an [`Interval`] at a time.
//! - `groups`: control groups; `devices`: storage devices; `stacks`: code that waits or evicts; `names`: its functions.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use cachewise_kstat::{Kernel, VmStat};
use cachewise_model::{
    Backend, Counter, Interval, Ledger, Measured, Missing, ProcessFileUse, Reason, Source, System,
};
use cachewise_probe::{Detail, FileId, Options, Probe, ProcessId, Scope, Snapshot};
use rustix::time::{ClockId, clock_gettime};

use crate::account::{self, FileDetail};
use crate::blame::Blame;
use crate::machine;
use crate::options::FileLabels;
use devices::Devices;
use groups::Groups;
use stacks::StackWatcher;

pub mod devices;
pub mod groups;
mod names;
pub mod stacks;
#[cfg(test)]
mod tests;

/// Files grow: the size of the most used ones is read each time.
const SIZES_OF: (FileDetail, usize) = (FileDetail::Size, 200);

const NEEDS_PROBE: Missing = Missing::NotOffered(Reason::NeedsProbe);
const NEEDS_PROBE_FOR_FILES: Missing = Missing::NotOffered(Reason::NeedsProbeForFiles);
const OF_THE_MACHINE: Missing = Missing::NotOffered(Reason::CountedForMachine);

/// Watches the machine, or a part of it, until dropped.
pub struct Watch {
    kernel: Kernel,
    // Ends before the probe.
    stacks: Option<StackWatcher>,
    probe: Option<Probe>,
    /// The machine, and how it is counted.
    source: Arc<Source>,
    /// All processes and all files.
    is_whole: bool,
    earlier: Moment,
    /// State for attribution by process and file.
    parts: Option<Parts>,
    labels: Option<FileLabels>,
}

/// State for the parts of an interval.
struct Parts {
    groups: Groups,
    devices: Devices,
}

/// The kernel's own counters at one moment.
struct Moment {
    at: Duration,
    vmstat: VmStat,
    system: System,
}

impl Watch {
    /// The options of the probe that a watch needs.
    pub fn options(options: &Options) -> Options {
        Options {
            intervals: true,
            times: true,
            ..options.clone()
        }
    }

    /// Starts to watch. If programs cannot be loaded into the kernel and the options allow it, uses
    /// the kernel's own counters, which cover the whole machine.
    ///
    /// # Errors
    /// If these counters cannot be read either, or the options name a part of the system.
    pub fn open(options: &Options, kernel: Kernel) -> Result<Watch> {
        let options = Watch::options(options);
        let attached = Probe::attach(&options);
        Watch::attached(attached, &options, kernel)
    }

    /// Starts to watch as [`Watch::open`] does, by a probe that was attached with [`Watch::options`], or was not.
    pub fn attached(
        attached: Result<Probe, cachewise_probe::Error>,
        options: &Options,
        kernel: Kernel,
    ) -> Result<Watch> {
        let is_whole =
            options.scope == Scope::System && options.cgroup.is_none() && options.files.is_empty();
        let (mut probe, backend) = match attached {
            Ok(probe) => {
                let backend = machine::backend(&probe, &kernel);
                (Some(probe), backend)
            }
            Err(error) if options.stacks => {
                bail!("--stacks needs the probe: {}", machine::why_no_probe(error))
            }
            Err(error) if is_whole => (None, machine::estimates(machine::why_estimates(error))),
            Err(cachewise_probe::Error::NoProcess(pid)) => {
                bail!("process {pid} has ended before it could be watched");
            }
            Err(error) => bail!(
                "only the probe can watch a part of the system, and {}",
                machine::why_no_probe(error)
            ),
        };
        let parts = (options.detail == Detail::Rows).then(|| Parts {
            groups: Groups::open(&kernel),
            devices: Devices::open(&kernel),
        });
        // Counts during the setup belong to no interval.
        if let Some(probe) = &mut probe {
            probe.snapshot().context(CANNOT_READ)?;
        }
        let stacks = match &probe {
            Some(probe) if options.stacks => Some(StackWatcher::start(probe)?),
            _ => None,
        };
        let earlier = Moment::take(&kernel)?;
        Ok(Watch {
            source: Arc::new(machine::source(&kernel, backend)),
            kernel,
            stacks,
            probe,
            is_whole,
            earlier,
            parts,
            labels: None,
        })
    }

    /// The same with labels of files.
    pub fn labelled(self, labels: Option<FileLabels>) -> Watch {
        Watch { labels, ..self }
    }

    /// The machine, and how it is counted.
    pub fn source(&self) -> &Arc<Source> {
        &self.source
    }

    /// The back-end, and its exactness.
    pub fn backend(&self) -> &Backend {
        &self.source.backend
    }

    /// Counts of all processes since the last call, or since the watch started.
    ///
    /// # Errors
    /// If the kernel's counters cannot be read.
    pub fn interval(&mut self) -> Result<Interval> {
        self.take_interval(false)
    }

    /// The same with all stacks so far. Those of other intervals come with a later one where their functions take long to
    /// name.
    ///
    /// # Errors
    /// If the kernel's counters cannot be read.
    pub fn named_interval(&mut self) -> Result<Interval> {
        self.take_interval(true)
    }

    fn take_interval(&mut self, wait_for_names: bool) -> Result<Interval> {
        let time = machine::timestamp();
        let snapshot = self
            .probe
            .as_mut()
            .map(Probe::snapshot)
            .transpose()
            .context(CANNOT_READ)?;
        let now = Moment::take(&self.kernel)?;
        let then = std::mem::replace(&mut self.earlier, now);
        let now = &self.earlier;
        let device = |of: fn(&VmStat) -> Option<u64>| match (of(&now.vmstat), of(&then.vmstat)) {
            (Some(now), Some(then)) if self.is_whole => Measured::Exact(now.saturating_sub(then)),
            (Some(_), Some(_)) => Measured::Missing(OF_THE_MACHINE),
            _ => Measured::not_offered(Reason::NotCounted),
        };
        let mut interval = Interval {
            elapsed: now.at.saturating_sub(then.at),
            system: now.system.since(&then.system),
            device_read_bytes: device(|vmstat| vmstat.pgpgin.map(|bytes| bytes.0)),
            device_write_bytes: device(|vmstat| vmstat.pgpgout.map(|bytes| bytes.0)),
            ..Interval::new(Arc::clone(&self.source), time)
        };
        let refaults = since(&now.vmstat, &then.vmstat, |vmstat| {
            vmstat.workingset_refault_file.map(|pages| pages.0)
        });
        match &snapshot {
            Some(snapshot) => {
                interval.ledger = snapshot.total.clone();
                interval.lost = account::lost(snapshot);
                // Not lost: their bytes belong to the interval in which they end.
                interval.lost.retain(|lost| lost.id != "direct_in_flight");
                // Rows have it for the files that they name; vmstat has it for the machine.
                if let Some(pages) = refaults.filter(|_| self.is_whole && self.parts.is_none()) {
                    interval
                        .ledger
                        .set_estimated(Counter::RefaultPages, pages, Reason::ByVmstat);
                }
            }
            None => interval.ledger = estimates(&now.vmstat, &then.vmstat),
        }
        if let Some(parts) = &mut self.parts {
            parts.fill(
                &mut interval,
                snapshot.as_ref(),
                self.is_whole,
                &self.kernel,
            );
        }
        if let (Some(stacks), Some(probe)) = (&mut self.stacks, &self.probe) {
            stacks.fill(&mut interval, probe, wait_for_names)?;
        }
        if let Some(labels) = &self.labels {
            labels.apply(&mut interval);
        }
        // Sums alone are read while programs add to them: a request can be half in this interval.
        if self.parts.is_some() {
            interval.mark_contradictions();
        }
        Ok(interval)
    }
}

const CANNOT_READ: &str = "cannot read what was counted";

impl Moment {
    fn take(kernel: &Kernel) -> Result<Moment> {
        let at = Duration::try_from(clock_gettime(ClockId::Boottime)).unwrap_or_default();
        let vmstat = kernel
            .vmstat()
            .context("cannot read the machine's counters")?;
        let system = machine::system(kernel, &vmstat)?;
        Ok(Moment { at, vmstat, system })
    }
}

fn since(now: &VmStat, then: &VmStat, of: fn(&VmStat) -> Option<u64>) -> Option<u64> {
    Some(of(now)?.saturating_sub(of(then)?))
}

/// Estimates of the counters from vmstat.
fn estimates(now: &VmStat, then: &VmStat) -> Ledger {
    let mut ledger = Ledger::all_missing(NEEDS_PROBE);
    let counted = |vmstat: &VmStat| {
        [
            (Counter::DirtiedPages, vmstat.nr_dirtied),
            (Counter::EvictedReclaimPages, vmstat.pgsteal),
            (Counter::RefaultPages, vmstat.workingset_refault_file),
        ]
    };
    for ((counter, now), (_, then)) in counted(now).into_iter().zip(counted(then)) {
        if let (Some(now), Some(then)) = (now, then) {
            ledger.set_estimated(counter, now.0.saturating_sub(then.0), Reason::ByVmstat);
        }
    }
    ledger
}

impl Parts {
    /// Fills in counts by process and file; without a probe, only those of groups and devices.
    fn fill(
        &mut self,
        interval: &mut Interval,
        snapshot: Option<&Snapshot>,
        is_whole: bool,
        kernel: &Kernel,
    ) {
        let blame = snapshot.map_or_else(Blame::default, |snapshot| match is_whole {
            true => Blame::shared(snapshot),
            false => Blame::of(snapshot),
        });
        let active = snapshot.map_or_else(HashMap::new, |snapshot| {
            account::group_ledgers(snapshot, &blame)
        });
        self.groups.refresh_names(kernel, active.keys().copied());
        if let Some(snapshot) = snapshot {
            uses(interval, snapshot, &blame, self.groups.names(), kernel);
        }
        interval.cgroups = self.groups.rows(active);
        let page = cachewise_sys::page_size();
        account::heaviest_groups_first(&mut interval.cgroups, page);
        interval.devices = self.devices.rows(kernel, &interval.files);
        if snapshot.is_none() {
            // Uncounted does not mean zero.
            for group in &mut interval.cgroups {
                group.ledger = Ledger::all_missing(NEEDS_PROBE);
            }
            for device in &mut interval.devices {
                device.ledger = Ledger::all_missing(NEEDS_PROBE);
                device.filesystem = Measured::Missing(NEEDS_PROBE_FOR_FILES);
            }
        }
    }
}

/// Fills in the processes, the files, and the use of files by processes.
fn uses(
    interval: &mut Interval,
    snapshot: &Snapshot,
    blame: &Blame,
    names: &HashMap<u64, String>,
    kernel: &Kernel,
) {
    let page = cachewise_sys::page_size();
    let mut file_places: HashMap<Option<FileId>, usize> = HashMap::new();
    let mut file_ids = Vec::new();
    for (id, row) in account::file_rows(snapshot, page, kernel, SIZES_OF) {
        file_ids.push(id);
        file_places.insert(id, interval.files.len());
        interval.files.push(row);
    }
    let mut process_places: HashMap<Option<ProcessId>, usize> = HashMap::new();
    for (id, row) in account::process_rows(snapshot, blame, names) {
        process_places.insert(id, interval.processes.len());
        interval.processes.push(row);
    }
    interval.uses = snapshot
        .rows
        .iter()
        .filter(|row| !row.is_of_no_file())
        .filter_map(|row| {
            // Rows that did not fit into the table are on the row of all others.
            let has_row = row.process.is_some() || row.file.is_none();
            let process = has_row.then(|| process_places.get(&row.process)).flatten();
            Some(ProcessFileUse {
                process: process.copied(),
                file: *file_places.get(&row.file)?,
                ledger: match row.process {
                    Some(_) => account::of_use(row.ledger.clone()),
                    None => row.ledger.clone(),
                },
            })
        })
        .collect();
    interval.evictions = account::evictions(snapshot, &file_ids, names);
}
