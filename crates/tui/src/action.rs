//! Actions and their keys: one table for key handling, the help pane and the documentation.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::view_kind::ViewKind;

/// An action that the user can request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the table of bindings describes each")]
pub enum Action {
    View(ViewKind),
    NextView,
    Findings,
    Evictions,
    Up,
    Down,
    HalfPageUp,
    HalfPageDown,
    PageUp,
    PageDown,
    First,
    Last,
    Open,
    Close,
    Tree,
    Group,
    Unfold,
    Fold,
    UnfoldAll,
    SortLeft,
    SortRight,
    SortMenu,
    Reverse,
    Filter,
    Active,
    Scale,
    CommandLine,
    Pause,
    Faster,
    Slower,
    Warm,
    Evict,
    Earlier,
    Later,
    FirstSample,
    LastSample,
    Play,
    Help,
    Redraw,
    Suspend,
    Quit,
}

/// Heading of a binding in the help pane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Category {
    /// Choice of the view.
    Views,
    /// Movement.
    Moving,
    /// Order and choice of rows.
    Rows,
    /// Format and interval of numbers.
    Numbers,
    /// Changes of the machine's page cache.
    Acting,
    /// Movement through a recording.
    Recording,
    /// The program itself.
    Program,
}

impl Category {
    /// The heading.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Category::Views => "Views",
            Category::Moving => "Moving",
            Category::Rows => "Rows",
            Category::Numbers => "Numbers",
            Category::Acting => "Acting on the cache",
            Category::Recording => "In a recording",
            Category::Program => "Program",
        }
    }
}

/// Where a binding is valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scene {
    /// A live machine.
    Live,
    /// A recording.
    Recording,
}

/// A row of the table.
#[derive(Debug, Clone, Copy)]
pub struct Binding {
    /// The action.
    pub action: Action,
    /// Its keys.
    pub keys: &'static [(KeyCode, KeyModifiers)],
    /// Its keys as text.
    pub shown: &'static str,
    /// One word for the line of keys at the bottom.
    pub name: &'static str,
    /// A short description.
    pub help: &'static str,
    /// Its heading.
    pub category: Category,
    /// The scene in which it is valid; `None` for both.
    pub only: Option<Scene>,
}

const fn key(code: KeyCode) -> (KeyCode, KeyModifiers) {
    (code, KeyModifiers::NONE)
}

const fn letter(letter: char) -> (KeyCode, KeyModifiers) {
    key(KeyCode::Char(letter))
}

const fn control(letter: char) -> (KeyCode, KeyModifiers) {
    (KeyCode::Char(letter), KeyModifiers::CONTROL)
}

macro_rules! bindings {
    ($($category:ident $(in $only:ident)?: $action:expr, [$($key:expr),+], $shown:literal, $name:literal, $help:literal;)+) => {
        /// Every binding, in the order of the help pane.
        pub static BINDINGS: &[Binding] = &[$(Binding {
            action: $action,
            keys: &[$($key),+],
            shown: $shown,
            name: $name,
            help: $help,
            category: Category::$category,
            only: bindings!(@only $($only)?),
        }),+];
    };
    (@only) => { None };
    (@only $only:ident) => { Some(Scene::$only) };
}

bindings! {
    Views: Action::View(ViewKind::Process), [letter('1')], "1", "processes", "processes";
    Views: Action::View(ViewKind::File), [letter('2')], "2", "files", "files";
    Views: Action::View(ViewKind::Cgroup), [letter('3')], "3", "cgroups", "control groups";
    Views: Action::View(ViewKind::Device), [letter('4')], "4", "devices", "storage devices and file systems without one";
    Views: Action::NextView, [key(KeyCode::Tab)], "Tab", "next", "the next of these views";
    Views: Action::Findings, [letter('f')], "f", "findings", "findings of the last minute, with the next step";
    Views in Live: Action::Evictions, [letter('v')], "v", "evictions", "evicted pages of the last minute, by process and cause";
    Views: Action::Open, [key(KeyCode::Enter)], "Enter", "details", "a process's files, a file's readers, a group's processes, a device's files";
    Views: Action::Close, [key(KeyCode::Esc)], "Esc", "close", "closes the top pane; without one, clears the filter";
    Moving: Action::Down, [letter('j'), key(KeyCode::Down)], "j Down", "down", "a row down";
    Moving: Action::Up, [letter('k'), key(KeyCode::Up)], "k Up", "up", "a row up";
    Moving: Action::PageDown, [key(KeyCode::PageDown), control('f')], "PgDn", "page down", "a page down";
    Moving: Action::PageUp, [key(KeyCode::PageUp), control('b')], "PgUp", "page up", "a page up";
    Moving: Action::HalfPageDown, [control('d')], "Ctrl-d", "half down", "half a page down";
    Moving: Action::HalfPageUp, [control('u')], "Ctrl-u", "half up", "half a page up";
    Recording in Recording: Action::FirstSample, [key(KeyCode::Home)], "Home", "begin", "the first sample";
    Recording in Recording: Action::LastSample, [key(KeyCode::End)], "End", "end", "the last sample";
    Recording in Recording: Action::Earlier, [letter(',')], ",", "back", "a sample back";
    Recording in Recording: Action::Later, [letter('.')], ".", "on", "a sample forward";
    Recording in Recording: Action::Play, [letter(' ')], "Space", "play", "plays or stops";
    Moving: Action::First, [letter('g'), key(KeyCode::Home)], "g Home", "first", "the first row";
    Moving: Action::Last, [letter('G'), key(KeyCode::End)], "G End", "last", "the last row";
    Rows: Action::SortLeft, [letter('<')], "<", "sort left", "sorts by the column to the left";
    Rows: Action::SortRight, [letter('>')], ">", "sort right", "sorts by the column to the right";
    Rows: Action::SortMenu, [letter('s'), key(KeyCode::F(6))], "s F6", "sort", "chooses the column to sort by";
    Rows: Action::Reverse, [letter('r'), letter('I')], "r I", "reverse", "turns the order round";
    Rows: Action::Filter, [letter('/'), key(KeyCode::F(4))], "/ F4", "filter", "only rows with this text; re:REGEX, glob:PATTERN; Esc clears";
    Rows: Action::Active, [letter('o')], "o", "active", "only rows that did something, or all";
    Rows: Action::Tree, [letter('t'), key(KeyCode::F(5))], "t F5", "tree", "tree of groups, directories or processes, with sums";
    Rows: Action::Group, [letter('u')], "u", "group", "processes by command, by unit, by container, or each, with sums";
    Rows: Action::Unfold, [letter('+'), key(KeyCode::Right)], "+ Right", "unfold", "shows the rows below, in a tree or of a group";
    Rows: Action::Fold, [letter('-'), key(KeyCode::Left), key(KeyCode::Backspace)], "- Left", "fold", "hides the rows below, or goes up";
    Rows: Action::UnfoldAll, [letter('*')], "*", "unfold all", "shows all rows of trees and groups";
    Numbers: Action::Scale, [letter('b')], "b", "units", "bytes, pages, or percent of the whole machine's";
    Numbers: Action::CommandLine, [letter('c')], "c", "arguments", "programs with their arguments, or names";
    Numbers in Live: Action::Pause, [letter(' '), letter('Z')], "Space Z", "pause", "freezes the screen; counting continues";
    Numbers: Action::Faster, [letter('[')], "[", "faster", "a shorter interval";
    Numbers: Action::Slower, [letter(']')], "]", "slower", "a longer interval";
    Acting in Live: Action::Warm, [letter('w')], "w", "warm", "prefetches the file, or the process's files; asks first";
    Acting in Live: Action::Evict, [letter('e')], "e", "evict", "evicts them; asks first";
    Program: Action::Help, [letter('?'), key(KeyCode::F(1)), letter('h')], "? F1 h", "help", "this text";
    Program: Action::Redraw, [control('l')], "Ctrl-l", "redraw", "redraws the screen";
    Program: Action::Suspend, [control('z')], "Ctrl-z", "stop", "back to the shell; `fg` continues";
    Program: Action::Quit, [letter('q'), control('c'), key(KeyCode::F(10))], "q Ctrl-c", "quit", "ends the program";
}

/// The action of a key in this scene.
#[must_use]
pub fn action(event: KeyEvent, scene: Scene) -> Option<Action> {
    // Terminals differ in whether they report Shift beside the letter that it made.
    let modifiers = event.modifiers - KeyModifiers::SHIFT;
    BINDINGS
        .iter()
        .filter(|binding| binding.only.is_none_or(|only| only == scene))
        .find(|binding| binding.keys.contains(&(event.code, modifiers)))
        .map(|binding| binding.action)
}

/// The binding of an action.
#[must_use]
pub fn binding(action: Action) -> Option<&'static Binding> {
    BINDINGS.iter().find(|binding| binding.action == action)
}

/// The table in the documentation's markdown.
#[must_use]
pub fn markdown() -> String {
    BINDINGS.iter().fold(
        String::from("| key | does |\n|---|---|\n"),
        |text, binding| {
            let only = match binding.only {
                Some(Scene::Recording) => " (in a recording)",
                _ => "",
            };
            let keys: Vec<String> = binding
                .shown
                .split(' ')
                .map(|key| format!("`{key}`"))
                .collect();
            text + &format!("| {} | {}{only} |\n", keys.join(" "), binding.help)
        },
    )
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn each_key_has_one_action_per_scene() {
        for scene in [Scene::Live, Scene::Recording] {
            let mut seen = HashSet::new();
            for binding in BINDINGS
                .iter()
                .filter(|binding| binding.only.is_none_or(|only| only == scene))
            {
                for key in binding.keys {
                    // Home and End go through the samples of a recording; g and G stay with the
                    // rows.
                    let is_taken_over = scene == Scene::Recording
                        && matches!(binding.action, Action::First | Action::Last);
                    assert!(
                        seen.insert(*key) || is_taken_over,
                        "{key:?} has one action in {scene:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn shift_in_the_event_is_ignored() {
        for modifiers in [KeyModifiers::NONE, KeyModifiers::SHIFT] {
            assert_eq!(
                action(KeyEvent::new(KeyCode::Char('G'), modifiers), Scene::Live),
                Some(Action::Last),
                "G is G with {modifiers:?}"
            );
        }
        assert_eq!(
            action(
                KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL),
                Scene::Live
            ),
            Some(Action::Quit),
            "Ctrl-C is not c"
        );
    }

    #[test]
    fn live_and_recording_have_their_own_keys() {
        let space = KeyEvent::new(KeyCode::Char(' '), KeyModifiers::NONE);
        assert_eq!(action(space, Scene::Live), Some(Action::Pause), "it holds");
        assert_eq!(
            action(space, Scene::Recording),
            Some(Action::Play),
            "it plays"
        );
        let warm = KeyEvent::new(KeyCode::Char('w'), KeyModifiers::NONE);
        assert_eq!(
            action(warm, Scene::Recording),
            None,
            "a recording has no operations"
        );
    }
}
