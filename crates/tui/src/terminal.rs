//! The terminal: taken over, and restored in every case.

use std::io::{self, BufWriter, Stdout, Write};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::ReentrantMutex;
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::{
    DisableBracketedPaste, DisableMouseCapture, EnableBracketedPaste, EnableMouseCapture,
};
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::crossterm::{cursor, queue};
use rustix::io::Errno;
use rustix::process::{Signal, kill_current_process_group};

use crate::app::App;

/// Whether the terminal must be restored. A panic and a signal may try at once: only one does it.
static IS_OURS: AtomicBool = AtomicBool::new(false);

/// Held by the thread that writes to the terminal: a frame that is half written when another thread panics would cover the
/// message. The thread that draws may itself panic, so it may take it twice.
static WRITING: ReentrantMutex<()> = ReentrantMutex::new(());

/// Longest wait for a frame before the terminal is restored: a terminal that does not read takes no frame.
const FRAME: Duration = Duration::from_secs(1);

/// The terminal, taken over. Restored on drop.
#[derive(Debug)]
pub(crate) struct Screen {
    terminal: Terminal<CrosstermBackend<BufWriter<Stdout>>>,
    mouse: bool,
}

impl Screen {
    pub(crate) fn open(mouse: bool) -> io::Result<Screen> {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let before = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                // Text on the alternate screen disappears with it.
                restore();
                before(panic);
            }));
        });
        let backend = CrosstermBackend::new(BufWriter::new(io::stdout()));
        let mut screen = Screen {
            terminal: Terminal::new(backend)?,
            mouse,
        };
        screen.enter()?;
        Ok(screen)
    }

    /// Takes the terminal over, also for a second time.
    pub(crate) fn enter(&mut self) -> io::Result<()> {
        let _writing = WRITING.lock();
        // Another program may have changed the terminal's mode meanwhile.
        disable_raw_mode()?;
        IS_OURS.store(true, Ordering::SeqCst);
        enable_raw_mode()?;
        let mut out = io::stdout();
        queue!(
            out,
            EnterAlternateScreen,
            EnableBracketedPaste,
            cursor::Hide
        )?;
        if self.mouse {
            queue!(out, EnableMouseCapture)?;
        }
        out.flush()?;
        self.redraw()
    }

    /// Forgets the content of the screen, so that all of it is drawn again.
    pub(crate) fn redraw(&mut self) -> io::Result<()> {
        // Not `clear`: it asks the terminal for its cursor, and some never answer.
        let size = self.terminal.size()?;
        self.terminal.resize(size.into())
    }

    pub(crate) fn draw(&mut self, app: &mut App) -> io::Result<()> {
        let _writing = WRITING.lock();
        // After a panic in another thread the terminal shows its message.
        if IS_OURS.load(Ordering::SeqCst) {
            self.terminal.draw(|frame| app.draw(frame))?;
        }
        Ok(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

/// Restores the terminal if necessary.
pub(crate) fn restore() {
    let _writing = WRITING.try_lock_for(FRAME);
    if IS_OURS.swap(false, Ordering::SeqCst) {
        let mut out = io::stdout();
        // A terminal that is gone needs no restoring.
        let _ = queue!(
            out,
            DisableMouseCapture,
            DisableBracketedPaste,
            LeaveAlternateScreen,
            cursor::Show
        );
        let _ = out.flush();
        let _ = disable_raw_mode();
    }
}

/// Whether an error means a closed terminal, which is not reported.
pub(crate) fn is_gone(error: &io::Error) -> bool {
    let gone = [Errno::IO, Errno::NXIO, Errno::NODEV];
    error
        .raw_os_error()
        .is_some_and(|code| gone.iter().any(|gone| gone.raw_os_error() == code))
}

/// Stops the whole job, as the terminal does for Ctrl-Z in its usual mode. False if no process
/// could continue it.
pub(crate) fn stop_job() -> bool {
    has_shell() && kill_current_process_group(Signal::TSTP).is_ok()
}

/// Whether a process of this session controls this job: the kernel does not stop orphans, either.
pub(crate) fn has_shell() -> bool {
    /// A longer chain of parents contains a loop.
    const GENERATIONS: usize = 64;
    let Some(own) = Kin::of_process("self") else {
        return false;
    };
    let mut parent = own.parent;
    for _ in 0..GENERATIONS {
        let Some(kin) = Kin::of_process(&parent.to_string()) else {
            return false;
        };
        if kin.session != own.session {
            return false;
        }
        if kin.group != own.group {
            return true;
        }
        parent = kin.parent;
    }
    false
}

/// Session and group of a process. Each is 0 if it is outside of the pid namespace that `/proc`
/// shows, as in a container entered from outside; getsid(2) returns the same, which rustix does not
/// handle.
struct Kin {
    parent: u32,
    group: u32,
    session: u32,
}

impl Kin {
    /// None if there is no such process.
    fn of_process(process: &str) -> Option<Kin> {
        let stat = std::fs::read(format!("/proc/{process}/stat")).ok()?;
        // The name before it may contain any character, brackets too.
        let end = stat.iter().rposition(|byte| *byte == b')')?;
        let rest = std::str::from_utf8(stat.get(end + 1..)?).ok()?;
        let mut ids = rest.split_whitespace().skip(1).map(str::parse);
        let mut next = || ids.next()?.ok();
        Some(Kin {
            parent: next()?,
            group: next()?,
            session: next()?,
        })
    }
}
