//! A machine on the terminal: the loop around an [`App`], and its threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use cachewise_model::{Interval, escaped};
use ratatui::crossterm::event::Event as Input;
use signal_hook::consts::{SIGCONT, SIGTSTP};
use signal_hook::low_level::emulate_default_handler;

use crate::app::App;
use crate::error::Error;
use crate::events::{self, Event};
use crate::findings::Headline;
use crate::machine::{Answer, Machine, Request, Source};
use crate::settings::ChosenColumns;
use crate::terminal::{self, Screen};

/// Use of the terminal.
#[derive(Debug, Clone, Copy)]
pub struct LiveOptions {
    /// Capture the mouse; otherwise text can be selected.
    pub mouse: bool,
    /// Stop after this many intervals, with or without data.
    pub count: Option<u64>,
}

/// Length of the first interval, so that the screen is not empty for a whole one.
const FIRST: Duration = Duration::from_millis(250);

/// Maximum events to handle before the next frame.
const AT_ONCE: usize = 256;

/// Shows a machine until the user quits.
///
/// # Errors
/// [`Error::Terminal`] if the terminal cannot be used, [`Error::Gone`] if a thread has panicked.
/// The terminal is restored.
pub fn live(
    mut app: App,
    source: impl Source + Send + 'static,
    machine: impl Machine + 'static,
    options: LiveOptions,
) -> Result<(), Error> {
    let cannot = |operation| move |source| Error::Terminal { operation, source };
    let (queue, inbox) = events::queue().map_err(cannot("catch signals for"))?;
    let mut screen = Screen::open(options.mouse).map_err(cannot("take over"))?;
    events::listen(&queue).map_err(cannot("read keys from"))?;
    let start = cannot("start threads for");
    let pace = watch(source, app.setup.interval, &queue).map_err(start)?;
    let cancel = Arc::new(AtomicBool::new(false));
    let hands = serve(machine, Arc::clone(&cancel), &queue).map_err(start)?;
    let judge = judge(&queue).map_err(start)?;
    let mut shown = 0;
    loop {
        screen.draw(&mut app).map_err(cannot("draw on"))?;
        for request in app.take_requests() {
            match request {
                Request::Interval(interval) => _ = pace.send(interval),
                Request::Cancel => cancel.store(true, Ordering::SeqCst),
                Request::Suspend => {
                    suspend(&mut app);
                    screen.draw(&mut app).map_err(cannot("draw on"))?;
                }
                Request::Redraw => screen.redraw().map_err(cannot("draw on"))?,
                Request::Save(columns) => {
                    save(&mut app, &columns);
                    screen.draw(&mut app).map_err(cannot("draw on"))?;
                }
                Request::Step(_) | Request::Past => {}
                request => _ = hands.send(request),
            }
        }
        if let Some(recent) = app.take_unjudged() {
            let _ = judge.send(recent);
        }
        let Ok(event) = inbox.recv() else {
            return Ok(());
        };
        let batch = batch(event, &inbox);
        let newest = batch.iter().rposition(is_numbers);
        for (place, event) in batch.into_iter().enumerate() {
            match event {
                Event::Interval(interval) => {
                    match *interval {
                        Ok(interval) if Some(place) == newest => app.feed(interval),
                        Ok(interval) => app.pass(interval),
                        Err(why) => app.say(why, true),
                    }
                    shown += 1;
                    if options.count == Some(shown) {
                        screen.draw(&mut app).map_err(cannot("draw on"))?;
                        return Ok(());
                    }
                }
                Event::Answer(answer) => app.answer(answer),
                other => {
                    if !handle(other, &mut app, &mut screen, |app, key| app.key(key))? {
                        return Ok(());
                    }
                }
            }
        }
        if app.is_over() {
            for request in app.take_requests() {
                if let Request::Save(columns) = request {
                    save(&mut app, &columns);
                }
            }
            return Ok(());
        }
    }
}

/// Writes the choice of columns, and says where.
pub(crate) fn save(app: &mut App, columns: &ChosenColumns) {
    match app.setup.settings.save(columns) {
        Ok(path) => app.say(format!("columns saved in {}", escaped(&path)), false),
        Err(why) => app.say(why, true),
    }
}

/// The events that are queued now. Later ones wait for the next frame: otherwise a machine with
/// more events than the screen can show would never draw a frame, nor handle a key.
fn batch(first: Event, inbox: &Receiver<Event>) -> Vec<Event> {
    let more = inbox.try_iter().take(AT_ONCE);
    std::iter::once(first).chain(more).collect()
}

fn is_numbers(event: &Event) -> bool {
    matches!(event, Event::Interval(interval) if interval.is_ok())
}

fn suspend(app: &mut App) {
    if !terminal::stop_job() {
        app.say(
            "nothing to go back to: this was not started by a shell",
            true,
        );
    }
}

/// Handles events that a machine and a recording have in common; false at the end.
pub(crate) fn handle(
    event: Event,
    app: &mut App,
    screen: &mut Screen,
    mut key: impl FnMut(&mut App, ratatui::crossterm::event::KeyEvent),
) -> Result<bool, Error> {
    let cannot = |operation| move |source| Error::Terminal { operation, source };
    match event {
        Event::Input(Input::Key(event)) => key(app, event),
        Event::Input(Input::Mouse(event)) => app.mouse(event),
        Event::Input(Input::Paste(text)) => app.paste(&text),
        Event::Input(Input::Resize(..) | Input::FocusGained | Input::FocusLost) => {}
        Event::Signal(SIGTSTP) => {
            if terminal::has_shell() {
                terminal::restore();
                // Returns when the job is continued.
                let _ = emulate_default_handler(SIGTSTP);
                screen.enter().map_err(cannot("take back"))?;
            }
        }
        Event::Signal(SIGCONT) => screen.enter().map_err(cannot("take back"))?,
        // A request to end: Ctrl-C as a signal from elsewhere, or a closed terminal.
        Event::Signal(_) => return Ok(false),
        Event::NoInput(error) if terminal::is_gone(&error) => return Ok(false),
        Event::NoInput(error) => return Err(cannot("read keys from")(error)),
        Event::Gone(thread) => return Err(Error::Gone(thread)),
        Event::Interval(_) | Event::Answer(_) => {}
    }
    Ok(true)
}

/// The thread that takes intervals; it receives changes of the interval.
fn watch(
    mut source: impl Source + Send + 'static,
    mut interval: Duration,
    queue: &Sender<Event>,
) -> std::io::Result<Sender<Duration>> {
    let (sender, paces) = channel();
    let events = queue.clone();
    events::spawn("watch", queue, move || {
        let mut last = Instant::now();
        let mut due = last + interval.min(FIRST);
        loop {
            match paces.recv_timeout(due.saturating_duration_since(Instant::now())) {
                Ok(pace) => {
                    interval = pace;
                    due = last + interval;
                }
                Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {
                    let taken = Box::new(source.interval());
                    if events.send(Event::Interval(taken)).is_err() {
                        return;
                    }
                    last = Instant::now();
                    // After a sleep of the machine, do not catch up.
                    due = (due + interval).max(last);
                }
            }
        }
    })?;
    Ok(sender)
}

/// The thread that finds verdicts.
fn judge(queue: &Sender<Event>) -> std::io::Result<Sender<Vec<Arc<Interval>>>> {
    let (sender, periods): (_, Receiver<Vec<Arc<Interval>>>) = channel();
    let events = queue.clone();
    events::spawn("judge", queue, move || {
        while let Ok(recent) = periods.recv() {
            // Only the latest is still of interest.
            let recent = periods.try_iter().last().unwrap_or(recent);
            let verdict = Answer::Verdict(Headline::of(&recent));
            drop(recent);
            if events.send(Event::Answer(verdict)).is_err() {
                return;
            }
        }
    })?;
    Ok(sender)
}

/// The thread that queries the machine and changes its cache.
fn serve(
    mut machine: impl Machine + 'static,
    cancel: Arc<AtomicBool>,
    queue: &Sender<Event>,
) -> std::io::Result<Sender<Request>> {
    let (sender, requests): (_, Receiver<Request>) = channel();
    let events = queue.clone();
    events::spawn("hands", queue, move || {
        while let Ok(first) = requests.recv() {
            // Only the last of several residency requests is still of interest.
            let mut all: Vec<Request> = std::iter::once(first).chain(requests.try_iter()).collect();
            let last = all
                .iter()
                .rposition(|request| matches!(request, Request::Residency(_)));
            let mut place = 0;
            all.retain(|request| {
                place += 1;
                !matches!(request, Request::Residency(_)) || Some(place - 1) == last
            });
            for request in all {
                let answer = match request {
                    Request::Residency(files) => {
                        let known = files.into_iter().map(|file| {
                            let residency = machine.residency(&file);
                            (file, residency)
                        });
                        Answer::Residency(known.collect())
                    }
                    Request::CommandLines(names) => {
                        let known = names
                            .into_iter()
                            .map(|name| (name, machine.command_line(&name)));
                        Answer::CommandLines(known.collect())
                    }
                    Request::Act(act) => {
                        cancel.store(false, Ordering::SeqCst);
                        let outcome = machine.act(&act, &cancel);
                        Answer::Acted(act, outcome)
                    }
                    _ => continue,
                };
                if events.send(Event::Answer(answer)).is_err() {
                    return;
                }
            }
        }
    })?;
    Ok(sender)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batch_excludes_events_that_arrive_later() {
        let (queue, inbox) = channel();
        let numbers = || Event::Interval(Box::new(Err("too late".into())));
        for _ in 0..3 {
            queue.send(numbers()).unwrap();
        }
        let first = inbox.recv().unwrap();
        let mut dealt = 0;
        for _ in batch(first, &inbox) {
            dealt += 1;
            queue.send(numbers()).unwrap();
            assert!(dealt <= 3, "only events queued at its start");
        }
        assert_eq!(dealt, 3, "all of that");
        assert_eq!(inbox.try_iter().count(), 3, "the rest is for the next");
    }
}
