//! Databases.

use std::path::PathBuf;
use std::process::Command;

use super::fault::{Amount, Fault, Subject};
use super::kit::*;
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

pub fn database(scratch: &Scratch) -> PathBuf {
    let file = scratch.path("app.db");
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
    let file = database(&scratch);
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
