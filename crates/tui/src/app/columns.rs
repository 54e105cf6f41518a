//! The choice of columns.

use ratatui::crossterm::event::{KeyCode, KeyEvent};

use super::App;
use crate::action::Action;
use crate::machine::Request;
use crate::pane::Pane;

impl App {
    pub(super) fn open_columns(&mut self) {
        self.panes.push(Pane::Columns {
            chosen: 0,
            has_changed: false,
        });
    }

    pub(super) fn in_columns(&mut self, event: KeyEvent, asked: Option<Action>) {
        // The name is always there.
        let last = self.listing().columns.len().saturating_sub(2);
        let Some(Pane::Columns {
            chosen,
            has_changed,
        }) = self.panes.last_mut()
        else {
            return;
        };
        match asked {
            Some(Action::Down) => *chosen = (*chosen + 1).min(last),
            Some(Action::Up) => *chosen = chosen.saturating_sub(1),
            Some(Action::First | Action::PageUp | Action::FirstSample) => *chosen = 0,
            Some(Action::Last | Action::PageDown | Action::LastSample) => *chosen = last,
            Some(Action::Close | Action::Quit | Action::Columns | Action::Save) => {
                let has_changed = *has_changed;
                self.panes.pop();
                if has_changed {
                    self.save_columns();
                }
            }
            Some(Action::DefaultColumns) => {
                *has_changed = true;
                self.listing_mut().choose_defaults();
            }
            _ if matches!(event.code, KeyCode::Enter | KeyCode::Char(' ')) => {
                let place = *chosen;
                *has_changed = true;
                if let Some(column) = self.listing_mut().columns.get_mut(place) {
                    column.is_chosen = !column.is_chosen;
                }
            }
            _ => {}
        }
    }

    pub(super) fn save_columns(&mut self) {
        let mut panes = self.panes.iter();
        if panes.any(|pane| matches!(pane, Pane::Details(_))) {
            return self.say("columns of details are not saved", false);
        }
        let listings = self.listings.iter();
        let columns = listings.map(|listing| (listing.kind, listing.chosen_ids()));
        self.requests.push(Request::Save(columns.collect()));
    }
}
