//! What can happen, from wherever it comes, in one queue: the loop sleeps until something does.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use cachewise_model::Stretch;
use ratatui::crossterm::event;
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGTERM, SIGTSTP};
use signal_hook::iterator::Signals;

use crate::machine::Answer;
use crate::terminal;

/// Something happened.
#[derive(Debug)]
pub(crate) enum Event {
    /// A key, the mouse, another size.
    Input(event::Event),
    /// No more keys can be read, and why.
    NoInput(io::Error),
    /// A signal to this process.
    Signal(i32),
    /// The next stretch.
    Stretch(Box<Result<Stretch, String>>),
    /// What the outside found out.
    Answer(Answer),
    /// A thread is gone that should not be.
    Gone(&'static str),
}

/// What is closer together than this is one wish, though it came as two signals.
const APART: Duration = Duration::from_millis(100);

/// What is ended by a signal gives this and the signal's number as its status.
const BY_SIGNAL: i32 = 128;

/// The queue, with the keyboard and the signals in it.
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
            // Whoever sends a second one has waited in vain: the terminal may be what hangs.
            let again = asked.get_or_insert_with(Instant::now).elapsed() >= APART;
            if again || !heard {
                terminal::restore();
                signal_hook::low_level::exit(BY_SIGNAL + signal);
            }
        }
    })?;
    Ok((sender, inbox))
}

/// Has the keyboard in the queue; the terminal must have been taken over.
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

/// A thread whose panic is noticed.
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
