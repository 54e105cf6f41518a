//! The table of keys: for the keyboard, the line of keys, the help pane and the documentation.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::action::{Action, Category, Scene};
use crate::view_kind::ViewKind;

/// A key.
#[derive(Debug, Clone, Copy)]
pub struct Stroke {
    /// Its text.
    pub shown: &'static str,
    /// Programs in which it does the same; empty if it is a key of this program only.
    pub known_from: &'static str,
    code: KeyCode,
    modifiers: KeyModifiers,
}

impl Stroke {
    /// The event that the terminal reports for it.
    #[must_use]
    pub const fn event(&self) -> KeyEvent {
        KeyEvent::new(self.code, self.modifiers)
    }
}

/// A row of the table.
#[derive(Debug, Clone, Copy)]
pub struct Binding {
    /// The action.
    pub action: Action,
    /// Its keys, the most usual first.
    pub keys: &'static [Stroke],
    /// One word for the line of keys at the bottom.
    pub name: &'static str,
    /// A short description.
    pub help: &'static str,
    /// Its heading.
    pub category: Category,
    /// The scene in which it is valid; `None` for both.
    pub only: Option<Scene>,
}

impl Binding {
    /// Its keys as text.
    #[must_use]
    pub fn shown(&self) -> String {
        let keys: Vec<&str> = self.keys.iter().map(|key| key.shown).collect();
        keys.join(" ")
    }
}

/// A key by its text.
const fn stroke(shown: &'static str, known_from: &'static str) -> Stroke {
    let code = match shown.as_bytes() {
        b"Tab" => KeyCode::Tab,
        b"Enter" => KeyCode::Enter,
        b"Esc" => KeyCode::Esc,
        b"Space" => KeyCode::Char(' '),
        b"Backspace" => KeyCode::Backspace,
        b"Up" => KeyCode::Up,
        b"Down" => KeyCode::Down,
        b"Left" => KeyCode::Left,
        b"Right" => KeyCode::Right,
        b"Home" => KeyCode::Home,
        b"End" => KeyCode::End,
        b"PgUp" => KeyCode::PageUp,
        b"PgDn" => KeyCode::PageDown,
        b"F10" => KeyCode::F(10),
        [b'F', digit @ b'1'..=b'9'] => KeyCode::F(*digit - b'0'),
        [b'C', b't', b'r', b'l', b'-', letter] => {
            return Stroke {
                shown,
                known_from,
                code: KeyCode::Char(*letter as char),
                modifiers: KeyModifiers::CONTROL,
            };
        }
        [letter] => KeyCode::Char(*letter as char),
        _ => panic!("a key that has no name here"),
    };
    Stroke {
        shown,
        known_from,
        code,
        modifiers: KeyModifiers::NONE,
    }
}

macro_rules! bindings {
    ($($category:ident $(in $only:ident)?: $action:expr, [$($key:literal $(from $known:literal)?),+], $name:literal, $help:literal;)+) => {
        /// Every binding, in the order of the search.
        pub static BINDINGS: &[Binding] = &[$(Binding {
            action: $action,
            keys: &[$(stroke($key, bindings!(@known $($known)?))),+],
            name: $name,
            help: $help,
            category: Category::$category,
            only: bindings!(@only $($only)?),
        }),+];
    };
    (@only) => { None };
    (@only $only:ident) => { Some(Scene::$only) };
    (@known) => { "" };
    (@known $known:literal) => { $known };
}

bindings! {
    Views: Action::View(ViewKind::Process), ["1"], "processes", "processes";
    Views: Action::View(ViewKind::File), ["2"], "files", "files";
    Views: Action::View(ViewKind::Cgroup), ["3"], "cgroups", "control groups";
    Views: Action::View(ViewKind::Device), ["4"], "devices", "storage devices and file systems without one";
    Views: Action::NextView, ["Tab" from "htop"], "next", "the next of these views";
    Views: Action::Findings, ["f"], "findings", "findings of the last minute, with the next step";
    Views in Live: Action::Evictions, ["v"], "evictions", "evicted pages of the last minute, by process and cause";
    Views: Action::Open, ["Enter" from "k9s, below"], "details", "a process's files, a file's readers, a group's processes, a device's files";
    Views: Action::Close, ["Esc" from "htop, k9s"], "close", "closes the top pane; without one, clears the filter";
    Views: Action::Prompt, [":" from "vim, k9s, below"], "command", "a command: :file, :sort direct, :q; in a recording :14:05:22 or :12 goes to a time or sample";
    Moving: Action::Down, ["j" from "vim, less, k9s, below", "Down"], "down", "a row down";
    Moving: Action::Up, ["k" from "vim, less, k9s, below", "Up"], "up", "a row up";
    Moving: Action::PageDown, ["PgDn", "Ctrl-f" from "vim, less, k9s"], "page down", "a page down";
    Moving: Action::PageUp, ["PgUp", "Ctrl-b" from "vim, less, k9s"], "page up", "a page up";
    Moving: Action::HalfPageDown, ["Ctrl-d" from "vim, less"], "half down", "half a page down";
    Moving: Action::HalfPageUp, ["Ctrl-u" from "vim, less"], "half up", "half a page up";
    Recording in Recording: Action::FirstSample, ["Home"], "begin", "the first sample";
    Recording in Recording: Action::LastSample, ["End"], "end", "the last sample";
    Recording in Recording: Action::Earlier, [","], "back", "a sample back";
    Recording in Recording: Action::Later, ["."], "on", "a sample forward";
    Recording in Recording: Action::Play, ["Space"], "play", "plays or stops";
    Moving: Action::First, ["g" from "vim, less, k9s", "Home"], "first", "the first row";
    Moving: Action::Last, ["G" from "vim, less, k9s", "End"], "last", "the last row";
    Moving: Action::Search, ["F3" from "htop"], "search", "goes to the next row with this text, as it is typed; all rows stay";
    Moving: Action::NextMatch, ["n" from "vim, less"], "next match", "the next row with that text";
    Moving: Action::PreviousMatch, ["N" from "vim, less"], "previous", "the row with that text before";
    Rows: Action::SortLeft, ["<" from "top"], "sort left", "sorts by the column to the left";
    Rows: Action::SortRight, [">" from "top"], "sort right", "sorts by the column to the right";
    Rows: Action::SortMenu, ["s", "F6" from "htop"], "sort", "chooses the column to sort by";
    Rows: Action::SortCpu, ["P" from "htop, top"], "by CPU", "sorts by CPU time";
    Rows: Action::SortMemory, ["M" from "htop, top"], "by memory", "sorts by memory of groups, or by what came from the cache";
    Rows: Action::SortTime, ["T" from "htop, top"], "by time", "sorts by the time that tasks waited";
    Rows: Action::Reverse, ["r", "I" from "htop", "R" from "top"], "reverse", "turns the order round";
    Rows: Action::Columns, ["F2" from "htop", "F" from "top"], "columns", "chooses the columns, and saves the choice";
    Rows: Action::DefaultColumns, ["D"], "defaults", "shows the default columns again";
    Rows: Action::Filter, ["/" from "k9s, below", "F4" from "htop", "\\" from "htop"], "filter", "only rows that show this text; re:REGEX, glob:PATTERN; Esc clears";
    Rows: Action::Active, ["o", "i" from "top"], "active", "only rows that did something, or all";
    Rows: Action::Tree, ["t" from "htop", "F5" from "htop", "V" from "top"], "tree", "tree of groups, directories or processes, with sums";
    Rows: Action::Group, ["u"], "group", "processes by command, by unit, by container, or each, with sums";
    Rows: Action::Unfold, ["+" from "htop", "Right", "l" from "vim"], "unfold", "shows the rows below, in a tree or of a group";
    Rows: Action::Fold, ["-" from "htop", "Left", "Backspace"], "fold", "hides the rows below, or goes up";
    Rows: Action::FoldOrHelp, ["h" from "vim; htop, top, less"], "fold", "as -; in a list without groups, the help";
    Rows: Action::UnfoldAll, ["*" from "htop"], "unfold all", "shows all rows of trees and groups";
    Numbers: Action::Scale, ["b"], "units", "bytes, pages, or percent of the whole machine's";
    Numbers: Action::CommandLine, ["c" from "top"], "arguments", "programs with their arguments, or names";
    Numbers in Live: Action::Pause, ["Space" from "below", "Z" from "htop"], "pause", "freezes the screen; counting continues";
    Numbers: Action::Faster, ["[", "F7"], "faster", "a shorter interval";
    Numbers: Action::Slower, ["]", "F8"], "slower", "a longer interval";
    Acting in Live: Action::Warm, ["w"], "warm", "prefetches the file, or the process's files; asks first";
    Acting in Live: Action::Evict, ["e", "F9"], "evict", "evicts them; asks first";
    Program: Action::Save, ["W" from "top"], "save", "saves the columns of all views";
    Program: Action::Help, ["?" from "htop, top, k9s, below", "F1" from "htop"], "help", "this text";
    Program: Action::Redraw, ["Ctrl-l" from "vim, less"], "redraw", "redraws the screen";
    Program: Action::Suspend, ["Ctrl-z"], "stop", "back to the shell; `fg` continues";
    Program: Action::Quit, ["q" from "htop, top, less, below", "Ctrl-c", "F10" from "htop"], "quit", "ends the program";
}

/// The action of a key in this scene.
#[must_use]
pub fn action(event: KeyEvent, scene: Scene) -> Option<Action> {
    // Terminals differ in whether they report Shift beside the letter that it made.
    let modifiers = event.modifiers - KeyModifiers::SHIFT;
    let is_it = |key: &Stroke| key.code == event.code && key.modifiers == modifiers;
    BINDINGS
        .iter()
        .filter(|binding| binding.only.is_none_or(|only| only == scene))
        .find(|binding| binding.keys.iter().any(is_it))
        .map(|binding| binding.action)
}

/// The binding of an action.
#[must_use]
pub fn binding(action: Action) -> Option<&'static Binding> {
    BINDINGS.iter().find(|binding| binding.action == action)
}

/// The table of keys in the documentation's markdown.
#[must_use]
pub fn markdown() -> String {
    BINDINGS.iter().fold(
        String::from("| key | does |\n|---|---|\n"),
        |text, binding| {
            let keys: Vec<String> = binding.keys.iter().map(quoted).collect();
            text + &format!("| {} | {} |\n", keys.join(" "), meaning(binding))
        },
    )
}

/// The table of keys that other programs have, in the documentation's markdown.
#[must_use]
pub fn markdown_of_other_programs() -> String {
    let head = String::from("| key | known from | does here |\n|---|---|---|\n");
    BINDINGS.iter().fold(head, |text, binding| {
        let known = binding.keys.iter().filter(|key| !key.known_from.is_empty());
        known.fold(text, |text, key| {
            let (from, meaning) = (key.known_from, meaning(binding));
            text + &format!("| {} | {from} | {meaning} |\n", quoted(key))
        })
    })
}

fn quoted(key: &Stroke) -> String {
    format!("`{}`", key.shown)
}

fn meaning(binding: &Binding) -> String {
    match binding.only {
        Some(Scene::Recording) => format!("{} (in a recording)", binding.help),
        _ => binding.help.to_owned(),
    }
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
                        seen.insert(key.event()) || is_taken_over,
                        "{} has one action in {scene:?}",
                        key.shown
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
