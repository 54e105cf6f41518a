//! Watching the machine over time: what everybody did since it was last asked. The ground of `top`, `record`
//! and `serve`.
//!
//! # Layout
//! - [`Watch`]: the probe and the kernel's own numbers, a [`Stretch`] at a time.
//! - `unit`: names of services and containers.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::{Context, Result};
use cachewise_kstat::{Kernel, VmStat};
use cachewise_model::{
    Backend, Count, Counter, DeviceRow, Ledger, Measured, Missing, Stretch, System, Use,
};
use cachewise_probe::{FileId, Options, Probe, ProcessId, Snapshot};
use rustix::time::{ClockId, clock_gettime};

use crate::machine;
use crate::run::account;

pub mod unit;

const BY_VMSTAT: &str = "the machine's vmstat";
const NEEDS_PROBE: Missing = Missing::NotOffered("only the probe can count it");

/// Watches the machine until it is dropped.
pub struct Watch {
    kernel: Kernel,
    probe: Option<Probe>,
    backend: Backend,
    earlier: Moment,
}

/// Everything as it was counted up to one moment.
struct Moment {
    at: Duration,
    snapshot: Option<Snapshot>,
    ledger: Ledger,
    system: System,
    device_read: Count,
    device_written: Count,
}

impl Watch {
    /// Begins to watch; where programs cannot be loaded into the kernel, with what it counts by itself.
    ///
    /// # Errors
    /// If not even that can be read.
    pub fn open(options: &Options, kernel: Kernel) -> Result<Watch> {
        let (mut probe, backend) = match Probe::attach(options) {
            Ok(probe) => {
                let notes = probe.notes().into_iter().map(str::to_owned).collect();
                let backend = Backend {
                    name: "tracepoints".into(),
                    exact: true,
                    notes,
                };
                (Some(probe), backend)
            }
            Err(error) => {
                let backend = Backend {
                    name: "procfs".into(),
                    exact: false,
                    notes: vec![machine::why_estimates(error)],
                };
                (None, backend)
            }
        };
        let earlier = Moment::take(&mut probe, &kernel)?;
        Ok(Watch {
            kernel,
            probe,
            backend,
            earlier,
        })
    }

    /// What counts, and how well.
    pub fn backend(&self) -> &Backend {
        &self.backend
    }

    /// What everybody did since the last call, or since the watch began.
    ///
    /// # Errors
    /// If the kernel does not give out what was counted.
    pub fn stretch(&mut self) -> Result<Stretch> {
        let time = machine::timestamp();
        let now = Moment::take(&mut self.probe, &self.kernel)?;
        let then = std::mem::replace(&mut self.earlier, now);
        let now = &self.earlier;
        let mut stretch = Stretch {
            time,
            elapsed: now.at.saturating_sub(then.at),
            ledger: now.ledger.since(&then.ledger),
            system: now.system.since(&then.system),
            device_read_bytes: now.device_read.minus(then.device_read),
            device_write_bytes: now.device_written.minus(then.device_written),
            processes: Vec::new(),
            files: Vec::new(),
            cgroups: Vec::new(),
            devices: Vec::new(),
            uses: Vec::new(),
            lost: Vec::new(),
        };
        if let (Some(now), Some(then)) = (&now.snapshot, &then.snapshot) {
            parts(&mut stretch, &now.since(then), &self.kernel);
        }
        Ok(stretch)
    }
}

impl Moment {
    fn take(probe: &mut Option<Probe>, kernel: &Kernel) -> Result<Moment> {
        let at = Duration::try_from(clock_gettime(ClockId::Boottime)).unwrap_or_default();
        let vmstat = kernel
            .vmstat()
            .context("cannot read the machine's counters")?;
        let system = machine::system(kernel, &vmstat)?;
        let count = |number: Option<u64>| {
            number.map_or(
                Measured::not_offered("this kernel does not count it"),
                Measured::Exact,
            )
        };
        let snapshot = probe
            .as_mut()
            .map(Probe::snapshot)
            .transpose()
            .context("cannot read what was counted")?;
        let ledger = match &snapshot {
            Some(snapshot) => snapshot.total.clone(),
            None => estimates(&vmstat),
        };
        Ok(Moment {
            at,
            snapshot,
            ledger,
            system,
            device_read: count(vmstat.pgpgin.map(|bytes| bytes.0)),
            device_written: count(vmstat.pgpgout.map(|bytes| bytes.0)),
        })
    }
}

/// What vmstat knows of a ledger.
fn estimates(vmstat: &VmStat) -> Ledger {
    let mut ledger = Ledger::all_missing(NEEDS_PROBE);
    for (counter, pages) in [
        (Counter::DirtiedPages, vmstat.nr_dirtied),
        (Counter::EvictedReclaimPages, vmstat.pgsteal),
        (Counter::RefaultPages, vmstat.workingset_refault_file),
    ] {
        if let Some(pages) = pages {
            ledger.set_estimated(counter, pages.0, BY_VMSTAT);
        }
    }
    ledger
}

/// Fills in who did what.
fn parts(stretch: &mut Stretch, snapshot: &Snapshot, kernel: &Kernel) {
    let names = kernel.cgroup_names().unwrap_or_default();
    let page = cachewise_sys::page_size();
    let mut file_places: HashMap<Option<FileId>, usize> = HashMap::new();
    for (id, row) in account::file_rows(snapshot, page, kernel, 0) {
        file_places.insert(id, stretch.files.len());
        stretch.files.push(row);
    }
    let mut process_places: HashMap<ProcessId, usize> = HashMap::new();
    for (id, row) in account::process_rows(snapshot, &names) {
        process_places.insert(id, stretch.processes.len());
        stretch.processes.push(row);
    }
    stretch.uses = snapshot
        .rows
        .iter()
        .filter_map(|row| {
            Some(Use {
                process: row.process.and_then(|id| process_places.get(&id).copied()),
                file: *file_places.get(&row.file)?,
                ledger: row.ledger.clone(),
            })
        })
        .collect();
    stretch.cgroups = account::cgroup_rows(snapshot, &names, page);
    stretch.devices = devices(stretch);
    stretch.lost = account::lost(snapshot);
}

/// The files' devices, with the sums over their files.
fn devices(stretch: &Stretch) -> Vec<DeviceRow> {
    let mut places: HashMap<&str, usize> = HashMap::new();
    let mut devices: Vec<DeviceRow> = Vec::new();
    for file in &stretch.files {
        let place = *places.entry(&file.device).or_insert_with(|| {
            devices.push(DeviceRow {
                device: file.device.clone(),
                path: Measured::unknown("its name is not looked up"),
                filesystem: file.filesystem.clone(),
                ledger: Ledger::default(),
                device_read_bytes: Measured::unknown("not read"),
                device_write_bytes: Measured::unknown("not read"),
            });
            devices.len() - 1
        });
        devices[place].ledger += &file.ledger;
    }
    devices
}
