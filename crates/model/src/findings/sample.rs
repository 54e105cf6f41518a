//! Intervals for tests: a quiet machine, an unused file, one file for which every rule fires.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cachewise_units::PageSize;

use crate::copies::Copies;
use crate::counter::Counter;
use crate::eviction::{Culprit, Eviction};
use crate::eviction_cause::EvictionCause;
use crate::exit::Exit;
use crate::group_names::GroupNames;
use crate::interval::{Interval, ProcessFileUse};
use crate::ledger::Ledger;
use crate::measured::{Measured, Missing};
use crate::parts::{CgroupRow, DeviceRow, FileNumber, FileRow, ProcessRow};
use crate::reason::Reason;
use crate::source::Source;
use crate::system::System;

/// In nanoseconds.
const SECOND: u64 = 1_000_000_000;

/// A run without requests, on a machine with 8 GiB of memory, half of it free.
pub(crate) fn run() -> Interval {
    let source = Source {
        hostname: "box".into(),
        kernel: "6.18.0".into(),
        page_size: PageSize::new(4 << 10),
        ..Source::default()
    };
    let mut interval = Interval::new(Arc::new(source), "2026-01-01T00:00:00Z".into());
    let around = &mut interval.run_mut().surroundings;
    around.memory_total_bytes = Measured::Exact(8 << 30);
    around.memory_available_bytes = Measured::Exact(4 << 30);
    around.cgroup_limit_bytes = Measured::not_offered(Reason::NoOwnLimit);
    around.cgroup_limit_path = Measured::not_offered(Reason::NoOwnLimit);
    around.cgroup_limit_reached = Measured::not_offered(Reason::NoOwnLimit);
    around.dirty_bytes = Measured::Exact(0);
    around.dirty_limit_bytes = Measured::Exact(1 << 30);
    around.dirty_background_bytes = Measured::Exact(512 << 20);
    interval
}

/// The same interval of a machine with other pages.
pub(crate) fn set_page_size(interval: &mut Interval, size: PageSize) {
    Arc::make_mut(&mut interval.source).page_size = Some(size);
}

/// A cold file of this size, without requests.
pub(crate) fn file(path: &str, size: u64) -> FileRow {
    FileRow {
        path: Measured::Exact(PathBuf::from(path)),
        label: Measured::Missing(crate::measured::NOT_APPLICABLE),
        deleted: false,
        filesystem: Measured::Exact("ext4".into()),
        number: Some(FileNumber {
            device: "8:1".into(),
            inode: 12,
        }),
        size_bytes: Measured::Exact(size),
        resident_before_pages: Measured::Exact(0),
        resident_after_pages: Measured::Exact(0),
        ledger: Ledger::default(),
        direct: false,
    }
}

/// A control group of 64 MiB that is full, with this many refaults.
pub(crate) fn group(name: &str, refaults: u64) -> CgroupRow {
    let unknown = System::all_missing(Missing::NotOffered(Reason::NotMeasured));
    let mut ledger = Ledger::default();
    ledger.set(Counter::FaultRequests, 1);
    CgroupRow {
        path: Measured::Exact(name.to_owned()),
        names: GroupNames::none(),
        ledger,
        system: System {
            memory_used_bytes: Measured::Exact(64 << 20),
            memory_limit_bytes: Measured::Exact(64 << 20),
            memory_limit_reached: Measured::Exact(1000),
            file_refault_pages: Measured::Exact(refaults),
            oom_kills: Measured::Exact(0),
            ..unknown
        },
        memory_limit_path: Measured::not_offered(Reason::NotMeasured),
    }
}

/// A running process with these counts.
pub(crate) fn process(pid: u32, counts: &[(Counter, u64)]) -> ProcessRow {
    let mut ledger = Ledger::default();
    for (counter, count) in counts {
        ledger.set(*counter, *count);
    }
    ProcessRow {
        pid: Some(pid),
        started: Measured::Exact(1),
        ppid: Measured::Exact(1),
        command: Measured::Exact("dd".into()),
        cgroup: Measured::Exact("/".into()),
        exit: Exit::Running,
        cpu_seconds: Measured::Exact(0.5),
        device_read_bytes: Measured::Exact(0),
        device_write_bytes: Measured::Exact(0),
        ledger,
    }
}

/// A process with copies of this number of 256 compared pages of a file.
pub(crate) fn copies(path: &str, resident: u64, copied: u64) -> Copies {
    Copies {
        pid: 9,
        command: "db".into(),
        path: path.into(),
        resident_pages: resident,
        own_memory_bytes: 1 << 40,
        compared_pages: 256,
        copied_pages: copied,
    }
}

/// A run with one file, whose counters are also the totals.
pub(crate) fn with_file(size: u64, counts: &[(Counter, u64)]) -> Interval {
    let mut interval = run();
    let mut file = file("/data", size);
    for (counter, count) in counts {
        file.ledger.set(*counter, *count);
    }
    interval.ledger = file.ledger.clone();
    interval.files.push(file);
    interval
}

/// A file for which every rule fires.
pub(crate) fn every_rule_fires() -> Interval {
    use Counter::*;
    let mut interval = with_file(
        64 << 20,
        &[
            (ReadRequests, 1_000_000),
            (ReadRequestedBytes, 100_000_000),
            (ReadRequestedPages, 1_000_000),
            (ReadMissedPages, 600_000),
            (ReadaheadPages, 100_000),
            (ReadaheadWastedPages, 90_000),
            (FaultRequests, 100_000),
            (FaultMissPages, 50_000),
            (DirectReadBytes, 1 << 30),
            (DirtiedPages, 200_000),
            (EvictedReclaimPages, 500_000),
            (MetadataPages, 1_000_000),
            (WaitedSync, SECOND),
            (WaitedThrottle, SECOND),
            (WaitedReclaim, SECOND),
            (WaitedSwap, SECOND),
        ],
    );
    // A second file that is only cold: the first counts as a working set that is too large.
    let mut cold = file("/cold", 4 << 30);
    cold.ledger.set(ReadRequestedPages, 1 << 20);
    cold.ledger.set(ReadMissedPages, 1 << 12);
    cold.ledger.set(ReadaheadHitPages, (1 << 20) - (1 << 12));
    interval.ledger += &cold.ledger;
    interval.ledger.set(RefaultPages, 400_000);
    interval.files[0].ledger.set(RefaultPages, 400_000);
    interval.files.push(cold);
    let mut mapped = file("/mapped", 392 << 20);
    mapped.ledger.set(FaultRequests, 1_500);
    mapped.ledger.set(FaultMissPages, 120);
    mapped.ledger.set(FaultReadaheadPages, 200_000);
    interval.ledger += &mapped.ledger;
    interval.files.push(mapped);
    let counts = [
        (WriteRequests, 20_000),
        (WritePages, 20_000),
        (WriteBytes, 20_000 * 512),
        (WriteNewPages, 20_000),
    ];
    let mut records = file("/records", 392 << 20);
    let mut writer = process(11, &counts);
    records.ledger = writer.ledger.clone();
    writer.device_read_bytes = Measured::Exact(20_000 << 12);
    interval.ledger += &records.ledger;
    interval.files.push(records);
    interval.processes.push(writer);
    interval.copies.push(copies("/twice", 10_000, 256));
    interval.run = None;
    interval.system = System {
        memory_total_bytes: Measured::Exact(8 << 30),
        available_bytes: Measured::Exact(4 << 30),
        dirty_bytes: Measured::Exact(1000 << 20),
        writeback_bytes: Measured::Exact(0),
        dirty_limit_bytes: Measured::Exact(1 << 30),
        dirty_background_bytes: Measured::Exact(512 << 20),
        ..interval.system
    };
    interval.elapsed = Duration::from_secs(5);
    interval.system.psi_memory_some_seconds = Measured::Exact(1_000_000);
    interval.system.file_refault_pages = Measured::Exact(60_000);
    interval.cgroups.push(group("/db", 50_000));
    let counts = [(ReadRequestedPages, 10_000), (ReadMissedPages, 9_000)];
    interval.processes.push(process(7, &counts));
    interval.devices.push(DeviceRow {
        device: "8:1".into(),
        path: Measured::Exact("/dev/sda1".into()),
        filesystem: Measured::Exact("ext4".into()),
        ledger: interval.ledger.clone(),
        device_read_bytes: Measured::Exact(1 << 40),
        device_write_bytes: Measured::Exact(0),
        busy: Measured::Exact(5 * SECOND),
    });
    let mut stream = process(9, &[(ReadaheadPages, 500_000)]);
    stream.command = Measured::Exact("tar".into());
    let mut of_stream = Ledger::default();
    of_stream.set(DirectReadBytes, 1 << 40);
    interval.uses.push(ProcessFileUse {
        process: Some(interval.processes.len()),
        file: 1,
        ledger: of_stream,
    });
    interval.processes.push(stream);
    interval.evictions.push(Eviction {
        file: 0,
        charged: Measured::Exact("/db".into()),
        cause: EvictionCause::GroupLimit,
        culprit: Some(Culprit {
            pid: Measured::Exact(9),
            started: 1,
            command: Measured::Exact("tar".into()),
            cgroup: Measured::Exact("/".into()),
        }),
        own: false,
        pages: 400_000,
    });
    interval
}
