//! Actions other than operations on the cache.

use std::time::Duration;

use super::{App, place_of};
use crate::action::{Action, Scene};
use crate::filter::Filter;
use crate::item::{self, Grouping, Key};
use crate::listing::Listing;
use crate::machine::{Request, SampleStep, Verb};
use crate::pane::{Details, LineKind, Pane};
use crate::view_kind::ViewKind;

/// Intervals of `[` and `]`, in milliseconds.
const PACES: [u64; 9] = [100, 250, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000];

impl App {
    /// Performs an action.
    pub fn act(&mut self, action: Action) {
        let page = isize::try_from(self.areas.body.height.max(1)).unwrap_or(1);
        match action {
            Action::View(kind) => self.go_to_view(place_of(kind)),
            Action::NextView => self.go_to_view((self.view + 1) % ViewKind::ALL.len()),
            Action::Findings => {
                let found = self.findings();
                self.panes.push(Pane::Findings { found, scroll: 0 });
                if self.setup.scene == Scene::Recording {
                    // One sample is a moment: findings need several seconds.
                    self.requests.push(Request::Past);
                }
            }
            Action::Evictions => {
                let found = self.findings();
                self.panes.push(Pane::Evictions { found, scroll: 0 });
            }
            Action::Up => self.listing_mut().go(-1),
            Action::Down => self.listing_mut().go(1),
            Action::HalfPageUp => self.listing_mut().go(-(page / 2).max(1)),
            Action::HalfPageDown => self.listing_mut().go((page / 2).max(1)),
            Action::PageUp => self.listing_mut().go(-page),
            Action::PageDown => self.listing_mut().go(page),
            Action::First => self.listing_mut().go_to(0),
            Action::Last => self.listing_mut().go_to(usize::MAX),
            Action::Open => self.open(),
            Action::Close => self.close(),
            Action::Tree => self.toggle_tree(),
            Action::Group => self.group(),
            Action::Unfold => self.listing_mut().unfold(false),
            Action::UnfoldAll => self.listing_mut().unfold(true),
            Action::Fold => self.listing_mut().fold(),
            Action::FoldOrHelp => match self.listing().has_levels() {
                true => self.listing_mut().fold(),
                false => self.act(Action::Help),
            },
            Action::SortLeft => self.sort_beside(-1),
            Action::SortRight => self.sort_beside(1),
            Action::SortMenu => {
                let chosen = self.listing().sort;
                self.panes.push(Pane::SortMenu { chosen });
            }
            Action::SortCpu => self.sort_by_first(&["cpu_seconds"], "CPU time"),
            Action::SortMemory => {
                self.sort_by_first(&["memory_used_bytes", "read_cached_pages"], "memory");
            }
            Action::SortTime => self.sort_by_first(&["waited_seconds"], "times"),
            Action::Columns => self.open_columns(),
            Action::Search => self.open_line(LineKind::Search),
            Action::Prompt => self.open_line(LineKind::Command),
            Action::NextMatch => self.go_to_match(true, true),
            Action::PreviousMatch => self.go_to_match(false, true),
            Action::Save => self.save_columns(),
            Action::Reverse => {
                let listing = self.listing_mut();
                listing.reverse = !listing.reverse;
                listing.arrange();
            }
            Action::Filter => {
                let before = self.listing().filter.clone();
                self.panes.push(Pane::Filter {
                    text: before.as_ref().map_or("", Filter::text).to_owned(),
                    before,
                    wrong: None,
                });
            }
            Action::Active => {
                let listing = self.listing_mut();
                listing.only_active = !listing.only_active;
                listing.arrange();
            }
            Action::Scale => self.scale = self.scale.next(),
            Action::CommandLine => {
                self.with_arguments = !self.with_arguments;
                self.refill();
                let what = match self.with_arguments {
                    true => "programs with their arguments",
                    false => "names of programs",
                };
                self.say(what, false);
            }
            Action::DefaultColumns => {
                self.listing_mut().choose_defaults();
                self.refill();
                self.say("default columns; W saves", false);
            }
            Action::Pause => {
                self.is_held = !self.is_held;
                if let (false, Some(waiting)) = (self.is_held, self.waiting.take()) {
                    self.show(waiting);
                }
            }
            Action::Faster => self.change_pace(|pace, now| pace < now, true),
            Action::Slower => self.change_pace(|pace, now| pace > now, false),
            Action::Warm => self.ask(Verb::Warm),
            Action::Evict => self.ask(Verb::Evict),
            Action::Earlier => self.requests.push(Request::Step(SampleStep::Earlier)),
            Action::Later => self.requests.push(Request::Step(SampleStep::Later)),
            Action::FirstSample => self.requests.push(Request::Step(SampleStep::First)),
            Action::LastSample => self.requests.push(Request::Step(SampleStep::Last)),
            Action::Play => self.requests.push(Request::Step(SampleStep::Play)),
            Action::Help => self.panes.push(Pane::Help { scroll: 0 }),
            Action::Redraw => self.requests.push(Request::Redraw),
            Action::Suspend => self.requests.push(Request::Suspend),
            Action::Quit => self.is_over = true,
        }
    }

    fn go_to_view(&mut self, view: usize) {
        self.view = view;
        self.panes.clear();
        self.refill();
    }

    fn close(&mut self) {
        if self.busy.is_some() {
            self.requests.push(Request::Cancel);
            self.say("stopping", false);
        } else if self.listing().filter.is_some() {
            // After clearing the filter, the selection stays.
            self.listing_mut().hold();
            self.set_filter(None);
        } else {
            self.panes.pop();
        }
    }

    fn open(&mut self) {
        let Some(interval) = self.shown.clone() else {
            return;
        };
        let listing = self.listing();
        let Some((key, name)) = listing
            .node(listing.selected())
            .map(|node| (node.key.clone(), listing.name(node)))
        else {
            return;
        };
        if key == Key::Unattributed {
            return self.say(
                "these events belong to no single process: there are no details",
                false,
            );
        }
        if let Key::Ended(_) | Key::Group(..) = &key {
            return self.listing_mut().turn_chosen();
        }
        let (kind, _) = item::parts(&key, &interval);
        let what = match &key {
            Key::Process(_) | Key::AllOthers(ViewKind::Process) => "files of",
            Key::File { .. } | Key::AllOthers(_) => "readers and writers of",
            Key::Directory(_) => "files under",
            Key::Cgroup(_) => "processes in",
            Key::Device(_) | Key::Ended(_) | Key::Group(..) | Key::Unattributed => "files on",
        };
        let name = match &key {
            Key::Process(process) => format!("{name} ({})", process.pid),
            Key::Directory(path) => cachewise_model::escaped(path.as_os_str()).into_owned(),
            Key::Cgroup(Some(path)) => cachewise_model::escaped(&path).into_owned(),
            Key::File {
                path: Some(path), ..
            } => cachewise_model::escaped(path.as_os_str()).into_owned(),
            _ => name,
        };
        let mut details = Details {
            title: format!("{what} {name}"),
            facts: Vec::new(),
            listing: Listing::new(kind, kind.columns_of_details()),
            of: key,
        };
        self.residency.clear();
        // After closing the details, the selection is on the same object.
        self.listing_mut().hold();
        self.fill_details(&mut details, &interval);
        self.panes.push(Pane::Details(Box::new(details)));
    }

    fn toggle_tree(&mut self) {
        if self.listing().kind == ViewKind::Device {
            return self.say(
                "devices have no tree: files (2) and cgroups (3) have one",
                false,
            );
        }
        let listing = self.listing_mut();
        listing.is_tree = !listing.is_tree;
        listing.grouping = None;
        listing.arrange();
    }

    fn group(&mut self) {
        if self.listing().kind != ViewKind::Process {
            return self.say(
                "only processes (1) are grouped; files (2) and cgroups (3) have a tree (t)",
                false,
            );
        }
        let listing = self.listing_mut();
        listing.grouping = Grouping::after(listing.grouping);
        listing.is_tree = false;
        listing.arrange();
        self.say(
            match self.listing().grouping {
                Some(by) => format!(
                    "processes by {}; + or Enter shows those of a group",
                    by.name()
                ),
                None => "each process".to_owned(),
            },
            false,
        );
    }

    /// Sorts by a column; by the same again, in reverse.
    pub(crate) fn sort_by(&mut self, column: usize) {
        let listing = self.listing_mut();
        if column < listing.columns.len() {
            listing.reverse = listing.sort == column && !listing.reverse;
            listing.sort = column;
            listing.arrange();
        }
    }

    fn sort_beside(&mut self, step: isize) {
        // Hidden columns are skipped: their effect would be invisible.
        let shown = self.areas.columns.clone();
        let listing = self.listing_mut();
        let last = listing.columns.len().saturating_sub(1);
        let places: Vec<usize> = match shown.is_empty() {
            true => (0..=last).collect(),
            false => shown.iter().map(|(_, _, place)| *place).collect(),
        };
        let next = match step {
            ..0 => places.iter().rev().find(|place| **place < listing.sort),
            _ => places.iter().find(|place| **place > listing.sort),
        };
        if let Some(next) = next {
            listing.sort = *next;
            listing.arrange();
        }
    }

    fn change_pace(&mut self, is_meant: impl Fn(u64, u64) -> bool, faster: bool) {
        let now = u64::try_from(self.setup.interval.as_millis()).unwrap_or(u64::MAX);
        let paces = PACES.iter().copied().filter(|pace| is_meant(*pace, now));
        let next = if faster { paces.max() } else { paces.min() };
        match next {
            Some(next) => {
                self.setup.interval = Duration::from_millis(next);
                self.requests.push(Request::Interval(self.setup.interval));
            }
            None => self.say(
                if faster {
                    "no faster than every 100 ms"
                } else {
                    "no slower than every minute"
                },
                false,
            ),
        }
    }
}
