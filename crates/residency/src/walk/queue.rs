//! [`Queue`]: what waits for a thread.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::batch::{Batch, RootedDirectory};
use super::device::DeviceId;

/// Something to do for a thread.
#[derive(Debug)]
pub(super) enum Task {
    /// A path that the caller gave.
    Root(PathBuf),
    /// A directory to look into.
    Directory(Directory),
    /// Files of a large directory, which is open, to query while another thread reads on.
    Files(Batch, Arc<OwnedFd>),
}

/// A directory that waits.
#[derive(Debug)]
pub(super) struct Directory {
    pub place: RootedDirectory,
    /// The device of its root.
    pub root_device: DeviceId,
    /// How far below its root it is.
    pub depth: usize,
    /// The directory that it was found in. From there it is reached in one step, whatever became of the
    /// path meanwhile. `None` for roots, and deep down, where too many would be open.
    pub parent: Option<Arc<OwnedFd>>,
}

/// A stack of tasks: the newest first, so that it stays small, as a walk in depth does.
#[derive(Debug)]
pub(super) struct Queue {
    state: Mutex<QueueState>,
    changed: Condvar,
    /// A copy of the number of waiting threads, readable without the lock.
    waiting: AtomicUsize,
}

#[derive(Debug)]
struct QueueState {
    tasks: Vec<Task>,
    /// Threads that work, and may still add tasks.
    busy: usize,
    is_stopped: bool,
}

impl Queue {
    pub fn new(tasks: impl IntoIterator<Item = Task>) -> Self {
        Self {
            state: Mutex::new(QueueState {
                tasks: tasks.into_iter().collect(),
                busy: 0,
                is_stopped: false,
            }),
            changed: Condvar::new(),
            waiting: AtomicUsize::new(0),
        }
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        // A thread that panics ends the walk; what it left is not used.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a task if there is one. It is to be [`done`](Self::done), as those of [`take`](Self::take).
    pub fn take_now(&self) -> Option<Task> {
        let mut state = self.lock();
        if state.is_stopped {
            return None;
        }
        let task = state.tasks.pop()?;
        state.busy += 1;
        Some(task)
    }

    /// Takes a task. `None` where all is done. Calls `idle` before it waits for another thread's.
    ///
    /// Each task that is taken is to be [`done`](Self::done).
    pub fn take(&self, mut idle: impl FnMut()) -> Option<Task> {
        let mut state = self.lock();
        let mut was_idle = false;
        loop {
            if state.is_stopped {
                return None;
            }
            if let Some(task) = state.tasks.pop() {
                state.busy += 1;
                return Some(task);
            }
            if !was_idle {
                was_idle = true;
                drop(state);
                idle();
                state = self.lock();
                continue;
            }
            if state.busy == 0 {
                return None;
            }
            self.waiting.fetch_add(1, Ordering::Relaxed);
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
            self.waiting.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Adds tasks.
    pub fn add(&self, tasks: &mut Vec<Task>) {
        if tasks.is_empty() {
            return;
        }
        self.lock().tasks.append(tasks);
        if self.is_waited_at() {
            self.changed.notify_all();
        }
    }

    /// Says that a task is done.
    pub fn done(&self) {
        let mut state = self.lock();
        state.busy -= 1;
        if state.busy == 0 && state.tasks.is_empty() {
            drop(state);
            self.changed.notify_all();
        }
    }

    /// Has every thread end after the task that it is at.
    pub fn stop(&self) {
        self.lock().is_stopped = true;
        self.changed.notify_all();
    }

    /// Whether a thread has nothing to do.
    pub fn is_waited_at(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }
}
