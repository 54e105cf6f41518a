//! Panes over a view: details, help, findings.

use cachewise_model::{Ledger, Measured, Missing, Reason, Residency};
use cachewise_tui::{Answer, BINDINGS, Request, Scene};
use ratatui::crossterm::event::{KeyCode, MouseButton, MouseEventKind};

use crate::hand_made::*;

#[test]
fn details_of_a_process_list_its_files_with_residency() {
    let mut view = View::new(120, 24);
    view.feed(busy(1)).code(KeyCode::Enter);
    assert!(view.shows("files of dd (1002)"), "the process: {view}");
    assert!(view.row(0).contains("/srv/data/b"), "which: {view}");
    let asked = view.requests();
    let files = asked.iter().find_map(|request| match request {
        Request::Residency(files) => Some(files.clone()),
        _ => None,
    });
    let files = files.expect("residency is requested");
    let half = Residency {
        file_pages: Measured::Exact(100),
        resident_pages: Measured::Exact(50),
        ..Residency::default()
    };
    view.answer(Answer::Residency(vec![(files[0].clone(), half)]));
    assert!(view.shows("50.0%"), "and shown: {view}");
    let process = asked.iter().find_map(|request| match request {
        Request::CommandLines(names) => Some(names[0]),
        _ => None,
    });
    let process = process.expect("its arguments are requested");
    let line = Measured::Exact("dd if=/srv/data/b".to_owned());
    view.answer(Answer::CommandLines(vec![(process, line)]));
    assert!(view.shows("command dd if=/srv/data/b"), "in words: {view}");
    view.code(KeyCode::Enter);
    assert!(
        view.shows("readers and writers of /srv/data/b"),
        "deeper: {view}"
    );
    assert!(
        view.row(0).contains("dd") && view.shows("(no single"),
        "by whom: {view}"
    );
    view.feed(quiet());
    assert!(
        view.shows("as it was last"),
        "an ended process stays visible: {view}"
    );
    view.code(KeyCode::Esc);
    assert!(
        view.shows("files of dd"),
        "Esc closes the top one only: {view}"
    );
    view.code(KeyCode::Esc).code(KeyCode::Esc);
    assert!(
        view.shows("[1 processes]") && !view.app.is_over(),
        "and never the program: {view}"
    );
}

#[test]
fn details_of_groups_and_devices_list_processes_and_files() {
    let mut view = View::new(120, 24);
    view.feed(busy(1)).key('3').text("j").code(KeyCode::Enter);
    assert!(view.shows("processes in /"), "of a group: {view}");
    view.key('4').code(KeyCode::Enter);
    assert!(
        view.shows("files on /dev/vda1") && view.row(0).contains("/srv/data/b"),
        "of a device: {view}"
    );
}

#[test]
fn keys_of_views_and_panes_work_from_a_pane() {
    let mut view = View::new(120, 40);
    view.feed(busy(1)).key('?').key('2');
    assert!(view.shows("[2 files]"), "the view, not the help: {view}");
    view.key('?').key('f');
    assert!(view.shows("Findings over"), "findings: {view}");
    view.key('f');
    assert!(view.shows("[2 files]"), "its own key closes it: {view}");
}

#[test]
fn help_lists_every_binding() {
    let mut view = View::new(120, 200);
    view.feed(busy(1)).key('?');
    for binding in BINDINGS
        .iter()
        .filter(|binding| binding.only != Some(Scene::Recording))
    {
        assert!(
            view.shows(binding.help) && view.shows(&binding.shown()),
            "{} is explained: {view}",
            binding.shown()
        );
    }
    assert!(
        view.shows("Requested pages that were not in the page cache"),
        "columns too: {view}"
    );
    view.key('q');
    assert!(
        !view.app.is_over() && view.shows("[1 processes]"),
        "q leaves the help: {view}"
    );
    view.key('q');
    assert!(view.app.is_over(), "and then the program");
}

#[test]
fn control_c_quits_in_every_pane() {
    for keys in ["", "/abc", "?", "s", "2e", "f"] {
        let mut view = View::new(80, 24);
        view.feed(busy(1)).text(keys).control('c');
        assert!(view.app.is_over(), "after {keys:?}");
    }
}

#[test]
fn findings_show_figures_and_next_step() {
    let mut view = View::new(100, 30);
    view.feed(direct(2 << 30)).key('f');
    assert!(
        view.shows("O_DIRECT") && view.shows("next:") && view.shows("/srv/data/c"),
        "the process that bypasses the cache: {view}"
    );
    view.code(KeyCode::Esc).feed(quiet());
    assert!(view.shows("[1 processes]"), "closed: {view}");
    let mut view = View::new(100, 30);
    view.feed(quiet()).key('f');
    assert!(view.shows("no findings"), "or nothing: {view}");
    let mut view = View::new(100, 30);
    let mut blind = quiet();
    blind.ledger = Ledger::all_missing(Missing::NotOffered(Reason::NeedsProbe));
    view.feed(blind);
    assert!(
        view.shows("max ?") && !view.shows("max 0"),
        "uncounted rows have no maximum: {view}"
    );
    view.key('f');
    assert!(
        view.shows("20 of 22 rules could not look: only the probe can count it")
            && !view.shows("nothing that"),
        "rules without input exclude no cause: {view}"
    );
}

#[test]
fn findings_before_the_first_interval_are_empty() {
    let mut view = View::new(100, 24);
    view.key('f');
    assert!(
        view.shows("no numbers yet") && !view.shows("0 s"),
        "there was no time to find anything in: {view}"
    );
    view.feed(quiet());
    assert!(
        view.shows("Findings over the last 1 s"),
        "then there are findings: {view}"
    );
}

#[test]
fn help_omits_disabled_keys() {
    let mut view = View::with(120, 200, |setup| setup.readonly = true);
    view.key('?');
    assert!(
        !view.shows("Acting on the cache") && !view.shows("asks first"),
        "keys that do nothing are not there: {view}"
    );
    assert!(view.shows("a row down"), "others are listed: {view}");
}

#[test]
fn closing_details_returns_to_the_same_row() {
    let mut view = View::new(100, 24);
    view.feed(busy(1)).code(KeyCode::Enter);
    let mut turned = busy(1);
    turned.processes[2].ledger = reads(8192, 4096);
    view.feed(turned).code(KeyCode::Esc);
    assert!(
        view.row(1).starts_with('▸') && view.row(1).contains("dd"),
        "though another one is first now: {view}"
    );
    let mut view = View::new(100, 24);
    view.feed(busy(1)).key('/').text("cat").code(KeyCode::Enter);
    assert!(view.row(0).contains("cat"), "the only one: {view}");
    view.code(KeyCode::Esc);
    assert!(
        view.row(1).starts_with('▸') && view.row(1).contains("cat"),
        "and still the chosen one among all: {view}"
    );
}

#[test]
fn intervals_that_were_not_drawn_count_for_findings() {
    let mut view = View::new(100, 24);
    view.feed(quiet()).key('f');
    assert!(view.shows("over the last 1 s"), "{view}");
    view.app.pass(direct(64 << 20));
    view.feed(quiet());
    assert!(
        view.shows("over the last 3 s") && view.shows("direct read 64.0M,"),
        "an interval that was not drawn is in the findings: {view}"
    );
}

#[test]
fn verdict_is_above_the_numbers_and_opens_the_findings() {
    let mut view = View::new(100, 24);
    assert!(view.shows("verdict: not yet"), "{view}");
    view.feed(quiet()).judge();
    assert!(view.shows("verdict: no cache problem found"), "{view}");
    for _ in 0..4 {
        view.feed(direct(2 << 30)).judge();
        assert!(view.shows("no cache problem"), "every five seconds: {view}");
    }
    view.feed(direct(2 << 30)).judge();
    assert!(
        view.shows("(direct_io)") && view.shows("f shows them"),
        "the same words as run, doctor and the page: {view}"
    );
    let (x, y) = view.find("(direct_io)");
    assert_eq!(y, 1, "below the title: {view}");
    view.mouse(MouseEventKind::Down(MouseButton::Left), x, y);
    assert!(
        view.shows("Findings over the last"),
        "a click opens them: {view}"
    );
}

#[test]
fn verdict_of_long_names_fits_into_every_width() {
    for width in [20, 40, 80, 200] {
        for height in [5, 14, 16, 24] {
            let mut view = View::new(width, height);
            let mut interval = direct(2 << 30);
            interval.files[2].path =
                Measured::Exact(format!("/srv/\u{1b}[2J{}", "x".repeat(4000)).into());
            view.feed(interval).judge();
            assert_eq!(
                view.shows("verdict:"),
                height >= 16,
                "{width}x{height}: {view}"
            );
        }
    }
}
