//! Measurements compared with known facts: resident pages, requested pages, memory limits.

#![expect(clippy::unwrap_used, reason = "where a call fails, the test does")]

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cachewise_bench::{
    Access, Advice, Bloat, Engine, Error, Event, Fill, HitSource, Summary, Workload, evict_all,
    make, run,
};
use cachewise_units::{ByteRange, Bytes};
use libtest_mimic::{Arguments, Trial};

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // Counters belong to the process: run one test at a time.
    arguments.test_threads = Some(1);
    let tests: [(&str, fn()); 14] = [
        ("engines::hits_and_misses_match_cachestat", half_resident),
        (
            "engines::faults_without_latencies_are_not_counted_as_misses",
            faults_without_times,
        ),
        ("engines::all_read_the_requested_bytes", all_engines),
        ("engines::threads_share_the_bytes", threads),
        ("engines::a_truncated_file_is_an_error", truncated),
        ("engines::write_refuses_an_existing_file", writing),
        ("seeds::same_seed_requests_same_offsets", seeds),
        ("fill::each_way_leaves_its_documented_state", fills),
        ("files::made_file_is_removed", made_and_gone),
        ("files::invalid_files_are_refused", bad_files),
        ("time::warm_up_is_not_counted", warm_up),
        ("time::cancelled_run_is_summed_up", cancelled),
        ("memory::small_group_misses_and_is_removed", small_group),
        ("memory::run_survives_the_kill_of_its_bloat", bloat_killed),
    ];
    let trials = tests.map(|(name, test)| {
        Trial::test(name, move || {
            test();
            Ok(())
        })
    });
    libtest_mimic::run(&arguments, trials.into()).exit_code()
}

const MIB: u64 = 1 << 20;

/// A directory on a disk: in memory there are no misses.
fn directory() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn file(directory: &tempfile::TempDir, size: u64) -> PathBuf {
    let path = directory.path().join("file");
    let made = make(&path, Bytes(size), 0, &mut |_| {}, &AtomicBool::new(false));
    made.unwrap().keep();
    path
}

fn measured(workload: &Workload) -> Summary {
    run(workload, &mut |_| {}, &AtomicBool::new(false)).unwrap()
}

fn failed(workload: &Workload) -> Error {
    run(workload, &mut |_| {}, &AtomicBool::new(false)).unwrap_err()
}

/// One pass over a file, page by page, without readahead.
fn pass(path: &Path, size: u64, engine: Engine) -> Workload {
    Workload {
        file: path.to_owned(),
        engine,
        chunk: Bytes(cachewise_sys::page_size().get()),
        access: Access::Sequential,
        bytes: Some(Bytes(size)),
        advice: Advice::Random,
        ..Workload::default()
    }
}

/// The kernel's records of reclaimed pages: some hosts reclaim idle pages all the time.
struct Reclaimed {
    /// Recently evicted pages of the file.
    away: u64,
    /// Refaulted file pages of the whole machine since boot.
    back: u64,
}

impl Reclaimed {
    fn of(path: &Path) -> Self {
        // Reading it adds up the per-CPU counters; needs root.
        let _ = fs::read("/proc/sys/vm/stat_refresh");
        let vmstat = cachewise_kstat::Kernel::new().vmstat().unwrap();
        Reclaimed {
            away: cachewise_sys::resident(path).unwrap().evicted.0,
            back: vmstat.workingset_refault_file.unwrap().0,
        }
    }

    /// The maximum number of the file's pages reclaimed since.
    fn since(path: &Path, before: &Self) -> u64 {
        let now = Self::of(path);
        (now.away + now.back).saturating_sub(before.away + before.back)
    }
}

fn half_resident() {
    const SIZE: u64 = 8 * MIB;
    let directory = directory();
    let path = file(&directory, SIZE);
    let pages = SIZE / cachewise_sys::page_size().get();
    for engine in [
        Engine::Nowait,
        Engine::IoUring,
        Engine::MmapCopy,
        Engine::MmapTouch,
        Engine::Pread,
    ] {
        evict_all(&path).unwrap();
        // The first half, with reads that insert no other pages.
        let half = pass(&path, SIZE / 2, Engine::Pread);
        measured(&half);
        let before = Reclaimed::of(&path);
        let found = cachewise_sys::resident(&path).unwrap();
        assert_eq!(
            found.cached.0 + found.evicted.0,
            pages / 2,
            "{engine}: half of the file is resident, except for reclaimed pages"
        );
        let summary = measured(&pass(&path, SIZE, engine));
        let taken = Reclaimed::since(&path, &before);
        let figures = &summary.figures;
        let there = summary.resident_before_pages.unwrap();
        assert!(
            (found.cached.0.saturating_sub(taken)..=found.cached.0).contains(&there),
            "{engine}: {there} pages, as cachestat reports: {found:?}, {taken} reclaimed since"
        );
        assert_eq!(figures.operations, pages, "{engine}: each page once");
        let (hits, misses) = (
            figures.hit_operations.unwrap(),
            figures.miss_operations.unwrap(),
        );
        assert_eq!(hits + misses, pages, "{engine}: each is one or the other");
        let is_exact = matches!(engine, Engine::Nowait | Engine::IoUring);
        assert_eq!(figures.hit_source == HitSource::Exact, is_exact, "{engine}");
        // The other engines misjudge a few operations.
        let slack = if is_exact { 0 } else { pages / 50 };
        assert!(
            misses.abs_diff(pages - there) <= slack + taken,
            "{engine}: {misses} misses for {} missing pages, {taken} reclaimed since",
            pages - there
        );
        let after = summary.resident_after_pages.unwrap();
        assert!(
            (pages.saturating_sub(taken)..=pages).contains(&after),
            "{engine}: now all are: {after} of {pages}, {taken} reclaimed"
        );
        let read = figures.device_read_bytes.unwrap();
        assert!(
            read >= SIZE / 2,
            "{engine}: devices read the missed pages: {read}"
        );
        let latency = figures.latency.unwrap();
        let (hit, miss) = (latency.hits.unwrap(), latency.misses.unwrap());
        assert!(
            hit.p50 < miss.p50,
            "{engine}: misses take longer: {hit:?} {miss:?}"
        );
    }
}

/// Without latencies only the faults of a whole portion are known: several faults of one operation
/// cannot be separated.
fn faults_without_times() {
    const SIZE: u64 = 4 * MIB;
    let directory = directory();
    let path = file(&directory, SIZE);
    let page = cachewise_sys::page_size().get();
    for (chunk, is_told) in [(page, true), (4 * page, false)] {
        evict_all(&path).unwrap();
        let workload = Workload {
            chunk: Bytes(chunk),
            no_latency: true,
            ..pass(&path, SIZE, Engine::MmapTouch)
        };
        let figures = measured(&workload).figures;
        assert!(
            figures.major_faults >= SIZE / page / 2,
            "pages are read one by one: {figures:?}"
        );
        let misses = figures.miss_operations;
        assert_eq!(misses.is_some(), is_told, "by {chunk}: {figures:?}");
        if let Some(misses) = misses {
            assert!(misses >= figures.operations / 2, "{figures:?}");
        }
    }
}

fn all_engines() {
    const SIZE: u64 = 4 * MIB;
    const CHUNK: u64 = 16 << 10;
    let directory = directory();
    let path = file(&directory, SIZE);
    for engine in Engine::ALL {
        for (aligned, latency) in [(true, true), (true, false), (false, true)] {
            if *engine == Engine::Direct && !aligned {
                continue;
            }
            let workload = Workload {
                file: path.clone(),
                engine: *engine,
                chunk: Bytes(CHUNK),
                bytes: Some(Bytes(2 * SIZE)),
                unaligned: !aligned,
                no_latency: !latency,
                overwrite: true,
                depth: if *engine == Engine::IoUring { 4 } else { 1 },
                ..Workload::default()
            };
            let figures = measured(&workload).figures;
            let over = figures.useful_bytes - 2 * SIZE;
            assert!(over < CHUNK, "{engine}: less than a chunk too much: {over}");
            if aligned {
                assert_eq!(
                    figures.operations,
                    2 * SIZE / CHUNK,
                    "{engine}: whole chunks"
                );
            }
            assert_eq!(
                figures.latency.is_some(),
                latency,
                "{engine}: latencies if requested"
            );
            assert!(figures.seconds > 0.0, "{engine}: it took time");
        }
    }
    assert_eq!(
        fs::metadata(&path).unwrap().len(),
        SIZE,
        "no engine changes the size"
    );
}

fn threads() {
    const SIZE: u64 = 4 * MIB;
    let directory = directory();
    let workload = Workload {
        threads: 4,
        ..pass(&file(&directory, SIZE), SIZE, Engine::Pread)
    };
    let summary = measured(&workload);
    let over = summary.figures.useful_bytes - SIZE;
    assert!(
        over < 4 * workload.chunk.0,
        "at most a chunk for each thread: {over}"
    );
    let latency = summary.figures.latency.unwrap().all.unwrap();
    let is_sorted = latency.p50 <= latency.p99 && latency.p99 <= latency.max;
    assert!(is_sorted, "in order: {latency:?}");
}

fn truncated() {
    const SIZE: u64 = 4 * MIB;
    for engine in [
        Engine::Pread,
        Engine::Nowait,
        Engine::MmapCopy,
        Engine::MmapTouch,
        Engine::IoUring,
    ] {
        let directory = directory();
        let path = file(&directory, SIZE);
        let workload = Workload {
            bytes: None,
            seconds: Some(Duration::from_secs(60)),
            interval: Duration::from_millis(10),
            ..pass(&path, SIZE, engine)
        };
        let mut cut = |event: &Event<'_>| {
            if matches!(event, Event::Interval { .. }) {
                let file = File::options().write(true).open(&path).unwrap();
                file.set_len(0).unwrap();
            }
        };
        let error = run(&workload, &mut cut, &AtomicBool::new(false)).unwrap_err();
        assert!(
            matches!(error, Error::Truncated { .. }) && error.to_string().contains("shorter"),
            "{engine}: an error, and no signal: {error}"
        );
    }
}

fn writing() {
    let directory = directory();
    let path = file(&directory, MIB);
    let before = fs::read(&path).unwrap();
    let workload = Workload {
        file: path.clone(),
        engine: Engine::Write,
        bytes: Some(Bytes(MIB)),
        ..Workload::default()
    };
    let error = failed(&workload).to_string();
    assert!(
        error.contains("is there already: use a size and a new name, or set --overwrite"),
        "the error names the overwriting: {error}"
    );
    assert!(fs::read(&path).unwrap() == before, "and not done");
    measured(&Workload {
        overwrite: true,
        ..workload
    });
    assert!(fs::read(&path).unwrap() != before, "overwrite allows it");
}

fn seeds() {
    const SIZE: u64 = 16 * MIB;
    let directory = directory();
    let path = file(&directory, SIZE);
    // A seed determines the inserted pages, which are those requested.
    let brought = |seed| {
        evict_all(&path).unwrap();
        let workload = Workload {
            access: Access::Uniform,
            seed,
            ..pass(&path, MIB, Engine::Nowait)
        };
        let summary = measured(&workload);
        assert_eq!(summary.workload.seed, seed, "the seed is recorded");
        let file = File::open(&path).unwrap();
        let map = cachewise_residency::map(file.as_fd(), ByteRange::starting_at(0));
        let ranges = map.unwrap().ranges.into_iter();
        let pages: BTreeSet<u64> = ranges.flat_map(|range| range.start..range.end).collect();
        // Pages reclaimed before the check are missed below.
        (pages, cachewise_sys::resident(&path).unwrap().evicted.0)
    };
    let ((first, away), (again, away_again), (other, _)) = (brought(7), brought(7), brought(8));
    let apart = |a: &BTreeSet<u64>, b: &BTreeSet<u64>| a.symmetric_difference(b).count() as u64;
    let taken = away + away_again;
    let least = first.len().min(again.len());
    assert!(least > 200, "of 256 some are the same: {least}");
    assert!(
        apart(&first, &again) <= taken,
        "the same offsets, except for {taken} reclaimed pages"
    );
    assert!(apart(&first, &other) > 200, "another seed, other offsets");
}

fn fills() {
    const SIZE: u64 = 4 * MIB;
    let directory = directory();
    let path = file(&directory, SIZE);
    let pages = SIZE / cachewise_sys::page_size().get();
    for (fill, expected) in [
        (Fill::Cold, 0),
        (Fill::Sequential, pages),
        (Fill::Cold, 0),
        (Fill::Random, pages),
        (Fill::Preread, pages),
        (Fill::Cold, 0),
        (Fill::Write, pages),
        (Fill::AsFound, pages),
    ] {
        let workload = Workload {
            fill,
            overwrite: true,
            ..pass(&path, SIZE, Engine::Nowait)
        };
        let before = Reclaimed::of(&path);
        let summary = measured(&workload);
        let taken = Reclaimed::since(&path, &before);
        let there = summary.resident_before_pages.unwrap();
        assert!(
            (expected.saturating_sub(taken)..=expected).contains(&there),
            "{fill}: {there} pages, {taken} reclaimed"
        );
        let misses = summary.figures.miss_operations.unwrap();
        assert!(
            misses.abs_diff(pages - there) <= taken,
            "{fill}: the rest is missed: {misses}, {taken} reclaimed"
        );
    }
}

fn made_and_gone() {
    let directory = directory();
    let path = directory.path().join("made");
    let never = AtomicBool::new(false);
    let workload = Workload {
        size: Some(Bytes(MIB)),
        ..pass(&path, MIB, Engine::Write)
    };
    let summary = measured(&workload);
    assert_eq!(summary.file_size_bytes, MIB, "it was there");
    assert!(!path.exists(), "it is removed");
    let vast = Workload {
        size: Some(Bytes(1 << 60)),
        ..workload.clone()
    };
    let error = failed(&vast).to_string();
    assert!(
        error.contains("free"),
        "missing room is reported in advance: {error}"
    );
    assert!(!path.exists(), "and nothing is left");
    let error = run(&workload, &mut |_| {}, &AtomicBool::new(true)).unwrap_err();
    assert!(
        matches!(error, Error::Interrupted),
        "before anything: {error}"
    );
    assert!(!path.exists(), "nothing is left of that either");
    // The zeros at the end of each page are the compressible part.
    let made = make(&path, Bytes(MIB), 50, &mut |_| {}, &never).unwrap();
    let bytes = fs::read(made.path()).unwrap();
    let zeros = bytes.iter().filter(|byte| **byte == 0).count() as u64;
    assert!(zeros.abs_diff(MIB / 2) < MIB / 100, "half of it: {zeros}");
    let again = make(&path, Bytes(MIB), 0, &mut |_| {}, &never).unwrap_err();
    assert!(
        again.to_string().contains("exists"),
        "nothing is written over: {again}"
    );
}

fn bad_files() {
    let directory = directory();
    let path = file(&directory, MIB);
    let usual = pass(&path, MIB, Engine::Pread);
    let with = |file: PathBuf| Workload {
        file,
        ..usual.clone()
    };
    let empty = directory.path().join("empty");
    File::create(&empty).unwrap();
    let fifo = directory.path().join("fifo");
    let mode = rustix::fs::Mode::RUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    for (workload, why) in [
        (with(directory.path().join("none")), "No such file"),
        (
            with(directory.path().to_owned()),
            "only files and block devices have pages",
        ),
        (with(fifo), "only files and block devices have pages"),
        (with(empty), "nothing to read"),
        (
            Workload {
                chunk: Bytes(2 * MIB),
                ..usual.clone()
            },
            "less than one chunk",
        ),
        (
            Workload {
                size: Some(Bytes(5 * MIB)),
                ..usual.clone()
            },
            "there already, with 1.0 MiB",
        ),
        (
            Workload {
                fill: Fill::Write,
                ..usual.clone()
            },
            "is there already: use a size and a new name, or set --overwrite",
        ),
        (
            Workload {
                engine: Engine::Direct,
                chunk: Bytes(1000),
                ..usual.clone()
            },
            "direct I/O",
        ),
    ] {
        let error = failed(&workload).to_string();
        assert!(error.contains(why), "{why}: {error}");
    }
    assert_eq!(
        fs::read_dir(directory.path()).unwrap().count(),
        3,
        "nothing was made"
    );
    if let Ok(directory) = tempfile::tempdir_in("/dev/shm") {
        let workload = Workload {
            fill: Fill::Cold,
            ..pass(&file(&directory, MIB), MIB, Engine::Pread)
        };
        let error = failed(&workload).to_string();
        assert!(
            error.contains("only copy"),
            "memory's files cannot be evicted: {error}"
        );
    }
}

fn warm_up() {
    const SIZE: u64 = 4 * MIB;
    let directory = directory();
    let workload = Workload {
        fill: Fill::Cold,
        warm_up: Duration::from_millis(500),
        ..pass(&file(&directory, SIZE), SIZE, Engine::Nowait)
    };
    let mut intervals = 0;
    let mut count = |event: &Event<'_>| {
        intervals += u64::from(matches!(event, Event::Interval { .. }));
    };
    let summary = run(&workload, &mut count, &AtomicBool::new(false)).unwrap();
    assert!(intervals >= 1, "an interval at the least");
    let figures = summary.figures;
    assert_eq!(
        figures.useful_bytes, SIZE,
        "the requested amount, after the warm-up"
    );
    assert_eq!(summary.resident_before_pages, Some(0), "it began cold");
    assert!(
        figures.hit_operations > Some(0),
        "and the cache was warm: {figures:?}"
    );
}

fn cancelled() {
    let directory = directory();
    let cancel = AtomicBool::new(false);
    let workload = Workload {
        bytes: None,
        seconds: Some(Duration::from_secs(600)),
        interval: Duration::from_millis(20),
        ..pass(&file(&directory, MIB), MIB, Engine::Pread)
    };
    let mut end = |event: &Event<'_>| {
        if matches!(event, Event::Interval { .. }) {
            cancel.store(true, Ordering::Relaxed);
        }
    };
    let summary = run(&workload, &mut end, &cancel).unwrap();
    assert!(summary.interrupted, "the summary says so");
    assert!(
        summary.figures.useful_bytes > 0,
        "the bytes so far are summed up"
    );
    let again = serde_json::to_string(&summary).unwrap();
    let again: Summary = serde_json::from_str(&again).unwrap();
    assert_eq!(
        again.figures.operations, summary.figures.operations,
        "a summary can be kept"
    );
}

/// Our control groups.
fn groups() -> Vec<PathBuf> {
    let hierarchy = cachewise_kstat::Kernel::new().cgroup_hierarchy().unwrap();
    let Some(mount) = hierarchy.mount() else {
        return Vec::new();
    };
    let ours = format!("cachewise-bench-{}-", std::process::id());
    let all = fs::read_dir(mount).unwrap().flatten();
    all.map(|entry| entry.path())
        .filter(|path| path.to_string_lossy().contains(&ours))
        .collect()
}

fn limited(workload: &Workload) -> Option<Summary> {
    match run(workload, &mut |_| {}, &AtomicBool::new(false)) {
        Ok(summary) => Some(summary),
        Err(Error::Control(error)) => {
            println!("skipped: measuring in a control group: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn small_group() {
    const SIZE: u64 = 128 * MIB;
    let directory = directory();
    let workload = Workload {
        file: file(&directory, SIZE),
        engine: Engine::Nowait,
        bytes: Some(Bytes(2 * SIZE)),
        fill: Fill::Cold,
        memory_max: Some(Bytes(64 * MIB)),
        ..Workload::default()
    };
    let before = fs::read_to_string("/proc/self/cgroup").unwrap();
    let Some(summary) = limited(&workload) else {
        return;
    };
    let figures = &summary.figures;
    assert!(figures.is_of_group, "counters are the group's");
    assert!(
        figures.miss_operations > Some(0),
        "half of it does not fit: {figures:?}"
    );
    assert!(
        figures.file_refault_pages > Some(0),
        "evicted pages are refaulted: {figures:?}"
    );
    assert!(
        figures.memory_used_bytes <= Some(64 * MIB),
        "the limit holds: {figures:?}"
    );
    assert!(summary.cgroup.is_some(), "where it ran is recorded");
    assert_eq!(
        summary.warnings,
        Vec::<String>::new(),
        "there is no warning"
    );
    assert_eq!(groups(), Vec::<PathBuf>::new(), "the group is gone");
    let after = fs::read_to_string("/proc/self/cgroup").unwrap();
    assert_eq!(after, before, "and we are back where we were");

    // The same with the file in the cache of another group: read at the speed of memory, whatever
    // the limit.
    fs::read(&workload.file).unwrap();
    let found = Workload {
        fill: Fill::AsFound,
        ..workload
    };
    let summary = measured(&found);
    let said = summary.warnings.join("\n");
    assert!(
        said.contains("charged to another"),
        "the owner of the pages is named: {said}"
    );
}

fn bloat_killed() {
    let directory = directory();
    let workload = Workload {
        file: file(&directory, 16 * MIB),
        bytes: Some(Bytes(32 * MIB)),
        fill: Fill::Cold,
        memory_max: Some(Bytes(64 * MIB)),
        swap_max: Some(Bytes::ZERO),
        bloat: Some(Bloat::of_size(Bytes(256 * MIB))),
        ..Workload::default()
    };
    let Some(summary) = limited(&workload) else {
        return;
    };
    let end = summary.bloat.clone().unwrap();
    let signal = end.killed.map(|(signal, _)| signal);
    assert_eq!(signal, Some(9), "the kernel killed it: {end:?}");
    assert!(end.bytes < 64 * MIB, "at the limit: {end:?}");
    assert!(
        summary.figures.useful_bytes >= 32 * MIB,
        "and the measurement went on"
    );
    let said = summary.warnings.join("\n");
    assert!(said.contains("was killed"), "it is reported: {said}");
    assert_eq!(groups(), Vec::<PathBuf>::new(), "the group is gone");
}
