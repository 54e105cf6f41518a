//! Databases.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::fault::{Amount, Fault, Subject};
use super::healthy::stays_healthy;
use super::kit::*;
use super::mapping::{disk, faults_read_ahead, storm};
use super::memory::with_room;
use crate::support::*;

/// A table of 26 MB with an index in random order.
const DATABASE: &str = "
import random, sqlite3, sys
db = sqlite3.connect(sys.argv[1])
db.executescript('pragma journal_mode=off; pragma synchronous=off')
db.execute('create table t(id integer primary key, k integer, body blob)')
numbers = random.Random(7)
rows = ((i, numbers.randrange(1 << 30), numbers.randbytes(400)) for i in range(56_000))
db.executemany('insert into t values(?, ?, ?)', rows)
db.execute('create index tk on t(k)')
db.commit()
";

fn database(file: PathBuf) -> PathBuf {
    let mut make = Command::new("python3");
    Ended::of(make.args(["-c", DATABASE]).arg(&file)).expect(0, "a database");
    file
}

/// Rows in the order of the index: random places of the table.
const INDEX_SCAN: &str = "select sum(length(body)) from \
    (select body from t indexed by tk where k > 0 order by k limit 20000)";

/// A database that has no room in the group of its reader.
pub fn sqlite_index_scan() {
    let test = "advice::sqlite_index_scan";
    let Some((group, limit)) = group_of(12 * MIB, test).filter(|_| has(&["sqlite3"], test)) else {
        return;
    };
    let scratch = Scratch::new();
    let file = database(scratch.path("app.db"));
    let scan = || {
        evict(&file);
        let report = report_within(
            &group,
            &["sqlite3".as_ref(), file.as_os_str(), INDEX_SCAN.as_ref()],
        );
        assert_eq!(report.ended.out().trim(), "8000000", "its answer");
        report
    };
    let fault = Fault {
        scenario: "sqlite3 scans an index, 26 MB in a group of 12 MiB",
        rules: &["random_small_reads"],
        subject: Subject::File(&file),
        figure: ("read_missed_pages", 5_000),
        fix: &[&limit, "now 12.0 MiB"],
        amount: Amount::Fetched(&file),
        factor: 2,
        warm: &[],
    };
    let finding = fault.check(scan, || with_room(&group, scan));
    let also = finding["also"].as_array().expect("a list");
    assert!(
        also.iter()
            .any(|folded| folded["id"] == "group_limit" || folded["id"] == "working_set"),
        "the limit is evidence: {finding}"
    );
}

/// Rows by numbers that jump about.
fn lookups(file: &Path, number: u32, settings: &str) -> Report {
    let query = format!(
        "{settings}; with recursive place(x) as \
         (select 1 union all select (x * 7841 + 13) % 56000 from place limit {number}) \
         select count(body) from place join t on t.id = place.x"
    );
    let words = ["sqlite3".as_ref(), file.as_os_str(), query.as_ref()];
    let report = report_of(&[], words);
    assert!(report.ended.status.success(), "{}", report.ended.err());
    report
}

pub fn sqlite_lookups() {
    if !has(&["sqlite3", "python3"], "advice::sqlite_lookups") {
        return;
    }
    let scratch = Scratch::new();
    let file = database(scratch.path("app.db"));
    let run = || lookups(&file, 5000, "");
    evict(&file);
    let fault = Fault {
        scenario: "sqlite3 looks up rows of a cold database",
        rules: &["random_small_reads"],
        subject: Subject::File(&file),
        figure: ("read_missed_pages", 1_000),
        fix: &["the file fits into memory", "cat "],
        amount: Amount::Fetched(&file),
        factor: 100,
        warm: &[&file],
    };
    fault.check(run, run);
}

/// sqlite3 has no setting for advice on its mapping, so that the device's readahead is what can be changed.
pub fn sqlite_mapped_lookups() {
    if !has(&["sqlite3", "python3"], "advice::sqlite_mapped_lookups") {
        return;
    }
    let scratch = Scratch::new();
    let Some(disk) = disk(&scratch, 64 * MIB) else {
        return;
    };
    let file = database(disk.path("app.db"));
    let run = || {
        evict(&file);
        lookups(&file, 60, "pragma mmap_size=268435456")
    };
    let fault = Fault {
        fix: &["read_ahead_kb"],
        ..faults_read_ahead(&file, "sqlite3 looks up rows of a mapped database")
    };
    let without = || {
        disk.read_ahead(0);
        run()
    };
    fault.check(run, without);
}

pub fn warm_sqlite() {
    if !has(&["sqlite3", "python3"], "advice::warm_sqlite") {
        return;
    }
    let scratch = Scratch::new();
    let file = database(scratch.path("app.db"));
    stays_healthy("sqlite3 looks up rows of a resident database", || {
        warm(&file);
        lookups(&file, 5000, "")
    });
}

/// Debian's Python, of which its LMDB is.
const PYTHON: &str = "/usr/bin/python3";

/// Makes a database of 40,000 values of 1,000 bytes, or gets as many of them as the third argument says, of which the
/// fourth says whether in order; the second is whether its mapping is read ahead.
const LMDB: &str = "
import lmdb, random, sys
path, ahead, gets, order = sys.argv[1:]
env = lmdb.open(path, map_size=1 << 30, subdir=False, readahead=ahead == 'ahead', lock=False)
numbers = random.Random(7)
if order == 'make':
    with env.begin(write=True) as db:
        for key in range(40_000):
            db.put(b'%08d' % key, numbers.randbytes(1000))
elif order == 'random':
    with env.begin() as db:
        for _ in range(int(gets)):
            db.get(b'%08d' % numbers.randrange(40_000))
else:
    with env.begin() as db:
        sum(len(value) for key, value in db.cursor())
";

/// Runs a check with an LMDB database on a disk that reads 512 KiB ahead, and with a function that uses it.
fn with_lmdb(test: &str, check: impl FnOnce(&Path, &dyn Fn([&str; 3]) -> Report)) {
    let mut import = Command::new(PYTHON);
    let found = import.args(["-c", "import lmdb"]).output();
    if !found.is_ok_and(|found| found.status.success()) {
        return println!("skipped: advice::{test}: python3-lmdb is not installed");
    }
    let scratch = Scratch::new();
    let Some(disk) = disk(&scratch, 96 * MIB) else {
        return;
    };
    let file = disk.path("data.mdb");
    let mut make = Command::new(PYTHON);
    let make = make.args(["-c", LMDB]).arg(&file);
    Ended::of(make.args(["ahead", "0", "make"])).expect(0, "a database");
    let name = file.to_str().expect("an ordinary name");
    check(&file, &|words| {
        let report = report_of(&[], [&[PYTHON, "-c", LMDB, name][..], &words].concat());
        assert!(report.ended.status.success(), "{}", report.ended.err());
        report
    });
}

pub fn lmdb_gets() {
    with_lmdb("lmdb_gets", |file, run| {
        let run = |ahead: &str| {
            evict(file);
            run([ahead, "100", "random"])
        };
        faults_read_ahead(file, "LMDB gets at random of a cold database")
            .check(|| run("ahead"), || run("not"));
    });
}

pub fn lmdb_scan() {
    with_lmdb("lmdb_scan", |file, run| {
        let run = |ahead: &str| {
            evict(file);
            run([ahead, "0", "scan"])
        };
        storm(file, "LMDB scans a database opened without readahead")
            .check(|| run("not"), || run("ahead"));
    });
}

pub fn warm_lmdb() {
    with_lmdb("warm_lmdb", |file, run| {
        stays_healthy("LMDB gets of a resident database", || {
            warm(file);
            run(["ahead", "5000", "random"])
        });
    });
}
