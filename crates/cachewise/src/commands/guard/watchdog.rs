//! A child that restores the settings of `guard` after `kill -9`.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};

/// Waits for the end of this process, and restores what it left behind.
pub struct Watchdog(Child);

impl Watchdog {
    /// Starts it with its standard input as a pipe from here, which the kernel closes however this process ends. A process
    /// group of its own: signals of the terminal do not end it.
    pub fn start(state: &Path) -> Result<Watchdog> {
        let own =
            std::env::current_exe().context("cannot find this program to start a watchdog")?;
        let mut command = Command::new(own);
        command
            .args(["bench", "restore", "--when-input-ends", "--state"])
            .arg(state)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0);
        let child = command.spawn().context("cannot start the watchdog")?;
        Ok(Watchdog(child))
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        // Settings are restored by now: it finds nothing, and ends.
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}
