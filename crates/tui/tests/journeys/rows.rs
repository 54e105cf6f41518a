//! Order, filter, and selection of rows; by keys and by mouse.

use cachewise_model::{Counter, Exit, Row};
use cachewise_tui::{Filter, ViewKind, arranged};
use ratatui::crossterm::event::{KeyCode, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};

use crate::hand_made::*;

#[test]
fn order_can_be_set_by_key_menu_and_mouse() {
    let mut view = View::new(120, 24);
    view.feed(busy(1));
    view.key('<');
    assert!(view.shows("▼MISSED"), "to the left: {view}");
    view.key('>');
    assert!(view.shows("▼FETCHED"), "and back: {view}");
    view.key('r');
    assert!(view.shows("▲FETCHED"), "turned round: {view}");
    assert!(
        view.row(0).contains("cat"),
        "the fewest fetched bytes first: {view}"
    );
    view.key('I');
    assert!(view.row(0).contains("dd"), "and round again: {view}");
    view.key('s').code(KeyCode::Up).code(KeyCode::Enter);
    assert!(view.shows("▼DIRECT"), "the one above in the menu: {view}");
    let (x, y) = view.find("PID");
    view.mouse(MouseEventKind::Down(MouseButton::Left), x, y);
    assert!(view.shows("▼PID"), "a click on a heading: {view}");
    assert!(view.row(0).contains("1003"), "the largest id first: {view}");
    view.mouse(MouseEventKind::Down(MouseButton::Left), x, y);
    assert!(view.shows("▲PID"), "and again turns it round: {view}");
}

#[test]
fn filter_applies_while_typing_and_escape_clears_it() {
    let mut view = View::new(100, 24);
    view.feed(busy(1));
    view.key('/').text("ca");
    assert!(view.shows("/ca"), "the typed text is visible: {view}");
    assert!(
        view.row(0).contains("cat") && view.shows("1 of 3 rows"),
        "and holds at once: {view}"
    );
    view.code(KeyCode::Enter);
    assert!(view.shows("1 of 3 rows"), "Enter keeps it: {view}");
    view.code(KeyCode::Esc);
    assert!(view.shows("3 rows"), "Esc clears it: {view}");
    view.key('/').text("re:(");
    assert!(
        view.shows("is not a regular expression"),
        "the fault is shown: {view}"
    );
    view.code(KeyCode::Enter)
        .code(KeyCode::Backspace)
        .text("^dd");
    view.code(KeyCode::Enter);
    assert!(view.row(0).contains("dd"), "and can be mended: {view}");
    view.key('/').code(KeyCode::Esc);
    assert!(
        view.shows("1 of 3 rows"),
        "leaving the line leaves the filter as it was: {view}"
    );
    view.key('/')
        .control('u')
        .text("nothing like it")
        .code(KeyCode::Enter);
    assert!(
        view.shows("none of 3 rows"),
        "no rows are explained: {view}"
    );
}

#[test]
fn filter_matches_only_text_on_the_screen() {
    let mut view = View::new(100, 24);
    view.feed(busy(1));
    view.key('/').text("db.service");
    assert!(
        view.shows("none of 3 rows"),
        "the unit of a process is not shown: {view}"
    );
    view.code(KeyCode::Esc).key('/').text("100");
    assert!(view.shows("3 rows"), "process ids are: {view}");
    view.code(KeyCode::Esc);
    view.key('3').key('/').text("db.service");
    assert!(view.shows("1 of 2 rows"), "and paths of groups: {view}");
    view.code(KeyCode::Esc);
    view.key('2').key('/').text("ext4");
    assert!(
        view.shows("none of 3 rows"),
        "file systems of files are not: {view}"
    );
    view.code(KeyCode::Esc);
    view.key('4').key('/').text("ext4");
    assert!(view.shows("1 row"), "those of devices are: {view}");
    let filter = Filter::new("db.service").ok();
    let rows = arranged(ViewKind::Process, &busy(1), None, filter.as_ref());
    assert_eq!(rows.len(), 2, "rows that are written have the unit");
}

#[test]
fn selection_follows_its_row_except_at_the_top() {
    let mut view = View::new(100, 24);
    view.feed(busy(1)).key('j');
    assert!(
        view.row(1).starts_with('▸') && view.row(1).contains("cat"),
        "at cat: {view}"
    );
    view.key('r');
    assert!(
        view.row(0).starts_with('▸') && view.row(0).contains("cat"),
        "it moved, and we with it: {view}"
    );
    view.key('g').key('r');
    assert!(
        view.row(0).starts_with('▸') && view.row(0).contains("dd"),
        "at the top one stays: {view}"
    );
    view.key('G');
    assert!(view.row(2).starts_with('▸'), "the last: {view}");
}

#[test]
fn paging_works_with_thousands_of_rows() {
    let mut view = View::new(80, 24);
    view.feed(many(5000));
    assert!(view.shows("5000 rows"), "all of them: {view}");
    view.code(KeyCode::PageDown);
    assert!(
        view.row(0).contains("p4999") || view.shows("▸"),
        "a page down: {view}"
    );
    view.key('G');
    assert!(
        view.shows("p0"),
        "the end is the one without misses: {view}"
    );
    view.key('/').text("glob:p123?").code(KeyCode::Enter);
    assert!(view.shows("10 of 5000 rows"), "ten of them: {view}");
    view.mouse(MouseEventKind::ScrollDown, 5, 10);
    assert!(
        view.row(3).starts_with('▸'),
        "the wheel scrolls three rows down: {view}"
    );
}

#[test]
fn active_key_hides_idle_rows() {
    let mut view = View::new(100, 24);
    view.feed(busy(1)).key('o');
    assert!(
        view.shows("active  2 of 3 rows"),
        "the shell did nothing: {view}"
    );
}

#[test]
fn setup_sets_filter_and_order() {
    let mut view = View::with(100, 24, |setup| {
        setup.filter = Filter::new("cat").ok();
        setup.sort = Some("pid");
        setup.view = ViewKind::Process;
        setup.scope = Some("process 7".into());
    });
    view.feed(busy(1));
    assert!(
        view.shows("▼PID") && view.shows("1 of 3 rows"),
        "both hold: {view}"
    );
    assert!(
        view.shows("only process 7"),
        "and so does the scope: {view}"
    );
}

#[test]
fn mouse_events_outside_of_rows_do_nothing() {
    let mut view = View::new(80, 24);
    view.feed(busy(1));
    for (x, y) in [(0, 0), (79, 23), (500, 500)] {
        view.app.mouse(MouseEvent {
            kind: MouseEventKind::Down(MouseButton::Left),
            column: x,
            row: y,
            modifiers: KeyModifiers::NONE,
        });
    }
    assert!(view.shows("▼FETCHED"), "nothing has changed: {view}");
}
#[test]
fn pasted_text_does_not_act_as_keys() {
    let mut view = View::new(100, 24);
    view.feed(busy(1)).key('2');
    view.app.paste("ey");
    assert!(
        view.requests().is_empty() && !view.shows("y/N"),
        "it is not a key: {view}"
    );
    view.key('/');
    view.app.paste("data/b\n\u{1b}");
    view.draw();
    assert!(
        view.shows("1 of 3 rows") && view.shows("/data/b"),
        "but text: {view}"
    );
}

#[test]
fn sort_arrow_is_at_its_heading_at_every_width() {
    for width in (9..100).chain((100..200).step_by(9)) {
        for sort in [
            "read_missed_pages",
            "command",
            "pid",
            "fetched_bytes",
            "reuse_ratio",
            "group_name",
            "cpu_seconds",
        ] {
            let mut view = View::with(width, 24, |setup| setup.sort = Some(sort));
            view.feed(busy(1));
            let header = cachewise_model::field(sort).expect("it is a field").header;
            let lines = view.lines();
            let line = lines.iter().find(|line| line.contains("COMMAND"));
            let line = line.expect("the name is always there");
            let words: Vec<&str> = line.split_whitespace().collect();
            let marked: Vec<&&str> = words.iter().filter(|word| word.contains('▼')).collect();
            match &marked[..] {
                [one] => assert_eq!(
                    one.trim_matches('▼'),
                    header,
                    "no other heading touches it at {width}: {view}"
                ),
                [] => {
                    assert!(!words.contains(&header), "a visible column has it: {view}");
                    assert!(
                        width < 40 || view.shows(&format!("by {header}▼")),
                        "or the screen names the sort column at {width}: {view}"
                    );
                }
                more => panic!("one arrow, not {more:?} at {width}: {view}"),
            }
        }
    }
}

#[test]
fn long_pasted_text_is_cut() {
    let mut view = View::new(80, 24);
    view.feed(many(1000)).key('/');
    view.app.paste(&"p1 ".repeat(1 << 20));
    view.draw();
    assert!(
        view.shows("none of 1000 rows has p1 p1"),
        "it is cut, without a wait: {view}"
    );
    view.control('u');
    assert!(view.shows("1000 rows"), "and can be cleared: {view}");
}

#[test]
fn processes_that_ended_share_a_row_for_each_command() {
    let mut view = View::new(120, 24);
    let mut interval = busy(1);
    for pid in 2001..=2003 {
        let mut ended = process(pid, 1001, "dd", "/", reads(1000, 1000));
        ended.exit = Exit::Code(0);
        interval.processes.push(ended);
    }
    let mut single = process(2004, 1001, "tar", "/", reads(10, 10));
    single.exit = Exit::Code(0);
    interval.processes.push(single);
    view.feed(interval);
    assert!(
        view.row(0).contains("+ dd x3 (ended)") && view.row(0).contains("11.7M"),
        "3,000 missed pages: {view}"
    );
    assert!(
        view.row(1).contains(" dd"),
        "the one that runs has its own row: {view}"
    );
    assert!(view.shows("tar (ended)"), "one of a kind too: {view}");
    view.key('+');
    assert!(
        view.row(1).contains("dd (ended)") && view.row(3).contains("2003"),
        "unfolded: {view}"
    );
    view.key('-');
    assert!(view.row(1).contains("1002"), "folded again: {view}");
    view.code(KeyCode::Enter);
    assert!(
        view.shows("- dd x3 (ended)") && view.row(2).contains("2002"),
        "Enter unfolds them too: {view}"
    );
}

#[test]
fn processes_are_grouped_by_command_unit_and_container() {
    let mut interval = busy(1);
    let mut ended = process(2001, 1001, "dd", "/", reads(1000, 1000));
    ended.exit = Exit::Code(0);
    interval.processes.push(ended);
    let in_container = process(2002, 1, "web", "/docker/1", reads(100, 100));
    interval.processes.push(in_container);
    interval.cgroups.push(container("/docker/1", "shop"));
    let mut view = View::new(120, 24);
    view.feed(interval.clone()).key('u');
    assert!(
        view.shows("grouped by command") && view.row(0).contains("+ dd x2 (1 ended)"),
        "two of one command: {view}"
    );
    assert!(view.row(0).contains("4.91M"), "1,256 pages in all: {view}");
    assert!(
        view.shows(" cat") && !view.shows("cat x1"),
        "a single one is itself: {view}"
    );
    view.key('+');
    assert!(
        view.row(1).contains("2001") && view.row(2).contains("1002"),
        "unfolded: {view}"
    );
    view.feed(interval);
    assert!(view.row(1).contains("2001"), "and it stays so: {view}");
    view.key('u');
    assert!(
        view.shows("grouped by unit") && view.shows("+ db.service x2"),
        "by unit: {view}"
    );
    assert!(view.shows("(no unit) x3"), "the others: {view}");
    view.key('u');
    assert!(
        view.shows("grouped by container") && view.shows("+ shop x1"),
        "by container: {view}"
    );
    view.key('/').text("shop").code(KeyCode::Enter);
    assert!(
        view.row(0).contains("+ shop x1") && view.row(1).trim().is_empty(),
        "the name of a group is shown, so that the filter finds it: {view}"
    );
    view.code(KeyCode::Esc).key('g');
    view.key('u');
    assert!(
        !view.shows("grouped") && view.shows("5 rows"),
        "and back to each: {view}"
    );
    view.key('u').key('t');
    assert!(
        view.shows("tree") && !view.shows("grouped"),
        "a tree has no groups: {view}"
    );
    view.key('2').key('u');
    assert!(view.shows("only processes (1) are grouped"), "{view}");
}

#[test]
fn written_rows_have_each_process_that_ended() {
    let mut interval = busy(1);
    for pid in 2001..=2003 {
        let mut ended = process(pid, 1001, "dd", "/", reads(1000, 1000));
        ended.exit = Exit::Code(0);
        interval.processes.push(ended);
    }
    let requested = |rows: &[Row]| -> u64 {
        let of_row = |row: &Row| row.ledger.get(Counter::ReadRequestedPages).exact();
        rows.iter().filter_map(of_row).sum()
    };
    let running = arranged(ViewKind::Process, &busy(1), None, None);
    let all = arranged(ViewKind::Process, &interval, None, None);
    assert_eq!(all.len(), running.len() + 3, "a row for each");
    assert_eq!(
        requested(&all),
        requested(&running) + 3000,
        "with its reads"
    );
}
