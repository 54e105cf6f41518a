//! Requests to the outside: operations on the cache after confirmation, and command lines.

use cachewise_model::{Measured, Reason};
use cachewise_units::Bytes;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::App;
use crate::action::Scene;
use crate::item::{self, Key};
use crate::machine::{Act, ProcessName, Request, Verb};
use crate::pane::Pane;
use crate::view_kind::ViewKind;

impl App {
    /// Asks for confirmation of an operation on the selected files.
    pub(super) fn ask(&mut self, verb: Verb) {
        if self.setup.readonly {
            let text = format!("{} is off: started with --readonly", verb.name());
            return self.say(text, true);
        }
        if self.busy.is_some() {
            return self.say("an operation is running: Esc stops it", true);
        }
        let Some(interval) = self.shown.clone() else {
            return;
        };
        let listing = self.listing();
        let files: Vec<item::Item> = match (listing.kind, listing.chosen()) {
            (ViewKind::File, Some(_)) => listing.chosen_items().into_iter().cloned().collect(),
            (ViewKind::Process, Some(key @ Key::Process(_))) => item::parts(key, &interval).1,
            (_, None) => return self.say("no row is selected", true),
            _ => {
                return self.say(
                    "select a file, a directory or a process: groups and devices hold other programs' pages",
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

    pub(super) fn confirm(&mut self, event: KeyEvent) {
        let Some(Pane::Confirm { act, .. }) = self.panes.pop() else {
            return;
        };
        let is_bare = (event.modifiers - KeyModifiers::SHIFT).is_empty();
        match event.code {
            KeyCode::Char('y' | 'Y') if is_bare && self.busy.is_none() => {
                self.busy = Some(act.clone());
                self.message = None;
                self.requests.push(Request::Act(act));
            }
            _ => self.say("nothing was done", false),
        }
    }

    /// Requests the command lines of the visible rows, if they are shown.
    pub(crate) fn ask_for_command_lines(&mut self, height: usize) {
        let listing = self.listing();
        if !self.with_arguments
            || listing.kind != ViewKind::Process
            || self.setup.scene != Scene::Live
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
            // Requested once, whatever the answer.
            let waiting = Measured::unknown(Reason::AskedFor);
            self.command_lines.insert(*name, waiting);
        }
        self.requests.push(Request::CommandLines(unknown));
    }
}
