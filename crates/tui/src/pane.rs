//! What can lie over a view.

use crate::filter::Filter;
use crate::findings::Found;
use crate::item::Key;
use crate::listing::Listing;
use crate::machine::Act;

/// What lies over a view; the topmost has the keys.
#[derive(Debug)]
pub enum Pane {
    /// All keys.
    Help {
        /// The first line shown.
        scroll: usize,
    },
    /// What is wrong, and the next step.
    Findings {
        /// What was found.
        found: Found,
        /// The first line shown.
        scroll: usize,
    },
    /// The columns to sort by.
    SortMenu {
        /// Which one is chosen.
        chosen: usize,
    },
    /// A filter is being typed.
    Filter {
        /// What was typed so far.
        text: String,
        /// What there was before.
        before: Option<Filter>,
        /// What is wrong with it.
        wrong: Option<String>,
    },
    /// An act that waits for a yes.
    Confirm {
        /// The act.
        act: Act,
        /// What is asked.
        question: String,
    },
    /// What a thing consists of.
    Details(Box<Details>),
}

/// What a thing consists of.
#[derive(Debug)]
pub struct Details {
    /// The thing.
    pub of: Key,
    /// What is shown of it.
    pub title: String,
    /// Facts beside the list.
    pub facts: Vec<(&'static str, String)>,
    /// Its parts.
    pub listing: Listing,
}
