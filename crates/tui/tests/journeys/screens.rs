//! Sizes, characters, colours, and names that contain escape sequences.

use cachewise_model::Measured;
use cachewise_tui::TerminalStyle;
use ratatui::crossterm::event::KeyCode;

use crate::hand_made::*;

#[test]
fn every_terminal_size_is_drawn() {
    for (width, height) in [
        (1, 1),
        (1, 50),
        (200, 1),
        (2, 2),
        (5, 3),
        (20, 4),
        (40, 10),
        (60, 15),
        (80, 24),
        (500, 200),
    ] {
        let mut view = View::new(width, height);
        view.draw();
        view.feed(busy(1));
        for keys in ["", "t", "2t", "?", "fj", "/x", "sjj", "G", "k"] {
            view.text(keys).draw();
            view.code(KeyCode::Esc).code(KeyCode::Esc);
        }
        view.key('2').key('e').draw();
    }
}

#[test]
fn forty_by_ten_shows_rows_and_help() {
    let mut view = View::new(40, 10);
    view.feed(busy(1));
    assert!(
        view.shows("Cached 1.00G") && view.shows("FETCHED") && view.shows("MISSED"),
        "numbers: {view}"
    );
    assert!(
        view.row(0).contains("dd") && view.row(1).contains("cat"),
        "rows: {view}"
    );
    assert!(view.shows("? help"), "and the key for help: {view}");
    view.key('2').key('e');
    assert!(view.shows("y/N"), "a question is seen whole: {view}");
}

#[test]
fn resizing_keeps_the_selected_row_visible() {
    let mut view = View::new(80, 40);
    view.feed(many(1000)).key('G');
    for height in [40, 12, 5, 30] {
        view.resize(80, height);
        assert!(view.shows("▸"), "at {height} lines: {view}");
    }
}

#[test]
fn ascii_look_draws_only_ascii() {
    let mut view = View::with(100, 30, |setup| {
        setup.look = TerminalStyle {
            ascii: true,
            color: false,
        }
    });
    let mut interval = busy(1);
    interval.files[1].path = Measured::Exact("/srv/daten/größe…".into());
    view.feed(interval);
    for keys in ["", "t", "2", "t", "?", "s", "f", "/ö", "1u+"] {
        view.text(keys).draw();
        assert!(view.to_string().is_ascii(), "after {keys}: {view}");
        view.code(KeyCode::Esc);
    }
    view.key('2');
    assert!(view.shows("|- ") && view.shows("`- "), "lines too: {view}");
}

#[test]
fn screen_without_colour_has_the_same_text() {
    let plain = View::with(100, 30, |setup| setup.look.color = false).colours();
    assert!(plain.is_empty(), "no colour at all: {plain:?}");
    let coloured = View::new(100, 30);
    let bare = View::with(100, 30, |setup| setup.look.color = false);
    assert_eq!(
        coloured.after_busy(),
        bare.after_busy(),
        "the same text either way"
    );
}

#[test]
fn names_with_escape_sequences_are_escaped() {
    let mut view = View::new(160, 24);
    let mut interval = busy(1);
    interval.processes[1].command = Measured::Exact("a\u{1b}[2J\nb\t漢字".into());
    interval.files[1].path = Measured::Exact("/srv/\u{1b}]0;x\u{7}/new\nline/漢字漢字".into());
    view.feed(interval);
    assert!(view.shows(r"a\x1b[2J\nb\t"), "shown, not sent: {view}");
    view.key('2');
    assert!(
        view.shows(r"\x1b]") && view.shows(r"new\nline"),
        "in paths too: {view}"
    );
    view.key('t');
    assert!(view.shows(r"new\nline"), "and in trees: {view}");
    view.code(KeyCode::Enter);
    assert!(
        !view.to_string().contains('\u{1b}'),
        "and in titles: {view}"
    );
}
