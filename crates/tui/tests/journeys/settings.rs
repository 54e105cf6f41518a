//! Columns that are kept in a file, and files with faults.

use std::fs;
use std::path::{Path, PathBuf};

use cachewise_tui::{Request, Settings};
use ratatui::crossterm::event::KeyCode;

use crate::hand_made::*;

fn with_file(path: &Path) -> View {
    let mut view = View::with(120, 24, |setup| {
        setup.settings = Settings::read(path.to_owned());
    });
    view.feed(busy(1));
    view
}

/// Saves as the loop around the view does.
fn save(view: &mut View, path: &Path) -> Result<PathBuf, String> {
    let requests = view.requests();
    let [Request::Save(columns)] = &requests[..] else {
        panic!("one request to save: {requests:?}");
    };
    Settings::read(path.to_owned()).save(columns)
}

#[test]
fn chosen_columns_are_there_the_next_time() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("config/cachewise/top.toml");
    let mut view = with_file(&path);
    assert!(view.shows("CACHED"), "no file, no choice: {view}");
    view.code(KeyCode::F(2)).text("jj ").code(KeyCode::Esc);
    let saved = save(&mut view, &path);
    assert_eq!(saved, Ok(path.clone()), "directories are made");
    let mut view = with_file(&path);
    assert!(
        !view.shows("CACHED") && view.shows("REQUESTED MISSED"),
        "as it was chosen: {view}"
    );
    view.key('2');
    assert!(view.shows("CACHED"), "other views have their own: {view}");
    view.key('W');
    save(&mut view, &path).unwrap();
    let text = fs::read_to_string(&path).unwrap();
    let process = "process = [\"pid\", \"read_requested_pages\", \"readahead_hit";
    assert!(
        text.contains("version = 1") && text.contains(process),
        "ids, which do not change: {text}"
    );
    let left = fs::read_dir(path.parent().unwrap()).unwrap().count();
    assert_eq!(left, 1, "nothing else is left");
}

#[test]
fn link_to_a_file_elsewhere_stays_a_link() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("top.toml");
    let elsewhere = directory.path().join("elsewhere.toml");
    fs::write(&elsewhere, "version = 1").unwrap();
    std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
    let mut view = with_file(&path);
    view.key('W');
    assert_eq!(save(&mut view, &path), Ok(elsewhere.clone()));
    assert!(path.is_symlink() && fs::read_to_string(elsewhere).unwrap().contains("[columns]"));
}

#[test]
fn menu_without_a_change_saves_nothing() {
    let mut view = View::new(100, 24);
    view.feed(busy(1)).code(KeyCode::F(2)).text("jjk").key('q');
    assert_eq!(view.requests(), []);
    view.code(KeyCode::Enter).code(KeyCode::F(2)).text(" q");
    let requests = view.requests();
    assert!(
        !requests
            .iter()
            .any(|request| matches!(request, Request::Save(_)))
            && view.shows("columns of details are not saved"),
        "{view}"
    );
}

#[test]
fn files_with_faults_are_named_and_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("top.toml");
    for (text, why) in [
        ("version = 1\n\n[columns\n", "line 3: "),
        (
            "version = 2\nfuture = true\n",
            "of a newer version of cachewise (format 2",
        ),
        ("[columns]\nprocess = []\n", "lacks `version = 1`"),
        ("version = 1\ntheme = 3\n", "unknown key theme"),
        ("version = 1\ncolumns = 3\n", "columns is no table"),
        (
            "version = 1\n[columns]\nthread = []\n",
            "columns.thread: no such view",
        ),
        (
            "version = 1\n[columns]\nfile = 1\n",
            "columns.file is no list",
        ),
        ("version = 1\n[columns]\nfile = [1]\n", "no column ``"),
        (
            "version = 1\n[columns]\nfile = [\"pid\"]\n",
            "columns.file: no column `pid`",
        ),
        (
            "version = 1\n[columns]\nfile = [\"\\u001b[2J\"]\n",
            "no column `\\x1b[2J`",
        ),
        ("\u{0}\u{1}", "line 1: "),
    ] {
        fs::write(&path, text).unwrap();
        let mut view = with_file(&path);
        assert!(
            view.shows("! default columns: ") && view.shows(why) && view.shows("CACHED"),
            "{text:?}: {why}: {view}"
        );
        view.key('W');
        let refused = save(&mut view, &path).unwrap_err();
        assert!(
            refused.starts_with("not saved, the file stays"),
            "{refused}"
        );
        assert_eq!(fs::read_to_string(&path).unwrap(), text, "as it was");
    }
    fs::write(&path, [0xff, 0xfe]).unwrap();
    assert!(with_file(&path).shows("UTF-8"), "bytes that are no text");
    fs::write(&path, vec![b'#'; 1 << 17]).unwrap();
    assert!(with_file(&path).shows("more than 65536 bytes"));
    assert!(with_file(directory.path()).shows("no regular file"));
    assert!(with_file(&path.join("below")).shows("Not a directory"));
}

#[test]
fn choice_without_a_place_for_it_is_not_saved() {
    let mut view = View::new(100, 24);
    view.feed(busy(1)).key('W');
    let requests = view.requests();
    let [Request::Save(columns)] = &requests[..] else {
        panic!("{requests:?}");
    };
    let refused = Settings::default().save(columns).unwrap_err();
    assert!(refused.contains("HOME"), "{refused}");
    let other = Settings::read("/proc/1/top.toml".into()).save(columns);
    assert!(other.is_err(), "nor in a directory that cannot have it");
}

#[test]
fn faults_are_named_on_small_screens() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("top.toml");
    fs::write(&path, "version = 9").unwrap();
    let mut view = View::with(20, 5, |setup| {
        setup.settings = Settings::read(path.clone());
    });
    view.feed(busy(1));
    assert!(view.shows("! default columns"), "{view}");
}
