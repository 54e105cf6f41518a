//! Lines that the user types: a search, and commands.

use cachewise_model::field;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::{App, place_of};
use crate::action::{Action, Scene};
use crate::bindings::BINDINGS;
use crate::filter::Filter;
use crate::machine::{Request, SampleStep};
use crate::moment::Moment;
use crate::pane::{LineKind, Pane, TypedLine};
use crate::view_kind::ViewKind;

/// Other words for actions, as other programs have them.
const ALIASES: [(&str, Action); 14] = [
    ("process", Action::View(ViewKind::Process)),
    ("proc", Action::View(ViewKind::Process)),
    ("ps", Action::View(ViewKind::Process)),
    ("file", Action::View(ViewKind::File)),
    ("cgroup", Action::View(ViewKind::Cgroup)),
    ("groups", Action::View(ViewKind::Cgroup)),
    ("device", Action::View(ViewKind::Device)),
    ("disks", Action::View(ViewKind::Device)),
    ("q", Action::Quit),
    ("q!", Action::Quit),
    ("exit", Action::Quit),
    ("w", Action::Save),
    ("h", Action::Help),
    ("findings", Action::Findings),
];

impl App {
    pub(super) fn open_line(&mut self, what: LineKind) {
        let origin = self.listing().selected();
        self.panes.push(Pane::Line(TypedLine {
            what,
            text: String::new(),
            wrong: None,
            origin,
        }));
    }

    pub(super) fn type_line(&mut self, event: KeyEvent, asked: Option<Action>) {
        let Some(Pane::Line(line)) = self.panes.last_mut() else {
            return;
        };
        let is_control = event.modifiers.contains(KeyModifiers::CONTROL);
        match event.code {
            KeyCode::Enter => return self.finish_line(),
            KeyCode::Esc => return self.leave_line(),
            KeyCode::Backspace if line.text.is_empty() => return self.leave_line(),
            KeyCode::Backspace => _ = line.text.pop(),
            KeyCode::Char('u') if is_control => line.text.clear(),
            KeyCode::Char(letter) if !is_control => line.push(std::iter::once(letter)),
            _ if asked == Some(Action::Search) && line.what == LineKind::Search => {
                return self.go_to_match(true, false);
            }
            _ => return,
        }
        self.try_line();
    }

    /// Adds pasted text to the line being typed.
    pub(crate) fn paste_line(&mut self, pasted: &str) {
        if let Some(Pane::Line(line)) = self.panes.last_mut() {
            // A pasted newline is not a key.
            line.push(pasted.chars().filter(|letter| !letter.is_control()));
            self.try_line();
        }
    }

    /// Goes to the row of the search typed so far.
    fn try_line(&mut self) {
        let Some(Pane::Line(line)) = self.panes.last_mut() else {
            return;
        };
        line.wrong = None;
        if line.what == LineKind::Command {
            return;
        }
        let (text, origin) = (line.text.clone(), line.origin);
        let found = match text.as_str() {
            "" => {
                self.search = None;
                Ok(())
            }
            text => Filter::new(text).and_then(|search| {
                self.search = Some(search);
                self.listing_mut().go_to(origin);
                self.find_match(true, true)
            }),
        };
        if let (Err(why), Some(Pane::Line(line))) = (found, self.panes.last_mut()) {
            line.wrong = Some(why);
        }
    }

    fn leave_line(&mut self) {
        if let Some(Pane::Line(line)) = self.panes.pop()
            && line.what == LineKind::Search
        {
            self.search = None;
            self.listing_mut().go_to(line.origin);
        }
    }

    fn finish_line(&mut self) {
        let Some(Pane::Line(line)) = self.panes.pop() else {
            return;
        };
        match (line.what, line.wrong) {
            (LineKind::Command, _) => self.run(line.text.trim().trim_start_matches(':')),
            (LineKind::Search, Some(why)) => self.say(why, true),
            (LineKind::Search, None) => {}
        }
    }

    /// Goes to the next row of the search, or to the one before; without a search, opens one.
    pub(super) fn go_to_match(&mut self, forward: bool, opens: bool) {
        if self.search.is_none() && opens {
            return self.open_line(LineKind::Search);
        }
        if let Err(why) = self.find_match(forward, false) {
            self.say(why, false);
        }
    }

    fn find_match(&mut self, forward: bool, stays: bool) -> Result<(), String> {
        let Some(search) = self.search.clone() else {
            return Ok(());
        };
        let listing = self.listing_mut();
        match listing.find(&search, forward, stays) {
            Some(line) => {
                listing.go_to(line);
                Ok(())
            }
            None => {
                let text = crate::scale::visible(search.text()).into_owned();
                Err(format!("no row has {}", crate::look::cut(&text, 40)))
            }
        }
    }

    /// Runs a command.
    fn run(&mut self, command: &str) {
        let here = BINDINGS.iter().filter(|binding| self.offers(binding));
        let named = here
            .map(|binding| (binding.name, binding.action))
            .chain(ALIASES)
            .find(|(name, _)| *name == command);
        if let Some((_, action)) = named {
            return self.act(action);
        }
        let (word, rest) = command.split_once(' ').unwrap_or((command, ""));
        match (word, rest.trim()) {
            ("", _) => {}
            ("wq" | "x", "") => {
                self.act(Action::Save);
                self.act(Action::Quit);
            }
            ("sort", column) => self.sort_by_name(column),
            ("filter", text) => match Filter::new(text) {
                Ok(filter) => self.set_filter(Some(filter)),
                Err(why) => self.say(why, true),
            },
            _ => self.jump_to(command),
        }
    }

    fn sort_by_name(&mut self, name: &str) {
        let id = field(name).map(|field| field.id);
        let mut columns = self.listing().columns.iter();
        match columns.position(|column| Some(column.field.id) == id) {
            Some(place) => {
                let listing = self.listing_mut();
                (listing.sort, listing.reverse) = (place, false);
                listing.arrange();
            }
            None => {
                let name = crate::scale::visible(name).into_owned();
                self.say(format!("no column {name} here; s lists them"), true);
            }
        }
    }

    /// Goes to a row, or to a sample of a recording.
    fn jump_to(&mut self, place: &str) {
        let is_recording = self.setup.scene == Scene::Recording;
        match (place.parse::<usize>(), Moment::parse(place)) {
            (Ok(number), _) if is_recording => {
                self.requests.push(Request::Step(SampleStep::To(number)));
            }
            (Ok(number), _) => self.listing_mut().go_to(number.saturating_sub(1)),
            (_, Some(moment)) if is_recording => {
                self.requests.push(Request::Step(SampleStep::At(moment)));
            }
            (_, Some(_)) => self.say(
                "only recordings have times to go to: cachewise report --tui FILE",
                true,
            ),
            (Err(_), None) => {
                let place = crate::look::cut(&crate::scale::visible(place), 30);
                let times = if is_recording {
                    ", a time, a sample"
                } else {
                    ""
                };
                self.say(
                    format!(
                        "no command {place}: process, file, cgroup, device, findings, sort COLUMN, filter TEXT, w, q{times}"
                    ),
                    true,
                );
            }
        }
    }

    /// Sorts by the first of these fields that the rows have.
    pub(super) fn sort_by_first(&mut self, ids: &[&str], what: &str) {
        let columns = &self.listing().columns;
        let place = |id: &&str| columns.iter().position(|column| column.field.id == *id);
        match ids.iter().find_map(place) {
            Some(place) => self.sort_by(place),
            None => {
                let title = ViewKind::ALL[place_of(self.listing().kind)].title();
                self.say(format!("{title} have no {what} to sort by"), false);
            }
        }
    }
}
