//! Panes over a view.

use crate::filter::Filter;
use crate::findings::RecentFindings;
use crate::item::Key;
use crate::listing::Listing;
use crate::machine::Act;

/// A pane over a view; the topmost has the keyboard focus.
#[derive(Debug)]
pub enum Pane {
    /// All keys.
    Help {
        /// The first line shown.
        scroll: usize,
    },
    /// Findings, and the next step.
    Findings {
        /// The findings.
        found: RecentFindings,
        /// The first line shown.
        scroll: usize,
    },
    /// Evicted pages by process and cause.
    Evictions {
        /// With the evictions of the last minute.
        found: RecentFindings,
        /// The first line shown.
        scroll: usize,
    },
    /// The columns to sort by.
    SortMenu {
        /// The index of the selected one.
        chosen: usize,
    },
    /// A filter being typed.
    Filter {
        /// The text so far.
        text: String,
        /// The filter before.
        before: Option<Filter>,
        /// Its fault.
        wrong: Option<String>,
    },
    /// The columns to show.
    Columns {
        /// The index of the selected one.
        chosen: usize,
        /// Whether the user has changed the choice.
        has_changed: bool,
    },
    /// A search or a command being typed.
    Line(TypedLine),
    /// An operation that waits for confirmation.
    Confirm {
        /// The operation.
        act: Act,
        /// The question.
        question: String,
    },
    /// The parts of an object.
    Details(Box<Details>),
}

/// The meaning of a line being typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineKind {
    /// Text of a row to go to.
    Search,
    /// A command.
    Command,
}

/// A line being typed.
#[derive(Debug)]
pub struct TypedLine {
    /// Its meaning.
    pub what: LineKind,
    /// The text so far.
    pub text: String,
    /// Its fault.
    pub wrong: Option<String>,
    /// The selected line before.
    pub origin: usize,
}

/// Longer than any useful text; each letter more is searched for in every row.
const LONGEST: usize = 1024;

impl TypedLine {
    /// Adds letters, if there is room.
    pub(crate) fn push(&mut self, letters: impl Iterator<Item = char>) {
        push_some(&mut self.text, letters);
    }
}

/// Adds letters to a text being typed, if there is room.
pub(crate) fn push_some(text: &mut String, letters: impl Iterator<Item = char>) {
    let room = LONGEST.saturating_sub(text.chars().count());
    text.extend(letters.take(room));
}

/// The parts of an object.
#[derive(Debug)]
pub struct Details {
    /// The object.
    pub of: Key,
    /// Its title.
    pub title: String,
    /// Facts beside the list.
    pub facts: Vec<(&'static str, String)>,
    /// Its parts.
    pub listing: Listing,
}
