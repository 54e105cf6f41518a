//! A report for tests: a cold `dd` of a 512 MiB file.

use std::sync::Arc;
use std::time::Duration;

use cachewise_model::{
    Backend, CgroupRow, Counter, Diagnosis, Exit, FileNumber, FileRow, GroupNames, Interval,
    Ledger, Lost, Measured, ProcessRow, Reason, Source, System,
};
use cachewise_units::PageSize;

pub(crate) fn cold() -> Interval {
    let source = Source {
        hostname: "box".into(),
        kernel: "6.18.0".into(),
        page_size: PageSize::new(4 << 10),
        backend: Backend {
            name: "tracepoints".into(),
            exact: true,
            notes: Vec::new(),
            kernel_memory_bytes: Measured::Exact(32 << 20),
        },
    };
    let mut interval = Interval::new(Arc::new(source), "2026-01-02T03:04:06Z".into());
    let mut ledger = Ledger::default();
    ledger.set(Counter::ReadRequests, 512);
    ledger.set(Counter::ReadRequestedPages, 131_072);
    ledger.set(Counter::ReadRequestedBytes, 512 << 20);
    ledger.set(Counter::ReadMissedPages, 512);
    ledger.set(Counter::ReadHitPages, 130_560);
    ledger.set(Counter::ReadaheadPages, 130_560);
    ledger.set(Counter::ReadaheadHitPages, 130_560);

    let run = interval.run_mut();
    run.begin = "2026-01-02T03:04:05Z".into();
    run.command = ["dd", "if=/data/file", "of=/dev/null", "bs=1M"]
        .map(str::to_owned)
        .to_vec();
    run.exit = Exit::Code(0);
    run.cpu_user_seconds = Measured::Exact(0.01);
    run.cpu_system_seconds = Measured::Exact(0.29);
    run.outside_bytes = Measured::Exact(1536);
    interval.elapsed = Duration::from_millis(512);
    interval.lost = vec![Lost {
        id: "rows",
        count: 0,
        meaning: "events summed up on one row for all: sums hold, names are missing",
    }];
    interval.device_read_bytes = Measured::Exact(512 << 20);
    interval.device_write_bytes = Measured::Exact(0);
    interval.files.push(FileRow {
        path: Measured::Exact("/data/file".into()),
        label: Measured::Missing(cachewise_model::NOT_APPLICABLE),
        deleted: false,
        filesystem: Measured::Exact("ext4".into()),
        number: Some(FileNumber {
            device: "8:1".into(),
            inode: 12,
        }),
        size_bytes: Measured::Exact(512 << 20),
        resident_before_pages: Measured::Exact(0),
        resident_after_pages: Measured::Exact(131_072),
        ledger: ledger.clone(),
        direct: false,
    });
    interval.processes.push(ProcessRow {
        pid: Some(4321),
        started: Measured::Exact(4321),
        ppid: Measured::Exact(4320),
        command: Measured::Exact("dd".into()),
        cgroup: Measured::Exact("/user.slice".into()),
        exit: Exit::Code(0),
        cpu_seconds: Measured::Exact(0.3),
        device_read_bytes: Measured::Exact(512 << 20),
        device_write_bytes: Measured::Exact(0),
        ledger: ledger.clone(),
    });
    interval.cgroups.push(CgroupRow {
        path: Measured::Exact("/user.slice".into()),
        names: GroupNames::none(),
        system: System::default(),
        memory_limit_path: Measured::not_offered(Reason::NotMeasured),
        ledger: ledger.clone(),
    });
    interval.ledger = ledger;
    interval
}

/// Its findings.
pub(crate) fn diagnosis() -> Diagnosis {
    Diagnosis::of(&cold())
}
