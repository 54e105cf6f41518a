//! The live view as a state machine: stretches, answers and keys go in; requests and frames come out.
//!
//! # Layout
//! - this file: what it is made of.
//! - `stretches`: what comes in, and the rows made of it. `keys`: what a key does, by what lies on top.
//! - `doing`: what can be done. `asking`: what is asked of the outside.

mod asking;
mod doing;
mod keys;
mod stretches;

pub(crate) use stretches::KEPT;

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use cachewise_model::{Backend, Counter, Measured, Residency, Stretch};
use cachewise_units::{PageSize, Rate};

use crate::action::Scene;
use crate::filter::Filter;
use crate::listing::{Kind, Listing};
use crate::look::Look;
use crate::machine::{Act, FileName, ProcessName, Request};
use crate::number::{Numbers, Scale};
use crate::pane::Pane;

/// How an [`App`] begins.
#[derive(Debug, Clone)]
pub struct Setup {
    /// A machine, or a recording of one.
    pub scene: Scene,
    /// What the terminal can show.
    pub look: Look,
    /// The page size of the machine.
    pub page: PageSize,
    /// Its name.
    pub hostname: String,
    /// What counts.
    pub backend: Backend,
    /// The time from stretch to stretch.
    pub interval: Duration,
    /// Nothing can be done to the cache.
    pub readonly: bool,
    /// The view that is shown first.
    pub view: Kind,
    /// The filter of every view.
    pub filter: Option<Filter>,
    /// The field by which views are sorted, where they have it.
    pub sort: Option<&'static str>,
    /// What is watched, where that is not the whole machine.
    pub scope: Option<String>,
    /// Which recording is looked at, if it is one.
    pub recorded: Option<Recorded>,
}

/// What there is to say of a recording beside its samples.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorded {
    /// The file, as it was typed.
    pub name: String,
    /// So many processes and files are on rows of their own in each sample.
    pub top: u64,
}

/// What the bottom line says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// In words.
    pub text: String,
    /// Something did not work.
    pub is_error: bool,
}

/// Hits and misses of a stretch, per second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Beat {
    /// Pages that were there.
    pub hits: f64,
    /// Pages that had to be fetched.
    pub misses: f64,
}

impl Beat {
    /// Of a stretch; nothing where it is not known.
    #[must_use]
    pub fn of(stretch: &Stretch) -> Option<Beat> {
        let rate = |count: u64| Rate::of(count, stretch.elapsed).map(Rate::per_second);
        Some(Beat {
            hits: rate(stretch.ledger.hits().known()?)?,
            misses: rate(stretch.ledger.get(Counter::ReadMissedPages).known()?)?,
        })
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
    pub(crate) shown: Option<Arc<Stretch>>,
    pub(crate) trail: VecDeque<Option<Beat>>,
    pub(crate) is_held: bool,
    pub(crate) message: Option<Message>,
    pub(crate) busy: Option<Act>,
    /// Where in a recording one is.
    pub(crate) position: Option<Position>,
    pub(crate) areas: crate::draw::Areas,
    recent: VecDeque<Arc<Stretch>>,
    waiting: Option<Arc<Stretch>>,
    with_arguments: bool,
    command_lines: HashMap<ProcessName, Measured<String>>,
    residency: HashMap<FileName, Residency>,
    requests: Vec<Request>,
    /// By their names, what was said to be lost.
    told_lost: HashSet<&'static str>,
    is_over: bool,
}

/// Where in a recording one is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// The sample shown, from 1.
    pub sample: usize,
    /// How many there are.
    pub of: usize,
    /// Whether it goes on by itself.
    pub is_playing: bool,
}

impl App {
    /// A view of nothing yet.
    #[must_use]
    pub fn new(setup: Setup) -> App {
        let listings = Kind::ALL.map(|kind| {
            let mut listing = Listing::new(kind, kind.columns());
            listing.filter.clone_from(&setup.filter);
            if let Some(sort) = setup.sort {
                let place = listing.columns.iter().position(|own| own.field.id == sort);
                listing.sort = place.unwrap_or(listing.sort);
            }
            listing
        });
        App {
            scale: Scale::default(),
            view: place_of(setup.view),
            listings,
            panes: Vec::new(),
            shown: None,
            trail: VecDeque::new(),
            is_held: false,
            message: None,
            busy: None,
            position: None,
            areas: crate::draw::Areas::default(),
            recent: VecDeque::new(),
            waiting: None,
            with_arguments: false,
            command_lines: HashMap::new(),
            residency: HashMap::new(),
            requests: Vec::new(),
            told_lost: HashSet::new(),
            is_over: false,
            setup,
        }
    }

    /// Whether the user has had enough.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// What is to be done outside since the last call.
    pub fn take_requests(&mut self) -> Vec<Request> {
        std::mem::take(&mut self.requests)
    }

    /// The bottom line.
    #[must_use]
    pub fn message(&self) -> Option<&Message> {
        self.message.as_ref()
    }

    /// Says something on the bottom line, until the next key.
    pub fn say(&mut self, text: impl Into<String>, is_error: bool) {
        self.message = Some(Message {
            text: text.into(),
            is_error,
        });
    }

    /// Where in a recording one is now.
    pub fn set_position(&mut self, position: Position) {
        self.position = Some(position);
    }

    /// The list that has the keys.
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
            page: self.setup.page,
        }
    }
}

fn place_of(kind: Kind) -> usize {
    Kind::ALL.iter().position(|own| *own == kind).unwrap_or(0)
}
