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
