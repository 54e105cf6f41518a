//! A process that serves a mount.

use std::ffi::OsString;
use std::io;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use cachewise_cli::output::tell;

use super::volume::Environment;
use crate::commands::background;

/// Time for a process to end after its unmount: it writes what waits to be written to its disk.
const PATIENCE: Duration = Duration::from_secs(20);

/// Interval of the check whether it has ended.
const LOOK: Duration = Duration::from_millis(20);

/// A mounted volume's process. It goes on when this is dropped.
#[derive(Debug)]
pub struct MountProcess(Child);

impl MountProcess {
    /// Starts it, and returns when it has mounted.
    ///
    /// # Errors
    /// It cannot be started, or has ended: with its last message.
    pub fn start(
        program: &Path,
        arguments: Vec<OsString>,
        environment: Environment,
    ) -> Result<Self> {
        let ready = background::Ready::bind()?;
        let mut command = Command::new(program);
        for name in &environment.unset {
            command.env_remove(name);
        }
        let mut child = command
            .args(arguments)
            .envs(environment.set)
            .env("NOTIFY_SOCKET", ready.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .context("cannot start the mount")?;
        let messages = passed_on(&mut child)?;
        if ready.wait(&mut child)?.is_none() {
            return Ok(Self(child));
        }
        let last = messages.iter().last();
        bail!(
            "{}",
            last.as_deref()
                .unwrap_or("the mount has ended without a message")
        );
    }

    /// Returns whether it has not ended.
    pub fn is_running(&mut self) -> bool {
        self.0.try_wait().is_ok_and(|status| status.is_none())
    }

    /// Waits until it has ended; `false` if it takes too long.
    ///
    /// # Errors
    /// It cannot be waited for.
    pub fn ends(&mut self) -> io::Result<bool> {
        let end = Instant::now() + PATIENCE;
        while self.0.try_wait()?.is_none() {
            if Instant::now() > end {
                return Ok(false);
            }
            std::thread::sleep(LOOK);
        }
        Ok(true)
    }
}

/// Passes messages of a mount on to this program's, and returns the last ones.
fn passed_on(child: &mut Child) -> Result<Receiver<String>> {
    let (sender, messages) = channel();
    let output = child.stderr.take().context("the mount has no messages")?;
    let lines = BufReader::new(output).lines().map_while(Result::ok);
    cachewise_sys::start_thread("messages", move || {
        for line in lines {
            let message = line.strip_prefix("cachewise: ").unwrap_or(&line);
            tell(message);
            // Only a mount that has failed has a reader.
            let _ = sender.send(message.to_owned());
        }
    })
    .context("cannot start the thread that reads messages of the mount")?;
    Ok(messages)
}
