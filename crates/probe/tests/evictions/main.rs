//! Evictions by cause and culprit: real programs evict pages of files whose residency the kernel reports by itself.
//!
//! Each test watches its own files on the whole system. Needs root; without it each test prints why it does nothing.

#![expect(clippy::unwrap_used, reason = "where a call fails, the test does")]

mod damon;
#[path = "../kit/mod.rs"]
mod kit;

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use cachewise_model::{Counter, EvictionCause};
use cachewise_probe::options::WantedFile;
use cachewise_probe::{
    Detail, Device, ErrorKind, Eviction, FileId, Options, Probe, Scope, Snapshot,
};
use kit::files::{Files, evict, resident};
use kit::group::Group;
use kit::{image, needs, oracle, problem, random};

/// A probe on these files, or none where the test cannot run.
fn watch(name: &str, files: &[&Path], change: impl FnOnce(&mut Options)) -> Option<Probe> {
    if let Some(reason) = needs::missing() {
        println!("skipped: {name}: {reason}");
        return None;
    }
    if !image::has_cachestat() {
        println!("skipped: {name}: needs cachestat(2), Linux 6.5 or later");
        return None;
    }
    let mut options = Options::new(Scope::System, Detail::Rows);
    options.files = files
        .iter()
        .map(|path| {
            let found = fs::metadata(path).unwrap();
            let device = Device::from_stat(found.dev());
            WantedFile {
                major: device.major,
                minor: device.minor,
                inode: found.ino(),
            }
        })
        .collect();
    change(&mut options);
    match Probe::attach(&options) {
        Ok(probe) => Some(probe),
        Err(error) if matches!(error.kind(), ErrorKind::Denied | ErrorKind::Unsupported) => {
            println!("skipped: {name}: {error}");
            None
        }
        Err(error) => panic!("{name}: {error}"),
    }
}

/// Runs a command to its end, and returns its process id.
fn run(command: &mut Command) -> u32 {
    let mut child = command.stderr(Stdio::null()).spawn().unwrap();
    let ended = child.wait().unwrap();
    assert!(ended.success(), "{command:?}: {ended}");
    child.id()
}

fn shell(script: &str, arguments: &[&Path]) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh"]).args(arguments);
    command
}

fn pages<'a>(evictions: impl IntoIterator<Item = &'a Eviction>) -> u64 {
    evictions.into_iter().map(|eviction| eviction.pages.0).sum()
}

/// Checks that each file's evictions add up to the evicted pages of its rows, and returns the sum of all.
fn adds_up(snapshot: &Snapshot) -> u64 {
    let mut of_file: HashMap<Option<FileId>, u64> = HashMap::new();
    for eviction in &snapshot.evictions {
        *of_file.entry(eviction.file).or_default() += eviction.pages.0;
    }
    let mut rows: HashMap<Option<FileId>, u64> = HashMap::new();
    for row in &snapshot.rows {
        let evicted =
            row.ledger[Counter::EvictedReclaimPages] + row.ledger[Counter::EvictedOtherPages];
        if evicted > 0 {
            *rows.entry(row.file).or_default() += evicted;
        }
    }
    assert_eq!(
        of_file, rows,
        "evictions by culprit and cause add up to the rows"
    );
    of_file.values().sum()
}

#[test]
fn calls_that_evict_are_booked_with_their_process_and_cause() {
    const NAME: &str = "calls_that_evict";
    const BYTES: usize = 1 << 20;
    let cases = [
        (
            "truncate",
            EvictionCause::Truncation,
            "exec truncate -s 0 \"$1\"",
        ),
        ("sh", EvictionCause::Truncation, ": >\"$1\"; :"),
        (
            "fallocate",
            EvictionCause::Truncation,
            "exec fallocate -p -o 0 -l 1048576 \"$1\"",
        ),
        (
            "dd",
            EvictionCause::Advice,
            "exec dd if=\"$1\" iflag=nocache count=0",
        ),
        (
            "dd",
            EvictionCause::Invalidation,
            "exec dd if=/dev/zero of=\"$1\" bs=1M count=1 oflag=direct conv=notrunc",
        ),
        ("rm", EvictionCause::Unlink, "exec rm \"$1\""),
    ];
    let files = Files::new();
    for (command, cause, script) in cases {
        let path = files.cold(&format!("{command}-{}", cause.id()), BYTES);
        let Some(mut probe) = watch(NAME, &[&path], |_| {}) else {
            return;
        };
        fs::read(&path).unwrap();
        let before = resident(&path);
        assert!(before > 0, "{script}: it is in the cache");
        let pid = run(&mut shell(script, &[&path]));
        let snapshot = probe.snapshot().unwrap();
        assert_eq!(
            adds_up(&snapshot),
            before,
            "{script}: every page is evicted"
        );
        let by_command = |eviction: &&Eviction| {
            let culprit = eviction.culprit.and_then(|id| snapshot.culprits.get(&id));
            eviction.cause == cause
                && culprit.is_some_and(|culprit| culprit.pid == pid && culprit.command == command)
        };
        assert_eq!(
            pages(snapshot.evictions.iter().filter(by_command)),
            before,
            "{script}: {:?} {:?}",
            snapshot.evictions,
            snapshot.culprits
        );
    }
}

#[test]
fn drop_caches_is_booked_on_the_process_that_wrote_to_it() {
    const NAME: &str = "drop_caches";
    const ALLOWED: &str = "CACHEWISE_TEST_DROP";
    if std::env::var_os(ALLOWED).is_none() {
        return println!("skipped: {NAME}: it disturbs the machine; {ALLOWED}=1 allows it");
    }
    let files = Files::new();
    let path = files.cold("file", 1 << 20);
    let Some(mut probe) = watch(NAME, &[&path], |_| {}) else {
        return;
    };
    fs::read(&path).unwrap();
    let before = resident(&path);
    let pid = run(&mut shell("echo 1 >/proc/sys/vm/drop_caches", &[]));
    let snapshot = probe.snapshot().unwrap();
    assert_eq!(adds_up(&snapshot), before - resident(&path));
    let by_shell = |eviction: &&Eviction| {
        let culprit = eviction.culprit.and_then(|id| snapshot.culprits.get(&id));
        eviction.cause == EvictionCause::DropCaches
            && culprit.is_some_and(|culprit| culprit.pid == pid)
    };
    assert_eq!(
        pages(snapshot.evictions.iter().filter(by_shell)),
        before,
        "{snapshot:?}"
    );
}

#[test]
fn reclaim_in_a_group_is_booked_on_the_process_that_needs_memory() {
    const NAME: &str = "reclaim_in_a_group";
    let files = Files::new();
    let index = files.cold("index", 12 << 20);
    let archive = files.cold("archive", 96 << 20);
    let group = match Group::new().unwrap() {
        Ok(group) => group,
        Err(reason) => return println!("skipped: {NAME}: {reason}"),
    };
    let Some(mut probe) = watch(NAME, &[&index, &archive], |options| {
        options.cgroup_v1 = group.is_v1();
    }) else {
        return;
    };
    group.limit(32 << 20).unwrap();
    let join = "echo $$ >\"$1/cgroup.procs\" && ";
    let read = format!("{join} exec cat \"$2\" >/dev/null");
    run(&mut shell(&read, &[group.path(), &index]));
    let before = resident(&index);
    assert_eq!(
        before,
        (12 << 20) / cachewise_sys::page_size().get(),
        "it fits into the group"
    );
    let archive_it = format!("{join} tar cPf - \"$2\" | cat >/dev/null");
    run(&mut shell(&archive_it, &[group.path(), &archive]));
    let left = resident(&index);
    let snapshot = probe.snapshot().unwrap();
    adds_up(&snapshot);
    let inode = fs::metadata(&index).unwrap().ino();
    let of_index = |eviction: &&Eviction| eviction.file.is_some_and(|file| file.inode == inode);
    let lost: Vec<&Eviction> = snapshot.evictions.iter().filter(of_index).collect();
    let shown = format!("{lost:?} {:?}", snapshot.culprits);
    assert_eq!(pages(lost.iter().copied()), before - left, "{shown}");
    let id = group.id().unwrap();
    assert!(
        lost.iter().all(|eviction| eviction.charged == Some(id)),
        "group {id}: {shown}"
    );
    let mut by_tar = 0;
    for eviction in lost {
        match eviction.culprit {
            // Proactive reclaim and kswapd look for cold pages at any time.
            None => assert_ne!(eviction.cause, EvictionCause::GroupLimit, "{shown}"),
            Some(process) => {
                assert_eq!(eviction.cause, EvictionCause::GroupLimit, "{shown}");
                assert_eq!(snapshot.culprits[&process].command, "tar", "{shown}");
                assert_eq!(eviction.culprit_cgroup, id, "{shown}");
                by_tar += eviction.pages.0;
            }
        }
    }
    assert!(
        by_tar > 0,
        "tar reads three times the group's limit: {shown}"
    );

    // The rest goes on request, by this process.
    let (control, request) = match group.is_v1() {
        true => ("memory.force_empty", "0"),
        false => ("memory.reclaim", "64M"),
    };
    // memory.reclaim fails where less than that was there.
    let _ = fs::write(group.path().join(control), request);
    let gone = left - resident(&index);
    let after = probe.snapshot().unwrap();
    adds_up(&after);
    let on_request = |eviction: &&Eviction| {
        of_index(eviction)
            && eviction.cause == EvictionCause::ProactiveReclaim
            && eviction
                .culprit
                .and_then(|id| after.culprits.get(&id))
                .is_some_and(|culprit| culprit.pid == std::process::id())
    };
    assert_eq!(
        pages(after.evictions.iter().filter(on_request)),
        gone,
        "{:?}",
        after.evictions
    );
}

#[test]
fn pages_that_damon_reclaims_are_booked_on_damon_and_no_process() {
    const NAME: &str = "pages_that_damon_reclaims";
    let files = Files::new();
    let index = files.cold("index", 12 << 20);
    let group = match Group::new().unwrap() {
        Ok(group) => group,
        Err(reason) => return println!("skipped: {NAME}: {reason}"),
    };
    let Some(mut probe) = watch(NAME, &[&index], |options| {
        options.cgroup_v1 = group.is_v1();
    }) else {
        return;
    };
    let read = "echo $$ >\"$1/cgroup.procs\" && exec cat \"$2\" >/dev/null";
    run(&mut shell(read, &[group.path(), &index]));
    let before = resident(&index);
    let monitor = match damon::Monitor::start(group.path()).unwrap() {
        Ok(monitor) => monitor,
        Err(reason) => return println!("skipped: {NAME}: {reason}"),
    };
    let patience = std::time::Duration::from_secs(30);
    let begun = std::time::Instant::now();
    while resident(&index) == before && begun.elapsed() < patience {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    drop(monitor);
    let gone = before - resident(&index);
    let snapshot = probe.snapshot().unwrap();
    adds_up(&snapshot);
    let by_damon = |eviction: &&Eviction| eviction.cause == EvictionCause::Damon;
    let shown = &snapshot.evictions;
    assert!(gone > 0, "DAMON reclaims within half a minute: {shown:?}");
    assert_eq!(pages(shown.iter().filter(by_damon)), gone, "{shown:?}");
    assert!(
        shown.iter().all(|eviction| eviction.culprit.is_none()),
        "its thread is the kernel's: {shown:?}"
    );
}

#[test]
fn evictions_of_each_interval_add_up_to_its_rows() {
    const NAME: &str = "evictions_of_each_interval";
    const ROUNDS: usize = 300;
    let files = Files::new();
    let path = files.cold("file", 256 << 10);
    let Some(mut probe) = watch(NAME, &[&path], |options| options.intervals = true) else {
        return;
    };
    fs::read(&path).unwrap();
    let done = AtomicBool::new(false);
    let (mut counted, mut intervals) = (0, 0);
    let evicted = std::thread::scope(|scope| {
        let evictor = scope.spawn(|| {
            let mut evicted = 0;
            for _ in 0..ROUNDS {
                fs::read(&path).unwrap();
                let before = resident(&path);
                evict(&fs::File::open(&path).unwrap());
                evicted += before - resident(&path);
            }
            done.store(true, Ordering::Release);
            evicted
        });
        while !done.load(Ordering::Acquire) {
            counted += adds_up(&probe.snapshot().unwrap());
            intervals += 1;
        }
        evictor.join().unwrap()
    });
    let last = probe.snapshot().unwrap();
    counted += adds_up(&last);
    assert_eq!(
        counted, evicted,
        "{intervals} intervals have every page that left the cache"
    );
    assert_eq!(adds_up(&probe.snapshot().unwrap()), 0, "and no page twice");
    assert!(last.lost.rows == 0, "the table has room: {:?}", last.lost);
}

#[test]
fn full_table_keeps_sums_and_reports_the_loss() {
    const NAME: &str = "full_table";
    const PROCESSES: usize = 12;
    let files = Files::new();
    let path = files.cold("file", 64 << 10);
    // Rows: the one for all others, this process, and evictions of the file.
    let Some(mut probe) = watch(NAME, &[&path], |options| options.max_rows = 4) else {
        return;
    };
    let mut evicted = 0;
    for _ in 0..PROCESSES {
        fs::read(&path).unwrap();
        evicted += resident(&path);
        run(&mut shell(
            "exec dd if=\"$1\" iflag=nocache count=0",
            &[&path],
        ));
    }
    let snapshot = probe.snapshot().unwrap();
    assert_eq!(
        pages(&snapshot.evictions),
        evicted,
        "{:?}",
        snapshot.evictions
    );
    let unnamed = snapshot
        .evictions
        .iter()
        .filter(|eviction| eviction.file.is_none());
    assert!(
        pages(unnamed) > 0,
        "{PROCESSES} processes do not fit into 4 entries"
    );
    assert!(
        snapshot.lost.rows > 0,
        "the loss is reported: {:?}",
        snapshot.lost
    );
}
