//! A device that other programs keep busy, while tasks wait for it.
//!
//! A device that takes many requests at once may bear more: so the finding is a note with the figures, no warning.

use std::time::Duration;

use crate::counter::Counter;
use crate::finding::{Finding, Severity, SubjectKind};
use crate::interval::Interval;
use crate::ledger::Ledger;
use crate::measured::{Count, Measured};
use crate::parts::{DeviceRow, ProcessRow};
use crate::value::Value;

pub(super) const ID: &str = "device_busy";

/// Percent of the time with a request in progress.
const BUSY: u128 = 80;
/// Others moved at least two thirds of the bytes.
const OTHERS: (u64, u64) = (2, 3);
/// Waits below this are no finding.
const LEAST: Duration = Duration::from_millis(100);
/// Nor are those below one in this many seconds of the interval.
const SHARE: u32 = 10;

pub(super) fn check(interval: &Interval) -> Vec<Finding> {
    let mut found: Vec<Finding> = interval
        .devices
        .iter()
        .filter(|device| is_busy(device, interval.elapsed))
        .filter_map(|device| match interval.run {
            Some(_) => beside_run(interval, device),
            None => by_process(interval, device),
        })
        .collect();
    found.truncate(super::heaviest::NAMED);
    found
}

fn is_busy(device: &DeviceRow, elapsed: Duration) -> bool {
    let busy = device.busy.known().map_or(0, u128::from);
    elapsed > Duration::ZERO && busy * 100 >= elapsed.as_nanos() * BUSY
}

/// Requests of other programs than those of the run.
fn beside_run(interval: &Interval, device: &DeviceRow) -> Option<Finding> {
    let moved = moved(device).exact()?;
    let others = moved.saturating_sub(bytes(interval, &device.ledger)?);
    let waited = worth(device.ledger.time(&Counter::STORAGE_WAITS), interval)?;
    is_most(others, moved).then(|| {
        let title = format!(
            "other programs keep {} busy while tasks wait for it",
            name(device)
        );
        finding(interval, device, title, (others, waited), None)
    })
}

/// Requests of one process of the machine, while others wait.
fn by_process(interval: &Interval, device: &DeviceRow) -> Option<Finding> {
    let moved = moved(device).exact()?;
    let of = |place: usize| -> Ledger {
        let of_process = interval
            .uses
            .iter()
            .filter(|used| used.process == Some(place));
        let of_device = of_process.filter(|used| {
            let number = interval
                .files
                .get(used.file)
                .and_then(|file| file.number.as_ref());
            number.is_some_and(|number| number.device == device.device)
        });
        of_device.map(|used| &used.ledger).sum()
    };
    let ledgers = (0..interval.processes.len()).map(|place| (place, of(place)));
    let (place, ledger) = ledgers.max_by_key(|(_, ledger)| bytes(interval, ledger))?;
    let process = &interval.processes[place];
    let its = bytes(interval, &ledger)?;
    let waits = |ledger: &Ledger| ledger.time(&Counter::STORAGE_WAITS);
    let of_others = waits(&device.ledger).zip(waits(&ledger), Duration::saturating_sub);
    let waited = worth(of_others, interval)?;
    let pid = process.pid.filter(|_| is_most(its, moved))?;
    let title = format!(
        "{} ({pid}) keeps {} busy while others wait for it",
        command(process),
        name(device)
    );
    Some(finding(interval, device, title, (its, waited), Some(pid)))
}

fn finding(
    interval: &Interval,
    device: &DeviceRow,
    title: String,
    (bytes, waited): (u64, Duration),
    pid: Option<u32>,
) -> Finding {
    let elapsed = u64::try_from(interval.elapsed.as_nanos()).unwrap_or(u64::MAX);
    let busy = device.busy.map(|busy| busy.min(elapsed));
    let fix = "run it at another time, or limit its I/O (io.max of its control group, ionice)";
    Finding {
        id: ID,
        severity: Severity::Info,
        title,
        figures: vec![
            (
                "device_busy_ratio",
                Value::ratio(busy.ratio_of(Measured::Exact(elapsed))),
            ),
            ("others_bytes", Measured::Exact(bytes).bytes()),
            ("device_bytes", moved(device).bytes()),
            (
                "waited_seconds",
                Value::seconds(Measured::Exact(waited.as_secs_f64())),
            ),
        ],
        next_step: match pid {
            Some(_) => fix.to_owned(),
            None => format!("cachewise top shows the program (DEV-READ, DEV-WRITE): {fix}"),
        },
        subject: Some(name(device).into()),
        kind: SubjectKind::Device,
        pid,
        ..Finding::default()
    }
}

fn name(device: &DeviceRow) -> String {
    let path = device.path.as_ref().known();
    path.map_or_else(|| device.device.clone(), |path| path.display().to_string())
}

fn command(process: &ProcessRow) -> String {
    let name = process.command.as_ref().known();
    name.map_or_else(|| "?".to_owned(), |name| crate::escaped(name).into_owned())
}

fn moved(device: &DeviceRow) -> Count {
    device.device_read_bytes.plus(device.device_write_bytes)
}

fn is_most(part: u64, whole: u64) -> bool {
    let (most, of) = OTHERS;
    whole > 0 && part.saturating_mul(of) >= whole.saturating_mul(most)
}

fn worth(waited: Measured<Duration>, interval: &Interval) -> Option<Duration> {
    let waited = waited.exact()?;
    (waited >= LEAST && waited.saturating_mul(SHARE) >= interval.elapsed).then_some(waited)
}

/// The most bytes that these requests can have moved: all that was dirtied may have been written.
fn bytes(interval: &Interval, ledger: &Ledger) -> Option<u64> {
    let pages = [
        Counter::DirtiedPages,
        Counter::MetadataPages,
        Counter::OtherPages,
    ];
    let pages = pages.iter().fold(Measured::Exact(0), |sum, counter| {
        sum.plus(ledger.get(*counter))
    });
    let fetched = ledger.fetched_bytes(interval.source.page_size);
    let moved = fetched.plus(ledger.get(Counter::DirectWriteBytes));
    let page = interval.page().get();
    moved
        .zip(pages, |moved, pages| {
            moved.saturating_add(pages.saturating_mul(page))
        })
        .exact()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::sample;
    use crate::interval::ProcessFileUse;
    use crate::reason::Reason;

    const SECOND: u64 = 1_000_000_000;

    /// Ten seconds in which a device was busy for nine, and moved 1 GiB; the files were waited for.
    fn interval(own: u64, waited: u64) -> Interval {
        let counts = [
            (Counter::DirectReadBytes, own),
            (Counter::WaitedDirect, waited),
        ];
        let mut interval = sample::with_file(1 << 30, &counts);
        interval.elapsed = Duration::from_secs(10);
        interval.devices.push(DeviceRow {
            device: "8:1".into(),
            path: Measured::Exact("/dev/sda1".into()),
            filesystem: Measured::Exact("ext4".into()),
            ledger: interval.ledger.clone(),
            device_read_bytes: Measured::Exact(1 << 30),
            device_write_bytes: Measured::Exact(0),
            busy: Measured::Estimated(9 * SECOND, Reason::SampledAtTick),
        });
        interval
    }

    #[test]
    fn device_busy_for_others_is_a_note_with_its_name() {
        let found = check(&interval(64 << 20, 2 * SECOND));
        assert_eq!(found.len(), 1, "most of its bytes are of others");
        assert_eq!(found[0].severity, Severity::Info, "it may bear more");
        assert_eq!(
            found[0].title,
            "other programs keep /dev/sda1 busy while tasks wait for it"
        );
        assert_eq!(
            found[0].figures[1],
            (
                "others_bytes",
                Measured::Exact((1 << 30) - (64 << 20)).bytes()
            ),
            "bytes of others"
        );
    }

    #[test]
    fn own_requests_idle_devices_and_short_waits_are_ignored() {
        assert_eq!(
            check(&interval(900 << 20, 2 * SECOND)),
            [],
            "its own requests"
        );
        assert_eq!(check(&interval(64 << 20, SECOND / 2)), [], "short waits");
        let mut idle = interval(64 << 20, 2 * SECOND);
        idle.devices[0].busy = Measured::Exact(SECOND);
        assert_eq!(check(&idle), [], "an idle device");
    }

    #[test]
    fn process_that_keeps_the_device_busy_is_named() {
        let mut machine = interval(0, 4 * SECOND);
        machine.run = None;
        let reader = sample::process(
            7,
            &[
                (Counter::DirectReadBytes, 1 << 30),
                (Counter::WaitedDirect, SECOND),
            ],
        );
        let waiter = sample::process(8, &[(Counter::WaitedDirect, 3 * SECOND)]);
        machine.processes = vec![reader, waiter];
        let used = |place: usize| ProcessFileUse {
            process: Some(place),
            file: 0,
            ledger: machine.processes[place].ledger.clone(),
        };
        machine.uses = vec![used(0), used(1)];
        let found = check(&machine);
        assert_eq!(
            found[0].title,
            "dd (7) keeps /dev/sda1 busy while others wait for it"
        );
        assert_eq!(found[0].pid, Some(7));
        assert_eq!(
            found[0].figures[3],
            ("waited_seconds", Value::seconds(Measured::Exact(3.0))),
            "the waits of others"
        );
        machine.uses.clear();
        assert_eq!(
            check(&machine),
            [],
            "a recording does not say whose requests they are"
        );
    }
}
