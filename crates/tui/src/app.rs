//! The live view as a state machine: stretches, answers and keys go in; requests and frames come out.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use cachewise_model::{Backend, Counter, Measured, Residency, Stretch};
use cachewise_units::{Bytes, PageSize, Rate};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use crate::action::{Action, Scene, action};
use crate::filter::Filter;
use crate::findings;
use crate::item::{self, Key};
use crate::listing::{Kind, Listing};
use crate::look::Look;
use crate::machine::{Act, Answer, FileName, ProcessName, Request, Step, Verb};
use crate::number::{Numbers, Scale};
use crate::pane::{Details, Pane};

/// Intervals that `[` and `]` go through, in milliseconds.
const PACES: [u64; 9] = [100, 250, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000];

/// What is kept of the past for findings: a minute, unless the rows would take too much memory.
const KEPT: Duration = Duration::from_secs(60);
const KEPT_ROWS: usize = 50_000;

/// How much of the past a sparkline can show.
const TRAIL: usize = 400;

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
            misses: rate(stretch.ledger.get(Counter::ReadMissPages).known()?)?,
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

    /// The next stretch of a machine. While the screen is held it waits.
    pub fn feed(&mut self, stretch: Stretch) {
        self.push_beat(Beat::of(&stretch));
        let stretch = Arc::new(stretch);
        self.recent.push_back(Arc::clone(&stretch));
        self.forget_the_old();
        match self.is_held {
            true => self.waiting = Some(stretch),
            false => self.show(stretch),
        }
    }

    /// A sample of a recording, with what came before it for the sparkline.
    pub fn jump(&mut self, stretch: Stretch, trail: Vec<Option<Beat>>, position: Position) {
        self.trail = trail.into();
        self.position = Some(position);
        let stretch = Arc::new(stretch);
        self.recent = VecDeque::from([Arc::clone(&stretch)]);
        self.show(stretch);
    }

    /// Where in a recording one is now.
    pub fn set_position(&mut self, position: Position) {
        self.position = Some(position);
    }

    fn push_beat(&mut self, beat: Option<Beat>) {
        self.trail.push_back(beat);
        if self.trail.len() > TRAIL {
            self.trail.pop_front();
        }
    }

    fn forget_the_old(&mut self) {
        let rows = |stretch: &Arc<Stretch>| {
            stretch.processes.len() + stretch.files.len() + stretch.uses.len()
        };
        let too_much = |recent: &VecDeque<Arc<Stretch>>| {
            let time: Duration = recent.iter().map(|stretch| stretch.elapsed).sum();
            time > KEPT || recent.iter().map(rows).sum::<usize>() > KEPT_ROWS
        };
        while self.recent.len() > 1 && too_much(&self.recent) {
            self.recent.pop_front();
        }
    }

    fn show(&mut self, stretch: Arc<Stretch>) {
        self.shown = Some(Arc::clone(&stretch));
        if self.with_arguments {
            let alive = |name: &ProcessName| {
                let is_it = |process: &cachewise_model::ProcessRow| {
                    process.pid == name.pid && process.started.known() == name.started
                };
                stretch.processes.iter().any(is_it)
            };
            // What has ended will not be asked for again.
            if self.command_lines.len() > 2 * stretch.processes.len() {
                self.command_lines.retain(|name, _| alive(name));
            }
        }
        self.refill();
    }

    /// Fills the view and the panes from what is shown. Other views wait until one goes there.
    fn refill(&mut self) {
        let Some(stretch) = self.shown.clone() else {
            return;
        };
        // The old rows first: their memory is what the new ones need.
        self.listings[self.view].forget();
        let mut items = item::items(Kind::ALL[self.view], &stretch);
        self.adorn(&mut items);
        self.listings[self.view].fill(items);
        let mut panes = std::mem::take(&mut self.panes);
        for pane in &mut panes {
            match pane {
                Pane::Details(details) => self.fill_details(details, &stretch),
                Pane::Findings { found, .. } => *found = self.findings(),
                _ => {}
            }
        }
        self.panes = panes;
    }

    fn fill_details(&mut self, details: &mut Details, stretch: &Stretch) {
        details.facts = crate::facts::facts(&details.of, stretch, &self.command_lines);
        let (_, mut items) = item::parts(&details.of, stretch);
        // What has ended stays as it was last: it is what one wanted to see.
        if items.is_empty() && !details.listing.items().is_empty() {
            details.facts.push(("below", "as it was last".into()));
            return;
        }
        self.adorn(&mut items);
        let files: Vec<FileName> = items.iter().filter_map(item::Item::file).collect();
        details.listing.fill(items);
        if self.setup.scene == Scene::Live && !files.is_empty() {
            self.requests.push(Request::Residency(files));
        }
        if let Key::Process(name) = &details.of
            && self.setup.scene == Scene::Live
            && !self.command_lines.contains_key(name)
        {
            self.requests.push(Request::CommandLines(vec![*name]));
        }
    }

    /// Adds what answers have told.
    fn adorn(&self, items: &mut [item::Item]) {
        for item in items {
            match &item.key {
                Key::Process(name) if self.with_arguments => {
                    if let Some(Measured::Exact(line)) = self.command_lines.get(name) {
                        item.row.labels.command_line = Measured::Exact(line.clone());
                    }
                }
                Key::File { .. } if !self.residency.is_empty() => {
                    let known = item.file().and_then(|file| self.residency.get(&file));
                    if let Some(known) = known {
                        item.row.residency = known.clone();
                    }
                }
                _ => {}
            }
        }
    }

    /// What the outside found out or did.
    pub fn answer(&mut self, answer: Answer) {
        match answer {
            Answer::Residency(known) => {
                // Only of what is looked at: the rest would be old when it is looked at.
                self.residency = known.into_iter().collect();
            }
            Answer::CommandLines(known) => self.command_lines.extend(known),
            Answer::Acted(act, outcome) => {
                self.busy = None;
                let verb = act.verb.name();
                match outcome {
                    Ok(done) => self.say(format!("{verb}: {done}   {}", act.command()), false),
                    Err(why) => self.say(format!("{verb}: {why}"), true),
                }
            }
        }
        let mut panes = std::mem::take(&mut self.panes);
        for pane in &mut panes {
            if let Pane::Details(details) = pane {
                self.adorn(details.listing.items_mut());
                details.listing.arrange();
                if let Some(stretch) = &self.shown {
                    let old = details.facts.iter().find(|fact| fact.0 == "below").cloned();
                    details.facts = crate::facts::facts(&details.of, stretch, &self.command_lines);
                    details.facts.extend(old);
                }
            }
        }
        self.panes = panes;
        if self.with_arguments {
            self.refill_names();
        }
    }

    /// Names have come: the rows are as they were.
    fn refill_names(&mut self) {
        if let (Some(stretch), Kind::Process) = (self.shown.clone(), Kind::ALL[self.view]) {
            let mut items = item::items(Kind::Process, &stretch);
            self.adorn(&mut items);
            self.listings[self.view].fill(items);
        }
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

    fn findings(&self) -> findings::Found {
        findings::of(&self.recent, &self.setup)
    }

    /// A key was pressed.
    pub fn key(&mut self, event: KeyEvent) {
        if event.kind == KeyEventKind::Release {
            return;
        }
        if event.modifiers.contains(KeyModifiers::ALT) {
            // A terminal sends Alt as Esc before the key, so that Esc and a key right after it look the same.
            self.key(KeyEvent::new(KeyCode::Esc, KeyModifiers::NONE));
            let modifiers = event.modifiers - KeyModifiers::ALT;
            return self.key(KeyEvent::new(event.code, modifiers));
        }
        let asked = action(event, self.setup.scene);
        let is_quit =
            event.modifiers.contains(KeyModifiers::CONTROL) && asked == Some(Action::Quit);
        if is_quit || asked == Some(Action::Suspend) {
            // These hold wherever one is, or a question could not be escaped.
            return self.act(asked.unwrap_or(Action::Quit));
        }
        match self.panes.last() {
            Some(Pane::Filter { .. }) => return self.type_filter(event),
            Some(Pane::Confirm { .. }) => return self.confirm(event),
            Some(Pane::SortMenu { .. }) => return self.in_sort_menu(event, asked),
            Some(Pane::Help { .. } | Pane::Findings { .. }) => return self.in_text(asked),
            Some(Pane::Details(_)) | None => {}
        }
        self.message = None;
        match asked {
            Some(asked) => self.act(asked),
            None => {
                if let KeyCode::Char(letter) = event.code {
                    let text = format!(
                        "{} has no meaning here; ? shows the keys",
                        letter.escape_debug()
                    );
                    self.say(text, false);
                }
            }
        }
    }

    fn type_filter(&mut self, event: KeyEvent) {
        let Some(Pane::Filter {
            text,
            before,
            wrong,
        }) = self.panes.last_mut()
        else {
            return;
        };
        let is_control = event.modifiers.contains(KeyModifiers::CONTROL);
        match event.code {
            KeyCode::Enter if wrong.is_none() => {
                self.panes.pop();
                return;
            }
            KeyCode::Esc => {
                let before = before.take();
                self.panes.pop();
                self.set_filter(before);
                return;
            }
            KeyCode::Backspace => {
                text.pop();
            }
            KeyCode::Char('u') if is_control => text.clear(),
            KeyCode::Char(letter) if !is_control => text.push(letter),
            _ => return,
        }
        let filter = match text.as_str() {
            "" => Ok(None),
            text => Filter::new(text).map(Some),
        };
        match filter {
            Ok(filter) => {
                *wrong = None;
                self.set_filter(filter);
            }
            Err(why) => *wrong = Some(why),
        }
    }

    fn set_filter(&mut self, filter: Option<Filter>) {
        let listing = self.listing_mut();
        listing.filter = filter;
        listing.arrange();
    }

    fn confirm(&mut self, event: KeyEvent) {
        let Some(Pane::Confirm { act, .. }) = self.panes.pop() else {
            return;
        };
        match event.code {
            KeyCode::Char('y' | 'Y') if self.busy.is_none() => {
                self.busy = Some(act.clone());
                self.message = None;
                self.requests.push(Request::Act(act));
            }
            _ => self.say("nothing was done", false),
        }
    }

    fn in_sort_menu(&mut self, event: KeyEvent, asked: Option<Action>) {
        let count = self.listing().columns.len();
        let Some(Pane::SortMenu { chosen }) = self.panes.last_mut() else {
            return;
        };
        match asked {
            Some(Action::Down) => *chosen = (*chosen + 1).min(count.saturating_sub(1)),
            Some(Action::Up) => *chosen = chosen.saturating_sub(1),
            Some(Action::First | Action::PageUp) => *chosen = 0,
            Some(Action::Last | Action::PageDown) => *chosen = count.saturating_sub(1),
            Some(Action::Close | Action::Quit | Action::SortMenu) => {
                self.panes.pop();
            }
            Some(Action::Reverse) => self.act(Action::Reverse),
            _ if event.code == KeyCode::Enter => {
                let chosen = *chosen;
                self.panes.pop();
                self.sort_by(chosen);
            }
            _ => {}
        }
    }

    /// Moves in a pane of text.
    fn in_text(&mut self, asked: Option<Action>) {
        let page = self.areas.body.height.max(1) as usize;
        let Some(Pane::Help { scroll } | Pane::Findings { scroll, .. }) = self.panes.last_mut()
        else {
            return;
        };
        // How far one can go is known when it is drawn.
        match asked {
            Some(Action::Down) => *scroll += 1,
            Some(Action::Up) => *scroll = scroll.saturating_sub(1),
            Some(Action::PageDown) => *scroll += page,
            Some(Action::PageUp) => *scroll = scroll.saturating_sub(page),
            Some(Action::HalfPageDown) => *scroll += page / 2,
            Some(Action::HalfPageUp) => *scroll = scroll.saturating_sub(page / 2),
            Some(Action::First | Action::FirstSample) => *scroll = 0,
            Some(Action::Last | Action::LastSample) => *scroll = usize::MAX / 2,
            Some(Action::Close | Action::Quit | Action::Help | Action::Findings) => {
                self.panes.pop();
            }
            _ => {}
        }
    }

    /// Does something.
    pub fn act(&mut self, action: Action) {
        let page = isize::try_from(self.areas.body.height.max(1)).unwrap_or(1);
        match action {
            Action::View(kind) => self.go_to_view(place_of(kind)),
            Action::NextView => self.go_to_view((self.view + 1) % Kind::ALL.len()),
            Action::Findings => {
                let found = self.findings();
                self.panes.push(Pane::Findings { found, scroll: 0 });
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
            Action::Unfold => self.listing_mut().unfold(false),
            Action::UnfoldAll => self.listing_mut().unfold(true),
            Action::Fold => self.listing_mut().fold(),
            Action::SortLeft => self.sort_beside(-1),
            Action::SortRight => self.sort_beside(1),
            Action::SortMenu => {
                let chosen = self.listing().sort;
                self.panes.push(Pane::SortMenu { chosen });
            }
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
            Action::Earlier => self.requests.push(Request::Step(Step::Earlier)),
            Action::Later => self.requests.push(Request::Step(Step::Later)),
            Action::FirstSample => self.requests.push(Request::Step(Step::First)),
            Action::LastSample => self.requests.push(Request::Step(Step::Last)),
            Action::Play => self.requests.push(Request::Step(Step::Play)),
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
            self.set_filter(None);
        } else {
            self.panes.pop();
        }
    }

    fn open(&mut self) {
        let Some(stretch) = self.shown.clone() else {
            return;
        };
        let listing = self.listing();
        let Some((key, name)) = listing
            .node(listing.selected())
            .map(|node| (node.key.clone(), listing.name(node)))
        else {
            return;
        };
        if key == Key::Nobody {
            return self.say(
                "that was nobody in particular: there is no more to show",
                false,
            );
        }
        let (kind, _) = item::parts(&key, &stretch);
        let what = match &key {
            Key::Process(_) => "files of",
            Key::File { .. } => "readers and writers of",
            Key::Directory(_) => "files under",
            Key::Cgroup(_) => "processes in",
            Key::Device(_) | Key::Nobody => "files on",
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
        self.fill_details(&mut details, &stretch);
        self.panes.push(Pane::Details(Box::new(details)));
    }

    fn toggle_tree(&mut self) {
        if self.listing().kind == Kind::Device {
            return self.say(
                "devices have no tree: files (2) and cgroups (3) have one",
                false,
            );
        }
        let listing = self.listing_mut();
        listing.is_tree = !listing.is_tree;
        listing.arrange();
    }

    /// Sorts by a column; by the same again, the other way round.
    pub(crate) fn sort_by(&mut self, column: usize) {
        let listing = self.listing_mut();
        if column < listing.columns.len() {
            listing.reverse = listing.sort == column && !listing.reverse;
            listing.sort = column;
            listing.arrange();
        }
    }

    fn sort_beside(&mut self, step: isize) {
        // Columns that have no room are passed over: nobody could see what happened.
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

    /// Asks whether something is to be done to the chosen files.
    fn ask(&mut self, verb: Verb) {
        if self.setup.readonly {
            let text = format!("{} is off: started with --readonly", verb.name());
            return self.say(text, true);
        }
        if self.busy.is_some() {
            return self.say("one after the other: Esc stops what is at work", true);
        }
        let Some(stretch) = self.shown.clone() else {
            return;
        };
        let listing = self.listing();
        let files: Vec<item::Item> = match (listing.kind, listing.chosen()) {
            (Kind::File, Some(_)) => listing.chosen_items().into_iter().cloned().collect(),
            (Kind::Process, Some(key @ Key::Process(_))) => item::parts(key, &stretch).1,
            (_, None) => return self.say("there is no row", true),
            _ => {
                return self.say(
                    "choose a file, a directory or a process: groups and devices hold what others use",
                    true,
                );
            }
        };
        let mut act = Act {
            verb,
            files: Vec::new(),
        };
        let mut size = Bytes(0);
        for file in &files {
            if let Some(name) = file.file() {
                act.files.push(name);
                let known = file.row.subject.file_size_bytes.known().unwrap_or(0);
                size = Bytes(size.0.saturating_add(known));
            }
        }
        if act.files.is_empty() {
            return self.say(
                "no file here has a name that it could be opened by, or none was used just now",
                true,
            );
        }
        let what = match &act.files[..] {
            [file] => cachewise_model::escaped(file.path.as_os_str()).into_owned(),
            files => format!("{} files", files.len()),
        };
        let question = format!("{} {what}, {size} in all? y/N", verb.name());
        self.panes.push(Pane::Confirm { act, question });
    }

    /// Asks for the command lines of what is on the screen, where they are wanted.
    pub(crate) fn ask_for_command_lines(&mut self, height: usize) {
        let listing = self.listing();
        if !self.with_arguments || listing.kind != Kind::Process || self.setup.scene != Scene::Live
        {
            return;
        }
        let lines = listing.offset..(listing.offset + height).min(listing.lines().len());
        let unknown: Vec<ProcessName> = lines
            .filter_map(|line| match listing.node(line)?.key {
                Key::Process(name) if !self.command_lines.contains_key(&name) => Some(name),
                _ => None,
            })
            .collect();
        if unknown.is_empty() {
            return;
        }
        for name in &unknown {
            // Asked once, whatever comes of it.
            let waiting = Measured::unknown("asked for");
            self.command_lines.insert(*name, waiting);
        }
        self.requests.push(Request::CommandLines(unknown));
    }
}

fn place_of(kind: Kind) -> usize {
    Kind::ALL.iter().position(|own| *own == kind).unwrap_or(0)
}
