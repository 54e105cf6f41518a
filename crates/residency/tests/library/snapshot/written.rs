//! A snapshot takes its place as a whole, or not at all.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use cachewise_residency::snapshot::{Reader, SnapshotEntry, SnapshotFault, Writer};

use super::*;

#[test]
fn a_snapshot_takes_its_place_as_a_whole_or_not_at_all() {
    let directory = directory();
    let path = directory.path().join("kept");
    save(&path, &[]);
    let there = std::fs::read_to_string(&path).unwrap();
    let entries = || std::fs::read_dir(directory.path()).unwrap().count();
    {
        let mut writer = Writer::create(&path).unwrap();
        writer
            .add(&SnapshotEntry::from_path(&path).unwrap())
            .unwrap();
        drop(writer.finish().unwrap());
    }
    assert_eq!(
        std::fs::read_to_string(&path).unwrap(),
        there,
        "what was there is still there"
    );
    assert_eq!(entries(), 1, "and nothing beside it");
    save(&path, &[]);
    assert_eq!(Reader::open(&path).unwrap().count(), 0, "then the new one");
    assert_eq!(entries(), 1, "and nothing beside it");
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o600, "it lists paths that are nobody's else");
    std::fs::set_permissions(&path, Permissions::from_mode(0o664)).unwrap();
    save(&path, &[]);
    assert_eq!(
        mode(&path),
        0o664,
        "but what the old one was, the new one is"
    );
    let link = directory.path().join("link");
    std::os::unix::fs::symlink("kept", &link).unwrap();
    std::fs::remove_file(&path).unwrap();
    for there in ["nothing", "a snapshot"] {
        save(&link, &[]);
        assert!(
            link.is_symlink() && !path.is_symlink(),
            "it leads to {there}"
        );
        assert_eq!(Reader::open(&path).unwrap().count(), 0, "which is written");
    }
    std::fs::remove_file(&link).unwrap();

    let error = Writer::create(&directory.path().join("none/kept")).unwrap_err();
    assert!(error.to_string().contains("none/kept"), "where: {error}");
    let writer = Writer::create(directory.path().join("sub").as_path()).unwrap();
    std::fs::create_dir(directory.path().join("sub")).unwrap();
    let error = writer.finish().unwrap().commit().unwrap_err();
    assert!(error.to_string().contains("sub"), "a directory: {error}");
}

#[test]
fn file_that_is_not_a_snapshot_is_not_replaced() {
    let directory = directory();
    let path = directory.path().join("file");
    for text in ["a line\n", "no end", "{}\n", "\0\0\0"] {
        std::fs::write(&path, text).unwrap();
        let error = Writer::create(&path).unwrap_err();
        assert!(
            matches!(error.fault, SnapshotFault::InTheWay),
            "somebody may need {text:?}: {error}"
        );
        let after = std::fs::read_to_string(&path).unwrap();
        assert_eq!(after, text, "it is as it was");
    }
    assert!(Writer::create(directory.path()).is_err(), "a directory");
    let newer = r#"{"format":"cachewise-snapshot","version":9}
"#;
    let cut = r#"{"format":"cachewise-snapshot","version":1,"page_size_bytes":4096,"created_seconds":1}
"#;
    for text in ["", newer, cut] {
        std::fs::write(&path, text).unwrap();
        Writer::create(&path).unwrap_or_else(|error| panic!("{text:?} may go: {error}"));
    }
}

#[test]
fn a_relative_path_is_kept_from_the_root() {
    let mut writer = Writer::new(Vec::new()).unwrap();
    writer.add(&entry("some/file", 0, &[])).unwrap();
    let text = String::from_utf8(writer.finish().unwrap()).unwrap();
    let entries = read(&text).unwrap();
    assert_eq!(
        entries[0].path,
        std::env::current_dir().unwrap().join("some/file"),
        "wherever it is restored from"
    );
}
