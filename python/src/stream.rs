//! [`Stream`]: work by a thread of its own, handed over piece by piece.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use pyo3::prelude::*;

use crate::raise::{panicked, raise_io};

/// How often it is looked whether Ctrl-C was typed.
const LOOK: Duration = Duration::from_millis(100);

/// Pieces of work `T`, and what it came to, `R`.
pub struct Stream<T, R> {
    receiver: Option<Receiver<T>>,
    worker: Option<JoinHandle<R>>,
    /// What it came to, once it has ended.
    pub end: Option<R>,
}

impl<T: Send + 'static, R: Send + 'static> Stream<T, R> {
    /// Starts the work. It ends when it cannot send any more.
    pub fn start(
        py: Python<'_>,
        ahead: usize,
        work: impl FnOnce(SyncSender<T>) -> R + Send + 'static,
    ) -> PyResult<Self> {
        let (sender, receiver) = sync_channel(ahead);
        let worker = std::thread::Builder::new()
            .name("cachewise".into())
            .spawn(move || work(sender))
            .map_err(|error| raise_io(py, &error))?;
        Ok(Self {
            receiver: Some(receiver),
            worker: Some(worker),
            end: None,
        })
    }

    /// The next piece; `None` at the end.
    pub fn next(&mut self, py: Python<'_>) -> PyResult<Option<T>> {
        while let Some(receiver) = self.receiver.take() {
            let (receiver, got) = py.detach(move || {
                let got = receiver.recv_timeout(LOOK);
                (receiver, got)
            });
            match got {
                Ok(piece) => {
                    self.receiver = Some(receiver);
                    return Ok(Some(piece));
                }
                Err(RecvTimeoutError::Timeout) => {
                    self.receiver = Some(receiver);
                    py.check_signals()?;
                }
                Err(RecvTimeoutError::Disconnected) => {
                    drop(receiver);
                    self.close(py)?;
                }
            }
        }
        Ok(None)
    }

    /// Ends the work, if it has not ended, and waits for it.
    pub fn close(&mut self, py: Python<'_>) -> PyResult<()> {
        // With nobody to take them, sending fails.
        self.receiver = None;
        if let Some(worker) = self.worker.take() {
            let end = py.detach(move || worker.join());
            self.end = Some(end.map_err(|_| panicked())?);
        }
        Ok(())
    }
}

impl<T, R> Drop for Stream<T, R> {
    fn drop(&mut self) {
        self.receiver = None;
        if let Some(worker) = self.worker.take() {
            // It takes no lock of the interpreter, so it can be waited for with it.
            let _ = worker.join();
        }
    }
}
