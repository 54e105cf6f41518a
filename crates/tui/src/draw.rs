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
use ratatui::crossterm::event::KeyEvent;
use ratatui::layout::Rect;

use crate::action::{Action, Category, Scene};
use crate::app::App;
use crate::bindings::{Binding, binding};
use crate::look::width;
use crate::pane::{LineKind, Pane};
use canvas::Canvas;

impl App {
    /// Whether a binding works here: others are neither listed nor explained.
    pub(crate) fn offers(&self, binding: &Binding) -> bool {
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
        self.areas.buttons.clear();
        let mut canvas = Canvas {
            buffer: frame.buffer_mut(),
            look,
        };
        let head = match area.height {
            ..4 => 0,
            4..14 => 1,
            14..16 => 3,
            16..20 => 4,
            _ => 5,
        };
        self.areas
            .buttons
            .extend(head::draw(self, &mut canvas, area, head));
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
        match self.panes.last() {
            Some(Pane::SortMenu { chosen }) => {
                panes::columns(
                    self,
                    "sort by (Enter chooses, Esc leaves)",
                    *chosen,
                    false,
                    &mut canvas,
                    rest,
                );
            }
            Some(Pane::Columns { chosen, .. }) => {
                panes::columns(
                    self,
                    "columns (Space turns on or off, D the defaults, Esc saves)",
                    *chosen,
                    true,
                    &mut canvas,
                    rest,
                );
            }
            _ => {}
        }
        let mut buttons = std::mem::take(&mut self.areas.buttons);
        let cursor = has_bottom
            .then(|| self.bottom(&mut canvas, area, bottom, &mut buttons))
            .flatten();
        self.areas.buttons = buttons;
        if let Some(x) = cursor {
            frame.set_cursor_position((x, bottom));
        }
    }

    /// The bottom line: a question, the text being typed, a message, or the keys.
    fn bottom(
        &self,
        canvas: &mut Canvas<'_>,
        area: Rect,
        y: u16,
        buttons: &mut Vec<(Rect, KeyEvent)>,
    ) -> Option<u16> {
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
                let hint = "text, re:REGEX or glob:PATTERN";
                return Some(typed(canvas, area, y, ("/", text, wrong.as_deref()), hint));
            }
            Some(Pane::Line(line)) => {
                let (sign, hint) = match (line.what, self.setup.scene) {
                    (LineKind::Search, _) => (
                        "search: ",
                        "text of a row; F3 and n go to the next, N to the one before",
                    ),
                    (LineKind::Command, Scene::Live) => (
                        ":",
                        "process, file, cgroup, device, sort COLUMN, filter TEXT, q",
                    ),
                    (LineKind::Command, Scene::Recording) => (
                        ":",
                        "14:05:22 or 12 goes there; process, file, sort COLUMN, q",
                    ),
                };
                let line = (sign, line.text.as_str(), line.wrong.as_deref());
                return Some(typed(canvas, area, y, line, hint));
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
            self.keys(canvas, from, y, end, buttons);
        }
        None
    }

    /// The most useful keys, as many as fit; a click on one does the same.
    fn keys(
        &self,
        canvas: &mut Canvas<'_>,
        from: u16,
        y: u16,
        end: u16,
        buttons: &mut Vec<(Rect, KeyEvent)>,
    ) {
        let look = self.setup.look;
        let live: &[Action] = &[
            Action::Help,
            Action::Quit,
            Action::Filter,
            Action::SortMenu,
            Action::Open,
            Action::Tree,
            Action::Group,
            Action::Columns,
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
            Action::Prompt,
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
            let Some(stroke) = binding.keys.first() else {
                continue;
            };
            let (key, start) = (stroke.shown, x);
            let taken = u16::try_from(key.len() + binding.name.len() + 3).unwrap_or(u16::MAX);
            if x.saturating_add(taken) > end + 2 {
                break;
            }
            x = canvas.text(x, y, end, key, look.bold());
            x = canvas.text(x + 1, y, end, binding.name, look.dim());
            buttons.push((Rect::new(start, y, x - start, 1), stroke.event()));
            x += 2;
        }
    }
}

/// A line being typed, with its fault or a hint; returns the column of the cursor.
fn typed(
    canvas: &mut Canvas<'_>,
    area: Rect,
    y: u16,
    (sign, text, wrong): (&str, &str, Option<&str>),
    hint: &str,
) -> u16 {
    let look = canvas.look;
    let end = area.right();
    // Show the end of the text being typed.
    let room = usize::from(area.width).saturating_sub(sign.len() + 1);
    let mut shown = text;
    while width(shown) > room {
        let mut rest = shown.chars();
        rest.next();
        shown = rest.as_str();
    }
    let shown = crate::scale::visible(shown);
    let x = canvas.text(area.left(), y, end, &format!("{sign}{shown}"), look.bold());
    if let Some(wrong) = wrong {
        canvas.text(x + 2, y, end, wrong, look.warning());
    } else if text.is_empty() {
        canvas.text(x + 1, y, end, hint, look.dim());
    }
    x.min(end.saturating_sub(1))
}
