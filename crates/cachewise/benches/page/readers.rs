//! Processes that read a file again and again.

use std::io::Write;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use super::{Outcome, Running};

/// Shells that each read a file for a line of the pipe that they share. They end with the pipe.
const READERS: &str = r#"exec 3<&0; i=0; while [ $i -lt "$1" ]; do
    (while read -r _ <&3; do read -r _ < "$0"; done) & i=$((i + 1)); done; wait"#;
/// Parts of a second in which as many parts of the processes read.
const PARTS: usize = 10;

/// They end when dropped.
pub struct Readers {
    ending: Arc<AtomicBool>,
    feeding: Option<JoinHandle<()>>,
    _shell: Running,
}

impl Readers {
    /// Starts this number of processes, which each read once a second.
    ///
    /// # Errors
    /// If there is no shell.
    pub fn start(processes: usize) -> Outcome<Readers> {
        let mut shell = Command::new("sh")
            .args(["-c", READERS, "/etc/passwd", &processes.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()?;
        let pipe = shell.stdin.take().ok_or("no pipe")?;
        let ending = Arc::new(AtomicBool::new(false));
        let until = ending.clone();
        let feeding = std::thread::spawn(move || feed(pipe, processes, &until));
        Ok(Readers {
            ending,
            feeding: Some(feeding),
            _shell: Running(shell),
        })
    }
}

fn feed(mut pipe: ChildStdin, processes: usize, ending: &AtomicBool) {
    let lines = vec![b'\n'; processes.div_ceil(PARTS)];
    while !ending.load(Ordering::Relaxed) && pipe.write_all(&lines).is_ok() {
        std::thread::sleep(Duration::from_secs(1) / PARTS as u32);
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        self.ending.store(true, Ordering::Relaxed);
        let _ = self.feeding.take().map(JoinHandle::join);
    }
}
