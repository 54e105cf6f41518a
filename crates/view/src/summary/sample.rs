//! A summary to draw in tests.

use std::time::Duration;

use cachewise_model::{
    Backend, Counter, Exit, Figures, Gap, GapKind, Interval, Ledger, Measured, Missing, ProcessRow,
    Reason, Spread, Stall, Summary, System, field,
};
use cachewise_units::PageSize;

pub(crate) fn night() -> Summary {
    let mut ledger = Ledger::default();
    ledger.set(Counter::ReadRequestedPages, 300);
    ledger.derive_hits();
    let others = Missing::NotOffered(Reason::SummedUp);
    let process = |pid: u32, pages| {
        let mut ledger = Ledger::default();
        ledger.set(Counter::ReadRequestedPages, pages);
        ledger.derive_hits();
        ProcessRow {
            pid,
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
    let total = Interval {
        time: "2026-01-02T03:00:02.000Z".into(),
        elapsed: Duration::from_secs(2),
        page_size: PageSize::new(4096),
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
        files: Vec::new(),
        cgroups: Vec::new(),
        devices: Vec::new(),
        uses: Vec::new(),
        lost: Vec::new(),
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
    Summary {
        begin: "2026-01-02T03:00:00.000Z".into(),
        end: "2026-01-02T03:00:02.000Z".into(),
        hostname: "box".into(),
        page_size: PageSize::new(4 << 10).expect("a power of two"),
        kernel: "6.18".into(),
        backend: Backend {
            name: "tracepoints".into(),
            exact: true,
            notes: Vec::new(),
            ..Backend::default()
        },
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
        findings: Vec::new(),
        blind: None,
        problems: Vec::new(),
        total,
    }
}
