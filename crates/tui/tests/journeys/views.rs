//! Content of each view: rows, trees, numbers, and their exactness.

use std::time::Duration;

use cachewise_model::{Counter, Measured, Missing, Reason};
use cachewise_tui::{Answer, Request};
use ratatui::crossterm::event::KeyCode;

use crate::hand_made::*;

#[test]
fn rows_are_sorted_by_bytes_fetched_with_rates_per_second() {
    let mut view = View::new(80, 24);
    view.feed(busy(2));
    assert!(view.shows("[1 processes]"), "processes come first: {view}");
    assert!(
        view.row(0).contains("dd") && view.row(1).contains("cat"),
        "by bytes fetched: {view}"
    );
    assert!(
        view.row(0).contains("512K") && view.row(0).contains("4.00M"),
        "256 misses of 2,048 pages in two seconds are half a MiB of 4 a second: {view}"
    );
    assert!(
        view.shows("Cached 1.00G") && view.shows("Buffers 128M") && view.shows("Dirty 12.0K"),
        "the machine's memory: {view}"
    );
    assert!(
        view.shows("PSI mem 5.0%") && view.shows("PSI io 12.5%"),
        "and its stalls: {view}"
    );
    assert!(view.shows("every 1s, exact"), "and its exactness: {view}");
}

#[test]
fn every_view_has_its_rows() {
    let mut view = View::new(120, 24);
    view.feed(busy(1));
    for (key, title, row) in [
        ('2', "[2 files]", "/srv/data/b"),
        ('3', "[3 cgroups]", "/system.slice/db.service"),
        ('4', "[4 devices]", "/dev/vda1"),
        ('1', "[1 processes]", "dd"),
    ] {
        view.key(key);
        assert!(
            view.shows(title) && view.shows(row),
            "{key} shows {row}: {view}"
        );
    }
    view.code(KeyCode::Tab);
    assert!(view.shows("[2 files]"), "Tab selects the next view: {view}");
}

#[test]
fn rows_that_fetch_and_wait_come_before_reads_from_memory() {
    let mut interval = busy(1);
    let mut around = reads(0, 0);
    around.set(Counter::DirectReadBytes, 4 << 20);
    let mut ahead = reads(512, 0);
    ahead.set(Counter::ReadaheadPages, 512);
    let mut waits = reads(1, 0);
    waits.set(Counter::WaitedSync, 250_000_000);
    waits.set(Counter::WaitedPeer, 500_000_000);
    for (pid, name, ledger) in [
        (1004, "tar", ahead),
        (1005, "fio", around),
        (1006, "db", waits),
    ] {
        let process = process(pid, 1001, name, "/", ledger);
        interval.processes.push(process);
    }
    let mut view = View::new(80, 24);
    view.feed(interval);
    for (row, name, why) in [
        (0, "fio", "4 MiB by direct I/O"),
        (1, "tar", "2 MiB that were read ahead"),
        (2, "dd", "1 MiB that was missed"),
        (3, "db", "it fetches nothing, but waits for fsync"),
        (4, "cat", "32 MiB from memory cost the disk nothing"),
        (5, "sh", "idle processes come last"),
    ] {
        assert!(view.row(row).contains(name), "{why}: {view}");
    }
    assert!(
        view.shows("FETCHED") && view.row(0).contains("4.00M"),
        "the bytes: {view}"
    );
    assert!(
        view.shows("WAITED") && view.row(3).contains("25.0%"),
        "and a quarter of the second, without the wait for another program: {view}"
    );
}

#[test]
fn file_tree_sums_up_directories() {
    let mut view = View::new(110, 24);
    view.feed(busy(1)).key('2').key('t');
    assert!(
        view.row(0).contains("- srv/data/") || view.row(0).contains("- /srv/data/"),
        "directories with one entry share a line: {view}"
    );
    assert!(
        view.row(0).contains("40.0M"),
        "the sum of the rows below: {view}"
    );
    assert!(
        view.row(1).contains("├─ b"),
        "then its entries, by misses: {view}"
    );
    assert!(
        view.row(3).contains("└─ c"),
        "the last one ends the line: {view}"
    );
    view.key('-');
    assert!(
        view.row(0).contains("+ ") && view.row(1).trim().is_empty(),
        "folded: {view}"
    );
    view.key('+');
    assert!(view.row(1).contains("├─ b"), "unfolded: {view}");
    view.key('j').code(KeyCode::Left);
    assert!(
        view.row(0).starts_with('▸'),
        "on a leaf the key selects the parent: {view}"
    );
    view.key('3').key('t');
    assert!(
        view.row(0).contains("- /") && view.row(2).contains("   └─ db.service"),
        "groups are a tree as well: {view}"
    );
    view.key('4').key('t');
    assert!(
        view.shows("devices have no tree"),
        "a view without a tree says so: {view}"
    );
}

#[test]
fn process_tree_follows_parents() {
    let mut view = View::new(110, 24);
    view.feed(busy(1)).key('t');
    assert!(
        view.row(0).contains("- sh")
            && view.row(1).contains("├─ dd")
            && view.row(2).contains("└─ cat"),
        "the shell above those that it started: {view}"
    );
}

#[test]
fn frozen_screen_stays_while_counting_continues() {
    let mut view = View::new(100, 24);
    view.feed(busy(1)).key(' ');
    assert!(view.shows("[held]"), "the state is shown: {view}");
    view.feed(quiet());
    assert!(view.row(0).contains("dd"), "the rows stay: {view}");
    view.key(' ');
    assert!(
        !view.shows("[held]") && view.shows("no use of the page cache"),
        "then the latest interval is shown: {view}"
    );
}

#[test]
fn units_key_cycles_bytes_pages_and_shares() {
    let mut view = View::new(100, 24);
    view.feed(busy(1));
    assert!(
        view.shows("bytes/s") && view.row(0).contains("1.00M"),
        "bytes: {view}"
    );
    view.key('b');
    assert!(
        view.shows("pages/s") && view.row(0).contains(" 256 "),
        "pages: {view}"
    );
    view.key('b');
    assert!(
        view.shows("% of all") && view.row(0).contains("100%"),
        "parts of the machine's: {view}"
    );
}

#[test]
fn interval_keys_change_it_in_steps() {
    let mut view = View::new(100, 24);
    view.feed(busy(1)).key('[');
    assert_eq!(
        view.requests(),
        [Request::Interval(Duration::from_millis(500))],
        "faster"
    );
    view.key(']').key(']');
    assert_eq!(
        view.requests().last(),
        Some(&Request::Interval(Duration::from_secs(2))),
        "slower"
    );
    view.text("[[[[[[[[");
    assert!(
        view.shows("no faster than every 100 ms"),
        "the range has an end: {view}"
    );
}

#[test]
fn unknown_values_are_not_shown_as_zero() {
    let mut view = View::new(120, 24);
    let mut interval = busy(1);
    interval.processes[1].ledger.set_missing(
        cachewise_model::Counter::ReadMissedPages,
        Missing::Unknown(Reason::LostEvents),
    );
    interval.system.cached_bytes = Measured::unknown(Reason::NoPermission);
    interval.system.psi_io_some_seconds = Measured::not_offered(Reason::NoPressure);
    view.feed(interval);
    assert!(
        view.shows("Cached ?") && view.shows("PSI io -"),
        "in the head: {view}"
    );
    let dd = (0..3)
        .map(|row| view.row(row))
        .find(|row| row.contains("dd"));
    assert!(
        dd.is_some_and(|row| row.contains(" ? ")),
        "and in rows: {view}"
    );
    assert!(
        view.row(0).contains("cat"),
        "unknown values are not sorted first: {view}"
    );
}

#[test]
fn view_without_probe_states_the_reason() {
    let mut view = View::with(100, 24, |setup| {
        let backend = &mut std::sync::Arc::make_mut(&mut setup.source).backend;
        backend.exact = false;
        backend.notes = vec!["not root".into()];
    });
    view.feed(quiet());
    assert!(view.shows("estimates"), "in the head: {view}");
    assert!(
        view.shows("only the probe counts by process and file: not root"),
        "instead of rows: {view}"
    );
}

#[test]
fn losses_are_reported_once_with_the_fix() {
    let mut view = View::new(120, 24);
    let lost = |count| {
        let mut interval = busy(1);
        interval.lost = vec![cachewise_model::Lost {
            id: "forgotten",
            count,
            meaning: "files gave up their place",
        }];
        interval
    };
    view.feed(lost(3));
    assert!(
        view.shows("incomplete, forgotten (f shows the fix): 3 files gave up"),
        "the loss, and the key for details: {view}"
    );
    assert!(
        view.shows("every 1s, incomplete (f)"),
        "where it says exact otherwise: {view}"
    );
    view.key('j').feed(lost(4));
    assert!(!view.shows("gave up"), "not reported twice: {view}");
    view.feed(busy(1));
    assert!(
        view.shows("incomplete (f)"),
        "the sign does not flicker: {view}"
    );
    view.key('f');
    assert!(
        view.shows("incomplete, forgotten: 7 files gave up") && view.shows("next: EVICTED of such"),
        "the total, and the next step: {view}"
    );
}

#[test]
fn arguments_are_requested_once_and_shown() {
    let mut view = View::new(120, 24);
    view.feed(busy(1)).key('c').draw();
    let names: Vec<_> = view
        .requests()
        .into_iter()
        .filter_map(|request| match request {
            Request::CommandLines(names) => Some(names),
            _ => None,
        })
        .flatten()
        .collect();
    assert_eq!(names.len(), 3, "of those on the screen");
    let lines = names
        .iter()
        .map(|name| (*name, Measured::Exact(format!("prog{} --all", name.pid))));
    view.answer(Answer::CommandLines(lines.collect()));
    assert!(view.shows("prog1002 --all"), "with their arguments: {view}");
    view.feed(busy(1)).draw();
    assert!(
        view.requests().is_empty(),
        "known ones are not requested again"
    );
}
