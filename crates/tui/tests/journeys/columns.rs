//! Columns: those without values, and those that the user chooses.

use cachewise_model::{Counter, Interval};

use ratatui::crossterm::event::KeyCode;

use crate::hand_made::*;

/// Seconds in which `dd` also reads by direct I/O.
fn with_direct() -> Interval {
    let mut interval = busy(1);
    for ledger in [&mut interval.processes[1].ledger, &mut interval.ledger] {
        ledger.set(Counter::DirectReadBytes, 4 << 20);
    }
    interval
}

#[test]
fn columns_of_zeros_give_their_room_to_the_name() {
    let mut view = View::new(80, 24);
    view.feed(busy(1));
    assert!(
        view.shows("REQUESTED CACHED MISSED ▼FETCHED COMMAND"),
        "nothing was read ahead, read by direct I/O or waited for: {view}"
    );
    view.feed(with_direct());
    assert!(
        view.shows("MISSED DIRECT ▼FETCHED"),
        "shown as soon as there is a value: {view}"
    );
}

#[test]
fn columns_stay_for_a_while_after_their_last_value() {
    let mut view = View::new(100, 24);
    view.feed(with_direct());
    for _ in 0..9 {
        view.feed(busy(1));
        assert!(view.shows("DIRECT"), "headings do not flicker: {view}");
    }
    view.feed(busy(1));
    assert!(!view.shows("DIRECT"), "until it is not needed: {view}");
}

#[test]
fn values_below_the_screen_and_of_the_machine_keep_their_column() {
    let mut view = View::new(100, 12);
    let mut interval = many(500);
    interval.processes[0]
        .ledger
        .set(Counter::DirectReadBytes, 512);
    interval.ledger.set(Counter::DirectReadBytes, 512);
    view.feed(interval);
    assert!(view.shows("DIRECT"), "a row further down has one: {view}");
    view.key('/').text("p499");
    assert!(view.shows("DIRECT"), "the sum has one: {view}");
}

#[test]
fn default_columns_come_back_with_a_key() {
    let mut view = View::new(100, 24);
    view.feed(busy(1)).code(KeyCode::F(2)).text("jj ");
    view.key('D').code(KeyCode::Esc);
    assert!(view.shows("REQUESTED CACHED MISSED"), "as at first: {view}");
    view.code(KeyCode::F(2)).text("jj ").code(KeyCode::Esc);
    assert!(!view.shows("CACHED"), "without a column: {view}");
    view.key('D');
    assert!(
        view.shows("REQUESTED CACHED MISSED"),
        "outside of the choice: {view}"
    );
}

#[test]
fn unknown_values_keep_their_column() {
    let mut view = View::new(100, 24);
    let mut interval = busy(1);
    for ledger in [&mut interval.processes[0].ledger, &mut interval.ledger] {
        ledger.set_missing(
            Counter::DirectReadBytes,
            cachewise_model::Missing::NotOffered(cachewise_model::Reason::NoDirectIoEvent),
        );
    }
    view.feed(interval);
    assert!(view.shows("DIRECT"), "unknown is not zero: {view}");
}

#[test]
fn column_of_the_order_stays_without_values() {
    let mut view = View::with(100, 24, |setup| setup.sort = Some("direct_bytes"));
    view.feed(busy(1));
    assert!(view.shows("▼DIRECT"), "rows are sorted by it: {view}");
}
