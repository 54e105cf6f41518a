//! [`Canvas`]: writing text into a part of the screen.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use crate::look::{TerminalStyle, cut, width};

/// Part of the screen, with the characters that the terminal has.
pub(super) struct Canvas<'a> {
    pub(super) buffer: &'a mut Buffer,
    pub(super) look: TerminalStyle,
}

impl Canvas<'_> {
    /// Writes as much of a text as fits before `end`; returns its end.
    pub(super) fn text(&mut self, x: u16, y: u16, end: u16, text: &str, style: Style) -> u16 {
        let area = self.buffer.area;
        let end = end.min(area.right());
        if x >= end || y >= area.bottom() {
            return x;
        }
        let text = self.look.text(&cut(text, usize::from(end - x)));
        let (x, _) = self
            .buffer
            .set_stringn(x, y, text, usize::from(end - x), style);
        x
    }

    /// Writes a text that ends before `end`.
    pub(super) fn right(&mut self, from: u16, y: u16, end: u16, text: &str, style: Style) {
        let taken = u16::try_from(width(text)).unwrap_or(u16::MAX);
        let x = end.saturating_sub(taken).max(from);
        self.text(x, y, end, text, style);
    }

    /// Gives a whole line a style.
    pub(super) fn line(&mut self, area: Rect, y: u16, style: Style) {
        let line = Rect::new(area.x, y, area.width, 1).intersection(self.buffer.area);
        self.buffer.set_style(line, style);
    }

    pub(super) fn clear(&mut self, area: Rect) {
        let area = area.intersection(self.buffer.area);
        for y in area.top()..area.bottom() {
            for x in area.left()..area.right() {
                if let Some(cell) = self.buffer.cell_mut((x, y)) {
                    cell.reset();
                }
            }
        }
    }
}
