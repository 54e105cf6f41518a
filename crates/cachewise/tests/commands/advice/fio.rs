//! fio, with jobs that have a known fault.

use std::path::Path;

use super::cold::cold;
use super::fault::{Amount, Fault, GROUP, Subject};
use super::healthy::stays_healthy;
use super::kit::*;
use super::mapping::{disk, faults_read_ahead, storm};
use super::memory::with_room;
use crate::support::*;

/// The report of a job on the file, in this group if there is one. It does not evict the file first, unless it is asked to.
fn job(group: Option<&Group>, file: &Path, options: &str) -> Report {
    let script = format!(
        "fio --name=job --thread --invalidate=0 --ioengine=psync --rw=read {options} --filename=\"$1\""
    );
    let report = match group {
        Some(group) => report_of_shell_in(group, &script, &[file]),
        None => report_of_shell(&script, &[file]),
    };
    assert!(report.ended.status.success(), "{}", report.ended.err());
    report
}

/// A file on the disk, if there is fio.
fn file(scratch: &Scratch, mib: u64, test: &str) -> Option<std::path::PathBuf> {
    has(&["fio"], &format!("advice::fio::{test}")).then(|| scratch.file("file", mib * MIB))
}

pub fn random_reads() {
    let scratch = Scratch::new();
    let Some(file) = file(&scratch, 16, "random_reads") else {
        return;
    };
    let run = || job(None, &file, "--rw=randread --bs=4k");
    evict(&file);
    let fault = Fault {
        scenario: "fio reads 4 KiB blocks of a cold file at random",
        rules: &["random_small_reads"],
        subject: Subject::File(&file),
        figure: ("read_missed_pages", 3_000),
        fix: &["the file fits into memory", "cat "],
        amount: Amount::Fetched(&file),
        factor: 100,
        warm: &[&file],
    };
    fault.check(run, run);
}

pub fn cold_file() {
    let scratch = Scratch::new();
    let Some(file) = file(&scratch, 24, "cold_file") else {
        return;
    };
    let run = || job(None, &file, "--bs=128k");
    evict(&file);
    cold(&file, &[&file], "fio reads a cold file in order").check(run, run);
}

pub fn direct_reads() {
    let scratch = Scratch::new();
    let Some(file) = file(&scratch, 16, "direct_reads") else {
        return;
    };
    let fault = Fault {
        scenario: "fio reads a file three times with libaio and O_DIRECT",
        rules: &["direct_io"],
        subject: Subject::File(&file),
        figure: ("read_again_bytes", 32 * MIB),
        fix: &["without O_DIRECT"],
        amount: Amount::OfFile(&file, "direct_read_bytes"),
        factor: 100,
        warm: &[&file],
    };
    let direct = "--ioengine=libaio --iodepth=8 --direct=1";
    fault.check(
        || job(None, &file, &format!("{direct} --loops=3 --bs=64k")),
        || job(None, &file, "--loops=3 --bs=64k"),
    );
}

/// fio evicts its files before each job, unless its options forbid it.
pub fn evicted_before_each_job() {
    let scratch = Scratch::new();
    let Some(file) = file(&scratch, 24, "evicted_before_each_job") else {
        return;
    };
    let run = |evicts: &str| {
        evict(&file);
        let options = format!("--thread --rw=read --bs=64k --invalidate={evicts}");
        let script = format!(
            "for name in 1 2 3; do fio --name=$name {options} --filename=\"$1\" || exit; done"
        );
        let report = report_of_shell(&script, &[&file]);
        assert!(report.ended.status.success(), "{}", report.ended.err());
        report
    };
    let fault = Fault {
        scenario: "fio evicts a file before each of three jobs",
        rules: &["reread_from_disk"],
        subject: Subject::File(&file),
        figure: ("read_again_pages", pages_of(&file)),
        fix: &["POSIX_FADV_DONTNEED"],
        amount: Amount::Fetched(&file),
        factor: 2,
        warm: &[],
    };
    fault.check(|| run("1"), || run("0"));
}

pub fn readahead_unused() {
    let scratch = Scratch::new();
    let Some(file) = file(&scratch, 96, "readahead_unused") else {
        return;
    };
    let run = |hint: &str| {
        evict(&file);
        let jumps = "--rw=randread:3 --bs=16k --norandommap --io_size=6m";
        job(None, &file, &format!("{jumps} --fadvise_hint={hint}"))
    };
    let fault = Fault {
        scenario: "fio reads 48 KiB here and there with the advice for reads in order",
        rules: &["readahead_wasted"],
        subject: Subject::File(&file),
        figure: ("unused_pages", 2048),
        fix: &["POSIX_FADV_RANDOM"],
        amount: Amount::Fetched(&file),
        factor: 2,
        warm: &[],
    };
    fault.check(|| run("sequential"), || run("random"));
}

/// A file on a disk that reads 512 KiB ahead.
fn on_disk(test: &str, check: impl FnOnce(&Path)) {
    let scratch = Scratch::new();
    let disk = disk(&scratch, 96 * MIB).filter(|_| has(&["fio"], &format!("advice::fio::{test}")));
    if let Some(disk) = disk {
        check(&scratch.file(disk.path("file"), 64 * MIB));
    }
}

pub fn mapping_read_ahead() {
    on_disk("mapping_read_ahead", |file| {
        let run = |hint: &str| {
            evict(file);
            let few = "--ioengine=mmap --rw=randread --bs=4k --io_size=800k";
            job(None, file, &format!("{few} --fadvise_hint={hint}"))
        };
        faults_read_ahead(file, "fio touches a mapping at random")
            .check(|| run("0"), || run("random"));
    });
}

pub fn mapping_page_by_page() {
    let scratch = Scratch::new();
    let Some(file) = file(&scratch, 32, "mapping_page_by_page") else {
        return;
    };
    // With the advice for its order.
    let run = |order: &str| {
        evict(&file);
        job(
            None,
            &file,
            &format!("--ioengine=mmap --bs=4k --rw={order}"),
        )
    };
    storm(&file, "fio reads all of a mapping at random").check(|| run("randread"), || run("read"));
}

pub fn again_in_a_small_group() {
    let test = "again_in_a_small_group";
    let Some((group, limit)) = group_of(32 * MIB, &format!("advice::fio::{test}")) else {
        return;
    };
    let scratch = Scratch::new();
    let Some(file) = file(&scratch, 48, test) else {
        return;
    };
    let run = || {
        evict(&file);
        job(Some(&group), &file, "--loops=3 --bs=64k")
    };
    let fault = Fault {
        scenario: "fio reads 48 MiB three times in a group of 32 MiB",
        rules: GROUP,
        subject: Subject::Group(&group),
        figure: ("refault_pages", 1024),
        fix: &[&limit],
        amount: Amount::Fetched(&file),
        factor: 2,
        warm: &[],
    };
    fault.check(run, || with_room(&group, run));
}

/// A log that is synced after each record.
pub fn fsync_after_each_write() {
    let test = "advice::fio::fsync_after_each_write";
    if !has(&["fio"], test) {
        return;
    }
    let scratch = Scratch::new();
    let file = scratch.path("log");
    let run = |options: &str| {
        let _ = std::fs::remove_file(&file);
        let log = "--rw=write --bs=4k --fallocate=none --file_append=1";
        job(None, &file, &format!("{log} {options}"))
    };
    // As many as take long: devices differ.
    let sizes = ["2m", "8m", "32m"].map(|size| format!("--size={size}"));
    let each = |size: &String| run(&format!("{size} --fsync=1"));
    let Some(size) = sizes
        .iter()
        .find(|size| is_long(&each(size), "waited_sync_seconds"))
    else {
        return println!(
            "skipped: {test}: 8,000 calls of fsync wait less than a fifth of the run here"
        );
    };
    let fault = Fault {
        scenario: "fio syncs after each write of 4 KiB",
        rules: &["fsync_waits"],
        subject: Subject::File(&file),
        figure: ("write_requests", 512),
        fix: &["sync once for many writes"],
        amount: Amount::Time("waited_sync_seconds"),
        factor: 2,
        warm: &[],
    };
    fault.check(|| each(size), || run(&format!("{size} --end_fsync=1")));
}

pub fn warm_reads() {
    let scratch = Scratch::new();
    let Some(file) = file(&scratch, 24, "warm_reads") else {
        return;
    };
    stays_healthy("fio reads a resident file five times", || {
        warm(&file);
        job(None, &file, "--bs=64k --loops=5")
    });
}
