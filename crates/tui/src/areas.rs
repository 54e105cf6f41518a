//! [`Areas`]: positions on the screen, for the mouse.

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
}
