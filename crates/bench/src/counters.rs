//! [`Counters`]: the kernel's counters of this process and machine, and [`Counted`]: their values
//! at one moment.

use std::path::PathBuf;
use std::time::Duration;

use cachewise_control::Group;
use cachewise_kstat::{
    CgroupFiles, CgroupMemory, Hierarchy, Kernel, OpenProcessIo, Resource, Stall, VmStat,
};
use cachewise_sys::{Usage, process_usage};
use cachewise_units::{Bytes, Pages};

use crate::tally::Tally;
use crate::{Figures, HitSource};

/// Sources of the counters.
#[derive(Debug)]
pub(crate) struct Counters<'a> {
    /// Our own group, which knows the location of its pressure files.
    own: Option<&'a Group>,
    kernel: Kernel,
    /// `None` if this kernel does not account reads from devices.
    io: Option<OpenProcessIo>,
    /// The group of this process, if its memory is limited.
    pub group: Option<(Hierarchy, PathBuf)>,
}

/// Values at one moment.
#[derive(Debug, Clone)]
pub(crate) struct Counted {
    usage: Usage,
    read: Option<u64>,
    written: Option<u64>,
    vmstat: VmStat,
    group: Option<CgroupMemory>,
    cpu: Option<Stall>,
    memory: (Option<Stall>, Option<Stall>),
    io: (Option<Stall>, Option<Stall>),
}

impl<'a> Counters<'a> {
    /// The counters of this process in its current group.
    ///
    /// # Errors
    /// The kernel's files cannot be read.
    pub fn of_this_process(own: Option<&'a Group>) -> Result<Counters<'a>, cachewise_kstat::Error> {
        let kernel = Kernel::new();
        let pid = std::process::id();
        let group = match kernel.cgroup_of(pid)? {
            Some(group) if kernel.memory_limit(&group)?.is_some() => {
                Some((kernel.cgroup_hierarchy()?, group.path))
            }
            _ => None,
        };
        Ok(Counters {
            own,
            io: kernel.open_process_io(pid).ok(),
            kernel,
            group,
        })
    }

    /// Warns if more of a file is resident than is charged to our control group: pages charged to
    /// another group stay whatever our limit, and reading them costs no I/O here.
    ///
    /// # Errors
    /// The kernel's files cannot be read.
    pub fn charged_elsewhere(
        &self,
        resident: Option<Pages>,
    ) -> Result<Option<String>, cachewise_kstat::Error> {
        let (Some((hierarchy, path)), Some(resident)) = (&self.group, resident) else {
            return Ok(None);
        };
        let charged = CgroupFiles::once(path).memory(hierarchy)?;
        let Some(charged) = charged.and_then(|memory| memory.file) else {
            return Ok(None);
        };
        let resident = resident.bytes(cachewise_sys::page_size());
        // The kernel's sums lag by a batch per CPU.
        let slack = Bytes((4 << 20) + resident.0 / 100);
        Ok((resident > charged + slack).then(|| {
            format!(
                "{resident} of the file were in the page cache, and only {charged} of files are charged to the control group that it \
                 is measured in: the rest is charged to another one, and stays whatever limit this one has; evict the \
                 file first (--fill cold)"
            )
        }))
    }

    /// Reads all counters at the start of a measurement, without counting the cost of reading them.
    ///
    /// # Errors
    /// The kernel's files cannot be read.
    pub fn look_first(&self) -> Result<Counted, cachewise_kstat::Error> {
        let mut counted = self.look()?;
        counted.usage = process_usage();
        Ok(counted)
    }

    /// Reads all counters; CPU time first, so that it excludes the cost of reading the others.
    ///
    /// # Errors
    /// The kernel's files cannot be read.
    pub fn look(&self) -> Result<Counted, cachewise_kstat::Error> {
        let usage = process_usage();
        let io = self.io.as_ref().and_then(|io| io.read().ok());
        let group = match &self.group {
            Some((hierarchy, path)) => CgroupFiles::once(path).memory(hierarchy)?,
            None => None,
        };
        let pressure = |resource| {
            let of_group = match (self.own, &self.group) {
                (Some(own), _) => own.pressure(resource).ok().flatten(),
                (None, Some((Hierarchy::V2 { .. }, path))) => {
                    CgroupFiles::once(path).pressure(resource).ok().flatten()
                }
                _ => None,
            };
            let found = match of_group {
                Some(found) => Some(found),
                _ => self.kernel.pressure(resource).ok().flatten(),
            };
            (
                found.and_then(|found| found.some),
                found.and_then(|found| found.full),
            )
        };
        Ok(Counted {
            usage,
            read: io.as_ref().map(|io| io.read_bytes.0),
            written: io.as_ref().map(|io| io.write_bytes.0),
            vmstat: self.kernel.vmstat()?,
            group,
            cpu: pressure(Resource::Cpu).0,
            memory: pressure(Resource::Memory),
            io: pressure(Resource::Io),
        })
    }
}

/// The difference; `None` if one of them is unknown.
fn more(now: Option<u64>, then: Option<u64>) -> Option<u64> {
    Some(now?.saturating_sub(then?))
}

fn lost(now: Option<Stall>, then: Option<Stall>) -> Option<f64> {
    Some(now?.total.saturating_sub(then?.total).as_secs_f64())
}

impl Counted {
    /// The figures of an interval: the kernel's counters since `then`, and the threads' own.
    pub fn since(
        &self,
        then: &Counted,
        time: Duration,
        tally: &Tally,
        hit_source: HitSource,
        bloat: Option<u64>,
    ) -> Figures {
        let (now, group, of_group) = (self, self.group.as_ref(), then.group.as_ref());
        let cpu = |usage: &Usage| usage.user + usage.system;
        // From the group if there is one: the machine's include all other processes.
        let pick =
            |of: fn(&CgroupMemory) -> Option<u64>, machine: fn(&VmStat) -> Option<u64>| match (
                group, of_group,
            ) {
                (Some(now), Some(then)) => more(of(now), of(then)),
                _ => more(machine(&now.vmstat), machine(&then.vmstat)),
            };
        let is_told = hit_source != HitSource::None;
        Figures {
            seconds: time.as_secs_f64(),
            operations: tally.operations,
            useful_bytes: tally.bytes,
            hit_source,
            hit_operations: is_told.then_some(tally.hits),
            miss_operations: is_told.then_some(tally.misses),
            hit_bytes: matches!(hit_source, HitSource::Exact | HitSource::Nowait)
                .then_some(tally.cached),
            device_read_bytes: more(now.read, then.read),
            device_write_bytes: more(now.written, then.written),
            cpu_seconds: cpu(&now.usage)
                .saturating_sub(cpu(&then.usage))
                .as_secs_f64(),
            major_faults: now
                .usage
                .major_faults
                .saturating_sub(then.usage.major_faults),
            minor_faults: now
                .usage
                .minor_faults
                .saturating_sub(then.usage.minor_faults),
            is_of_group: group.is_some() && of_group.is_some(),
            file_refault_pages: pick(
                |group| group.refault_file.map(|pages| pages.0),
                |machine| machine.workingset_refault_file.map(|pages| pages.0),
            ),
            anon_refault_pages: pick(
                |group| group.refault_anon.map(|pages| pages.0),
                |machine| machine.workingset_refault_anon.map(|pages| pages.0),
            ),
            swap_in_pages: more(
                now.vmstat.pswpin.map(|pages| pages.0),
                then.vmstat.pswpin.map(|pages| pages.0),
            ),
            swap_out_pages: more(
                now.vmstat.pswpout.map(|pages| pages.0),
                then.vmstat.pswpout.map(|pages| pages.0),
            ),
            memory_used_bytes: group.and_then(|group| group.used).map(|bytes| bytes.0),
            limit_reached: match (group, of_group) {
                (Some(now), Some(then)) => more(now.limit_reached, then.limit_reached),
                _ => None,
            },
            oom_kills: pick(|group| group.oom_kills, |machine| machine.oom_kill),
            psi_cpu_some_seconds: lost(now.cpu, then.cpu),
            psi_memory_some_seconds: lost(now.memory.0, then.memory.0),
            psi_memory_full_seconds: lost(now.memory.1, then.memory.1),
            psi_io_some_seconds: lost(now.io.0, then.io.0),
            psi_io_full_seconds: lost(now.io.1, then.io.1),
            bloat_bytes: bloat,
            latency: tally.latency(),
        }
    }
}
