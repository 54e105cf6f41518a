//! A pseudo-terminal.

use std::io::{Read, Write};
use std::sync::{Arc, Mutex};

use portable_pty::{CommandBuilder, PtySize, native_pty_system};

use super::command::until;
use super::siblings::PROGRAM;

/// A command on a terminal of its own, and what is on the screen.
pub struct OnTerminal {
    child: Box<dyn portable_pty::Child + Send + Sync>,
    keyboard: Box<dyn Write + Send>,
    screen: Arc<Mutex<vt100::Parser>>,
    _master: Box<dyn portable_pty::MasterPty + Send>,
}

impl OnTerminal {
    /// Starts it.
    pub fn of(arguments: &[&str], term: &str) -> OnTerminal {
        let (rows, cols) = (30, 140);
        let size = PtySize {
            rows,
            cols,
            ..PtySize::default()
        };
        let pair = native_pty_system()
            .openpty(size)
            .expect("there are pseudo-terminals");
        let mut command = CommandBuilder::new(PROGRAM);
        command.args(arguments);
        command.env("TERM", term);
        command.env("LC_ALL", "C.UTF-8");
        let child = pair
            .slave
            .spawn_command(command)
            .expect("it can be started");
        let screen = Arc::new(Mutex::new(vt100::Parser::new(rows, cols, 0)));
        let mut reader = pair.master.try_clone_reader().expect("it can be read");
        let seen = Arc::clone(&screen);
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(read @ 1..) = reader.read(&mut bytes) {
                seen.lock()
                    .expect("nobody panics with it")
                    .process(&bytes[..read]);
            }
        });
        OnTerminal {
            child,
            keyboard: pair.master.take_writer().expect("it is taken once"),
            screen,
            _master: pair.master,
        }
    }

    /// Text of the screen.
    pub fn text(&self) -> String {
        self.screen
            .lock()
            .expect("nobody panics with it")
            .screen()
            .contents()
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
