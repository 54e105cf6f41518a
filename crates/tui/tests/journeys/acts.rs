//! Operations on the cache: confirmed first, shown as a command, or refused.

use cachewise_tui::{Answer, Request, Scene, Verb};
use ratatui::crossterm::event::KeyCode;

use crate::hand_made::*;

#[test]
fn operations_ask_first_and_show_their_command() {
    let mut view = View::new(120, 24);
    view.feed(busy(1)).key('2').key('e');
    assert!(
        view.shows("evict /srv/data/b, 64.0 MiB in all? y/N"),
        "the question: {view}"
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
    view.key('e').control('y');
    assert!(
        view.requests().is_empty() && view.shows("nothing was done"),
        "a key other than y means no: {view}"
    );
    view.key('e').key('y');
    let requests = view.requests();
    let [Request::Act(act)] = &requests[..] else {
        panic!("one act: {requests:?}");
    };
    assert_eq!(act.verb, Verb::Evict, "the requested one");
    assert_eq!(
        act.files[0].number.inode, 12,
        "on the file itself, not only its name"
    );
    assert!(view.shows("evict is at work"), "while it works: {view}");
    view.key('w');
    assert!(view.shows("at work"), "one after the other: {view}");
    view.code(KeyCode::Esc);
    assert_eq!(view.requests(), [Request::Cancel], "Esc stops it");
    view.answer(Answer::Acted(
        act.clone(),
        Ok("64.0 MiB evicted, 0 B stayed".into()),
    ));
    assert!(
        view.shows("evict: 64.0 MiB evicted, 0 B stayed   cachewise evict /srv/data/b"),
        "the result, and the command for a shell: {view}"
    );
    view.answer(Answer::Acted(act.clone(), Err("permission denied".into())));
    assert!(
        view.shows("! evict: permission denied"),
        "or why not, with a mark: {view}"
    );
}

#[test]
fn operation_on_a_process_covers_its_files() {
    let mut view = View::new(120, 24);
    view.feed(busy(1)).key('j').key('w');
    assert!(
        view.shows("warm 2 files, 96.0 MiB in all? y/N"),
        "of cat: {view}"
    );
    view.key('n').key('3').key('w');
    assert!(
        view.shows("select a file"),
        "groups have no operations: {view}"
    );
}

#[test]
fn readonly_and_recordings_refuse_operations() {
    let mut view = View::with(120, 24, |setup| setup.readonly = true);
    view.feed(busy(1)).key('2').key('e');
    assert!(
        view.shows("evict is off: started with --readonly"),
        "the reason is shown: {view}"
    );
    assert!(view.requests().is_empty(), "and nothing is done");
    assert!(!view.shows("w warm"), "nor offered: {view}");
    let mut view = View::with(120, 24, |setup| setup.scene = Scene::Recording);
    view.feed(busy(1)).key('2').key('e');
    assert!(
        view.shows("has no meaning here"),
        "a recording has no operations: {view}"
    );
}
