//! Mouse events and pasted text.

use ratatui::crossterm::event::{MouseButton, MouseEvent, MouseEventKind};

use crate::app::App;
use crate::pane::Pane;

/// Rows per notch of the wheel.
const NOTCH: isize = 3;

impl App {
    /// The wheel scrolls; a click on a heading sorts, on a row selects it, on a tab or a key at the bottom does what the key
    /// does, and on a message closes it.
    pub fn mouse(&mut self, event: MouseEvent) {
        match event.kind {
            MouseEventKind::ScrollDown => self.roll(NOTCH),
            MouseEventKind::ScrollUp => self.roll(-NOTCH),
            MouseEventKind::Down(MouseButton::Left) => self.click(event.column, event.row),
            _ => {}
        }
    }

    /// Pasted text never acts like keys.
    pub fn paste(&mut self, text: &str) {
        self.paste_filter(text);
        self.paste_line(text);
    }

    fn roll(&mut self, lines: isize) {
        match self.panes.last_mut() {
            Some(
                Pane::Help { scroll }
                | Pane::Findings { scroll, .. }
                | Pane::Evictions { scroll, .. },
            ) => {
                *scroll = scroll.saturating_add_signed(lines);
            }
            Some(Pane::SortMenu { chosen }) => {
                *chosen = chosen.saturating_add_signed(lines.signum())
            }
            Some(Pane::Columns { chosen, .. }) => {
                *chosen = chosen.saturating_add_signed(lines.signum());
            }
            Some(Pane::Filter { .. } | Pane::Line(_) | Pane::Confirm { .. }) => {}
            Some(Pane::Details(_)) | None => self.listing_mut().go(lines),
        }
        let last = self.listing().columns.len().saturating_sub(1);
        match self.panes.last_mut() {
            Some(Pane::SortMenu { chosen }) => *chosen = (*chosen).min(last),
            Some(Pane::Columns { chosen, .. }) => *chosen = (*chosen).min(last.saturating_sub(1)),
            _ => {}
        }
    }

    fn click(&mut self, column: u16, row: u16) {
        // A click is no letter of a line, and no answer.
        let last = self.panes.last();
        if matches!(
            last,
            Some(Pane::Filter { .. } | Pane::Line(_) | Pane::Confirm { .. })
        ) {
            return;
        }
        if let Some(key) = self.areas.button(column, row) {
            return self.key(key);
        }
        if !matches!(self.panes.last(), Some(Pane::Details(_)) | None) {
            return;
        }
        if row >= self.areas.body.bottom() {
            self.message = None;
        }
        let body = self.areas.body;
        if row == self.areas.headings && row < body.y {
            let columns = self.areas.columns.iter();
            let hit = columns
                .rev()
                .find(|(from, ..)| *from <= column.saturating_add(1));
            if let Some((_, _, place)) = hit.copied() {
                self.sort_by(place);
            }
        } else if body.contains((column, row).into()) {
            let line = self.listing().offset + usize::from(row - body.y);
            if line < self.listing().lines().len() {
                self.listing_mut().go_to(line);
            }
        }
    }
}
