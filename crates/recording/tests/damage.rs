//! Recordings that are cut, damaged, or none at all.

use std::fs;
use std::path::Path;
use std::time::Duration;

use cachewise_model::{Gap, GapKind};
use cachewise_recording::{
    ErrorKind, Limits, Problem, Range, Reader, Sample, Writer, check_target, summarize,
};
use proptest::prelude::*;
use support::{limits, numbers, record, second, session};

mod support;

/// A recording of forty seconds with a key frame every eight, and where its frames begin.
fn recorded(path: &Path) -> (Vec<u8>, Vec<usize>) {
    let mut writer = Writer::create(path, session(), limits(1 << 30, 1, 8))
        .expect("a temporary directory has room");
    let mut begins = Vec::new();
    for number in 0..40 {
        begins.push(
            fs::metadata(path)
                .expect("a temporary directory has room")
                .len() as usize,
        );
        writer
            .write(&second(number))
            .expect("a temporary directory has room");
    }
    drop(writer);
    let bytes = fs::read(path).expect("a temporary directory has room");
    begins.push(bytes.len());
    (bytes, begins)
}

fn gaps(path: &Path, range: Range) -> Vec<Gap> {
    let mut reader = Reader::open(path).expect("it can be opened");
    let nothing = |_: &mut Sample, _: Option<&Gap>| Ok::<(), cachewise_recording::Error>(());
    let summary = summarize(&mut reader, range, nothing).expect("it can be read");
    summary.expect("there are samples").gaps
}

#[test]
fn a_cut_anywhere_loses_the_last_sample_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("r");
    let (bytes, begins) = recorded(&path);
    for cut in begins[30]..=bytes.len() {
        fs::write(&path, &bytes[..cut]).unwrap();
        let whole = begins[1..].iter().filter(|end| **end <= cut).count();
        let left = cut - begins[whole];
        let (found, problems) = numbers(&path);
        assert_eq!(found.len(), whole, "cut at {cut}: all that is whole");
        match &problems[..] {
            [] => assert_eq!(left, 0, "cut at {cut}: nothing was left out"),
            [Problem::Cut { bytes, .. }] => {
                assert_eq!(*bytes, left as u64, "cut at {cut}: it is said how much");
            }
            other => panic!("cut at {cut}: {other:?}"),
        }
        let mut writer = Writer::append(&path, session(), Limits::default()).unwrap();
        assert_eq!(writer.cut(), left as u64, "cut at {cut}: it is cut off");
        writer.write(&second(99)).unwrap();
        let (found, problems) = numbers(&path);
        assert_eq!((found.len(), problems), (whole + 1, vec![]), "and gone on");
    }
}

#[test]
fn damage_costs_what_lies_before_the_next_key_frame() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("r");
    let (bytes, begins) = recorded(&path);
    for place in (begins[10]..begins[11]).chain(begins[16]..begins[17]) {
        let mut damaged = bytes.clone();
        damaged[place] ^= 0x40;
        fs::write(&path, &damaged).unwrap();
        let (found, problems) = numbers(&path);
        let expected: Vec<u64> = match place < begins[11] {
            true => (0..10).chain(16..40).collect(),
            false => (0..16).chain(24..40).collect(),
        };
        assert_eq!(found, expected, "a bit off at {place}");
        assert_eq!(problems.len(), 1, "it is said once: {problems:?}");
        assert!(
            problems[0].to_string().contains("damaged"),
            "and what it is: {}",
            problems[0]
        );
    }
}

#[test]
fn eight_bytes_cost_seconds_and_are_a_gap() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("r");
    drop(record(&path, Limits::default(), 0..120));
    let mut bytes = fs::read(&path).unwrap();
    // Behind the first key frame and before the next full minute.
    let middle = bytes.len() * 2 / 5;
    bytes[middle..middle + 8].fill(0x55);
    fs::write(&path, &bytes).unwrap();
    let (found, problems) = numbers(&path);
    assert!(
        found.len() >= 110 && found.len() < 120,
        "a key frame is near: {} of 120",
        found.len()
    );
    let [
        Problem::Damaged {
            samples,
            to_end: false,
            ..
        },
    ] = &problems[..]
    else {
        panic!("one place is damaged: {problems:?}");
    };
    let lost = 120 - found.len() as u64;
    assert!(
        (lost - 1..=lost).contains(samples),
        "{lost} are missing, one perhaps the damaged one itself: {samples}"
    );
    let gaps = gaps(&path, Range::default());
    let [gap] = &gaps[..] else {
        panic!("one gap: {gaps:?}");
    };
    assert_eq!(gap.kind, GapKind::Unreadable, "for programs too");
    assert_eq!(
        gap.length.known(),
        Some(Duration::from_secs(lost)),
        "as long as what is missing"
    );
}

#[test]
fn damage_at_an_end_is_a_gap_without_its_other_end() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("r");
    let (bytes, begins) = recorded(&path);
    let mut damaged = bytes.clone();
    damaged[begins[35] + 20] ^= 1;
    fs::write(&path, &damaged).unwrap();
    let (found, problems) = numbers(&path);
    assert_eq!(found.len(), 35, "up to the damage");
    let told = problems[0].to_string();
    assert!(
        told.contains("and with them 4 samples that build on") && !told.contains("key frame"),
        "what was left out, and no key frame that there is not: {told}"
    );
    let found = gaps(&path, Range::default());
    assert_eq!(
        (
            found[0].kind,
            found[0].begin.clone().known().as_deref(),
            found[0].end.as_ref().known().is_some()
        ),
        (GapKind::Unreadable, Some("2026-01-02T03:04:39.000Z"), false),
        "from the last sample on"
    );
    let early = Range {
        from: None,
        to: "2026-01-02T03:04:20Z".parse().ok(),
    };
    assert_eq!(gaps(&path, early), [], "what was asked for is whole");
    let mut damaged = bytes.clone();
    damaged[begins[39] + 20] ^= 1;
    fs::write(&path, &damaged).unwrap();
    let told = numbers(&path).1[0].to_string();
    assert!(told.contains("nothing after them"), "to its end: {told}");
    let mut damaged = bytes.clone();
    damaged[begins[0] + 20] ^= 1;
    fs::write(&path, &damaged).unwrap();
    let found = gaps(&path, Range::default());
    assert_eq!(
        (
            found[0].kind,
            found[0].begin.as_ref().known().is_some(),
            found[0].end.clone().known().as_deref()
        ),
        (GapKind::Unreadable, false, Some("2026-01-02T03:04:12.000Z")),
        "up to the first that can be read"
    );
    let cut = &bytes[..begins[39] + 20];
    fs::write(&path, cut).unwrap();
    assert_eq!(
        gaps(&path, Range::default()),
        [],
        "half a last sample is no gap"
    );
    let mut holed = bytes.clone();
    holed[begins[10] + 20] ^= 1;
    fs::write(&path, &holed).unwrap();
    for (from, to, count) in [
        ("03:04:05", "03:04:30", 1),
        ("03:04:17", "03:04:30", 1),
        ("03:04:05", "03:04:17", 1),
        ("03:04:21", "03:04:30", 0),
        ("03:04:05", "03:04:14", 0),
    ] {
        let time = |time| format!("2026-01-02T{time}Z").parse().ok();
        let range = Range {
            from: time(from),
            to: time(to),
        };
        let found = gaps(&path, range);
        assert_eq!(found.len(), count, "from {from} to {to}: {found:?}");
    }
}

#[test]
fn a_hole_of_zeros_and_a_frame_taken_out_are_noticed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("r");
    let (bytes, begins) = recorded(&path);
    // Zeroed blocks, as a power failure leaves on some file systems.
    let mut zeroed = bytes.clone();
    zeroed[begins[35]..].fill(0);
    fs::write(&path, &zeroed).unwrap();
    let (found, problems) = numbers(&path);
    assert_eq!((found.len(), problems.len()), (35, 1), "up to the hole");
}

#[test]
fn the_beginning_of_the_session_may_be_damaged() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("r");
    let mut writer = Writer::create(&path, session(), limits(1 << 30, 1, 2)).unwrap();
    for number in 0..200 {
        writer.write(&second(number)).unwrap();
    }
    drop(writer);
    let mut bytes = fs::read(&path).unwrap();
    bytes[60] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let (found, problems) = numbers(&path);
    assert!(
        found.len() > 100 && found.last() == Some(&199),
        "the session is told again now and then: {} of 200",
        found.len()
    );
    assert!(!problems.is_empty(), "and the rest is said");
}

#[test]
fn what_is_no_recording_says_what_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("r");
    let told = |path: &Path| Reader::open(path).map(|_| ()).unwrap_err().to_string();
    assert!(told(&path).contains("No such file"), "{}", told(&path));
    assert!(
        told(directory.path()).contains("is a directory"),
        "a directory"
    );
    fs::write(&path, b"").unwrap();
    assert!(told(&path).contains("is empty"), "an empty file");
    fs::write(&path, b"time,pages\n").unwrap();
    assert!(told(&path).contains("not a recording"), "a short text");
    fs::write(&path, [b'x'; 4096]).unwrap();
    assert!(told(&path).contains("not a recording"), "a long one");
    fs::remove_file(&path).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &path,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    assert!(told(&path).contains("is a FIFO"), "not waited for");
    assert!(check_target(&path).is_err(), "nor written over");
    assert!(
        told(Path::new("/dev/null")).contains("is a device"),
        "a device"
    );
}

#[test]
fn a_version_that_is_not_known_yet_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("r");
    drop(record(&path, Limits::default(), 0..3));
    let mut bytes = fs::read(&path).unwrap();
    bytes[8..10].copy_from_slice(&7_u16.to_le_bytes());
    fs::write(&path, &bytes).unwrap();
    let error = Reader::open(&path).map(|_| ()).unwrap_err();
    assert_eq!(
        error.kind,
        ErrorKind::Newer {
            version: 7,
            known: 1
        },
        "which it is, and which are known"
    );
    let error = Writer::append(&path, session(), Limits::default())
        .map(|_| ())
        .unwrap_err();
    assert!(
        error.to_string().contains("format 7"),
        "nor is it gone on with: {error}"
    );
    assert_eq!(fs::read(&path).unwrap(), bytes, "it is as it was");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn garbage_is_no_panic(garbage in proptest::collection::vec(any::<u8>(), 0..4_000), from in 0..5_000_usize) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("r");
        drop(record(&path, limits(1 << 30, 1, 8), 0..20));
        let mut bytes = fs::read(&path).unwrap();
        let from = from.min(bytes.len());
        let end = (from + garbage.len()).min(bytes.len());
        bytes.splice(from..end, garbage);
        fs::write(&path, &bytes).unwrap();
        if let Ok(mut reader) = Reader::open(&path) {
            let mut samples = 0;
            while reader.next().unwrap().is_some() {
                samples += 1;
            }
            prop_assert!(samples <= 20, "nothing is made up");
        }
    }

    #[test]
    fn nonsense_with_the_right_check_sum_is_no_panic(payload: Vec<u8>, kind in 1..4_u8) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("r");
        drop(record(&path, limits(1 << 30, 1, 8), 0..3));
        let mut bytes = fs::read(&path).unwrap();
        let mut head = vec![0xca, 0xc4, 0xe5, kind];
        head.extend((payload.len() as u32).to_le_bytes());
        head.extend(crc32fast::hash(&payload).to_le_bytes());
        head.extend(crc32fast::hash(&head).to_le_bytes());
        bytes.extend(head);
        bytes.extend(payload);
        fs::write(&path, &bytes).unwrap();
        let mut reader = Reader::open(&path).unwrap();
        let mut samples = 0;
        while reader.next().unwrap().is_some() {
            samples += 1;
        }
        prop_assert!((3..=4).contains(&samples), "what was recorded is there");
    }
}
