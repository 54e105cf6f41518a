//! [`Process`]: the threads and the cache of this process.
//!
//! Threads do not survive `fork`, and locks that they held stay locked in the child. Therefore a child process takes only
//! the settings and the function that opens the origin (connections belong to the parent), and makes its own threads and
//! cache when it first needs them. It neither uses nor drops those of the parent.

use std::mem;
use std::process;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use cachewise_tier::{BlockCache, Error, Origin, Settings};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use tokio::runtime::Runtime;

use super::error::raise;
use crate::raise::{panicked, raise_io};
use crate::stream::{LOOK, lock};

/// A cache, and the runtime that it works in.
struct Alive {
    pid: u32,
    /// Taken when it is dropped.
    parts: Option<(BlockCache, Runtime)>,
}

impl Drop for Alive {
    fn drop(&mut self) {
        let Some((cache, runtime)) = self.parts.take() else {
            return;
        };
        if self.pid != process::id() {
            // Its threads are not here, and what they hold would be waited for.
            mem::forget((cache, runtime));
            return;
        }
        let context = runtime.enter();
        drop(cache);
        drop(context);
        // Without waiting: an origin that hangs would delay it.
        runtime.shutdown_background();
    }
}

/// Why there is none.
#[derive(Clone)]
enum Failed {
    Cache(Error),
    Threads(Arc<std::io::Error>),
    Panicked,
}

type Outcome = Result<Arc<Alive>, Failed>;

/// A cache that is being opened, or is open. A separate thread opens it, because a signal handler may run while a caller
/// waits, and may wait for the same cache.
#[derive(Default)]
struct Opening {
    outcome: Mutex<Option<Outcome>>,
    is_there: Condvar,
}

impl Opening {
    fn is_over(&self, outcome: Outcome) {
        let mut place = self.outcome.lock().unwrap_or_else(PoisonError::into_inner);
        place.get_or_insert(outcome);
        self.is_there.notify_all();
    }

    /// The outcome, if it comes within a moment.
    fn wait(&self) -> Option<Outcome> {
        let outcome = self.outcome.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self
            .is_there
            .wait_timeout_while(outcome, LOOK, |outcome| outcome.is_none());
        let (outcome, _) = waited.unwrap_or_else(PoisonError::into_inner);
        outcome.clone()
    }
}

/// Says that it is over however the thread ends.
struct Ends(Arc<Opening>);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.is_over(Err(Failed::Panicked));
    }
}

enum State {
    Unopened,
    /// In the process of this number.
    Of(u32, Arc<Opening>),
    Closed,
}

/// Opens the origin for a process, without contacting it. It is called with the interpreter's lock, as it may read the
/// environment.
pub type OpensOrigin = dyn Fn() -> Result<Arc<dyn Origin>, Error> + Send + Sync;

/// The cache of whichever process asks.
pub struct Process {
    settings: Settings,
    origin: Arc<OpensOrigin>,
    /// Locked for a moment, and only with the interpreter's lock, so that it is never held during a fork.
    state: Mutex<State>,
}

impl Process {
    /// Starts nothing.
    pub fn new(settings: Settings, origin: Arc<OpensOrigin>) -> Self {
        Self {
            settings,
            origin,
            state: Mutex::new(State::Unopened),
        }
    }

    /// Does something with the cache, without the interpreter's lock, until it is done or Ctrl-C was typed. Nothing is
    /// locked when a handler of a signal runs.
    pub fn run<T: Send, F: Future<Output = T> + Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(BlockCache) -> F + Send,
    ) -> PyResult<T> {
        let alive = self.alive(py)?;
        alive.run(py, work)
    }

    /// Ends what is there, once what waits for the disk is written.
    pub fn close(&self, py: Python<'_>) -> PyResult<()> {
        let before = mem::replace(&mut *lock(&self.state, py), State::Closed);
        let State::Of(pid, opening) = before else {
            return Ok(());
        };
        if pid != process::id() {
            mem::forget(opening);
            return Ok(());
        }
        let outcome = loop {
            match py.detach(|| opening.wait()) {
                Some(outcome) => break outcome,
                None => py.check_signals()?,
            }
        };
        // One that never opened has nothing to be closed.
        let Ok(alive) = outcome else {
            return Ok(());
        };
        let closed = alive.run(py, |cache| async move { cache.close().await });
        py.detach(|| drop((alive, opening)));
        closed?.map_err(|error| raise(py, &error))
    }

    /// The cache of this process, opened if it is not.
    fn alive(&self, py: Python<'_>) -> PyResult<Arc<Alive>> {
        loop {
            let opening = self.opening(py)?;
            match py.detach(|| opening.wait()) {
                Some(Ok(alive)) => return Ok(alive),
                Some(Err(why)) => {
                    self.forget(py, &opening);
                    return Err(match why {
                        Failed::Cache(error) => raise(py, &error),
                        Failed::Threads(error) => raise_io(py, &error),
                        Failed::Panicked => panicked(),
                    });
                }
                None => py.check_signals()?,
            }
        }
    }

    fn opening(&self, py: Python<'_>) -> PyResult<Arc<Opening>> {
        let pid = process::id();
        let mut state = lock(&self.state, py);
        match &*state {
            State::Of(of, opening) if *of == pid => return Ok(Arc::clone(opening)),
            State::Closed => {
                return Err(PyValueError::new_err("the cache is closed"));
            }
            State::Unopened | State::Of(..) => {}
        }
        let opening = Arc::new(Opening::default());
        let origin = (self.origin)().map_err(|error| raise(py, &error))?;
        let settings = self.settings.clone();
        let ends = Ends(Arc::clone(&opening));
        let started = cachewise_sys::start_thread("cachewise", move || {
            ends.0.is_over(open(settings, origin));
        });
        started.map_err(|error| raise_io(py, &error))?;
        // That of a parent is not torn down here.
        mem::forget(mem::replace(
            &mut *state,
            State::Of(pid, Arc::clone(&opening)),
        ));
        Ok(opening)
    }

    /// So that the next call tries again.
    fn forget(&self, py: Python<'_>, failed: &Arc<Opening>) {
        let mut state = lock(&self.state, py);
        if matches!(&*state, State::Of(_, opening) if Arc::ptr_eq(opening, failed)) {
            *state = State::Unopened;
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        if matches!(state, State::Of(pid, _) if *pid != process::id()) {
            mem::forget(mem::replace(state, State::Closed));
        }
    }
}

fn open(settings: Settings, origin: Arc<dyn Origin>) -> Outcome {
    let runtime = cachewise_tier::runtime("cachewise", cachewise_tier::worker_threads())
        .map_err(|error| Failed::Threads(Arc::new(error)))?;
    let cache = runtime
        .block_on(BlockCache::open(settings, origin))
        .map_err(Failed::Cache)?;
    Ok(Arc::new(Alive {
        pid: process::id(),
        parts: Some((cache, runtime)),
    }))
}

impl Alive {
    fn run<T: Send, F: Future<Output = T> + Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(BlockCache) -> F + Send,
    ) -> PyResult<T> {
        let Some((cache, runtime)) = &self.parts else {
            return Err(panicked());
        };
        let mut work = Box::pin(work(cache.clone()));
        loop {
            let done = py.detach(|| {
                runtime.block_on(async { tokio::time::timeout(LOOK, work.as_mut()).await })
            });
            if let Ok(done) = done {
                return Ok(done);
            }
            let raised = py.check_signals();
            if self.pid != process::id() {
                // A handler forked, and came back here in the child.
                mem::forget(work);
                return Err(PyRuntimeError::new_err(
                    "the process forked in the midst of a call of the cache",
                ));
            }
            raised?;
        }
    }
}
