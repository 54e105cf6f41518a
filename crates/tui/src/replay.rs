//! A recording on the terminal: the same views, and movement through time.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use cachewise_model::Interval;
use ratatui::crossterm::event::KeyEvent;

use crate::app::{App, Beat, KEPT, Position};
use crate::error::Error;
use crate::events;
use crate::findings::Headline;
use crate::live::{LiveOptions, handle, save};
use crate::machine::{Answer, Request, SampleStep};
use crate::moment::Moment;
use crate::terminal::{self, Screen};

/// The samples of a recording.
pub trait History {
    /// The number of samples.
    fn len(&self) -> usize;

    /// A sample, by its index from 0.
    ///
    /// # Errors
    /// The reason why it cannot be read.
    fn get(&mut self, place: usize) -> Result<Interval, String>;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Number of earlier samples in the sparkline: each must be read once.
const TRAIL: usize = 120;

/// Number of earlier samples to search for findings, at least: a minute, at any interval.
const FEWEST: usize = 60;
const MOST: usize = 600;

/// A recording, and the position in it.
#[derive(Debug)]
pub struct Player<H> {
    /// The views.
    pub app: App,
    history: H,
    place: usize,
    is_playing: bool,
    beats: HashMap<usize, Option<Beat>>,
    /// The samples already read for findings: the next step needs all of them but one.
    past: BTreeMap<usize, Arc<Interval>>,
}

impl<H: History> Player<H> {
    /// A recording at its first sample.
    ///
    /// # Errors
    /// [`Error::Empty`], or [`Error::Sample`] if that sample cannot be read.
    pub fn new(app: App, history: H) -> Result<Player<H>, Error> {
        if history.is_empty() {
            return Err(Error::Empty);
        }
        let mut player = Player {
            app,
            history,
            place: 0,
            is_playing: false,
            beats: HashMap::new(),
            past: BTreeMap::new(),
        };
        match player.go_to(0) {
            Ok(()) => Ok(player),
            Err(why) => Err(Error::Sample { sample: 1, why }),
        }
    }

    /// Whether it plays.
    #[must_use]
    pub fn is_playing(&self) -> bool {
        self.is_playing
    }

    /// Handles a key.
    pub fn key(&mut self, event: KeyEvent) {
        self.app.key(event);
    }

    /// Handles the views' requests; returns those for the outside.
    pub fn serve(&mut self) -> Vec<Request> {
        let mut rest = Vec::new();
        for request in self.app.take_requests() {
            match request {
                Request::Step(step) => self.step(step),
                Request::Past => self.look_back(),
                other => rest.push(other),
            }
        }
        if let Some(recent) = self.app.take_unjudged() {
            self.app.answer(Answer::Verdict(Headline::of(&recent)));
        }
        rest
    }

    /// Handles the time of the next sample.
    pub fn tick(&mut self) {
        if self.is_playing {
            self.move_to(self.place + 1);
        }
    }

    fn step(&mut self, step: SampleStep) {
        let last = self.history.len() - 1;
        match step {
            SampleStep::Earlier if self.place == 0 => {
                self.app.say("this is the first sample", false)
            }
            SampleStep::Earlier => self.move_to(self.place - 1),
            SampleStep::Later if self.place == last => {
                self.app.say("this is the last sample", false)
            }
            SampleStep::Later => self.move_to(self.place + 1),
            SampleStep::First => self.move_to(0),
            SampleStep::Last => self.move_to(last),
            SampleStep::To(number) => {
                self.move_to(number.saturating_sub(1));
                if number > last + 1 {
                    self.app
                        .say(format!("the last of {} samples", last + 1), false);
                }
            }
            SampleStep::At(moment) => {
                if let Err(why) = self.go_to_time(moment) {
                    self.app.say(why, true);
                }
            }
            SampleStep::Play => {
                self.is_playing = !self.is_playing;
                // At the end it starts again.
                match self.is_playing && self.place == last {
                    true => self.move_to(0),
                    false => self.app.set_position(self.position()),
                }
            }
        }
    }

    /// Goes to the first sample that is not before a time. Without a day, it is that of the current sample, or else of the
    /// last or the first one.
    fn go_to_time(&mut self, moment: Moment) -> Result<(), String> {
        let last = self.history.len() - 1;
        let (first_time, last_time) = (self.time(0)?, self.time(last)?);
        let mut days = vec![self.time(self.place)?];
        if !moment.has_date() {
            days.extend([last_time.clone(), first_time.clone()]);
        }
        let wanted: Vec<String> = days.iter().map(|day| moment.on_the_day_of(day)).collect();
        let is_within = |time: &&String| (&first_time..=&last_time).contains(time);
        let Some(time) = wanted.iter().find(is_within) else {
            let is_late = wanted[0] > last_time;
            self.move_to(if is_late { last } else { 0 });
            self.app.say(
                match is_late {
                    true => format!("the recording ends at {last_time}"),
                    false => format!("the recording begins at {first_time}"),
                },
                false,
            );
            return Ok(());
        };
        let (mut before, mut at) = (0, last);
        while before < at {
            let middle = before + (at - before) / 2;
            match self.time(middle)? < *time {
                true => before = middle + 1,
                false => at = middle,
            }
        }
        self.move_to(at);
        Ok(())
    }

    /// The time of a sample, without fractions of a second and time zone.
    fn time(&mut self, place: usize) -> Result<String, String> {
        /// Characters of `2026-01-02T03:04:05`.
        const SECONDS: usize = 19;
        let sample = self.sample(place);
        let sample = sample.map_err(|why| format!("sample {}: {why}", place + 1))?;
        Ok(sample.time.chars().take(SECONDS).collect())
    }

    fn move_to(&mut self, place: usize) {
        let place = place.min(self.history.len() - 1);
        if place + 1 == self.history.len() {
            self.is_playing = false;
        }
        if let Err(why) = self.go_to(place) {
            self.is_playing = false;
            self.app.set_position(self.position());
            self.app.say(format!("sample {}: {why}", place + 1), true);
        }
    }

    fn go_to(&mut self, place: usize) -> Result<(), String> {
        let interval = self.sample(place)?;
        self.past.insert(place, Arc::clone(&interval));
        self.beats.insert(place, Beat::of_interval(&interval));
        let mut trail = Vec::with_capacity(TRAIL);
        for earlier in place.saturating_sub(TRAIL)..=place {
            let beat = match self.beats.get(&earlier) {
                Some(beat) => *beat,
                None => {
                    // An unreadable sample is a gap in the line; stepping to it shows the error.
                    let beat = self
                        .history
                        .get(earlier)
                        .ok()
                        .as_ref()
                        .and_then(Beat::of_interval);
                    self.beats.insert(earlier, beat);
                    beat
                }
            };
            trail.push(beat);
        }
        self.place = place;
        self.app.jump(interval, trail, self.position());
        match self.app.wants_past() {
            true => self.look_back(),
            false => self.past.clear(),
        }
        Ok(())
    }

    /// A sample, from memory if it is still there.
    fn sample(&mut self, place: usize) -> Result<Arc<Interval>, String> {
        match self.past.get(&place) {
            Some(interval) => Ok(Arc::clone(interval)),
            None => Ok(Arc::new(self.history.get(place)?)),
        }
    }

    /// Gives the views the samples before the current one.
    fn look_back(&mut self) {
        let mut count = FEWEST;
        loop {
            let first = (self.place + 1).saturating_sub(count);
            for at in first..=self.place {
                // Stepping to an unreadable sample reports the error.
                if let Ok(interval) = self.sample(at) {
                    self.past.insert(at, interval);
                }
            }
            let past = self.past.range(first..=self.place).map(|(_, past)| past);
            let time: Duration = past.map(|interval| interval.elapsed).sum();
            if time >= KEPT || first == 0 || count >= MOST {
                self.past.retain(|at, _| (first..=self.place).contains(at));
                return self.app.remember(self.past.values().map(Arc::clone));
            }
            count *= 2;
        }
    }

    fn position(&self) -> Position {
        Position {
            sample: self.place + 1,
            of: self.history.len(),
            is_playing: self.is_playing,
        }
    }
}

/// Shows a recording until the user quits. The app's [`Setup`](crate::Setup) has
/// [`Scene::Recording`](crate::Scene::Recording), and its interval is the time between samples
/// while it plays.
///
/// # Errors
/// [`Error::Empty`] and [`Error::Sample`] before the terminal is touched; otherwise as
/// [`live`](crate::live()).
pub fn replay(app: App, history: impl History, options: LiveOptions) -> Result<(), Error> {
    let cannot = |operation| move |source| Error::Terminal { operation, source };
    let mut player = Player::new(app, history)?;
    let (queue, inbox) = events::queue().map_err(cannot("catch signals for"))?;
    let mut screen = Screen::open(options.mouse).map_err(cannot("take over"))?;
    events::listen(&queue).map_err(cannot("read keys from"))?;
    let mut due = Instant::now();
    loop {
        for request in player.serve() {
            match request {
                Request::Suspend if !terminal::stop_job() => {
                    player.app.say(
                        "nothing to go back to: this was not started by a shell",
                        true,
                    );
                }
                Request::Save(columns) => save(&mut player.app, &columns),
                Request::Redraw => screen.redraw().map_err(cannot("draw on"))?,
                _ => {}
            }
        }
        screen.draw(&mut player.app).map_err(cannot("draw on"))?;
        if player.app.is_over() {
            return Ok(());
        }
        let event = match player.is_playing() {
            true => inbox.recv_timeout(due.saturating_duration_since(Instant::now())),
            false => inbox.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match event {
            Ok(event) => {
                let was_playing = player.is_playing();
                if !handle(event, &mut player.app, &mut screen, App::key)? {
                    return Ok(());
                }
                if !was_playing {
                    due = Instant::now() + pace(&player.app);
                }
            }
            Err(RecvTimeoutError::Timeout) => {
                player.tick();
                due = Instant::now() + pace(&player.app);
            }
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
    }
}

fn pace(app: &App) -> Duration {
    app.setup.interval
}
