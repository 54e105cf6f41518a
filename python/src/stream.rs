//! [`Stream`]: work by a thread of its own, handed over piece by piece.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::sync::MutexExt;

use crate::raise::{panicked, raise_io};

/// How often it is looked whether Ctrl-C was typed.
pub const LOOK: Duration = Duration::from_millis(100);

/// Result of waiting for a moment.
enum Polled<T> {
    Piece(T),
    Waiting,
    End,
}

/// Pieces of work `T`, and what it came to, `R`.
pub struct Stream<T, R> {
    receiver: Option<Receiver<T>>,
    worker: Option<JoinHandle<R>>,
    /// The result, once the work has ended.
    end: Option<Arc<R>>,
}

impl<T: Send + 'static, R: Send + 'static> Stream<T, R> {
    /// Starts the work. It ends when it cannot send any more.
    pub fn start(
        py: Python<'_>,
        ahead: usize,
        work: impl FnOnce(SyncSender<T>) -> R + Send + 'static,
    ) -> PyResult<Self> {
        let (sender, receiver) = sync_channel(ahead);
        let worker = cachewise_sys::start_thread("cachewise", move || work(sender))
            .map_err(|error| raise_io(py, &error))?;
        Ok(Self {
            receiver: Some(receiver),
            worker: Some(worker),
            end: None,
        })
    }

    /// The next piece, if it comes within a moment. No Python runs meanwhile, so the caller may hold a lock; it must not
    /// hold one while signals are checked, as their handlers may need it.
    fn poll(&mut self, py: Python<'_>) -> PyResult<Polled<T>> {
        let Some(receiver) = self.receiver.take() else {
            return Ok(Polled::End);
        };
        let (receiver, got) = py.detach(move || {
            let got = receiver.recv_timeout(LOOK);
            (receiver, got)
        });
        Ok(match got {
            Err(RecvTimeoutError::Disconnected) => {
                drop(receiver);
                self.close(py)?;
                Polled::End
            }
            got => {
                self.receiver = Some(receiver);
                got.map_or(Polled::Waiting, Polled::Piece)
            }
        })
    }

    /// Ends the work, if it has not ended, and waits for it.
    pub fn close(&mut self, py: Python<'_>) -> PyResult<()> {
        // Without a receiver, sending fails.
        self.receiver = None;
        if let Some(worker) = self.worker.take() {
            let end = py.detach(move || worker.join());
            self.end = Some(Arc::new(end.map_err(|_| panicked())?));
        }
        Ok(())
    }

    /// The result, once the work has ended.
    pub fn end(&self) -> Option<Arc<R>> {
        self.end.clone()
    }
}

impl<T, R> Drop for Stream<T, R> {
    fn drop(&mut self) {
        self.receiver = None;
        if let Some(worker) = self.worker.take() {
            // It ends what it reads; other threads of Python go on meanwhile.
            let wait = move || drop(worker.join());
            // At the end of the interpreter no thread can attach.
            Python::try_attach(|py| py.detach(wait));
        }
    }
}

/// The next piece of a stream that several threads may ask; `None` at the end. Nothing is locked when it returns, nor
/// when a handler of a signal runs.
pub fn next<T: Send + 'static, R: Send + 'static>(
    stream: &Mutex<Stream<T, R>>,
    py: Python<'_>,
) -> PyResult<Option<T>> {
    loop {
        let polled = lock(stream, py).poll(py)?;
        match polled {
            Polled::Piece(piece) => return Ok(Some(piece)),
            Polled::End => return Ok(None),
            Polled::Waiting => py.check_signals()?,
        }
    }
}

/// Waits for the lock without the interpreter's, which its holder may need. A panic leaves nothing half done.
pub fn lock<'m, T>(mutex: &'m Mutex<T>, py: Python<'_>) -> MutexGuard<'m, T> {
    mutex
        .lock_py_attached(py)
        .unwrap_or_else(PoisonError::into_inner)
}

/// Waits for work that cannot be interrupted, such as writing to a disk. Ctrl-C ends the waiting, and the work ends by
/// itself.
pub fn wait_for<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> T + Send + 'static,
) -> PyResult<T> {
    let (sender, mut receiver) = channel();
    let work = move || {
        // After Ctrl-C there is no receiver.
        let _ = sender.send(work());
    };
    cachewise_sys::start_thread("cachewise", work).map_err(|error| raise_io(py, &error))?;
    loop {
        let (given_back, got) = py.detach(move || {
            let got = receiver.recv_timeout(LOOK);
            (receiver, got)
        });
        receiver = given_back;
        match got {
            Ok(done) => return Ok(done),
            Err(RecvTimeoutError::Timeout) => py.check_signals()?,
            Err(RecvTimeoutError::Disconnected) => return Err(panicked()),
        }
    }
}
