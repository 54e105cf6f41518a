//! A tick, a machine and options for tests.

use std::sync::Arc;
use std::time::Duration;

use cachewise_model::{Backend, Interval, Measured, ProcessRow, Source, System};
use cachewise_units::PageSize;

use crate::names::Names;
use crate::options::{Limits, Options};
use crate::source::Machine;

pub(crate) fn tick(milliseconds: u64, processes: Vec<ProcessRow>) -> Interval {
    Interval {
        elapsed: Duration::from_millis(milliseconds),
        system: System::default(),
        device_read_bytes: Measured::Exact(0),
        device_write_bytes: Measured::Exact(0),
        processes,
        ..Interval::new(machine().source, "t".into())
    }
}

pub(crate) fn machine() -> Machine {
    Machine {
        source: Arc::new(Source {
            hostname: "h".into(),
            kernel: "6.12".into(),
            page_size: PageSize::new(4096),
            backend: Backend {
                name: "probe".into(),
                exact: true,
                ..Backend::default()
            },
        }),
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
        stacks: false,
        token: None,
        public_metrics: false,
        hosts: Vec::new(),
        limits: Limits::default(),
    }
}
