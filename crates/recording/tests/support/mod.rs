//! Samples to record.

// Every test file is a crate of its own and uses some of this.
#![allow(dead_code)]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cachewise_model::{
    Backend, CgroupRow, Count, Counter, DeviceRow, Exit, FileNumber, FileRow, Frame, GroupNames,
    Interval, Ledger, Lost, Measured, Missing, ProcessRow, Reason, Source, Stack, StackKind,
    Stacks, System, Weight,
};
use cachewise_recording::{Limits, Problem, Reader, Sample, Session, Writer};
use cachewise_units::{Bytes, PageSize, Pages};
use proptest::prelude::*;

const REASONS: [Reason; 3] = [Reason::NoPermission, Reason::NotCounted, Reason::ByVmstat];

pub fn measured<T: std::fmt::Debug + Clone>(
    value: impl Strategy<Value = T>,
) -> impl Strategy<Value = Measured<T>> {
    (value, 0..9_usize, 0..REASONS.len()).prop_map(|(value, kind, reason)| {
        let reason = REASONS[reason];
        match kind {
            0 => Measured::Missing(Missing::Unknown(reason)),
            1 => Measured::Missing(Missing::NotOffered(reason)),
            2 => Measured::Estimated(value, reason),
            _ => Measured::Exact(value),
        }
    })
}

fn count() -> impl Strategy<Value = Count> {
    measured(prop_oneof![Just(0), 0..100_u64, any::<u64>()])
}

fn ledger() -> impl Strategy<Value = Ledger> {
    proptest::collection::vec(count(), Counter::COUNT).prop_map(|counts| {
        let mut ledger = Ledger::default();
        for (counter, count) in Counter::ALL.iter().zip(counts) {
            ledger.book(*counter, count);
        }
        ledger
    })
}

fn system() -> impl Strategy<Value = System> {
    proptest::collection::vec(count(), System::IDS.len()).prop_map(|counts| {
        let numbers: [Count; System::IDS.len()] = counts.try_into().expect("as many as there are");
        System::from_numbers(numbers)
    })
}

fn name() -> impl Strategy<Value = Measured<String>> {
    measured("[a-zü/\n]{0,12}")
}

fn path() -> impl Strategy<Value = Measured<PathBuf>> {
    use std::os::unix::ffi::OsStringExt;
    let bytes = proptest::collection::vec(1..=255_u8, 0..20);
    measured(bytes.prop_map(|bytes| PathBuf::from(std::ffi::OsString::from_vec(bytes))))
}

fn exit() -> impl Strategy<Value = Exit> {
    prop_oneof![
        Just(Exit::Running),
        any::<i16>().prop_map(|code| Exit::Code(code.into())),
        (0..64).prop_map(Exit::Signal),
        Just(Exit::Unknown(Reason::EndNotRecorded)),
    ]
}

fn process() -> impl Strategy<Value = ProcessRow> {
    let ids = (0..6_u32, measured(0..3_u64), measured(any::<u32>()));
    let seconds = measured(0..u64::from(u32::MAX)).prop_map(|nanoseconds: Count| {
        nanoseconds.map(|nanoseconds| Duration::from_nanos(nanoseconds).as_secs_f64())
    });
    (
        ids,
        name(),
        name(),
        exit(),
        seconds,
        count(),
        count(),
        ledger(),
    )
        .prop_map(
            |((pid, started, ppid), command, cgroup, exit, cpu_seconds, read, written, ledger)| {
                ProcessRow {
                    // All others have neither number nor name.
                    pid: (pid > 0 || command.missing().is_none()).then_some(pid),
                    started,
                    ppid,
                    command,
                    cgroup,
                    exit,
                    cpu_seconds,
                    device_read_bytes: read,
                    device_write_bytes: written,
                    ledger,
                }
            },
        )
}

fn file() -> impl Strategy<Value = FileRow> {
    let flags = (any::<bool>(), any::<bool>(), 0..4_u64);
    let names = (name(), name());
    (path(), flags, names, count(), count(), count(), ledger()).prop_map(
        |(path, (deleted, direct, inode), (filesystem, label), size, before, after, ledger)| {
            let is_one = inode > 0 || path.missing().is_none();
            FileRow {
                path,
                label,
                deleted,
                filesystem,
                number: is_one.then(|| FileNumber {
                    device: format!("8:{inode}"),
                    inode,
                }),
                size_bytes: size,
                resident_before_pages: before,
                resident_after_pages: after,
                ledger,
                direct,
            }
        },
    )
}

fn cgroup() -> impl Strategy<Value = CgroupRow> {
    let names =
        (name(), name(), name(), name()).prop_map(|(unit, container, container_id, pod)| {
            GroupNames {
                unit,
                container,
                container_id,
                pod,
            }
        });
    (name(), names, ledger(), system()).prop_map(|(path, names, ledger, system)| CgroupRow {
        path,
        names,
        ledger,
        system,
        memory_limit_path: Measured::not_offered(Reason::NotMeasured),
    })
}

fn device() -> impl Strategy<Value = DeviceRow> {
    (0..4, path(), name(), ledger(), count(), count(), count()).prop_map(
        |(minor, path, filesystem, ledger, read, written, busy)| DeviceRow {
            device: format!("8:{minor}"),
            path,
            filesystem,
            ledger,
            device_read_bytes: read,
            device_write_bytes: written,
            busy,
        },
    )
}

/// Any possible interval.
fn frame() -> impl Strategy<Value = Frame> {
    let texts = (
        proptest::option::of("[a-z:<>;]{1,9}"),
        proptest::option::of("[a-z/]{1,9}"),
        proptest::option::of("[a-z/]{1,9}"),
    );
    let marks = (any::<bool>(), any::<bool>(), any::<bool>());
    let unknown = proptest::option::of(0..REASONS.len());
    (texts, proptest::option::of(any::<u32>()), marks, unknown).prop_map(
        |((function, file, module), line, (is_kernel, is_inlined, is_library), unknown)| Frame {
            function,
            file: file.map(PathBuf::from),
            line,
            module: module.map(PathBuf::from),
            is_kernel,
            is_inlined,
            is_library,
            unknown: unknown.map(|reason| REASONS[reason]),
        },
    )
}

fn stack() -> impl Strategy<Value = Stack> {
    let frames = proptest::collection::vec(frame(), 0..6);
    let cut = proptest::option::of(0..REASONS.len());
    let weight = (any::<u64>(), any::<u64>(), any::<u64>());
    (0..StackKind::ALL.len(), "[a-z]{0,5}", frames, cut, weight).prop_map(
        |(kind, command, frames, cut, (pages, bytes, nanoseconds))| Stack {
            kind: StackKind::ALL[kind],
            command,
            frames,
            cut: cut.map(|reason| REASONS[reason]),
            weight: Weight {
                pages: Pages(pages),
                bytes: Bytes(bytes),
                waited: Duration::from_nanos(nanoseconds),
            },
        },
    )
}

pub fn interval() -> impl Strategy<Value = Interval> {
    let machine = (0..4_000_000_000_000_i64, any::<u64>(), ledger(), system());
    let parts = (
        proptest::collection::vec(process(), 0..4),
        proptest::collection::vec(file(), 0..4),
        proptest::collection::vec(cgroup(), 0..3),
        proptest::collection::vec(device(), 0..3),
        proptest::collection::vec(any::<u64>(), 0..2),
        proptest::option::of(proptest::collection::vec(stack(), 0..4)),
    );
    (machine, count(), count(), parts).prop_map(
        |((time, elapsed, ledger, system), read, written, parts)| {
            let time = jiff::Timestamp::from_millisecond(time).expect("it is in this millennium");
            let (processes, files, cgroups, devices, lost, stacks) = parts;
            let stacks = stacks.map(|stacks| Stacks { stacks });
            let lost = lost.into_iter().map(|count| Lost::new("rows", count));
            Interval {
                elapsed: Duration::from_nanos(elapsed),
                ledger,
                system,
                device_read_bytes: read,
                device_write_bytes: written,
                processes,
                files,
                cgroups,
                devices,
                lost: lost.collect(),
                stacks,
                ..Interval::new(Arc::new(source()), format!("{time:.3}"))
            }
        },
    )
}

/// The machine of the recordings.
fn source() -> Source {
    Source {
        hostname: "box".into(),
        kernel: "6.18".into(),
        page_size: PageSize::new(4096),
        backend: Backend {
            name: "tracepoints".into(),
            exact: true,
            notes: vec!["a note".into()],
            ..Backend::default()
        },
    }
}

pub fn session() -> Session {
    let mut session = Session::new(&source());
    session.interval = Duration::from_secs(1);
    session
}

/// A second of a machine that reads one file, `number` seconds after the first.
pub fn second(number: u64) -> Sample {
    let mut interval = cachewise_recording::example();
    interval.source = Arc::new(source());
    let time: jiff::Timestamp = interval.time.parse().expect("it is a time");
    let time = time + jiff::SignedDuration::from_secs(number as i64);
    interval.time = format!("{time:.3}");
    interval.ledger.set(Counter::ReadRequestedPages, number);
    interval.system = System::from_numbers(std::array::from_fn(|place| {
        Measured::Exact(place as u64 * 1000 + number)
    }));
    let mut process = ProcessRow {
        pid: Some(7),
        started: Measured::Exact(70),
        ppid: Measured::Exact(1),
        command: Measured::Exact("dd".into()),
        cgroup: Measured::Missing(Missing::NotOffered(Reason::NoUnit)),
        exit: Exit::Running,
        cpu_seconds: Measured::Estimated(0.25, Reason::SampledAtTick),
        device_read_bytes: Measured::Exact(4096 * number),
        device_write_bytes: Measured::unknown(Reason::NotMeasured),
        ledger: Ledger::default(),
    };
    process.ledger.set(Counter::ReadRequestedPages, number);
    interval.processes.push(process);
    Sample::from_interval(interval)
}

/// Writes seconds into a new recording.
pub fn record(path: &Path, limits: Limits, numbers: std::ops::Range<u64>) -> Writer {
    let mut writer = Writer::create(path, session(), limits).expect("it can be made");
    for number in numbers {
        writer.write(&second(number)).expect("there is room");
    }
    writer
}

/// All samples, as the numbers of their seconds, and what could not be read.
pub fn numbers(path: &Path) -> (Vec<u64>, Vec<Problem>) {
    let mut reader = Reader::open(path).expect("it can be opened");
    let mut numbers = Vec::new();
    while let Some(sample) = reader.next().expect("it can be read") {
        let number = sample.interval.ledger[Counter::ReadRequestedPages];
        assert_eq!(
            sample.interval,
            second(number).interval,
            "what is read is what was written, or it is not read"
        );
        numbers.push(number);
    }
    (numbers, reader.problems().to_vec())
}

pub fn limits(part: u64, keep: usize, key_every: u32) -> Limits {
    Limits {
        max_size: Bytes(part * keep as u64),
        keep,
        key_every,
    }
}
