//! The format: written snapshots can be read, and damage is reported.

use cachewise_residency::snapshot::{Reader, SnapshotFault};
use cachewise_units::Pages;

use super::*;

#[test]
fn written_snapshot_reads_back_unchanged() {
    let entries = read(&text()).unwrap();
    assert_eq!(entries.len(), 2, "both files");
    assert_eq!(
        entries[0].ranges,
        [pages(0, 2), pages(5, 9)],
        "their ranges"
    );
    assert_eq!(entries[0].cached(), Pages(6), "of which there are six");
    assert_eq!(
        (entries[0].modified, entries[0].device),
        ((-1, 5), (8, 1)),
        "and what they are known by"
    );
}

#[test]
fn the_format_is_as_it_is_documented() {
    let page = bytes(1);
    let text = text();
    let lines: Vec<&str> = text.lines().collect();
    let (head, time) = lines[0].rsplit_once(':').unwrap();
    assert_eq!(
        head,
        format!(
            "{{\"format\":\"cachewise-snapshot\",\"version\":1,\"page_size_bytes\":{page},\"created_seconds\""
        ),
        "the head"
    );
    assert!(time.trim_end_matches('}').parse::<u64>().is_ok(), "{time}");
    assert_eq!(
        lines[1],
        "{\"path\":\"/a\",\"device\":[8,1],\"inode\":7,\"size_bytes\":100000,\"modified\":[-1,5],\"ranges\":[[0,2],[5,9]]}",
        "a file"
    );
    assert_eq!(
        lines[3], "{\"end\":true,\"files\":2,\"pages\":6}",
        "the end"
    );
    let spaced = text.replace(':', " : ").replace('{', " { \"new\" : 1, ");
    // Members that a later program adds come anywhere but before what tells the end.
    let spaced = spaced.replace("{ \"new\" : 1, \"end\"", "{ \"end\"");
    assert_eq!(read(&spaced).unwrap().len(), 2, "read as JSON, not as text");
}

#[test]
fn damage_is_told_by_its_line() {
    let text = text();
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let [head, first, second, end] = lines[..] else {
        panic!("four lines");
    };
    let with = |line: &str| format!("{head}{first}{line}");
    for (damaged, line, part) in [
        (String::new(), None, "empty"),
        ("\n".to_owned(), Some(1), "no snapshot"),
        ("#!/bin/sh\n".to_owned(), Some(1), "no snapshot"),
        ("[1]\n".to_owned(), Some(1), "no snapshot"),
        ("{\"files\":[]}\n".to_owned(), Some(1), "no snapshot"),
        (
            text.replace("\"version\":1", "\"version\":2"),
            Some(1),
            "version 2",
        ),
        (
            text.replace("\"version\":1", "\"version\":\"x\""),
            Some(1),
            "version",
        ),
        (
            text.replace("\"page_size_bytes\":", "\"page_size_bytes\":1"),
            Some(1),
            "size of a page",
        ),
        (head[..head.len() - 9].to_owned(), Some(1), "cut off"),
        (head.to_owned(), Some(2), "cut off"),
        (format!("{head}{first}"), Some(3), "cut off"),
        (with(&second[..20]), Some(3), "cut off"),
        (with(end.trim_end()), Some(3), "cut off"),
        (with("\n"), Some(3), "EOF"),
        (with("{\"path\":3}\n"), Some(3), "invalid type"),
        (with("\u{0}\u{1}\n"), Some(3), "expected"),
        (with(&first.replace("[5,9]", "[5,5]")), Some(3), "[5,5]"),
        (with(&first.replace("[5,9]", "[1,9]")), Some(3), "[1,9]"),
        (with(&first.replace("[5,9]", "[9,5]")), Some(3), "[9,5]"),
        (
            with(&first.replace("[5,9]", "[5,-9]")),
            Some(3),
            "invalid value",
        ),
        (
            with(&first.replace("[5,9]", "[5,9007199254740993]")),
            Some(3),
            "too large",
        ),
        (with(&first.replace("/a", "a")), Some(3), "not absolute"),
        (with(&first.replace("/a", "/%a")), Some(3), "two digits"),
        (with(&first.replace("\"inode\":7,", "")), Some(3), "inode"),
        (
            format!("{head}{first}{end}"),
            Some(3),
            "2 files and 6 pages",
        ),
        (format!("{text}{first}"), Some(5), "behind the end"),
    ] {
        let error = read(&damaged).unwrap_err();
        let said = error.to_string();
        assert!(said.contains(part), "{part:?} should be in {said:?}");
        assert_eq!(error.line, line, "the line of {said:?}");
    }
}

#[test]
fn a_file_is_looked_at_to_its_end_before_anything_is_done() {
    let directory = directory();
    let path = directory.path().join("kept");
    std::fs::write(&path, text()).unwrap();
    let reader = Reader::open(&path).unwrap();
    let announced = reader.announced().unwrap();
    assert_eq!(
        (announced.files, announced.pages),
        (2, Pages(6)),
        "what it has"
    );
    let text = text();
    for cut in [text.len() - 1, text.len() - 5, text.len() - 40, 150] {
        std::fs::write(&path, &text[..cut]).unwrap();
        let error = Reader::open(&path).unwrap_err();
        assert!(
            matches!(error.fault, SnapshotFault::Truncated) && error.line.is_some(),
            "cut at {cut}: {error}"
        );
        assert!(error.to_string().contains("kept"), "and which: {error}");
    }
    std::fs::write(&path, "").unwrap();
    let error = Reader::open(&path).unwrap_err();
    assert!(matches!(error.fault, SnapshotFault::Empty), "{error}");
    let error = Reader::open(&directory.path().join("none")).unwrap_err();
    assert_eq!(error.kind(), cachewise_sys::ErrorKind::NotFound, "{error}");
    assert!(Reader::open(directory.path()).is_err(), "a directory");
    let fifo = directory.path().join("fifo");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &fifo,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .unwrap();
    let error = Reader::open(&fifo).unwrap_err();
    assert!(
        error.to_string().contains("a FIFO, not a snapshot"),
        "nobody is waited for: {error}"
    );
}
