//! Rows of each kind without measurements, for the fields that such rows have.

use cachewise_model::{
    CgroupRow, DeviceRow, Exit, FileNumber, FileRow, GroupNames, Ledger, Measured, Missing,
    ProcessRow, Reason, Row, System,
};
use cachewise_tui::ViewKind;

/// A row of this kind without measurements, for its fields.
pub fn kind_of_row(kind: ViewKind) -> Row {
    unmeasured(kind, Missing::Unknown(Reason::NotMeasuredYet))
}

/// A row of this kind whose values are missing.
pub fn unmeasured(kind: ViewKind, missing: Missing) -> Row {
    let mut row = match kind {
        ViewKind::Process => ProcessRow {
            pid: Some(1),
            started: Measured::Missing(missing),
            ppid: Measured::Missing(missing),
            command: Measured::Missing(missing),
            cgroup: Measured::Missing(missing),
            exit: Exit::Running,
            cpu_seconds: Measured::Missing(missing),
            device_read_bytes: Measured::Missing(missing),
            device_write_bytes: Measured::Missing(missing),
            ledger: Ledger::default(),
        }
        .row(),
        ViewKind::File => FileRow {
            path: Measured::Missing(missing),
            label: Measured::Missing(missing),
            deleted: false,
            filesystem: Measured::Missing(missing),
            number: Some(FileNumber {
                device: String::new(),
                inode: 1,
            }),
            size_bytes: Measured::Missing(missing),
            resident_before_pages: Measured::Missing(missing),
            resident_after_pages: Measured::Missing(missing),
            ledger: Ledger::default(),
            direct: false,
        }
        .row(),
        ViewKind::Cgroup => CgroupRow {
            path: Measured::Missing(missing),
            names: GroupNames::all_missing(missing),
            ledger: Ledger::default(),
            system: System::all_missing(missing),
            memory_limit_path: Measured::Missing(missing),
        }
        .row(),
        ViewKind::Device => DeviceRow {
            device: String::new(),
            path: Measured::Missing(missing),
            filesystem: Measured::Missing(missing),
            ledger: Ledger::default(),
            device_read_bytes: Measured::Missing(missing),
            device_write_bytes: Measured::Missing(missing),
            busy: Measured::Missing(missing),
        }
        .row(),
    };
    row.labels.time = Measured::Missing(missing);
    row.elapsed = std::time::Duration::from_secs(1);
    if kind == ViewKind::Process {
        row.labels.group = GroupNames::all_missing(missing);
    }
    row
}
