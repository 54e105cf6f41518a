//! [`Areas`]: positions on the screen, for the mouse.

use ratatui::crossterm::event::KeyEvent;
use ratatui::layout::Rect;

/// Positions of the last frame.
#[derive(Debug, Clone, Default)]
pub struct Areas {
    /// The line of headings.
    pub headings: u16,
    /// The rows.
    pub body: Rect,
    /// Columns: start, end, and index among the list's columns.
    pub columns: Vec<(u16, u16, usize)>,
    /// Texts that act like a key when they are clicked.
    pub buttons: Vec<(Rect, KeyEvent)>,
}

impl Areas {
    /// The key of the text at a position.
    #[must_use]
    pub(crate) fn button(&self, column: u16, row: u16) -> Option<KeyEvent> {
        let at = (column, row).into();
        let found = self.buttons.iter().find(|(area, _)| area.contains(at));
        found.map(|(_, key)| *key)
    }
}
