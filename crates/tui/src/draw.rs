//! A frame: the layout of the screen.
//!
//! # Layout
//! - this file: areas of the screen. `canvas`: writing text.
//! - `head`: the machine's numbers and its sparkline. `table`: a list of rows. `panes`: panes over
//!   it.

mod canvas;
mod head;
mod panes;
mod table;

use ratatui::Frame;
use ratatui::layout::Rect;

use crate::action::{Action, Binding, Category, Scene, binding};
use crate::app::App;
use crate::look::width;
use crate::pane::Pane;
use canvas::Canvas;

impl App {
    /// Whether a binding works here: others are neither listed nor explained.
    fn offers(&self, binding: &Binding) -> bool {
        binding.only.is_none_or(|only| only == self.setup.scene)
            && !(self.setup.readonly && binding.category == Category::Acting)
    }

    /// Draws the whole frame.
    pub fn draw(&mut self, frame: &mut Frame<'_>) {
        let area = frame.area();
        if area.is_empty() {
            return;
        }
        let look = self.setup.look;
        let mut canvas = Canvas {
            buffer: frame.buffer_mut(),
            look,
        };
        let head = match area.height {
            ..4 => 0,
            4..14 => 1,
            14..20 => 3,
            _ => 4,
        };
        head::draw(self, &mut canvas, area, head);
        let bottom = area.bottom().saturating_sub(1);
        let has_bottom = area.height >= 3;
        let rest = Rect {
            y: area.y + head,
            height: area
                .height
                .saturating_sub(head)
                .saturating_sub(u16::from(has_bottom)),
            ..area
        };
        let text_pane = self.panes.iter().rposition(|pane| {
            matches!(
                pane,
                Pane::Help { .. } | Pane::Findings { .. } | Pane::Evictions { .. }
            )
        });
        match text_pane {
            Some(place) => panes::text(self, place, &mut canvas, rest),
            None => table::draw(self, &mut canvas, rest),
        }
        if let Some(Pane::SortMenu { chosen }) = self.panes.last() {
            panes::sort_menu(self, *chosen, &mut canvas, rest);
        }
        let cursor = has_bottom
            .then(|| self.bottom(&mut canvas, area, bottom))
            .flatten();
        if let Some(x) = cursor {
            frame.set_cursor_position((x, bottom));
        }
    }

    /// The bottom line: a question, the text being typed, a message, or the keys.
    fn bottom(&self, canvas: &mut Canvas<'_>, area: Rect, y: u16) -> Option<u16> {
        let look = self.setup.look;
        let (from, end) = (area.left(), area.right());
        match self.panes.last() {
            Some(Pane::Confirm { act, question }) => {
                if area.height > 6 {
                    let above = Rect::new(area.x, y - 1, area.width, 1);
                    canvas.clear(above);
                    canvas.text(from, y - 1, end, &act.command(), look.dim());
                }
                // The end of a long name is worth less than the question mark.
                let room = usize::from(area.width);
                let question = crate::look::cut_path(question, room);
                canvas.text(from, y, end, &question, look.bold());
                return None;
            }
            Some(Pane::Filter { text, wrong, .. }) => {
                // Show the end of the text being typed.
                let room = usize::from(area.width).saturating_sub(2);
                let mut shown = text.as_str();
                while width(shown) > room {
                    let mut rest = shown.chars();
                    rest.next();
                    shown = rest.as_str();
                }
                let shown = crate::scale::visible(shown);
                let x = canvas.text(from, y, end, &format!("/{shown}"), look.bold());
                if let Some(wrong) = wrong {
                    canvas.text(x + 2, y, end, wrong, look.warning());
                } else if text.is_empty() {
                    let hint = "text, re:REGEX or glob:PATTERN";
                    canvas.text(x + 1, y, end, hint, look.dim());
                }
                return Some(x.min(end.saturating_sub(1)));
            }
            _ => {}
        }
        if let Some(busy) = &self.busy {
            let text = format!(
                "{} is at work; Esc stops it: {}",
                busy.verb.name(),
                busy.command()
            );
            canvas.text(from, y, end, &text, look.bold());
        } else if let Some(message) = &self.message {
            let style = match message.is_error {
                true => look.warning(),
                false => look.plain(),
            };
            let text = match message.is_error {
                true => format!("! {}", message.text),
                false => message.text.clone(),
            };
            canvas.text(from, y, end, &text, style);
        } else {
            self.keys(canvas, from, y, end);
        }
        None
    }

    /// The most useful keys, as many as fit.
    fn keys(&self, canvas: &mut Canvas<'_>, from: u16, y: u16, end: u16) {
        let look = self.setup.look;
        let live: &[Action] = &[
            Action::Help,
            Action::Quit,
            Action::Filter,
            Action::SortMenu,
            Action::Open,
            Action::Tree,
            Action::Scale,
            Action::Pause,
            Action::Findings,
            Action::Warm,
            Action::Evict,
            Action::Reverse,
            Action::CommandLine,
            Action::Active,
        ];
        let recording: &[Action] = &[
            Action::Help,
            Action::Quit,
            Action::Earlier,
            Action::Later,
            Action::Play,
            Action::Filter,
            Action::SortMenu,
            Action::Open,
            Action::Tree,
            Action::Scale,
        ];
        let detail: &[Action] = &[
            Action::Close,
            Action::Open,
            Action::Warm,
            Action::Evict,
            Action::Filter,
            Action::SortMenu,
            Action::Tree,
            Action::Scale,
            Action::Help,
        ];
        let text: &[Action] = &[Action::Close, Action::Down, Action::Up, Action::PageDown];
        let actions = match (self.panes.last(), self.setup.scene) {
            (Some(Pane::Details(_)), _) => detail,
            (Some(_), _) => text,
            (None, Scene::Live) => live,
            (None, Scene::Recording) => recording,
        };
        let mut x = from;
        for binding in actions.iter().filter_map(|action| binding(*action)) {
            if !self.offers(binding) {
                continue;
            }
            let key = binding.shown.split(' ').next().unwrap_or_default();
            let taken = u16::try_from(key.len() + binding.name.len() + 3).unwrap_or(u16::MAX);
            if x.saturating_add(taken) > end + 2 {
                break;
            }
            x = canvas.text(x, y, end, key, look.bold());
            x = canvas.text(x + 1, y, end, binding.name, look.dim()) + 2;
        }
    }
}
