//! Accesses one by one: what a program does to a file, in order, and the sample of blocks.

use std::collections::HashMap;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use cachewise_curve::Rate;
use cachewise_probe::{Access, AccessKind, Accesses, Detail, ErrorKind, Options, Probe, Scope};

const PAGE: usize = 4096;

fn attach() -> Option<(Probe, Accesses)> {
    let options = Options {
        accesses: true,
        ..Options::new(Scope::Children, Detail::Totals)
    };
    match Probe::attach(&options) {
        Ok(probe) => {
            let accesses = probe.accesses().expect("the ring is there");
            Some((probe, accesses))
        }
        Err(error) if matches!(error.kind(), ErrorKind::Denied | ErrorKind::Unsupported) => {
            println!("skipped: accesses: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// A file of this number of pages, in the page cache.
fn file(folder: &Path, pages: usize) -> std::path::PathBuf {
    let path = folder.join("file");
    let mut file = File::create(&path).expect("it works here");
    for _ in 0..pages {
        file.write_all(&[7; PAGE]).expect("it works here");
    }
    file.sync_all().expect("it works here");
    path
}

fn dd(arguments: &[String]) {
    let status = Command::new("dd")
        .args(arguments)
        .arg("status=none")
        .status()
        .expect("it works here");
    assert!(status.success());
}

/// The accesses so far, by file.
fn by_file(accesses: &Accesses) -> HashMap<u64, Vec<Access>> {
    let mut files: HashMap<u64, Vec<Access>> = HashMap::new();
    let mut batch = Vec::new();
    loop {
        accesses.wait(Duration::ZERO);
        accesses.read(&mut batch).expect("it works here");
        if batch.is_empty() {
            return files;
        }
        for access in &batch {
            files.entry(access.file).or_default().push(*access);
        }
    }
}

fn pages(accesses: &[Access], kind: AccessKind) -> Vec<u64> {
    let of_kind = accesses.iter().filter(|access| access.kind == kind);
    of_kind
        .flat_map(|access| access.first..access.first + access.pages)
        .collect()
}

#[test]
fn no_group_of_programs_is_refused_for_it() {
    let Some((probe, _)) = attach() else {
        return;
    };
    let options = Options::new(Scope::Children, Detail::Totals);
    let without = Probe::attach(&options).expect("it works with accesses");
    for (with, without) in probe.groups().zip(without.groups()) {
        assert_eq!(with, without);
    }
}

#[test]
fn reads_and_writes_come_in_order_with_their_pages() {
    let Some((_probe, accesses)) = attach() else {
        return;
    };
    let folder = tempfile::tempdir_in("/var/tmp").expect("it works here");
    let path = file(folder.path(), 64);
    let name = path.display();
    dd(&[
        format!("if={name}"),
        "of=/dev/null".into(),
        "bs=8k".into(),
        "skip=3".into(),
        "count=4".into(),
    ]);
    dd(&[
        "if=/dev/zero".into(),
        format!("of={name}"),
        "bs=4k".into(),
        "seek=9".into(),
        "count=2".into(),
        "conv=notrunc".into(),
    ]);
    let files = by_file(&accesses);
    let ours: Vec<_> = files
        .values()
        .filter(|accesses| pages(accesses, AccessKind::Read) == [6, 7, 8, 9, 10, 11, 12, 13])
        .collect();
    assert_eq!(ours.len(), 1, "one file was read so: {files:?}");
    assert_eq!(pages(ours[0], AccessKind::Write), [9, 10]);
    let readers: Vec<_> = ours[0].iter().filter_map(|access| access.reader).collect();
    assert_eq!(readers.len(), 4, "reads have one, writes have none");
    let follows: Vec<bool> = readers.iter().map(|reader| reader.follows).collect();
    assert_eq!(follows, [false, true, true, true], "each after the first");
    for reader in &readers {
        assert_eq!((reader.id, reader.file_pages), (readers[0].id, 64));
        assert!(!reader.continues, "they end with a page: {reader:?}");
    }
    assert_eq!(accesses.lost().expect("it works here"), 0);
    assert!(accesses.requested().expect("it works here").0 >= 8);
}

#[test]
fn deleted_pages_are_removed() {
    let Some((_probe, accesses)) = attach() else {
        return;
    };
    let folder = tempfile::tempdir_in("/var/tmp").expect("it works here");
    let path = file(folder.path(), 40);
    dd(&[
        format!("if={}", path.display()),
        "of=/dev/null".into(),
        "bs=160k".into(),
    ]);
    let status = Command::new("rm")
        .arg(&path)
        .status()
        .expect("it works here");
    assert!(status.success());
    let files = by_file(&accesses);
    let all: Vec<u64> = (0..40).collect();
    let removed = files.values().any(|accesses| {
        let mut removed = pages(accesses, AccessKind::Remove);
        removed.sort_unstable();
        pages(accesses, AccessKind::Read) == all && removed == all
    });
    assert!(removed, "{files:?}");
}

#[test]
fn sample_has_the_blocks_that_the_curve_expects() {
    let folder = tempfile::tempdir_in("/var/tmp").expect("it works here");
    let path = file(folder.path(), 8000);
    for window in [0, 32] {
        sample_has_blocks(&path, Rate::ALL.with_room_for(window).halved().halved());
    }
}

fn sample_has_blocks(path: &Path, rate: Rate) {
    let Some((_probe, accesses)) = attach() else {
        return;
    };
    accesses
        .set_sample(rate.threshold(), rate.shift())
        .expect("it works here");
    dd(&[
        format!("if={}", path.display()),
        "of=/dev/null".into(),
        "bs=1M".into(),
    ]);
    let files = by_file(&accesses);
    let largest = files
        .values()
        .max_by_key(|accesses| pages(accesses, AccessKind::Read).len());
    let read = largest.expect("the file was read");
    let of_file = read[0].file;
    let expected: Vec<u64> = (0..8000).filter(|page| rate.has(of_file, *page)).collect();
    assert_eq!(pages(read, AccessKind::Read), expected);
    assert!((1000..3000).contains(&expected.len()), "{}", expected.len());
    assert!(
        accesses.requested().expect("it works here").0 >= 8000,
        "all pages are counted"
    );
}
