//! The live view as a state machine: intervals, answers and keys go in; requests and frames come
//! out.
//!
//! # Layout
//! - this file: its parts.
//! - `intervals`: input, and the rows made of it. `keys`: the effect of a key, by the topmost pane.
//! - `actions`: actions. `lines`: searches and commands. `columns`: the choice of columns. `requests`: requests to the outside.

mod actions;
mod columns;
mod intervals;
mod keys;
mod lines;
mod requests;

pub(crate) use intervals::KEPT;

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use cachewise_model::{Interval, Measured, Residency};
use cachewise_units::Rate;
use cachewise_view::ReadPart;

use crate::areas::Areas;
use crate::filter::Filter;
use crate::findings::{Headline, VERDICTS};
use crate::listing::Listing;
use crate::machine::{Act, FileName, ProcessName, Request};
use crate::pane::Pane;
use crate::scale::{Numbers, Scale};
use crate::setup::Setup;
use crate::view_kind::ViewKind;

/// Text of the bottom line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// The text.
    pub text: String,
    /// It reports an error.
    pub is_error: bool,
}

/// Reads of an interval, per second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Beat {
    /// Pages from cache, read ahead, and missed.
    pub parts: [f64; 3],
    /// Bytes fetched from the storage of file systems.
    pub fetched: f64,
}

impl Beat {
    /// The rates of an interval; `None` if unknown.
    #[must_use]
    pub fn of_interval(interval: &Interval) -> Option<Beat> {
        let rate = |count: u64| Rate::of(count, interval.elapsed).map(Rate::per_second);
        let part = |part: ReadPart| rate(part.amount(&interval.ledger).known()?);
        let [cached, ahead, missed] = ReadPart::REQUESTED;
        let fetched = interval.ledger.fetched_bytes(Some(interval.page()));
        Some(Beat {
            parts: [part(cached)?, part(ahead)?, part(missed)?],
            fetched: rate(fetched.known()?)?,
        })
    }

    /// Requested pages.
    #[must_use]
    pub fn requested(&self) -> f64 {
        self.parts.iter().sum()
    }
}

/// The live view.
#[derive(Debug)]
pub struct App {
    pub(crate) setup: Setup,
    pub(crate) scale: Scale,
    pub(crate) view: usize,
    pub(crate) listings: [Listing; 4],
    pub(crate) panes: Vec<Pane>,
    pub(crate) shown: Option<Arc<Interval>>,
    pub(crate) trail: VecDeque<Option<Beat>>,
    pub(crate) is_held: bool,
    pub(crate) message: Option<Message>,
    pub(crate) busy: Option<Act>,
    /// The position in a recording.
    pub(crate) position: Option<Position>,
    pub(crate) areas: Areas,
    /// The text of the last search.
    search: Option<Filter>,
    pub(crate) headline: Option<Headline>,
    recent: VecDeque<Arc<Interval>>,
    /// Time since the last verdict was requested.
    unjudged: Duration,
    is_verdict_due: bool,
    waiting: Option<Arc<Interval>>,
    with_arguments: bool,
    command_lines: HashMap<ProcessName, Measured<String>>,
    residency: HashMap<FileName, Residency>,
    requests: Vec<Request>,
    /// Names of losses that were already reported.
    reported_losses: HashSet<&'static str>,
    is_over: bool,
}

/// Position in a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// The sample shown, from 1.
    pub sample: usize,
    /// The number of samples.
    pub of: usize,
    /// Whether it plays.
    pub is_playing: bool,
}

impl App {
    /// A view without data.
    #[must_use]
    pub fn new(setup: Setup) -> App {
        let listings = ViewKind::ALL.map(|kind| {
            let mut listing = Listing::new(kind, kind.columns());
            listing.filter.clone_from(&setup.filter);
            if let Some(sort) = setup.sort {
                let place = listing.columns.iter().position(|own| own.field.id == sort);
                listing.sort = place.unwrap_or(listing.sort);
            }
            let mut chosen = setup.settings.columns().iter();
            if let Some((_, ids)) = chosen.find(|(of, _)| *of == kind) {
                listing.choose(ids);
            }
            listing
        });
        let message = setup.settings.problem().map(|problem| Message {
            text: format!("default columns: {problem}"),
            is_error: true,
        });
        App {
            scale: Scale::default(),
            view: place_of(setup.view),
            listings,
            panes: Vec::new(),
            shown: None,
            trail: VecDeque::new(),
            is_held: false,
            message,
            busy: None,
            position: None,
            areas: Areas::default(),
            search: None,
            headline: None,
            recent: VecDeque::new(),
            unjudged: VERDICTS,
            is_verdict_due: false,
            waiting: None,
            with_arguments: false,
            command_lines: HashMap::new(),
            residency: HashMap::new(),
            requests: Vec::new(),
            reported_losses: HashSet::new(),
            is_over: false,
            setup,
        }
    }

    /// Whether the user has quit.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Requests since the last call.
    pub fn take_requests(&mut self) -> Vec<Request> {
        std::mem::take(&mut self.requests)
    }

    /// The bottom line.
    #[must_use]
    pub fn message(&self) -> Option<&Message> {
        self.message.as_ref()
    }

    /// Shows a message on the bottom line until the next key.
    pub fn say(&mut self, text: impl Into<String>, is_error: bool) {
        self.message = Some(Message {
            text: text.into(),
            is_error,
        });
    }

    /// Sets the position in a recording.
    pub fn set_position(&mut self, position: Position) {
        self.position = Some(position);
    }

    /// The list with the keyboard focus.
    pub(crate) fn listing(&self) -> &Listing {
        let details = self.panes.iter().rev().find_map(|pane| match pane {
            Pane::Details(details) => Some(&details.listing),
            _ => None,
        });
        details.unwrap_or(&self.listings[self.view])
    }

    pub(crate) fn listing_mut(&mut self) -> &mut Listing {
        let details = self.panes.iter_mut().rev().find_map(|pane| match pane {
            Pane::Details(details) => Some(&mut details.listing),
            _ => None,
        });
        details.unwrap_or(&mut self.listings[self.view])
    }

    pub(crate) fn numbers(&self) -> Numbers {
        Numbers {
            scale: self.scale,
            page: self.setup.source.page(),
        }
    }
}

fn place_of(kind: ViewKind) -> usize {
    ViewKind::ALL
        .iter()
        .position(|own| *own == kind)
        .unwrap_or(0)
}
