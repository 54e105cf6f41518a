//! Keys that other programs have: search, commands, orders, columns.

use cachewise_model::Counter;
use cachewise_tui::BINDINGS;
use ratatui::crossterm::event::{KeyCode, MouseButton, MouseEventKind};

use crate::hand_made::*;

#[test]
fn search_goes_from_row_to_row_and_keeps_all() {
    let mut view = View::new(100, 24);
    view.feed(many(200)).code(KeyCode::F(3));
    assert!(view.shows("search: "), "as in htop: {view}");
    view.text("p12");
    assert!(
        view.selected().contains("p129") && view.shows("200 rows"),
        "the first match, and all rows: {view}"
    );
    view.code(KeyCode::F(3));
    assert!(view.selected().contains("p128"), "F3 again: {view}");
    view.code(KeyCode::Enter).key('n').key('n');
    assert!(view.selected().contains("p126"), "n goes on: {view}");
    view.key('N');
    assert!(view.selected().contains("p127"), "N goes back: {view}");
    view.key('g').key('N');
    assert!(view.selected().ends_with("p12"), "round the end: {view}");
    view.code(KeyCode::F(3)).text("p3");
    let found = view.selected();
    view.code(KeyCode::Esc);
    assert!(
        found.contains("p3") && view.selected().ends_with("p12"),
        "Esc goes back to the row before: {view}"
    );
    view.code(KeyCode::F(3)).text("nothing like it");
    assert!(view.shows("no row has nothing like it"), "{view}");
    view.code(KeyCode::Enter);
    assert!(view.selected().ends_with("p12"), "and stays there: {view}");
    let mut view = View::new(100, 24);
    view.feed(busy(1)).key('n');
    assert!(view.shows("search: "), "n without a search asks: {view}");
    view.text("re:(").code(KeyCode::Enter);
    assert!(view.shows("is not a regular expression"), "{view}");
    let mut view = View::new(100, 24);
    view.code(KeyCode::F(3))
        .text("x")
        .code(KeyCode::Enter)
        .text("nN");
}

fn run(view: &mut View, command: &str, sign: &str) {
    view.key(':').text(command).code(KeyCode::Enter);
    assert!(view.shows(sign), ":{command} shows {sign}: {view}");
}

#[test]
fn command_line_changes_views_order_and_filter() {
    let mut view = View::new(100, 24);
    view.feed(busy(1));
    run(&mut view, "file", "[2 files]");
    run(&mut view, "cgroup", "[3 cgroups]");
    run(&mut view, "devices", "[4 devices]");
    run(&mut view, "process", "[1 processes]");
    run(&mut view, "sort missed", "▼MISSED");
    run(&mut view, "sort nonsense", "no column nonsense here");
    run(&mut view, "filter cat", "1 of 3 rows");
    view.code(KeyCode::Esc);
    run(&mut view, "filter re:(", "is not a regular expression");
    run(&mut view, "3", "▸   1001");
    run(&mut view, "findings", "Findings over the last");
    view.code(KeyCode::Esc);
    run(&mut view, "help", "a row down");
    view.code(KeyCode::Esc);
    run(&mut view, "14:05", "only recordings have times");
    run(&mut view, "\u{1b}[2J", "no command");
    run(&mut view, "", "[1 processes]");
    view.key(':').text("fi");
    view.app.paste("le\n");
    view.code(KeyCode::Enter);
    assert!(view.shows("[2 files]"), "pasted text is text: {view}");
    view.key(':').code(KeyCode::Backspace).key('1');
    assert!(
        view.shows("[1 processes]"),
        "Backspace leaves an empty line: {view}"
    );
    view.key(':').text("q").code(KeyCode::Enter);
    assert!(view.app.is_over(), ":q ends");
}

#[test]
fn orders_of_htop_and_top_have_their_keys() {
    let mut view = View::new(120, 24);
    let mut interval = busy(1);
    interval.processes[0].cpu_seconds = cachewise_model::Measured::Exact(0.9);
    interval.processes[2]
        .ledger
        .set(Counter::WaitedFault, 1_000_000);
    view.feed(interval);
    view.key('P');
    assert!(
        view.shows("▼CPU") && view.row(0).contains("sh") && view.row(0).contains("90.0%"),
        "by CPU, which is shown for it: {view}"
    );
    view.key('M');
    assert!(
        view.shows("▼CACHED") && view.row(0).contains("cat"),
        "{view}"
    );
    view.key('T');
    assert!(
        view.shows("▼WAITED") && view.row(0).contains("cat"),
        "{view}"
    );
    view.key('3').key('M');
    assert!(view.shows("▼MEM"), "groups have memory: {view}");
    view.key('2').key('P');
    assert!(view.shows("files have no CPU time"), "{view}");
    view.code(KeyCode::F(12));
    assert!(view.shows("F12 has no meaning here"), "{view}");
}

#[test]
fn h_and_l_fold_and_unfold() {
    let mut view = View::new(120, 24);
    view.feed(busy(1)).key('t').key('h');
    assert!(view.shows("+ sh") && !view.shows("dd"), "h folds: {view}");
    view.key('l');
    assert!(view.shows("- sh") && view.shows("dd"), "l unfolds: {view}");
    view.key('t').key('h');
    assert!(
        view.shows("Views"),
        "h is help where nothing is folded: {view}"
    );
}

#[test]
fn columns_are_chosen_in_a_menu() {
    let mut view = View::new(120, 24);
    view.feed(busy(1)).code(KeyCode::F(2));
    assert!(
        view.shows("[x] REQUESTED") && view.shows("[ ] REUSE%"),
        "the choice: {view}"
    );
    assert!(
        view.shows("DIRECT      (hidden: only zeros now)"),
        "the reason why one is not there: {view}"
    );
    view.text("jj ").code(KeyCode::Esc);
    assert!(!view.shows("CACHED"), "turned off: {view}");
    view.key('F').text("jjjjjjjj").code(KeyCode::Enter).key('q');
    assert!(view.shows("REUSE%"), "turned on: {view}");
    view.code(KeyCode::F(2))
        .text("GGGkkkgjjj")
        .code(KeyCode::PageDown);
    view.key(' ').code(KeyCode::F(2));
    assert!(view.shows("NAME"), "the last one: {view}");
}

#[test]
fn each_key_of_other_programs_is_documented() {
    let table = cachewise_tui::markdown_of_other_programs();
    for key in ["F3", "n", "N", "F2", "\\", "P", "M", "T", "h", "l", ":"] {
        assert!(table.contains(&format!("| `{key}` | ")), "{key}: {table}");
    }
    for binding in BINDINGS {
        assert!(!binding.keys.is_empty(), "{} has a key", binding.name);
    }
}

#[test]
fn clicks_on_tabs_and_keys_do_what_the_keys_do() {
    let mut view = View::new(120, 24);
    view.feed(busy(1));
    let mut click = |text: &str, sign: &str| {
        let (x, y) = view.find(text);
        view.mouse(MouseEventKind::Down(MouseButton::Left), x + 1, y);
        assert!(view.shows(sign), "a click on {text} shows {sign}: {view}");
    };
    click("2 files", "[2 files]");
    click("3 cgroups", "[3 cgroups]");
    click("1 processes", "[1 processes]");
    click("s sort", "sort by (");
    click("Esc close", "s sort");
    click("/ filter", "text, re:REGEX");
    view.text("cat").code(KeyCode::Enter);
    assert!(view.shows("1 of 3 rows"), "{view}");
    view.code(KeyCode::Esc);
    let mut click = |text: &str, sign: &str| {
        let (x, y) = view.find(text);
        view.mouse(MouseEventKind::Down(MouseButton::Left), x, y);
        assert!(view.shows(sign), "a click on {text} shows {sign}: {view}");
    };
    click("? help", "a row down");
    click("PgDn page down", "Esc close");
    click("Esc close", "[1 processes]");
    click("F2 columns", "[x] REQUESTED");
    click("Esc close", "q quit");
    let (x, y) = view.find("q quit");
    view.mouse(MouseEventKind::Down(MouseButton::Left), x, y);
    assert!(view.app.is_over(), "q ends");
}

#[test]
fn click_on_a_message_closes_it() {
    let mut view = View::new(80, 24);
    view.feed(busy(1)).key('x');
    assert!(view.shows("x has no meaning"), "{view}");
    view.mouse(MouseEventKind::Down(MouseButton::Left), 3, 23);
    assert!(
        !view.shows("x has no meaning") && view.shows("? help"),
        "{view}"
    );
}

#[test]
fn clicks_are_no_letters_and_no_answers() {
    let mut view = View::new(120, 24);
    view.feed(busy(1));
    let (x, y) = view.find("3 cgroups");
    for keys in ["/", ":", "2e"] {
        view.text(keys);
        view.mouse(MouseEventKind::Down(MouseButton::Left), x, y);
        assert!(
            !view.shows("/3") && !view.shows(":3") && !view.shows("[3 cgroups]"),
            "after {keys}: {view}"
        );
        assert!(
            keys != "2e" || view.shows("y/N"),
            "a question stays: {view}"
        );
        view.code(KeyCode::Esc);
    }
}
