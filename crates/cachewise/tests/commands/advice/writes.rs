//! Writers that wait for the device.

use super::fault::{Amount, Fault, Subject};
use super::kit::*;
use super::memory::with_room;
use crate::support::*;

/// The group's memory fills with dirty pages: the writer waits until it has reclaimed some.
pub fn reclaim_by_a_writer() {
    let test = "advice::reclaim_by_a_writer";
    let Some((group, limit)) = group_of(12 * MIB, test) else {
        return;
    };
    let scratch = Scratch::new();
    let file = scratch.path("file");
    let script = "dd if=/dev/zero of=\"$1\" bs=1M count=384 status=none";
    let run = || report_of_shell_in(&group, script, &[&file]);
    let fault = Fault {
        scenario: "dd writes 384 MiB in a group of 12 MiB",
        rules: &["direct_reclaim"],
        subject: Subject::Group(&group),
        figure: ("memory_limit_reached", 10),
        fix: &[&limit],
        amount: Amount::Time("waited_reclaim_seconds"),
        factor: 1,
        warm: &[],
    };
    fault.check(run, || with_room(&group, run));
}

/// Inserts rows, as many transactions as the second argument says, each with as many rows as the third says.
const INSERTS: &str = "
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute('create table if not exists t(body)')
for transaction in range(int(sys.argv[2])):
    db.execute('begin')
    for row in range(int(sys.argv[3])):
        db.execute('insert into t values(?)', (row,))
    db.execute('commit')
";

/// A transaction for each row, and one for all of them.
pub fn sqlite_commit_for_each_row() {
    let test = "advice::sqlite_commit_for_each_row";
    if !has(&["python3"], test) {
        return;
    }
    let scratch = Scratch::new();
    let file = scratch.path("app.db");
    let run = |transactions: u32, rows: u32| {
        let numbers = [transactions.to_string(), rows.to_string()];
        let words = numbers.each_ref().map(AsRef::as_ref);
        report_of_python(INSERTS, &[file.as_os_str(), words[0], words[1]])
    };
    // As many as take long: devices differ.
    let rows = (0..3).map(|doubled| 200 << doubled);
    let rows = rows
        .into_iter()
        .find(|rows| is_long(&run(*rows, 1), "waited_sync_seconds"));
    let Some(rows) = rows else {
        return println!(
            "skipped: {test}: 800 transactions wait less than a fifth of the run here"
        );
    };
    let fault = Fault {
        scenario: "sqlite3 commits each row",
        rules: &["fsync_waits"],
        subject: Subject::In(scratch.directory()),
        // Those of one file: each transaction has a journal of its own.
        figure: ("write_requests", 1),
        fix: &["sync once for many writes"],
        amount: Amount::Time("waited_sync_seconds"),
        factor: 2,
        warm: &[],
    };
    fault.check(|| run(rows, 1), || run(1, rows));
}
