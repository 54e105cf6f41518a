//! A tick, a machine and options for tests.

use std::time::Duration;

use cachewise_model::{Backend, Interval, Ledger, Measured, ProcessRow, System};
use cachewise_units::PageSize;

use crate::names::Names;
use crate::options::{Limits, Options};
use crate::source::Machine;

pub(crate) fn tick(milliseconds: u64, processes: Vec<ProcessRow>) -> Interval {
    Interval {
        time: "t".into(),
        elapsed: Duration::from_millis(milliseconds),
        page_size: PageSize::new(4096),
        ledger: Ledger::default(),
        system: System::default(),
        device_read_bytes: Measured::Exact(0),
        device_write_bytes: Measured::Exact(0),
        processes,
        files: Vec::new(),
        cgroups: Vec::new(),
        devices: Vec::new(),
        uses: Vec::new(),
        lost: Vec::new(),
    }
}

pub(crate) fn machine() -> Machine {
    Machine {
        hostname: "h".into(),
        kernel_release: "6.12".into(),
        page_size: PageSize::new(4096).expect("a power of two"),
        backend: Backend {
            name: "probe".into(),
            exact: true,
            notes: Vec::new(),
            ..Backend::default()
        },
        version: "0",
        started: "2026-11-21T12:00:00Z".into(),
    }
}

pub(crate) fn options() -> Options {
    Options {
        interval: Duration::from_millis(100),
        collectors: Vec::new(),
        top_groups: 0,
        names: Names::All,
        token: None,
        public_metrics: false,
        hosts: Vec::new(),
        limits: Limits::default(),
    }
}
