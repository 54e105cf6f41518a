//! Events from all sources in one queue: the loop sleeps until one arrives.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use cachewise_model::Interval;
use ratatui::crossterm::event;
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGTERM, SIGTSTP};
use signal_hook::iterator::Signals;

use crate::machine::Answer;
use crate::terminal;

/// An event.
#[derive(Debug)]
pub(crate) enum Event {
    /// A key, the mouse, another size.
    Input(event::Event),
    /// The keyboard cannot be read, with the error.
    NoInput(io::Error),
    /// A signal to this process.
    Signal(i32),
    /// The next interval.
    Interval(Box<Result<Interval, String>>),
    /// An answer from the outside.
    Answer(Answer),
    /// A thread ended unexpectedly.
    Gone(&'static str),
}

/// Signals closer together than this count as one request.
const APART: Duration = Duration::from_millis(100);

/// A process ended by a signal has this plus the signal's number as exit status.
const BY_SIGNAL: i32 = 128;

/// The queue, fed by the keyboard and the signals.
pub(crate) fn queue() -> io::Result<(Sender<Event>, Receiver<Event>)> {
    let (sender, inbox) = channel();
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP, SIGTSTP, SIGCONT])?;
    let queue = sender.clone();
    spawn("signals", &sender, move || {
        let mut asked: Option<Instant> = None;
        for signal in signals.forever() {
            let heard = queue.send(Event::Signal(signal)).is_ok();
            if signal == SIGTSTP || signal == SIGCONT {
                continue;
            }
            // A second signal means that the first had no effect: the terminal may hang.
            let again = asked.get_or_insert_with(Instant::now).elapsed() >= APART;
            if again || !heard {
                terminal::restore();
                signal_hook::low_level::exit(BY_SIGNAL + signal);
            }
        }
    })?;
    Ok((sender, inbox))
}

/// Feeds the keyboard into the queue; the terminal must have been taken over.
pub(crate) fn listen(sender: &Sender<Event>) -> io::Result<()> {
    let queue = sender.clone();
    spawn("keys", sender, move || {
        loop {
            let event = match event::read() {
                Ok(event) => Event::Input(event),
                Err(error) => Event::NoInput(error),
            };
            let is_last = matches!(event, Event::NoInput(_));
            if queue.send(event).is_err() || is_last {
                return;
            }
        }
    })
}

/// Starts a thread whose panic is reported.
pub(crate) fn spawn(
    name: &'static str,
    queue: &Sender<Event>,
    work: impl FnOnce() + Send + 'static,
) -> io::Result<()> {
    struct Notice(&'static str, Sender<Event>);
    impl Drop for Notice {
        fn drop(&mut self) {
            if thread::panicking() {
                let _ = self.1.send(Event::Gone(self.0));
            }
        }
    }
    let notice = Notice(name, queue.clone());
    cachewise_sys::start_thread(name, move || {
        let _notice = notice;
        work();
    })?;
    Ok(())
}
