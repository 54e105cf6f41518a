//! Journeys: keys, stretches and answers in; what is on the screen and what is asked of the outside, out.

mod hand_made;

use std::time::Duration;

use cachewise_model::{Ledger, Measured, Missing, Residency};
use cachewise_tui::{
    Answer, App, BINDINGS, Filter, History, Kind, Look, Player, Request, Scene, Setup, Step, Verb,
};
use hand_made::*;
use ratatui::crossterm::event::{KeyCode, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};

#[test]
fn the_one_who_misses_comes_first_and_rates_are_per_second() {
    let mut view = View::new(80, 24);
    view.feed(busy(2));
    assert!(view.shows("[1 processes]"), "processes come first: {view}");
    assert!(
        view.row(0).contains("dd") && view.row(1).contains("cat"),
        "by misses: {view}"
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
        "and what it waits for: {view}"
    );
    assert!(
        view.shows("every 1s, exact"),
        "and how well it is known: {view}"
    );
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
    assert!(view.shows("[2 files]"), "Tab goes on: {view}");
}

#[test]
fn the_order_is_chosen_by_key_menu_and_mouse() {
    let mut view = View::new(120, 24);
    view.feed(busy(1));
    view.key('>').key('>');
    assert!(
        view.shows("▼READAHEAD"),
        "two to the right of misses: {view}"
    );
    view.key('<').key('<');
    assert!(view.shows("▼MISSES"), "and back: {view}");
    view.key('r');
    assert!(view.shows("▲MISSES"), "turned round: {view}");
    assert!(
        view.row(0).contains("cat"),
        "the fewest misses first: {view}"
    );
    view.key('I');
    assert!(view.row(0).contains("dd"), "and round again: {view}");
    view.key('s').code(KeyCode::Up).code(KeyCode::Enter);
    assert!(
        view.shows("▼HITS"),
        "the one above misses in the menu: {view}"
    );
    let (x, y) = view.find("PID");
    view.mouse(MouseEventKind::Down(MouseButton::Left), x, y);
    assert!(view.shows("▼PID"), "a click on a heading: {view}");
    assert!(view.row(0).contains("1003"), "the largest id first: {view}");
    view.mouse(MouseEventKind::Down(MouseButton::Left), x, y);
    assert!(view.shows("▲PID"), "and again turns it round: {view}");
}

#[test]
fn a_filter_is_live_and_escape_clears_it() {
    let mut view = View::new(100, 24);
    view.feed(busy(1));
    view.key('/').text("ca");
    assert!(view.shows("/ca"), "what is typed is seen: {view}");
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
        view.shows("is no regular expression"),
        "what is wrong is said: {view}"
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
fn files_are_a_tree_of_directories_with_sums() {
    let mut view = View::new(110, 24);
    view.feed(busy(1)).key('2').key('t');
    assert!(
        view.row(0).contains("- srv/data/") || view.row(0).contains("- /srv/data/"),
        "directories with one entry stand on one line: {view}"
    );
    assert!(
        view.row(0).contains("40.0M"),
        "the sum of what is below: {view}"
    );
    assert!(
        view.row(1).contains("  b"),
        "then what is in it, by misses: {view}"
    );
    view.key('-');
    assert!(
        view.row(0).contains("+ ") && view.row(1).trim().is_empty(),
        "folded: {view}"
    );
    view.key('+');
    assert!(view.row(1).contains("  b"), "unfolded: {view}");
    view.key('j').code(KeyCode::Left);
    assert!(
        view.row(0).starts_with('▸'),
        "from a leaf one goes up: {view}"
    );
    view.key('3').key('t');
    assert!(
        view.row(0).contains("- /") && view.row(2).contains("    db.service"),
        "groups are a tree as well: {view}"
    );
    view.key('4').key('t');
    assert!(
        view.shows("devices have no tree"),
        "what has none says so: {view}"
    );
}

#[test]
fn processes_are_a_tree_of_parents() {
    let mut view = View::new(110, 24);
    view.feed(busy(1)).key('t');
    assert!(
        view.row(0).contains("- sh") && view.row(1).contains("    dd"),
        "the shell above those that it started: {view}"
    );
}

#[test]
fn details_of_a_process_are_its_files_with_residency() {
    let mut view = View::new(120, 24);
    view.feed(busy(1)).code(KeyCode::Enter);
    assert!(view.shows("files of dd (1002)"), "whose: {view}");
    assert!(view.row(0).contains("/srv/data/b"), "which: {view}");
    let asked = view.requests();
    let files = asked.iter().find_map(|request| match request {
        Request::Residency(files) => Some(files.clone()),
        _ => None,
    });
    let files = files.expect("what is resident is asked for");
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
    let process = process.expect("its arguments are asked for");
    let line = Measured::Exact("dd if=/srv/data/b".to_owned());
    view.answer(Answer::CommandLines(vec![(process, line)]));
    assert!(view.shows("command dd if=/srv/data/b"), "in words: {view}");
    view.code(KeyCode::Enter);
    assert!(
        view.shows("readers and writers of /srv/data/b"),
        "deeper: {view}"
    );
    assert!(
        view.row(0).contains("dd") && view.shows("nobody in"),
        "by whom: {view}"
    );
    view.feed(quiet());
    assert!(
        view.shows("as it was last"),
        "what has ended stays to be seen: {view}"
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
fn details_of_groups_and_devices_are_their_processes_and_files() {
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
fn acts_ask_first_and_say_their_command() {
    let mut view = View::new(120, 24);
    view.feed(busy(1)).key('2').key('e');
    assert!(
        view.shows("evict /srv/data/b, 64.0 MiB in all? y/N"),
        "what would be done: {view}"
    );
    assert!(
        view.shows("cachewise evict /srv/data/b"),
        "as a command: {view}"
    );
    view.code(KeyCode::Enter);
    assert!(
        view.requests().is_empty() && view.shows("nothing was done"),
        "no is the default: {view}"
    );
    view.key('e').key('y');
    let requests = view.requests();
    let [Request::Act(act)] = &requests[..] else {
        panic!("one act: {requests:?}");
    };
    assert_eq!(act.verb, Verb::Evict, "the one that was asked for");
    assert_eq!(
        act.files[0].inode, 12,
        "on the file itself, not only its name"
    );
    assert!(view.shows("evict is at work"), "while it works: {view}");
    view.key('w');
    assert!(view.shows("at work"), "one after the other: {view}");
    view.code(KeyCode::Esc);
    assert_eq!(view.requests(), [Request::Cancel], "Esc stops it");
    view.answer(Answer::Acted(
        act.clone(),
        Ok("64.0 MiB went, 0 B stayed".into()),
    ));
    assert!(
        view.shows("evict: 64.0 MiB went, 0 B stayed   cachewise evict /srv/data/b"),
        "what came of it, and how to say it in a shell: {view}"
    );
    view.answer(Answer::Acted(act.clone(), Err("permission denied".into())));
    assert!(
        view.shows("! evict: permission denied"),
        "or why not, with a mark: {view}"
    );
}

#[test]
fn acts_on_a_process_are_on_its_files() {
    let mut view = View::new(120, 24);
    view.feed(busy(1)).key('j').key('w');
    assert!(
        view.shows("warm 2 files, 96.0 MiB in all? y/N"),
        "of cat: {view}"
    );
    view.key('n').key('3').key('w');
    assert!(
        view.shows("choose a file"),
        "groups cannot be acted on: {view}"
    );
}

#[test]
fn readonly_and_recordings_cannot_act() {
    let mut view = View::with(120, 24, |setup| setup.readonly = true);
    view.feed(busy(1)).key('2').key('e');
    assert!(
        view.shows("evict is off: started with --readonly"),
        "it is said: {view}"
    );
    assert!(view.requests().is_empty(), "and nothing is done");
    assert!(!view.shows("w warm"), "nor offered: {view}");
    let mut view = View::with(120, 24, |setup| setup.scene = Scene::Recording);
    view.feed(busy(1)).key('2').key('e');
    assert!(
        view.shows("has no meaning here"),
        "nobody acts on the past: {view}"
    );
}

#[test]
fn held_the_screen_stands_and_counting_goes_on() {
    let mut view = View::new(100, 24);
    view.feed(busy(1)).key(' ');
    assert!(view.shows("[held]"), "it is said: {view}");
    view.feed(quiet());
    assert!(view.row(0).contains("dd"), "the rows stand: {view}");
    view.key(' ');
    assert!(
        !view.shows("[held]") && view.shows("nobody has used"),
        "then the latest comes: {view}"
    );
}

#[test]
fn numbers_are_bytes_pages_or_parts() {
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
fn the_interval_is_changed_in_steps() {
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
        "there is an end: {view}"
    );
}

#[test]
fn one_follows_a_row_and_the_top_follows_nobody() {
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
fn help_has_every_key_of_the_table() {
    let mut view = View::new(120, 200);
    view.feed(busy(1)).key('?');
    for binding in BINDINGS
        .iter()
        .filter(|binding| binding.only != Some(Scene::Recording))
    {
        assert!(
            view.shows(binding.help) && view.shows(binding.shown),
            "{} is explained: {view}",
            binding.shown
        );
    }
    assert!(
        view.shows("Pages asked for by reads that were not in the page cache"),
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
fn control_c_ends_it_wherever_one_is() {
    for keys in ["", "/abc", "?", "s", "2e", "f"] {
        let mut view = View::new(80, 24);
        view.feed(busy(1)).text(keys).control('c');
        assert!(view.app.is_over(), "after {keys:?}");
    }
}

#[test]
fn what_is_pasted_does_not_act() {
    let mut view = View::new(100, 24);
    view.feed(busy(1)).key('2');
    view.app.paste("ey");
    assert!(
        view.requests().is_empty() && !view.shows("y/N"),
        "it is no key: {view}"
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
fn findings_have_figures_and_a_next_step() {
    let mut view = View::new(100, 30);
    view.feed(direct(2 << 30)).key('f');
    assert!(
        view.shows("O_DIRECT") && view.shows("next:") && view.shows("/srv/data/c"),
        "who goes around the cache: {view}"
    );
    view.code(KeyCode::Esc).feed(quiet());
    assert!(view.shows("[1 processes]"), "closed: {view}");
    let mut view = View::new(100, 30);
    view.feed(quiet()).key('f');
    assert!(
        view.shows("nothing that would be worth a change"),
        "or nothing: {view}"
    );
    let mut view = View::new(100, 30);
    let mut blind = quiet();
    blind.ledger = Ledger::all_missing(Missing::NotOffered("no probe"));
    view.feed(blind);
    assert!(
        view.shows("max ?") && !view.shows("max 0"),
        "of what nobody counted there is no most: {view}"
    );
    view.key('f');
    assert!(
        view.shows("11 of 13 rules could not look: no probe") && !view.shows("nothing that"),
        "who could not look clears nobody: {view}"
    );
}

#[test]
fn every_size_of_a_terminal_is_drawn() {
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
fn forty_by_ten_is_of_use() {
    let mut view = View::new(40, 10);
    view.feed(busy(1));
    assert!(
        view.shows("Cached 1.00G") && view.shows("MISSES") && view.shows("HIT%"),
        "numbers: {view}"
    );
    assert!(
        view.row(0).contains("dd") && view.row(1).contains("cat"),
        "rows: {view}"
    );
    assert!(view.shows("? help"), "and the way to the rest: {view}");
    view.key('2').key('e');
    assert!(view.shows("y/N"), "a question is seen whole: {view}");
}

#[test]
fn resizing_keeps_the_chosen_row_in_sight() {
    let mut view = View::new(80, 40);
    view.feed(many(1000)).key('G');
    for height in [40, 12, 5, 30] {
        view.resize(80, height);
        assert!(view.shows("▸"), "at {height} lines: {view}");
    }
}

#[test]
fn ascii_only_where_nothing_else_can_be_shown() {
    let mut view = View::with(100, 30, |setup| {
        setup.look = Look {
            ascii: true,
            color: false,
        }
    });
    let mut stretch = busy(1);
    stretch.files[1].path = Measured::Exact("/srv/daten/größe…".into());
    view.feed(stretch);
    for keys in ["", "t", "2", "t", "?", "s", "f", "/ö"] {
        view.text(keys).draw();
        assert!(view.to_string().is_ascii(), "after {keys}: {view}");
        view.code(KeyCode::Esc);
    }
}

#[test]
fn without_colour_there_is_none_and_nothing_is_lost() {
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
fn names_from_outside_do_not_act_on_the_terminal() {
    let mut view = View::new(160, 24);
    let mut stretch = busy(1);
    stretch.processes[1].command = Measured::Exact("a\u{1b}[2J\nb\t漢字".into());
    stretch.files[1].path = Measured::Exact("/srv/\u{1b}]0;x\u{7}/new\nline/漢字漢字".into());
    view.feed(stretch);
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

#[test]
fn unknown_is_not_nothing() {
    let mut view = View::new(120, 24);
    let mut stretch = busy(1);
    stretch.processes[1].ledger.set_missing(
        cachewise_model::Counter::ReadMissPages,
        Missing::Unknown("lost"),
    );
    stretch.system.cached_bytes = Measured::unknown("no permission");
    stretch.system.psi_io_some_seconds = Measured::not_offered("no PSI");
    view.feed(stretch);
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
        "what is not known is not sorted first: {view}"
    );
}

#[test]
fn without_a_probe_it_says_why_there_is_nobody() {
    let mut view = View::with(100, 24, |setup| {
        setup.backend.exact = false;
        setup.backend.notes = vec!["not root".into()];
    });
    view.feed(quiet());
    assert!(view.shows("estimates"), "in the head: {view}");
    assert!(
        view.shows("only the probe knows who did what: not root"),
        "instead of rows: {view}"
    );
}

#[test]
fn lost_events_are_said() {
    let mut view = View::new(100, 24);
    let mut stretch = busy(1);
    stretch.lost = vec![cachewise_model::Lost {
        id: "names",
        count: 3,
        meaning: "whose name was lost",
    }];
    view.feed(stretch);
    assert!(
        view.shows("incomplete: 3 names"),
        "where it says exact otherwise: {view}"
    );
}

#[test]
fn thousands_of_rows_are_gone_through() {
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
        "the wheel goes three down: {view}"
    );
}

#[test]
fn only_active_rows_if_asked() {
    let mut view = View::new(100, 24);
    view.feed(busy(1)).key('o');
    assert!(
        view.shows("active  2 of 3 rows"),
        "the shell did nothing: {view}"
    );
}

#[test]
fn arguments_are_asked_for_once_and_shown() {
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
        "known ones are not asked for again"
    );
}

#[test]
fn a_filter_and_an_order_from_outside() {
    let mut view = View::with(100, 24, |setup| {
        setup.filter = Filter::new("cat").ok();
        setup.sort = Some("pid");
        setup.view = Kind::Process;
        setup.scope = Some("process 7".into());
    });
    view.feed(busy(1));
    assert!(
        view.shows("▼PID") && view.shows("1 of 3 rows"),
        "both hold: {view}"
    );
    assert!(
        view.shows("only process 7"),
        "and so does what is watched: {view}"
    );
}

struct Tape(Vec<u64>);

impl History for Tape {
    fn len(&self) -> usize {
        self.0.len()
    }
    fn get(&mut self, place: usize) -> Result<cachewise_model::Stretch, String> {
        match self.0[place] {
            0 => Err("it is torn".into()),
            misses => Ok(one_process("tape", misses)),
        }
    }
}

fn on_screen<H: History>(player: &mut Player<H>) -> String {
    let mut terminal = ratatui::Terminal::new(ratatui::backend::TestBackend::new(90, 24)).unwrap();
    assert_eq!(player.serve(), [], "a recording asks for nothing outside");
    terminal.draw(|frame| player.app.draw(frame)).unwrap();
    terminal.backend().to_string()
}

#[test]
fn a_recording_is_gone_through_in_time() {
    let app = || {
        App::new(Setup {
            scene: Scene::Recording,
            ..setup()
        })
    };
    assert!(
        Player::new(app(), Tape(vec![])).is_err(),
        "nothing to show is an error"
    );
    assert!(
        Player::new(app(), Tape(vec![0])).is_err(),
        "so is a torn beginning"
    );
    let mut player = Player::new(app(), Tape(vec![256, 512, 0, 1024])).unwrap();
    let mut go = |code: KeyCode, sample: &str, size: &str| {
        player.key(key(code, KeyModifiers::NONE));
        let text = on_screen(&mut player);
        assert!(text.contains(sample), "{code:?} leads to {sample}: {text}");
        assert!(text.contains(size), "with its numbers, {size}: {text}");
    };
    go(KeyCode::Char('j'), "sample 1 of 4", "1.00M");
    go(KeyCode::Char('.'), "sample 2 of 4", "2.00M");
    go(KeyCode::Char('.'), "sample 2 of 4", "sample 3: it is torn");
    go(KeyCode::End, "sample 4 of 4", "4.00M");
    go(
        KeyCode::Char('.'),
        "sample 4 of 4",
        "this is the last sample",
    );
    go(KeyCode::Home, "sample 1 of 4", "1.00M");
    go(
        KeyCode::Char(','),
        "sample 1 of 4",
        "this is the first sample",
    );
    go(KeyCode::Char(' '), "plays", "1.00M");
    player.tick();
    assert!(
        on_screen(&mut player).contains("sample 2 of 4, plays"),
        "it goes on by itself"
    );
    player.tick();
    assert!(!player.is_playing(), "until it cannot");
    assert!(
        on_screen(&mut player).contains("it is torn"),
        "and says why"
    );
    let _ = Step::Play;
}

#[test]
fn mouse_events_outside_of_everything_do_nothing() {
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
    assert!(view.shows("▼MISSES"), "nothing has changed: {view}");
}
