//! Samples come back as they were written, those of the first version too.

use std::path::Path;

use cachewise_model::{Counter, Measured, Missing, Reason};
use cachewise_recording::{History, Limits, Range, Reader, Sample, Writer};
use proptest::prelude::*;
use support::{interval, limits, measured, numbers, record, second, session};

mod support;

fn read(path: &Path) -> Vec<Sample> {
    let mut reader = Reader::open(path).expect("it is a recording");
    let mut samples = Vec::new();
    while let Some(sample) = reader.next().expect("it can be read") {
        samples.push(sample);
    }
    assert_eq!(reader.problems(), [], "nothing is damaged");
    samples
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_sample_comes_back(intervals in proptest::collection::vec(interval(), 1..8), key_every in 1..5_u32) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("r");
        let limits = Limits { key_every, ..Limits::default() };
        let mut writer = Writer::create(&path, session(), limits).unwrap();
        for interval in &intervals {
            writer.write(&Sample::from_interval(interval.clone())).unwrap();
        }
        let back = read(&path);
        prop_assert_eq!(back.len(), intervals.len(), "as many as were written");
        for (back, interval) in back.iter().zip(&intervals) {
            prop_assert_eq!(&back.interval, interval, "with every quality and reason");
        }
        let mut history = History::open(&path, Range::default()).unwrap();
        for number in (0..intervals.len()).rev() {
            let sample = history.get(number).unwrap().unwrap();
            prop_assert_eq!(&sample.interval, &intervals[number], "and by number, backwards");
        }
    }

    #[test]
    fn qualities_are_as_the_model_has_them(count in measured(any::<u64>())) {
        // Guards the strategy: all four kinds must be among what is tried above.
        prop_assert_eq!(count.missing().is_some(), count.known().is_none(), "one or the other");
    }
}

#[test]
fn a_recording_of_the_first_version_is_read() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/version-1.rec");
    if std::env::var_os("CACHEWISE_MAKE_TESTDATA").is_some() {
        let _ = std::fs::remove_file(&path);
        drop(record(&path, limits(1 << 20, 1, 4), 0..10));
    }
    let samples = read(&path);
    assert_eq!(samples.len(), 10, "all of it");
    let last = &samples[9].interval;
    assert_eq!(last.time, "2026-01-02T03:04:14.000Z", "its time");
    assert_eq!(last.ledger[Counter::ReadRequestedPages], 9, "its counts");
    assert_eq!(
        last.processes[0].command,
        Measured::Exact("dd".to_owned()),
        "its names"
    );
    assert_eq!(
        last.processes[0].cgroup.missing(),
        Some(Missing::NotOffered(Reason::OtherReason)),
        "its reasons, in words that this version does not have"
    );
    assert_eq!(
        last.processes[0].cpu_seconds,
        Measured::Estimated(0.25, Reason::OtherReason),
        "its estimates"
    );
    assert!(last.system.cached_bytes.exact().is_some(), "its gauges");
}

fn time(number: u64) -> Option<jiff::Timestamp> {
    second(number).interval.time.parse().ok()
}

#[test]
fn a_part_of_the_time_is_numbered_from_its_first_sample() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("r");
    drop(record(&path, limits(1 << 20, 1, 4), 0..20));
    let range = Range {
        from: time(5),
        to: time(9),
    };
    let mut history = History::open(&path, range).unwrap();
    assert_eq!(history.len(), 4, "after the one and up to the other");
    for (number, expected) in [(3, 9), (0, 6), (1, 7)] {
        let sample = history.get(number).unwrap().unwrap();
        assert_eq!(
            sample.interval,
            second(expected).interval,
            "number {number}"
        );
    }
    assert!(history.get(4).unwrap().is_none(), "no more than that");
}

#[test]
fn a_part_that_is_gone_is_not_taken_for_another() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("r");
    drop(record(&path, limits(12 << 10, 3, 8), 0..2_000));
    let mut history = History::open(&path, Range::default()).unwrap();
    let last = history.len() - 1;
    // As a recorder does that goes on meanwhile.
    std::fs::remove_file(directory.path().join("r.2")).unwrap();
    let error = history.get(0).unwrap_err();
    assert!(error.to_string().contains("taken away"), "{error}");
    let sample = history.get(last).unwrap().unwrap();
    assert_eq!(sample.interval, second(1_999).interval, "the rest is there");
}

#[test]
fn going_on_marks_where_it_went_on() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("r");
    drop(record(&path, Limits::default(), 0..3));
    let mut writer = Writer::append(&path, session(), Limits::default()).unwrap();
    assert_eq!(writer.cut(), 0, "nothing was half written");
    for number in 10..13 {
        writer.write(&second(number)).unwrap();
    }
    let begins: Vec<bool> = read(&path).iter().map(|sample| sample.begins).collect();
    assert_eq!(
        begins,
        [true, false, false, true, false, false],
        "two sessions"
    );
}

#[test]
fn only_one_records_at_a_time() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("r");
    let writer = record(&path, Limits::default(), 0..3);
    let error = Writer::append(&path, session(), Limits::default()).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("another process records into it"),
        "the second is told: {error}"
    );
    drop(writer);
    assert!(
        Writer::append(&path, session(), Limits::default()).is_ok(),
        "then it may"
    );
}

#[test]
fn old_parts_go_and_the_rest_stays_whole() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("r");
    let limits = limits(12 << 10, 3, 8);
    drop(record(&path, limits, 0..2_000));
    let (found, problems) = numbers(&path);
    assert_eq!(problems, [], "nothing is damaged by rotation");
    let first = found[0];
    assert!(first > 0, "the oldest samples have gone");
    assert!(
        found.iter().copied().eq(first..2_000),
        "all that is left is there, in its order"
    );
    let size: u64 = std::fs::read_dir(directory.path())
        .unwrap()
        .map(|entry| entry.unwrap().metadata().unwrap().len())
        .sum();
    assert!(
        size <= limits.max_size.0,
        "{size} bytes are within the limit"
    );
    assert!(size * 2 > limits.max_size.0, "and the limit is made use of");
    let names = std::fs::read_dir(directory.path()).unwrap().count();
    assert_eq!(names, 3, "no more files than were asked for");

    // A removed part is reported as missing, not skipped.
    std::fs::remove_file(directory.path().join("r.1")).unwrap();
    let (found, problems) = numbers(&path);
    assert!(found.contains(&first) && found.contains(&1_999), "the rest");
    assert!(
        problems.len() == 1 && problems[0].to_string().contains("1 part is missing"),
        "and it is said: {problems:?}"
    );
}

#[test]
fn a_recorder_killed_between_two_names_loses_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("r");
    drop(record(&path, limits(1 << 20, 3, 8), 0..20));
    std::fs::rename(&path, directory.path().join("r.1")).unwrap();
    assert_eq!(numbers(&path).0.len(), 20, "the older part is read alone");
    let mut writer = Writer::append(&path, session(), limits(1 << 20, 3, 8)).unwrap();
    writer.write(&second(20)).unwrap();
    assert_eq!(numbers(&path).0.len(), 21, "and gone on with");
}

#[test]
fn a_file_of_somebody_else_is_not_written_over() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("r");
    std::fs::write(&path, "dear diary").unwrap();
    for result in [
        Writer::create(&path, session(), Limits::default()),
        Writer::append(&path, session(), Limits::default()),
    ] {
        assert!(result.is_err(), "it is no recording");
    }
    assert_eq!(std::fs::read(&path).unwrap(), b"dear diary", "as it was");
    std::fs::remove_file(&path).unwrap();
    std::fs::write(directory.path().join("r.2"), "notes").unwrap();
    let error = Writer::create(&path, session(), Limits::default()).unwrap_err();
    assert!(
        error.to_string().contains("r.2 is in the way"),
        "nor one that a part would push aside: {error}"
    );
    assert!(!path.exists(), "and nothing was made");
}

#[test]
fn a_missing_directory_is_named_as_the_kernel_names_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("missing/r");
    let error = Writer::create(&path, session(), Limits::default()).err();
    let error = error.expect("there is no directory").to_string();
    assert!(error.contains("No such file or directory"), "{error}");
    assert!(error.contains("missing/r"), "the file: {error}");
    assert!(
        !error.contains(".cachewise-record-"),
        "not the temporary one: {error}"
    );
}
