//! The kernel's structures, taken apart by the offsets of the types that the build made from BTF.

use std::ffi::OsString;
use std::mem::{offset_of, size_of};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cachewise_kstat::{Device, Kernel, Mounts};
use cachewise_model::{Counter, EvictionCause, Ledger, Reason};
use cachewise_units::{Bytes, Pages};
use rustix::fs::FileType;

use crate::error::Error;
use crate::skeleton::types;
use crate::snapshot::{Culprit, Eviction, FileId, ProcessId, ProcessInfo};

/// Bytes from the kernel, of a length that was checked.
#[derive(Clone, Copy)]
pub(crate) struct Raw<'a>(&'a [u8]);

impl<'a> Raw<'a> {
    pub(crate) fn new(bytes: &'a [u8], what: &'static str, expected: usize) -> Result<Self, Error> {
        if bytes.len() < expected {
            return Err(Error::Shape {
                what,
                found: bytes.len(),
                expected,
            });
        }
        Ok(Raw(bytes))
    }

    fn part<const N: usize>(&self, offset: usize) -> [u8; N] {
        let mut part = [0; N];
        if let Some(bytes) = self.0.get(offset..offset + N) {
            part.copy_from_slice(bytes);
        }
        part
    }

    pub(crate) fn u32(&self, offset: usize) -> u32 {
        u32::from_ne_bytes(self.part(offset))
    }

    pub(crate) fn u64(&self, offset: usize) -> u64 {
        u64::from_ne_bytes(self.part(offset))
    }

    /// Text of at most 16 bytes, ended by NUL where it is shorter.
    pub(crate) fn text(&self, offset: usize) -> String {
        let text: [u8; 16] = self.part(offset);
        let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
        String::from_utf8_lossy(text).into_owned()
    }

    pub(crate) fn tail(&self, offset: usize) -> &'a [u8] {
        self.0.get(offset..).unwrap_or_default()
    }
}

/// The path of names that come from the root down, below `above`: empty, if that is the root.
pub(crate) fn path<'a>(above: &str, names: impl Iterator<Item = &'a [u8]> + Clone) -> PathBuf {
    let length: usize = names.clone().map(|name| 1 + name.len()).sum();
    let mut path = Vec::with_capacity(above.len() + length);
    path.extend(above.as_bytes());
    for name in names {
        path.push(b'/');
        path.extend(name);
    }
    OsString::from_vec(path).into()
}

/// The path of a file as seen from here: of a block device by its number, of other files by the device of their file
/// system and the path from its root. The mount of a truncated path is unknown.
pub(crate) fn seen_path(
    id: FileId,
    mode: u32,
    file_system: Device,
    path: Option<&Path>,
    kernel: &Kernel,
    mounts: Option<&Mounts>,
) -> Option<PathBuf> {
    if is_block_device(mode) {
        return kernel.block_device_name(id.device());
    }
    let path = path.filter(|path| path.is_absolute())?;
    mounts?.resolve(file_system, path)
}

pub(crate) fn is_block_device(mode: u32) -> bool {
    FileType::from_raw_mode(mode).is_block_device()
}

/// A ledger as the kernel's side has it: sums modulo 2^64, whose parts may lie below zero.
#[derive(Debug, Clone)]
pub(crate) struct Booked {
    counts: [u64; Counter::COUNT],
    used_too_early: u64,
    unsure_reads: u64,
    unsure_writes: u64,
    rangeless_reads: u64,
    rangeless_writes: u64,
    unsure_ahead: u64,
}

const OF_RANGES_READ: [Counter; 3] = [
    Counter::ReadRequests,
    Counter::ReadRequestedPages,
    Counter::ReadRequestedBytes,
];
const OF_RANGES_WRITTEN: [Counter; 1] = [Counter::WriteRequests];
const OF_READS: [Counter; 7] = [
    Counter::ReadUnservedPages,
    Counter::ReadUnservedBytes,
    Counter::ReadFailedRequests,
    Counter::ReadHitPages,
    Counter::ReadMissedPages,
    Counter::ReadaheadPages,
    Counter::ReadaheadHitPages,
];
const OF_AHEAD: [Counter; 2] = [Counter::ReadaheadHitPages, Counter::ReadaheadWastedPages];
const OF_WRITES: [Counter; 4] = [
    Counter::WriteBytes,
    Counter::WritePages,
    Counter::WriteUnservedBytes,
    Counter::WriteFailedRequests,
];

impl Default for Booked {
    fn default() -> Self {
        Booked {
            counts: [0; Counter::COUNT],
            used_too_early: 0,
            unsure_reads: 0,
            unsure_writes: 0,
            rangeless_reads: 0,
            rangeless_writes: 0,
            unsure_ahead: 0,
        }
    }
}

impl Booked {
    pub(crate) fn read(raw: Raw<'_>, offset: usize) -> Self {
        let counts = std::array::from_fn(|counter| raw.u64(offset + counter * size_of::<u64>()));
        let hidden = |field| raw.u64(offset + field);
        Booked {
            counts,
            used_too_early: hidden(offset_of!(types::ledger, used_too_early_pages)),
            unsure_reads: hidden(offset_of!(types::ledger, unsure_reads)),
            unsure_writes: hidden(offset_of!(types::ledger, unsure_writes)),
            rangeless_reads: hidden(offset_of!(types::ledger, rangeless_reads)),
            rangeless_writes: hidden(offset_of!(types::ledger, rangeless_writes)),
            unsure_ahead: hidden(offset_of!(types::ledger, unsure_ahead_pages)),
        }
    }

    pub(crate) fn add_to(&mut self, counter: Counter, number: u64) {
        let count = &mut self.counts[counter.index()];
        *count = count.wrapping_add(number);
    }

    /// A count, of which more may have been taken back than was booked.
    pub(crate) fn signed(&self, counter: Counter) -> i64 {
        self.counts[counter.index()].cast_signed()
    }

    pub(crate) fn add(&mut self, other: &Booked) {
        for counter in Counter::ALL {
            self.add_to(*counter, other.counts[counter.index()]);
        }
        self.used_too_early += other.used_too_early;
        self.unsure_reads += other.unsure_reads;
        self.unsure_writes += other.unsure_writes;
        self.rangeless_reads += other.rangeless_reads;
        self.rangeless_writes += other.rangeless_writes;
        self.unsure_ahead += other.unsure_ahead;
    }

    pub(crate) fn since(&self, earlier: &Booked) -> Self {
        Booked {
            counts: std::array::from_fn(|counter| {
                self.counts[counter].wrapping_sub(earlier.counts[counter])
            }),
            used_too_early: self.used_too_early.saturating_sub(earlier.used_too_early),
            unsure_reads: self.unsure_reads.saturating_sub(earlier.unsure_reads),
            unsure_writes: self.unsure_writes.saturating_sub(earlier.unsure_writes),
            rangeless_reads: self.rangeless_reads.saturating_sub(earlier.rangeless_reads),
            rangeless_writes: self
                .rangeless_writes
                .saturating_sub(earlier.rangeless_writes),
            unsure_ahead: self.unsure_ahead.saturating_sub(earlier.unsure_ahead),
        }
    }

    /// The ledger, with the pages that were booked as used too early among those wasted. A counter below
    /// zero is 0; of intervals, `Carried` has its part.
    pub(crate) fn settled(self) -> Ledger {
        let counts = self
            .counts
            .map(|count| count.cast_signed().max(0).cast_unsigned());
        let mut ledger = Ledger::from_counts(counts);
        let used = ledger[Counter::ReadaheadHitPages];
        // The previous interval may have counted them as hits, and has been returned: they stay hits.
        let early = self.used_too_early.min(used);
        let wasted = ledger[Counter::ReadaheadWastedPages];
        ledger.set(Counter::ReadaheadHitPages, used - early);
        ledger.set(Counter::ReadaheadWastedPages, wasted + early);
        let mut mark = |unsure: u64, counters: &[Counter], reason| {
            for counter in counters.iter().filter(|_| unsure > 0) {
                ledger.set_estimated(*counter, ledger[*counter], reason);
            }
        };
        mark(self.unsure_reads, &OF_READS, Reason::SharedRequests);
        mark(self.unsure_writes, &OF_WRITES, Reason::SharedRequests);
        mark(
            self.rangeless_reads,
            &OF_RANGES_READ,
            Reason::RangeNotReported,
        );
        mark(self.rangeless_reads, &OF_READS, Reason::RangeNotReported);
        mark(
            self.rangeless_writes,
            &OF_RANGES_WRITTEN,
            Reason::RangeNotReported,
        );
        mark(self.rangeless_writes, &OF_WRITES, Reason::RangeNotReported);
        mark(self.unsure_ahead, &OF_AHEAD, Reason::EvictedMeanwhile);
        ledger
    }
}

pub(crate) fn file_id(raw: Raw<'_>, offset: usize) -> FileId {
    let device = Device::from_kernel(raw.u32(offset + offset_of!(types::file_id, dev)));
    FileId {
        major: device.major,
        minor: device.minor,
        inode: raw.u64(offset + offset_of!(types::file_id, inode)),
        generation: raw.u32(offset + offset_of!(types::file_id, generation)),
        volume: raw.u32(offset + offset_of!(types::file_id, volume)),
    }
}

pub(crate) fn process_id(raw: Raw<'_>, offset: usize) -> ProcessId {
    ProcessId {
        tgid: raw.u32(offset + offset_of!(types::process_id, tgid)),
        start: raw.u64(offset + offset_of!(types::process_id, start)),
    }
}

pub(crate) fn process_key(id: ProcessId) -> [u8; size_of::<types::process_id>()] {
    let mut key = [0; size_of::<types::process_id>()];
    put(
        &mut key,
        offset_of!(types::process_id, start),
        &id.start.to_ne_bytes(),
    );
    put(
        &mut key,
        offset_of!(types::process_id, tgid),
        &id.tgid.to_ne_bytes(),
    );
    key
}

pub(crate) fn file_key(id: FileId) -> [u8; size_of::<types::file_id>()] {
    let mut key = [0; size_of::<types::file_id>()];
    let dev = id.device().to_kernel();
    put(
        &mut key,
        offset_of!(types::file_id, dev),
        &dev.to_ne_bytes(),
    );
    put(
        &mut key,
        offset_of!(types::file_id, generation),
        &id.generation.to_ne_bytes(),
    );
    put(
        &mut key,
        offset_of!(types::file_id, volume),
        &id.volume.to_ne_bytes(),
    );
    put(
        &mut key,
        offset_of!(types::file_id, inode),
        &id.inode.to_ne_bytes(),
    );
    key
}

fn put(key: &mut [u8], offset: usize, bytes: &[u8]) {
    if let Some(place) = key.get_mut(offset..offset + bytes.len()) {
        place.copy_from_slice(bytes);
    }
}

pub(crate) fn process(key: &[u8], value: &[u8]) -> Result<ProcessInfo, Error> {
    let key = Raw::new(key, "process key", size_of::<types::process_id>())?;
    let raw = Raw::new(value, "process", size_of::<types::process>())?;
    macro_rules! field {
        ($name:ident) => {
            raw.u64(offset_of!(types::process, $name))
        };
    }
    let exited = raw.u32(offset_of!(types::process, exited)) != 0;
    Ok(ProcessInfo {
        id: process_id(key, 0),
        pid: raw.u32(offset_of!(types::process, pid)),
        parent: raw.u32(offset_of!(types::process, parent)),
        command: raw.text(offset_of!(types::process, comm)),
        cgroup: field!(cgroup),
        exit_status: exited.then(|| raw.u32(offset_of!(types::process, exit_code))),
        cpu_time: Duration::from_nanos(field!(cpu_time)),
        user_time: Duration::from_nanos(field!(user_time)),
        system_time: Duration::from_nanos(field!(system_time)),
        read_call_bytes: Bytes(field!(rchar)),
        write_call_bytes: Bytes(field!(wchar)),
        device_read: Bytes(field!(read_bytes)),
        device_written: Bytes(field!(write_bytes).saturating_sub(field!(cancelled_write_bytes))),
        minor_faults: field!(minor_faults),
        major_faults: field!(major_faults),
    })
}

/// An entry of the tables of evictions.
pub(crate) fn eviction(key: &[u8], value: &[u8]) -> Result<Eviction, Error> {
    let key = Raw::new(key, "eviction key", size_of::<types::eviction_key>())?;
    let pages = Raw::new(value, "evicted pages", size_of::<u64>())?;
    let culprit_offset = offset_of!(types::eviction_key, culprit);
    let file = file_id(key, offset_of!(types::eviction_key, file));
    let culprit = process_id(key, culprit_offset);
    let charged = key.u32(offset_of!(types::eviction_key, charged));
    let cause = key.u32(offset_of!(types::eviction_key, cause));
    Ok(Eviction {
        file: file.is_known().then_some(file),
        charged: (charged != 0).then_some(charged),
        culprit: (culprit.tgid != 0).then_some(culprit),
        culprit_cgroup: key.u32(culprit_offset + offset_of!(types::process_id, cgroup)),
        cause: EvictionCause::from_number(cause, culprit.tgid != 0)
            .unwrap_or(EvictionCause::Unknown),
        pages: Pages(pages.u64(0)),
    })
}

/// An entry of the table of culprits.
pub(crate) fn culprit(value: &[u8]) -> Result<Culprit, Error> {
    let raw = Raw::new(value, "culprit", size_of::<types::culprit>())?;
    Ok(Culprit {
        pid: raw.u32(offset_of!(types::culprit, pid)),
        command: raw.text(offset_of!(types::culprit, comm)),
        cgroup: raw.u64(offset_of!(types::culprit, cgroup)),
    })
}

/// The kernel's ledger has to be the model's table, counter by counter.
pub(crate) const fn check_ledger() {
    assert!(
        size_of::<types::ledger>() == (Counter::COUNT + 6) * size_of::<u64>(),
        "src/bpf/ledger.h and cachewise_model::Counter have different numbers of counters"
    );
}
const _: () = check_ledger();

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_counters_are_the_models_in_name_and_order() {
        let header = include_str!("bpf/ledger.h");
        let table = header.split("#define LEDGER(X)").nth(1).unwrap();
        let table = table.split("struct ledger {").next().unwrap();
        let kernel: Vec<&str> = table
            .split("X(")
            .skip(1)
            .map(|entry| entry.split(')').next().unwrap())
            .collect();
        let model: Vec<&str> = Counter::ALL.iter().map(|counter| counter.id()).collect();
        assert_eq!(kernel, model, "one ledger, written down in two languages");
    }

    #[test]
    fn causes_of_the_kernels_side_are_the_models_in_name_and_order() {
        let header = include_str!("bpf/ledger.h");
        let table = header.split("#define CAUSES(X)").nth(1).unwrap();
        let table = table.split("enum cause {").next().unwrap();
        let kernel: Vec<String> = table
            .split("X(")
            .skip(1)
            .map(|entry| entry.split(')').next().unwrap().to_lowercase())
            .collect();
        let model: Vec<&str> = EvictionCause::ALL.iter().map(|cause| cause.id()).collect();
        let (last, numbered) = model.split_last().unwrap();
        assert_eq!(kernel, numbered, "one table, written down in two languages");
        assert_eq!(
            *last, "damon",
            "proactive reclaim without a process: not a number of the kernel's side"
        );
    }

    #[test]
    fn what_was_booked_as_used_too_early_is_wasted() {
        let booked = |used, wasted, used_too_early| {
            let mut booked = Booked {
                used_too_early,
                ..Booked::default()
            };
            booked.add_to(Counter::ReadaheadHitPages, used);
            booked.add_to(Counter::ReadaheadWastedPages, wasted);
            booked
        };
        let settled = |booked: Booked| {
            let ledger = booked.settled();
            (
                ledger[Counter::ReadaheadHitPages],
                ledger[Counter::ReadaheadWastedPages],
            )
        };
        assert_eq!(settled(booked(10, 2, 3)), (7, 5));
        assert_eq!(
            settled(booked(1, 2, 3)),
            (0, 3),
            "the others were handed out as used in the interval before"
        );
        // One CPU has the use, and the next one that it was too early.
        let mut both = booked(0, 0, 3);
        both.add(&booked(4, 0, 0));
        assert_eq!(settled(both), (1, 3), "CPUs are added up before");
        let next = booked(10, 2, 3).since(&booked(10, 0, 0));
        assert_eq!(settled(next), (0, 2), "no fate twice in two intervals");
    }

    #[test]
    fn parts_below_zero_add_up_and_an_interval_below_zero_is_zero() {
        let booked = |hits: i64| {
            let mut booked = Booked::default();
            booked.add_to(Counter::ReadHitPages, hits.cast_unsigned());
            booked
        };
        let mut sum = booked(-5);
        sum.add(&booked(12));
        assert_eq!(
            sum.clone().settled()[Counter::ReadHitPages],
            7,
            "CPUs are added up"
        );
        let fallen = booked(3).since(&sum).settled();
        assert_eq!(
            fallen[Counter::ReadHitPages],
            0,
            "7 were shown before, of which 4 were none"
        );
    }

    #[test]
    fn short_bytes_are_an_error_and_no_panic() {
        let error = process(&[0; 4], &[0; 8]);
        assert!(error.is_err(), "a truncated key is refused");
    }
}
