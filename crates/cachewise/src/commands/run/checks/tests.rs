//! A real interval of the probe with one wrong count: each law finds it, names the row and marks it.

use std::cell::Cell;
use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use cachewise_cli::child::Course;
use cachewise_kstat::Kernel;
use cachewise_model::{Counter, Diagnosis, Exactness, Exit, Interval, Reason, Verdict, laws};
use cachewise_probe::{Detail, ErrorKind, Options, Probe, Row, Scope, Snapshot};
use cachewise_units::Bytes;
use cachewise_view::{Format, ReportOptions, write_report};
use tempfile::TempDir;

use super::{Before, Counted};
use crate::account;
use crate::machine;

const FILE: usize = 4 << 20;
const PAGES: u64 = 3;

/// A file on a disk, of which nothing is resident.
struct Cold {
    _directory: TempDir,
    path: PathBuf,
}

impl Cold {
    fn new() -> Cold {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let path = directory.path().join("data");
        let mut file = File::create(&path).unwrap();
        file.write_all(&vec![9; FILE]).unwrap();
        file.sync_all().unwrap();
        // Pages on their way through a processor's batch stay at first.
        let is_cold = (0..1000).any(|_| {
            cachewise_sys::fadvise_dont_need(file.as_fd()).unwrap();
            cachewise_sys::cachestat(file.as_fd(), None).is_ok_and(|found| found.cached.0 == 0)
        });
        assert!(is_cold, "nothing of the file stays resident");
        Cold {
            _directory: directory,
            path,
        }
    }
}

/// The report of `cat` on a cold file, each snapshot changed by `inject`.
struct Done {
    interval: Interval,
    /// The file, and the process, as laws name them.
    path: String,
    process: String,
}

/// Nothing without a probe.
fn report_of(inject: impl Fn(&mut Snapshot, &dyn Fn(&Row) -> bool)) -> Option<Done> {
    let kernel = Kernel::new();
    let cold = Cold::new();
    let options = Options {
        cgroup_v1: machine::uses_cgroup_v1(&kernel),
        outside: true,
        ..Options::new(Scope::Children, Detail::Rows)
    };
    let mut probe = match Probe::attach(&options) {
        Ok(probe) => probe,
        Err(error) if matches!(error.kind(), ErrorKind::Denied | ErrorKind::Unsupported) => {
            println!("skipped: laws of a real interval: {error}");
            return None;
        }
        Err(error) => panic!("the probe: {error}"),
    };
    let before = Before::now(&kernel);
    let mut cat = Command::new("cat")
        .arg(&cold.path)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    // Other tests of this program have processes of this name as well.
    let process = format!("cat ({})", cat.id());
    assert!(cat.wait().unwrap().success());
    let mut first = probe.snapshot().unwrap();
    let (file, _) = first
        .files
        .iter()
        .find(|(_, info)| info.path.as_ref() == Some(&cold.path))
        .expect("the file was read");
    let file = *file;
    let is_ours = move |row: &Row| row.file == Some(file) && row.process.is_some();
    inject(&mut first, &is_ours);
    let backend = machine::backend(&probe, &kernel);
    let source = Arc::new(machine::source(&kernel, backend));
    let mut interval = Interval::new(source, "t".into());
    let course = Course {
        wall: Duration::ZERO,
        exit: Exit::Code(0),
        peak_dirty: Bytes(0),
        usage: None,
        io: None,
    };
    let rows = account::fill(&mut interval, &first, &course, &kernel);
    let mut later = probe.snapshot().unwrap();
    inject(&mut later, &is_ours);
    let counted = Counted {
        rows,
        first,
        later: Some(later),
    };
    super::fill(&mut interval, &counted, &before, &kernel);
    Some(Done {
        interval,
        path: cold.path.display().to_string(),
        process,
    })
}

/// The verdict of a row's law.
fn verdict(interval: &Interval, id: &str, subject: &str) -> Verdict {
    laws(interval)
        .iter()
        .find(|law| law.id == id && law.subject.as_deref().is_some_and(|of| of == subject))
        .unwrap_or_else(|| panic!("{id} of {subject} is in {:?}", interval.run().row_laws))
        .verdict()
}

fn table(interval: &Interval) -> String {
    let mut out = Vec::new();
    let diagnosis = Diagnosis::of(interval);
    let options = ReportOptions::default();
    write_report(&mut out, Format::Table, interval, &diagnosis, options).unwrap();
    String::from_utf8(out).unwrap()
}

/// Checks that every report with a violation must pass.
fn assert_not_exact(interval: &Interval) {
    assert_ne!(interval.exactness(), Exactness::Exact);
    let table = table(interval);
    assert!(!table.contains("exact to the page"), "{table}");
    assert!(table.contains("DOES NOT ADD UP"), "{table}");
    assert!(
        interval.lost.iter().any(|lost| lost.id == "contradictions"),
        "{:?}",
        interval.lost
    );
}

fn add(row: &mut Row, counter: Counter, number: u64) {
    row.ledger.set(counter, row.ledger[counter] + number);
}

#[test]
fn a_cold_read_obeys_the_laws_of_its_rows() {
    let Some(Done {
        interval,
        path,
        process,
    }) = report_of(|_, _| {})
    else {
        return;
    };
    assert_eq!(verdict(&interval, "residency", &path), Verdict::Holds);
    for id in ["device_bytes_least", "device_bytes_most"] {
        let verdict = verdict(&interval, id, &process);
        assert_ne!(
            verdict,
            Verdict::Broken,
            "{id}: {:?}",
            interval.run().row_laws
        );
    }
}

#[test]
fn lost_events_leave_the_laws_unchecked_and_the_report_incomplete() {
    let Some(Done {
        interval,
        path,
        process,
    }) = report_of(|snapshot, _| snapshot.lost.tasks = 1)
    else {
        return;
    };
    let lost = Verdict::Unknown(Reason::LostEvents);
    assert_eq!(verdict(&interval, "residency", &path), lost);
    for id in ["device_bytes_least", "device_bytes_most"] {
        assert_eq!(verdict(&interval, id, &process), lost, "{id}");
    }
    assert_eq!(interval.exactness(), Exactness::Incomplete);
}

#[test]
fn a_file_that_changes_while_it_is_counted_is_not_checked() {
    let round = Cell::new(0);
    let Some(Done { interval, path, .. }) = report_of(|snapshot, is_ours| {
        round.set(round.get() + 1);
        for row in snapshot.rows.iter_mut().filter(|row| is_ours(row)) {
            add(row, Counter::OtherPages, round.get());
        }
    }) else {
        return;
    };
    assert_eq!(
        verdict(&interval, "residency", &path),
        Verdict::Unknown(Reason::UsedMeanwhile),
        "another page came between the two snapshots"
    );
}

#[test]
fn wrong_inserts_violate_residency_and_are_marked() {
    for counter in Counter::INSERTS {
        let Some(Done { interval, path, .. }) = report_of(|snapshot, is_ours| {
            for row in snapshot.rows.iter_mut().filter(|row| is_ours(row)) {
                add(row, counter, PAGES);
            }
        }) else {
            return;
        };
        // Pages that contradict the requests are marked before, and marked numbers prove nothing.
        let expected = match counter {
            Counter::ReadMissedPages => Verdict::Unknown(Reason::RequestsContradict),
            _ => Verdict::Broken,
        };
        assert_eq!(verdict(&interval, "residency", &path), expected);
        let row = interval
            .files
            .iter()
            .find(|row| {
                row.path
                    .as_ref()
                    .known()
                    .is_some_and(|of| of.as_os_str() == path.as_str())
            })
            .unwrap();
        // Counters of reads can violate their own law as well, whose mark came first.
        let how = row.ledger.get(counter).estimate();
        assert!(
            [
                Some(Reason::ResidencyContradicts),
                Some(Reason::RequestsContradict)
            ]
            .contains(&how),
            "{how:?}"
        );
        assert!(table(&interval).contains(&path));
        assert_not_exact(&interval);
    }
}

#[test]
fn wrong_evictions_violate_residency() {
    let Some(Done { interval, path, .. }) = report_of(|snapshot, is_ours| {
        let ours = snapshot.rows.iter().find(|row| is_ours(row)).cloned();
        let mut evicted = ours.unwrap();
        evicted.process = None;
        evicted.ledger = cachewise_model::Ledger::default();
        add(&mut evicted, Counter::EvictedReclaimPages, PAGES);
        snapshot.rows.push(evicted);
    }) else {
        return;
    };
    assert_eq!(verdict(&interval, "residency", &path), Verdict::Broken);
    assert_not_exact(&interval);
}

#[test]
fn wrong_bytes_of_a_device_violate_its_bounds_and_are_marked() {
    for (id, change) in [
        ("device_bytes_least", -(PAGES as i64)),
        ("device_bytes_most", 1 << 10),
    ] {
        let page = cachewise_sys::page_size().get() as i64;
        let Some(Done {
            interval, process, ..
        }) = report_of(|snapshot, is_ours| {
            let ours = snapshot.rows.iter().find(|row| is_ours(row)).unwrap();
            let process = snapshot
                .processes
                .iter_mut()
                .find(|process| Some(process.id) == ours.process)
                .unwrap();
            let read = &mut process.device_read.0;
            *read = read.saturating_add_signed(change * page);
        })
        else {
            return;
        };
        match verdict(&interval, id, &process) {
            Verdict::Holds => panic!("{id} holds: {:?}", interval.run().row_laws),
            Verdict::Unknown(reason) => println!("skipped: {id} of a real interval: {reason}"),
            Verdict::Broken => {
                let row = interval.processes.iter().find(|row| {
                    row.device_read_bytes.estimate() == Some(Reason::DeviceContradicts)
                        && row.pid.is_some_and(|pid| process == format!("cat ({pid})"))
                });
                let row = row.expect("the row is marked");
                let missed = row.ledger.get(Counter::ReadMissedPages);
                assert_eq!(missed.estimate(), Some(Reason::DeviceContradicts));
                assert!(table(&interval).contains(&process));
                assert_not_exact(&interval);
            }
        }
    }
}

#[test]
fn wrong_counts_of_reads_violate_the_law_of_requests() {
    for counter in [
        Counter::ReadRequestedPages,
        Counter::ReadHitPages,
        Counter::ReadMissedPages,
        Counter::ReadUnservedPages,
    ] {
        let Some(Done { interval, path, .. }) = report_of(|snapshot, is_ours| {
            for row in snapshot.rows.iter_mut().filter(|row| is_ours(row)) {
                add(row, counter, PAGES);
            }
        }) else {
            return;
        };
        let row = interval
            .files
            .iter()
            .find(|row| {
                row.path
                    .as_ref()
                    .known()
                    .is_some_and(|of| of.as_os_str() == path.as_str())
            })
            .unwrap();
        assert_eq!(
            row.ledger.get(counter).estimate(),
            Some(Reason::RequestsContradict)
        );
        assert_not_exact(&interval);
    }
}
