//! Scans of real files: each byte once, and the cache as it was promised.

use std::collections::{BTreeSet, HashMap};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::support::{evict, told};
use cachewise_residency::order::{
    DeclineReason, Keep, Mode, RangeClass, ScanReport, Scanner, survey,
};
use cachewise_residency::query;
use cachewise_sys::{fadvise_dont_need_range, fadvise_random, page_size};
use cachewise_units::{ByteRange, Bytes, PageRange, Pages};

const MIB: usize = 1 << 20;

struct Files {
    dir: tempfile::TempDir,
    paths: Vec<PathBuf>,
    content: Vec<Vec<u8>>,
}

/// Files of these sizes, on the disk and not in the cache.
fn files(sizes: &[usize]) -> Files {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let mut word = 1_u64;
    let mut random = move || {
        word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (word >> 56) as u8
    };
    let content: Vec<Vec<u8>> = (sizes.iter())
        .map(|size| (0..*size).map(|_| random()).collect())
        .collect();
    let paths: Vec<_> = (0..sizes.len())
        .map(|index| dir.path().join(format!("file {index}")))
        .collect();
    for (path, content) in paths.iter().zip(&content) {
        fs::write(path, content).unwrap();
        evict(path);
    }
    Files {
        dir,
        paths,
        content,
    }
}

/// Inserts the pages of a range, and no others.
fn load(path: &Path, start: usize, len: usize) {
    let file = File::open(path).unwrap();
    fadvise_random(file.as_fd()).unwrap();
    file.read_exact_at(&mut vec![0; len], start as u64).unwrap();
}

fn resident(path: &Path) -> Vec<PageRange> {
    told(path).1.ranges
}

/// Blocks that were read of each file.
type ReadBlocks = HashMap<PathBuf, Vec<(u64, Vec<u8>)>>;

fn read(scanner: &mut Scanner) -> (ReadBlocks, ScanReport) {
    let mut found = ReadBlocks::new();
    let mut scan = scanner.scan();
    for block in &mut scan {
        let block = block.unwrap();
        assert!(!block.bytes().is_empty(), "a block has a byte");
        let blocks = found.entry(block.path().to_owned()).or_default();
        blocks.push((block.offset(), block.bytes().to_vec()));
    }
    (found, scan.finish())
}

/// The content of a file from its blocks, without gaps and overlaps.
fn whole(found: &ReadBlocks, path: &Path) -> Vec<u8> {
    let mut blocks = found.get(path).cloned().unwrap_or_default();
    blocks.sort();
    let mut content = Vec::new();
    for (offset, bytes) in blocks {
        assert_eq!(offset, content.len() as u64, "each byte comes once");
        content.extend_from_slice(&bytes);
    }
    content
}

const MODES: [Mode; 3] = [Mode::Free, Mode::Fixed, Mode::Shuffle(3)];
const KEEPS: [Keep; 3] = [Keep::Share, Keep::Keep, Keep::AsFound];

#[test]
fn every_byte_comes_once_whatever_the_order() {
    let files = files(&[3 * MIB + 17, 0, 1, 5 * MIB]);
    for mode in MODES {
        for keep in KEEPS {
            for path in &files.paths {
                evict(path);
            }
            load(&files.paths[0], MIB, 2 * MIB);
            load(&files.paths[3], 2 * MIB + 8192, MIB);
            let mut scanner = Scanner::new(&files.paths)
                .mode(mode)
                .keep(keep)
                .chunk(Bytes(MIB as u64))
                .block(Bytes(100_000));
            for cycle in 0..3 {
                let (found, report) = read(&mut scanner);
                for (path, content) in files.paths.iter().zip(&files.content) {
                    assert!(
                        whole(&found, path) == *content,
                        "{mode:?}, {keep:?}, cycle {cycle}: the content of {path:?}"
                    );
                }
                let size: usize = files.content.iter().map(Vec::len).sum();
                assert_eq!(report.read, Bytes(size as u64), "all of it is reported");
                assert_eq!(report.changed, 0, "nothing changed");
                assert!(report.skipped.is_empty(), "nothing is skipped");
            }
        }
    }
}

#[test]
fn fixed_hands_out_the_callers_order() {
    let files = files(&[2 * MIB, 3 * MIB + 5]);
    load(&files.paths[1], MIB, MIB);
    let mut scanner = Scanner::new(&files.paths)
        .mode(Mode::Fixed)
        .keep(Keep::AsFound);
    let mut stream = Vec::new();
    for block in scanner.scan() {
        stream.extend_from_slice(block.unwrap().bytes());
    }
    assert!(stream == files.content.concat(), "as cat would write it");
}

/// Asserts that a scan leaves the residency that it found. A missing page was reclaimed if the kernel remembers it: it
/// does not remember pages evicted by advice. `scan` returns the residency just before.
fn is_left_as_found(paths: &[PathBuf], mut scan: impl FnMut() -> (Vec<BTreeSet<u64>>, ScanReport)) {
    for attempt in 1.. {
        paths.iter().for_each(|path| evict(path));
        let (before, report) = scan();
        let found: usize = before.iter().map(BTreeSet::len).sum();
        if report.prediction.resident != Pages(found as u64).bytes(page_size()) {
            // A page was reclaimed between this check and that of the scan, which then read it as absent.
            assert!(attempt < 5, "found {found} pages: {report:?}");
            continue;
        }
        let (mut gone, mut reclaimed) = (0, 0);
        for (path, before) in paths.iter().zip(&before) {
            let (counts, after) = told(path);
            let after: BTreeSet<u64> = pages_of(&after.ranges);
            let more: Vec<&u64> = after.difference(before).collect();
            assert!(more.is_empty(), "{path:?}: left beside: {more:?}");
            gone += before.difference(&after).count() as u64;
            reclaimed += counts.states.map_or(0, |states| states.evicted.0);
        }
        assert!(
            gone <= reclaimed,
            "{gone} of {found} pages are gone, {reclaimed} of them by reclaim: {report:?}"
        );
        return;
    }
}

fn pages_of(ranges: &[PageRange]) -> BTreeSet<u64> {
    let pages = ranges.iter().flat_map(|range| range.start..range.end);
    pages.collect()
}

fn pages_in(paths: &[PathBuf]) -> Vec<BTreeSet<u64>> {
    let ranges = paths.iter().map(|path| resident(path));
    ranges.map(|ranges| pages_of(&ranges)).collect()
}

#[test]
fn the_cache_is_left_as_it_was_found() {
    let files = files(&[6 * MIB, 4 * MIB, 2 * MIB]);
    is_left_as_found(&files.paths, || {
        load(&files.paths[0], MIB + 12_288, 2 * MIB + 4096);
        load(&files.paths[1], 0, 4 * MIB);
        let before = pages_in(&files.paths);
        let mut scanner = Scanner::new(&files.paths)
            .mode(Mode::Fixed)
            .keep(Keep::AsFound);
        (before, read(&mut scanner).1)
    });
}

#[test]
fn a_scan_that_is_broken_off_leaves_the_cache_as_it_was_found_too() {
    let files = files(&[8 * MIB]);
    is_left_as_found(&files.paths, || {
        load(&files.paths[0], 7 * MIB, MIB);
        let before = pages_in(&files.paths);
        let mut scanner = Scanner::new(&files.paths)
            .mode(Mode::Fixed)
            .keep(Keep::AsFound)
            .chunk(Bytes(MIB as u64));
        let mut scan = scanner.scan();
        let read: usize = (scan.by_ref().take(5))
            .map(|block| block.unwrap().bytes().len())
            .sum();
        assert_eq!(read, 5 * (256 << 10), "blocks of 256 KiB");
        let report = scan.finish();
        assert_eq!(report.read, Bytes(read as u64), "no more was handed out");
        (before, report)
    });
}

/// Bytes of files that are resident, or were until reclaim: the kernel remembers reclaimed pages, and not pages evicted
/// by advice.
fn resident_or_reclaimed(paths: &[PathBuf]) -> Bytes {
    let pages = paths.iter().map(|path| {
        let counts = told(path).0;
        counts.cached + counts.states.map_or(Pages::ZERO, |states| states.evicted)
    });
    pages.sum::<Pages>().bytes(page_size())
}

#[test]
fn keep_does_not_evict_file_that_lost_a_page_meanwhile() {
    let files = files(&[4 * MIB, 8 * MIB]);
    for mode in MODES {
        files.paths.iter().for_each(|path| evict(path));
        load(&files.paths[0], 0, 4 * MIB);
        let mut scanner = Scanner::new(&files.paths)
            .mode(mode)
            .keep(Keep::Keep)
            .chunk(Bytes(MIB as u64));
        let mut scan = scanner.scan();
        // After it was looked at, a page of each chunk goes.
        let page = page_size().get();
        let file = File::open(&files.paths[0]).unwrap();
        for chunk in 0..4 {
            let start = chunk * MIB as u64 + 9 * page;
            fadvise_dont_need_range(file.as_fd(), ByteRange { start, len: page }).unwrap();
        }
        scan.by_ref().for_each(|block| drop(block.unwrap()));
        let report = scan.finish();
        let planned = report.prediction;
        assert!(
            report.hits + Bytes(4 * page) <= planned.planned_hits,
            "{mode:?}: they came from the disk, though in advance: {report:?}"
        );
        // Where a reclaimer was quicker than the plan, chunks were planned as resident in part.
        let in_part = planned.resident.saturating_sub(planned.planned_hits);
        assert_eq!(
            resident_or_reclaimed(&files.paths),
            report.hits + in_part + planned.admitted,
            "{mode:?}: all but what was not there stays: {report:?}"
        );
    }
}

#[test]
fn without_room_for_two_steps_one_is_asked_for_at_a_time() {
    let files = files(&[6 * MIB]);
    let path = &files.paths[0];
    let file = File::open(path).unwrap();
    let step = |index: u64| ByteRange {
        start: index * MIB as u64,
        len: MIB as u64,
    };
    let asked_for = |index| query(&file, step(index)).unwrap().cached != Pages::ZERO;
    for is_crowded in [false, true] {
        evict(path);
        let mut scanner = Scanner::new([path])
            .mode(Mode::Fixed)
            .keep(Keep::AsFound)
            .chunk(Bytes(MIB as u64));
        for block in scanner.scan() {
            let offset = block.unwrap().offset();
            if offset == step(0).start {
                assert!(asked_for(1), "the next one, while this one is read");
                if is_crowded {
                    // Pages that are still being read from the disk would stay.
                    load(path, MIB, MIB);
                    fadvise_dont_need_range(file.as_fd(), step(1)).unwrap();
                }
            } else if offset == step(2).start {
                assert_eq!(
                    asked_for(3),
                    !is_crowded,
                    "not after one was thrown out before it was read"
                );
            }
        }
    }
}

#[test]
fn share_leaves_everything_resident() {
    let files = files(&[4 * MIB, 4 * MIB]);
    let all = Bytes(8 * MIB as u64);
    load(&files.paths[1], 0, 2 * MIB);
    let mut scanner = Scanner::new(&files.paths);
    let first = scanner.scan().plan().steps().next().expect("there is one");
    assert_eq!(
        (first.class, first.file),
        (RangeClass::Hit, 1),
        "what is resident comes first"
    );
    read(&mut scanner);
    assert_eq!(
        resident_or_reclaimed(&files.paths),
        all,
        "all that was read stays"
    );
    let pages: usize = pages_in(&files.paths).iter().map(BTreeSet::len).sum();
    if Pages(pages as u64).bytes(page_size()) != all {
        println!("skipped: a scan of what is all resident: a reclaimer took some of it");
        return;
    }
    let (_, report) = read(&mut scanner);
    assert_eq!(
        report.fell_back,
        Some(DeclineReason::AllResident),
        "{report:?}"
    );
    assert_eq!(report.device_read, Bytes::ZERO, "{report:?}");
}

#[test]
fn file_open_in_another_process_stays_in_the_cache() {
    let files = files(&[2 * MIB, 2 * MIB]);
    let mut other = Command::new("sleep")
        .arg("1000")
        .stdin(Stdio::from(File::open(&files.paths[0]).unwrap()))
        .spawn()
        .unwrap();
    read(&mut Scanner::new(&files.paths).keep(Keep::AsFound));
    let [open, closed] = [0, 1].map(|at| resident_or_reclaimed(&files.paths[at..=at]));
    other.kill().unwrap();
    other.wait().unwrap();
    assert_eq!(open, Bytes(2 * MIB as u64), "of the open file all stays");
    assert_eq!(closed, Bytes::ZERO, "of the other one nothing");
}

#[test]
fn a_device_that_another_process_has_open_is_recognised() {
    // Nothing need be attached to it.
    let path = Path::new("/dev/loop0");
    let Ok(file) = File::open(path) else {
        println!("skipped: a device that others have open: {path:?} cannot be opened");
        return;
    };
    let mut other = Command::new("sleep")
        .arg("1000")
        .stdin(Stdio::from(file))
        .spawn()
        .unwrap();
    let mut survey = survey([path], None);
    survey.mark_open_elsewhere();
    other.kill().unwrap();
    other.wait().unwrap();
    assert!(
        survey.snapshot.files[0].open_elsewhere,
        "by its own numbers, not by those of /dev"
    );
}

#[test]
fn page_written_during_the_scan_is_not_evicted() {
    let files = files(&[4 * MIB]);
    let path = &files.paths[0];
    let writer = OpenOptions::new().write(true).open(path).unwrap();
    let mut scanner = Scanner::new([path])
        .keep(Keep::AsFound)
        .chunk(Bytes(MIB as u64));
    let mut scan = scanner.scan();
    for block in &mut scan {
        let block = block.unwrap();
        if block.offset() == 0 {
            writer.write_all_at(b"new", 3 * MIB as u64).unwrap();
        }
    }
    let report = scan.finish();
    assert_eq!(report.changed, 1, "that is noticed");
    let written = (3 * MIB as u64) >> page_size().shift();
    assert!(
        told(path).1.contains(written),
        "the page that was written is there"
    );
}

#[test]
fn memory_is_taken_for_what_is_there_and_not_for_what_may_be() {
    let files = files(&[MIB, MIB / 2]);
    let mut scanner = Scanner::new(&files.paths)
        .mode(Mode::Fixed)
        .block(Bytes(1 << 30));
    let mut scan = scanner.scan();
    let lens: Vec<usize> = (&mut scan).map(|one| one.unwrap().bytes().len()).collect();
    assert_eq!(lens, [MIB, MIB / 2], "a block each");
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let most = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let most: u64 = most
        .unwrap()
        .trim()
        .trim_end_matches(" kB")
        .parse()
        .unwrap();
    assert!(most < 512 << 10, "{most} KiB were in use at most");
}

#[test]
fn files_that_change_are_read_as_they_are() {
    let files = files(&[2 * MIB, 2 * MIB, 2 * MIB, 2 * MIB]);
    let [changing, truncated, vanishing, growing] = [0, 1, 2, 3].map(|index| &files.paths[index]);
    let mut scanner = Scanner::new(&files.paths)
        .mode(Mode::Fixed)
        .keep(Keep::AsFound);
    let mut scan = scanner.scan();
    // All of this happens after the files were looked at, before any is read.
    let file = OpenOptions::new().write(true).open(truncated).unwrap();
    file.set_len(MIB as u64 + 1).unwrap();
    fs::remove_file(vanishing).unwrap();
    let other = files.dir.path().join("other");
    fs::write(&other, vec![7; 3 * MIB]).unwrap();
    fs::rename(other, changing).unwrap();
    let mut file = OpenOptions::new().append(true).open(growing).unwrap();
    file.write_all(b"and more").unwrap();

    let mut sizes: HashMap<PathBuf, u64> = HashMap::new();
    for block in &mut scan {
        let block = block.unwrap();
        *sizes.entry(block.path().to_owned()).or_default() += block.bytes().len() as u64;
    }
    let report = scan.finish();
    assert_eq!(sizes[changing], 3 * MIB as u64, "the new file, to its end");
    assert_eq!(sizes[truncated], MIB as u64 + 1, "what is left");
    assert_eq!(sizes.get(vanishing), None, "nothing");
    assert_eq!(sizes[growing], 2 * MIB as u64 + 8, "with what was appended");
    assert_eq!(report.changed, 3, "all that could be read");
    let skipped: Vec<_> = report.skipped.iter().map(ToString::to_string).collect();
    assert_eq!(skipped.len(), 1, "one is gone: {skipped:?}");
    assert!(
        skipped[0].contains("file 2") && skipped[0].contains("No such file"),
        "which and why: {skipped:?}"
    );
}

#[test]
fn path_that_is_not_a_file_is_skipped_and_named() {
    let files = files(&[MIB]);
    let missing = files.dir.path().join("missing");
    let paths = [
        files.dir.path(),
        &missing,
        &files.paths[0],
        Path::new("/dev/null"),
    ];
    let (found, report) = read(&mut Scanner::new(paths));
    assert!(
        whole(&found, &files.paths[0]) == files.content[0],
        "the rest is read"
    );
    assert_eq!(report.skipped.len(), 3, "{:?}", report.skipped);
}

#[test]
fn a_file_of_unknown_size_is_read_to_its_end() {
    let path = Path::new("/proc/self/status");
    let (found, report) = read(&mut Scanner::new([path]));
    assert!(
        whole(&found, path).starts_with(b"Name:"),
        "though it says that it is empty: {report:?}"
    );
}

#[test]
fn hard_links_are_read_once_or_each() {
    let files = files(&[MIB + 1]);
    let link = files.dir.path().join("link");
    fs::hard_link(&files.paths[0], &link).unwrap();
    let paths = [files.paths[0].clone(), link];
    let (_, report) = read(&mut Scanner::new(&paths));
    assert_eq!(report.read, Bytes(MIB as u64 + 1), "one file");
    let (_, report) = read(&mut Scanner::new(&paths).each_link());
    assert_eq!(report.read, Bytes(2 * MIB as u64 + 2), "two names");
}
