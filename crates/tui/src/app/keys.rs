//! The effect of a key, by the topmost pane.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::App;
use crate::action::Action;
use crate::bindings::action;
use crate::filter::Filter;
use crate::pane::{Pane, push_some};

impl App {
    /// Handles a key.
    pub fn key(&mut self, event: KeyEvent) {
        if event.kind == KeyEventKind::Release {
            return;
        }
        if event.modifiers.contains(KeyModifiers::ALT) {
            // A terminal sends Alt as Esc before the key, so that Esc followed at once by a key
            // looks the same.
            self.key(KeyEvent::new(KeyCode::Esc, KeyModifiers::NONE));
            let modifiers = event.modifiers - KeyModifiers::ALT;
            return self.key(KeyEvent::new(event.code, modifiers));
        }
        let asked = action(event, self.setup.scene);
        let is_quit =
            event.modifiers.contains(KeyModifiers::CONTROL) && asked == Some(Action::Quit);
        if is_quit || asked == Some(Action::Suspend) {
            // These are valid everywhere, otherwise a question could not be left.
            return self.act(asked.unwrap_or(Action::Quit));
        }
        match self.panes.last() {
            Some(Pane::Filter { .. }) => return self.type_filter(event),
            Some(Pane::Line(_)) => return self.type_line(event, asked),
            Some(Pane::Columns { .. }) => return self.in_columns(event, asked),
            Some(Pane::Confirm { .. }) => return self.confirm(event),
            Some(Pane::SortMenu { .. }) => return self.in_sort_menu(event, asked),
            Some(Pane::Help { .. } | Pane::Findings { .. } | Pane::Evictions { .. }) => {
                return self.in_text(asked);
            }
            Some(Pane::Details(_)) | None => {}
        }
        self.message = None;
        match asked {
            Some(asked) => self.act(asked),
            None => {
                let key = match event.code {
                    KeyCode::Char(letter) => letter.escape_debug().to_string(),
                    KeyCode::F(number) => format!("F{number}"),
                    _ => return,
                };
                self.say(
                    format!("{key} has no meaning here; ? shows the keys"),
                    false,
                );
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
            KeyCode::Char(letter) if !is_control => push_some(text, std::iter::once(letter)),
            _ => return,
        }
        self.try_filter();
    }

    /// Adds pasted text to the filter being typed.
    pub(crate) fn paste_filter(&mut self, pasted: &str) {
        if let Some(Pane::Filter { text, .. }) = self.panes.last_mut() {
            // A pasted newline is not a key.
            push_some(text, pasted.chars().filter(|letter| !letter.is_control()));
            self.try_filter();
        }
    }

    /// Applies the text so far, if it is a valid filter.
    fn try_filter(&mut self) {
        let Some(Pane::Filter { text, wrong, .. }) = self.panes.last_mut() else {
            return;
        };
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

    pub(super) fn set_filter(&mut self, filter: Option<Filter>) {
        let listing = self.listing_mut();
        listing.filter = filter;
        listing.arrange();
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

    /// Scrolls a text pane, closes it by its own key, or leaves it for what the key of another one, or of a view, asks for.
    fn in_text(&mut self, asked: Option<Action>) {
        let own = match self.panes.last() {
            Some(Pane::Findings { .. }) => Action::Findings,
            Some(Pane::Evictions { .. }) => Action::Evictions,
            _ => Action::Help,
        };
        if let Some(
            asked @ (Action::View(_)
            | Action::NextView
            | Action::Findings
            | Action::Evictions
            | Action::Help),
        ) = asked
        {
            self.panes.pop();
            if asked != own {
                self.act(asked);
            }
            return;
        }
        let page = self.areas.body.height.max(1) as usize;
        let Some(
            Pane::Help { scroll } | Pane::Findings { scroll, .. } | Pane::Evictions { scroll, .. },
        ) = self.panes.last_mut()
        else {
            return;
        };
        // The end is known only when drawing.
        match asked {
            Some(Action::Down) => *scroll += 1,
            Some(Action::Up) => *scroll = scroll.saturating_sub(1),
            Some(Action::PageDown) => *scroll += page,
            Some(Action::PageUp) => *scroll = scroll.saturating_sub(page),
            Some(Action::HalfPageDown) => *scroll += page / 2,
            Some(Action::HalfPageUp) => *scroll = scroll.saturating_sub(page / 2),
            Some(Action::First | Action::FirstSample) => *scroll = 0,
            Some(Action::Last | Action::LastSample) => *scroll = usize::MAX / 2,
            Some(Action::Close | Action::Quit | Action::FoldOrHelp) => {
                self.panes.pop();
            }
            _ => {}
        }
    }
}
