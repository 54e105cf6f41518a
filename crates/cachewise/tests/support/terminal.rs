//! A pseudo-terminal.

use std::io::{Read, Write};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use portable_pty::{CommandBuilder, PtySize, native_pty_system};

use super::command::until;
use super::siblings::PROGRAM;

/// Output of a command, with the time since its start.
pub type Written = Vec<(Duration, Vec<u8>)>;

/// A command on a terminal of its own, and what is on the screen.
pub struct OnTerminal {
    child: Box<dyn portable_pty::Child + Send + Sync>,
    keyboard: Box<dyn Write + Send>,
    screen: Arc<Mutex<vt100::Parser>>,
    written: Arc<Mutex<Written>>,
    reader: JoinHandle<()>,
    _master: Box<dyn portable_pty::MasterPty + Send>,
}

impl OnTerminal {
    /// Starts the program on a terminal of 30 lines of 140 columns.
    pub fn of(arguments: &[&str], term: &str) -> OnTerminal {
        let mut command = CommandBuilder::new(PROGRAM);
        command.args(arguments);
        command.env("TERM", term);
        OnTerminal::of_size(command, 30, 140)
    }

    /// Starts a command on a terminal of this size.
    pub fn of_size(mut command: CommandBuilder, rows: u16, cols: u16) -> OnTerminal {
        let size = PtySize {
            rows,
            cols,
            ..PtySize::default()
        };
        let pair = native_pty_system()
            .openpty(size)
            .expect("there are pseudo-terminals");
        command.env("LC_ALL", "C.UTF-8");
        let started = Instant::now();
        let child = pair
            .slave
            .spawn_command(command)
            .expect("it can be started");
        let screen = Arc::new(Mutex::new(vt100::Parser::new(rows, cols, 0)));
        let written = Arc::new(Mutex::new(Written::new()));
        let mut reader = pair.master.try_clone_reader().expect("it can be read");
        let (seen, kept) = (Arc::clone(&screen), Arc::clone(&written));
        let reader = std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(read @ 1..) = reader.read(&mut bytes) {
                let bytes = &bytes[..read];
                let mut kept = kept
                    .lock()
                    .expect("no thread panics while it holds the lock");
                kept.push((started.elapsed(), bytes.to_vec()));
                drop(kept);
                seen.lock()
                    .expect("no thread panics while it holds the lock")
                    .process(bytes);
            }
        });
        OnTerminal {
            child,
            keyboard: pair.master.take_writer().expect("it is taken once"),
            screen,
            written,
            reader,
            _master: pair.master,
        }
    }

    /// Text of the screen.
    pub fn text(&self) -> String {
        self.screen
            .lock()
            .expect("no thread panics while it holds the lock")
            .screen()
            .contents()
    }

    /// The screen as it is now.
    pub fn screen(&self) -> vt100::Screen {
        let screen = self
            .screen
            .lock()
            .expect("no thread panics while it holds the lock");
        screen.screen().clone()
    }

    /// All that it wrote so far.
    pub fn written(&self) -> Written {
        self.written
            .lock()
            .expect("no thread panics while it holds the lock")
            .clone()
    }

    /// Waits until all is read that it wrote: until it and all that have its terminal have ended.
    pub fn until_read(&self) {
        until("all that it wrote is read", || {
            self.reader.is_finished().then_some(())
        });
    }

    /// Waits until this is on the screen.
    pub fn until_shown(&self, text: &str) {
        until(&format!("{text:?} is shown"), || {
            self.text().contains(text).then_some(())
        });
    }

    /// Types.
    pub fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).expect("it reads");
        self.keyboard.flush().expect("it reads");
    }

    /// Its exit status, once it has ended.
    pub fn ended(&mut self) -> u32 {
        until("it ends", || self.child.try_wait().expect("it is ours")).exit_code()
    }
}

impl Drop for OnTerminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
