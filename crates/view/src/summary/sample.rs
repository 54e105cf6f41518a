//! A summary to draw in tests.

use std::sync::Arc;
use std::time::Duration;

use cachewise_model::{
    Backend, Counter, Diagnosis, Exit, Figures, Gap, GapKind, Interval, Ledger, Measured, Missing,
    ProcessRow, Reason, Source, Spread, Stall, Statistics, System, field,
};
use cachewise_units::PageSize;

pub(crate) fn night() -> Statistics {
    let mut ledger = Ledger::default();
    ledger.set(Counter::ReadRequestedPages, 300);
    ledger.derive_hits();
    let others = Missing::NotOffered(Reason::SummedUp);
    let process = |pid: u32, pages| {
        let mut ledger = Ledger::default();
        ledger.set(Counter::ReadRequestedPages, pages);
        ledger.derive_hits();
        ProcessRow {
            pid: (pid > 0).then_some(pid),
            started: Measured::Exact(pid.into()),
            ppid: Measured::Exact(1),
            command: match pid {
                0 => Measured::Missing(others),
                _ => Measured::Exact("dd".into()),
            },
            cgroup: Measured::Missing(others),
            exit: Exit::Running,
            cpu_seconds: Measured::Exact(0.5),
            device_read_bytes: Measured::Exact(0),
            device_write_bytes: Measured::Exact(0),
            ledger,
        }
    };
    let source = Source {
        hostname: "box".into(),
        kernel: "6.18".into(),
        page_size: PageSize::new(4 << 10),
        backend: Backend {
            name: "tracepoints".into(),
            exact: true,
            ..Backend::default()
        },
    };
    let total = Interval {
        elapsed: Duration::from_secs(2),
        ledger,
        system: System {
            cached_bytes: Measured::Exact(1 << 20),
            free_bytes: Measured::unknown(Reason::NoPermission),
            psi_io_some_seconds: Measured::Exact(500_000),
            ..System::default()
        },
        device_read_bytes: Measured::Exact(0),
        device_write_bytes: Measured::Exact(0),
        processes: vec![process(7, 250), process(0, 50)],
        ..Interval::new(Arc::new(source), "2026-01-02T03:00:02.000Z".into())
    };
    let row = total.row();
    let spread = |id: &str, figures| {
        let field = field(id).expect("it is in the table");
        Spread {
            field,
            figures,
            known: if figures.known().is_some() { 2 } else { 0 },
            total: field.of(&row),
        }
    };
    let figures = |min: f64, max: f64| Figures {
        min,
        mean: (min + max) / 2.0,
        p50: min,
        p90: max,
        p99: max,
        max,
    };
    let cached = (1 << 20) as f64;
    let stall = |resource, kind, seconds: f64| Stall {
        resource,
        kind,
        seconds: Measured::Exact(seconds),
        ratio: Measured::Exact(seconds / 2.0),
        worst_ratio: Measured::Exact(seconds),
        worst_time: Measured::Exact("2026-01-02T03:00:01.000Z".into()),
    };
    Statistics {
        begin: "2026-01-02T03:00:00.000Z".into(),
        scope: String::new(),
        command: Vec::new(),
        interval: Duration::from_secs(1),
        samples: 2,
        sessions: 2,
        spreads: vec![
            spread(
                "read_requested_pages",
                Measured::Exact(figures(100.0, 200.0)),
            ),
            spread("cached_bytes", Measured::Exact(figures(cached, cached))),
            spread("free_bytes", Measured::unknown(Reason::NoPermission)),
        ],
        stalls: vec![stall("io", "some", 0.5), stall("io", "full", 0.0)],
        gaps: vec![Gap {
            begin: Measured::Exact("2026-01-02T03:00:01.000Z".into()),
            end: Measured::Exact("2026-01-02T03:10:01.000Z".into()),
            length: Measured::Exact(Duration::from_secs(600)),
            kind: GapKind::NotRecorded,
        }],
        more_gaps: 0,
        diagnosis: Diagnosis::default(),
        problems: Vec::new(),
        total,
    }
}
