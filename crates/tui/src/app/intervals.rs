//! Input: intervals, samples and answers; and the rows made of them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use cachewise_model::{Exactness, Interval, Measured};

use super::{App, Beat, Position};
use crate::action::{Action, Scene};
use crate::bindings::{Binding, binding};
use crate::findings;
use crate::item::{self, Key};
use crate::machine::{Answer, FileName, ProcessName, Request};
use crate::pane::{Details, Pane};
use crate::view_kind::ViewKind;

/// Time kept for findings: a minute, unless the rows take too much memory.
pub(crate) const KEPT: Duration = Duration::from_secs(60);
const KEPT_ROWS: usize = 50_000;

/// Maximum length of the sparkline.
const TRAIL: usize = 400;

impl App {
    /// Takes the next interval of a machine. It waits while the screen is frozen.
    pub fn feed(&mut self, interval: Interval) {
        let interval = self.take_in(interval);
        match self.is_held {
            true => self.waiting = Some(interval),
            false => self.show(interval),
        }
    }

    /// Takes an interval that is already outdated: it is not shown, but it counts.
    pub fn pass(&mut self, interval: Interval) {
        self.take_in(interval);
    }

    fn take_in(&mut self, interval: Interval) -> Arc<Interval> {
        self.push_beat(Beat::of_interval(&interval));
        self.report_losses(&interval);
        let interval = Arc::new(interval);
        self.recent.push_back(Arc::clone(&interval));
        self.forget_the_old();
        self.unjudged += interval.elapsed;
        if self.unjudged >= findings::VERDICTS && !self.is_held {
            self.is_verdict_due = true;
            self.unjudged = Duration::ZERO;
        }
        interval
    }

    /// The intervals of a verdict that is due: [`Headline::of`](crate::Headline::of) them is the answer. It takes a while, so
    /// that a loop has another thread do it.
    pub fn take_unjudged(&mut self) -> Option<Vec<Arc<Interval>>> {
        let is_due = std::mem::take(&mut self.is_verdict_due);
        is_due.then(|| self.recent.iter().map(Arc::clone).collect())
    }

    /// Reports each loss once: on a busy machine it may recur in every interval. The head keeps a
    /// sign.
    fn report_losses(&mut self, interval: &Interval) {
        for lost in &interval.lost {
            if self.reported_losses.insert(lost.id) && self.message.is_none() {
                let name = binding(Action::Findings).map_or(String::new(), Binding::shown);
                let (id, words) = (lost.id, lost.words());
                self.say(
                    format!("incomplete, {id} ({name} shows the fix): {words}"),
                    false,
                );
            }
        }
    }

    /// Exactness of the numbers of the last minute.
    pub(crate) fn exactness(&self) -> Exactness {
        let is_exact = self.setup.source.backend.exact;
        let recent = self.recent.iter().chain(&self.shown);
        recent
            .map(|interval| Exactness::new(is_exact, &interval.lost))
            .find(|exactness| *exactness != Exactness::Exact)
            .unwrap_or_else(|| Exactness::new(is_exact, &[]))
    }

    /// Shows a sample of a recording, with the earlier ones for the sparkline.
    pub fn jump(&mut self, interval: Arc<Interval>, trail: Vec<Option<Beat>>, position: Position) {
        self.trail = trail.into();
        self.position = Some(position);
        self.recent = VecDeque::from([Arc::clone(&interval)]);
        self.is_verdict_due = true;
        self.show(interval);
    }

    /// Whether the samples before the current one are needed.
    pub(crate) fn wants_past(&self) -> bool {
        let mut panes = self.panes.iter();
        panes.any(|pane| matches!(pane, Pane::Findings { .. }))
    }

    /// Takes the samples up to and including the current one.
    pub(crate) fn remember(&mut self, past: impl Iterator<Item = Arc<Interval>>) {
        self.recent = past.collect();
        self.forget_the_old();
        self.is_verdict_due = true;
        self.refill();
    }

    fn push_beat(&mut self, beat: Option<Beat>) {
        self.trail.push_back(beat);
        if self.trail.len() > TRAIL {
            self.trail.pop_front();
        }
    }

    fn forget_the_old(&mut self) {
        let rows = |interval: &Arc<Interval>| {
            interval.processes.len() + interval.files.len() + interval.uses.len()
        };
        let too_much = |recent: &VecDeque<Arc<Interval>>| {
            let time: Duration = recent.iter().map(|interval| interval.elapsed).sum();
            time > KEPT || recent.iter().map(rows).sum::<usize>() > KEPT_ROWS
        };
        while self.recent.len() > 1 && too_much(&self.recent) {
            self.recent.pop_front();
        }
    }

    pub(super) fn findings(&self) -> findings::RecentFindings {
        findings::over(&self.recent)
    }

    pub(super) fn show(&mut self, interval: Arc<Interval>) {
        self.shown = Some(Arc::clone(&interval));
        if self.with_arguments {
            let alive = |name: &ProcessName| {
                let is_it = |process: &cachewise_model::ProcessRow| {
                    process.pid == Some(name.pid) && process.started.known() == name.started
                };
                interval.processes.iter().any(is_it)
            };
            // Drops command lines of ended processes.
            if self.command_lines.len() > 2 * interval.processes.len() {
                self.command_lines.retain(|name, _| alive(name));
            }
        }
        self.refill();
    }

    /// Fills the visible view and the panes. Other views wait until they are visible.
    pub(super) fn refill(&mut self) {
        let Some(interval) = self.shown.clone() else {
            return;
        };
        // The old rows first: the new ones need their memory.
        self.listings[self.view].forget();
        let mut items = item::items(ViewKind::ALL[self.view], &interval);
        self.adorn(&mut items);
        self.listings[self.view].fill(items);
        self.listings[self.view].note_values(&interval.row());
        let mut panes = std::mem::take(&mut self.panes);
        for pane in &mut panes {
            match pane {
                Pane::Details(details) => self.fill_details(details, &interval),
                Pane::Findings { found, .. } | Pane::Evictions { found, .. } => {
                    *found = self.findings();
                }
                _ => {}
            }
        }
        self.panes = panes;
    }

    pub(super) fn fill_details(&mut self, details: &mut Details, interval: &Interval) {
        details.facts = crate::facts::facts(&details.of, interval, &self.command_lines);
        let (_, mut items) = item::parts(&details.of, interval);
        // An ended process keeps its last rows for the user.
        if items.is_empty() && !details.listing.items().is_empty() {
            details.facts.push(("below", "as it was last".into()));
            return;
        }
        self.adorn(&mut items);
        let files: Vec<FileName> = items.iter().filter_map(item::Item::file).collect();
        details.listing.fill(items);
        details.listing.note_values(&interval.row());
        if self.setup.scene == Scene::Live && !files.is_empty() {
            self.requests.push(Request::Residency(files));
        }
        if let Key::Process(name) = &details.of
            && self.setup.scene == Scene::Live
            && !self.command_lines.contains_key(name)
        {
            self.requests.push(Request::CommandLines(vec![*name]));
        }
    }

    /// Adds the values from answers.
    fn adorn(&self, items: &mut [item::Item]) {
        for item in items {
            match &item.key {
                Key::Process(name) if self.with_arguments => {
                    if let Some(Measured::Exact(line)) = self.command_lines.get(name) {
                        item.row.labels.command_line = Measured::Exact(line.clone());
                    }
                }
                Key::File { .. } if !self.residency.is_empty() => {
                    let known = item.file().and_then(|file| self.residency.get(&file));
                    if let Some(known) = known {
                        item.row.residency = known.clone();
                    }
                }
                _ => {}
            }
        }
    }

    /// Takes an answer from the outside.
    pub fn answer(&mut self, answer: Answer) {
        match answer {
            Answer::Residency(known) => {
                // Only of the visible files: others would be outdated when they are shown.
                self.residency = known.into_iter().collect();
            }
            Answer::Verdict(headline) => {
                self.headline = Some(headline);
                return;
            }
            Answer::CommandLines(known) => self.command_lines.extend(known),
            Answer::Acted(act, outcome) => {
                self.busy = None;
                let verb = act.verb.name();
                match outcome {
                    Ok(done) => self.say(format!("{verb}: {done}   {}", act.command()), false),
                    Err(why) => self.say(format!("{verb}: {why}"), true),
                }
            }
        }
        let mut panes = std::mem::take(&mut self.panes);
        for pane in &mut panes {
            if let Pane::Details(details) = pane {
                self.adorn(details.listing.items_mut());
                details.listing.arrange();
                if let Some(interval) = &self.shown {
                    let old = details.facts.iter().find(|fact| fact.0 == "below").cloned();
                    details.facts = crate::facts::facts(&details.of, interval, &self.command_lines);
                    details.facts.extend(old);
                }
            }
        }
        self.panes = panes;
        if self.with_arguments {
            self.refill_names();
        }
    }

    /// Updates names; the rows stay.
    fn refill_names(&mut self) {
        if let (Some(interval), ViewKind::Process) = (self.shown.clone(), ViewKind::ALL[self.view])
        {
            let mut items = item::items(ViewKind::Process, &interval);
            self.adorn(&mut items);
            self.listings[self.view].fill(items);
        }
    }
}
