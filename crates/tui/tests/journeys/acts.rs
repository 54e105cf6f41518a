//! Acting on the cache: asked first, said as a command, or refused.

use cachewise_tui::{Answer, Request, Scene, Verb};
use ratatui::crossterm::event::KeyCode;

use crate::hand_made::*;

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
    view.key('e').control('y');
    assert!(
        view.requests().is_empty() && view.shows("nothing was done"),
        "a key beside y is no yes: {view}"
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
