//! A thread that names the calls of stacks: debug information can take seconds to read, and samples do not wait for it.

use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};

use cachewise_kstat::Kernel;
use cachewise_model::Stacks;
use cachewise_stacks::{Namer, Unnamed};

/// The stacks of one interval are named at a time. Others stay where they are added up, in bounded memory.
pub struct NamingThread {
    /// `None`: the thread could not be started, and stacks are named by the caller.
    work: Option<(SyncSender<Unnamed>, Receiver<Stacks>)>,
    here: Namer,
    is_busy: bool,
    /// Stacks that are under way.
    given: u64,
}

impl NamingThread {
    pub fn start() -> NamingThread {
        let (to, unnamed) = sync_channel::<Unnamed>(1);
        let (named, from) = sync_channel::<Stacks>(1);
        let thread = cachewise_sys::start_thread("stack-names", move || {
            let mut namer = Namer::new(Kernel::new());
            for one in unnamed {
                if named.send(namer.name(one)).is_err() {
                    return;
                }
            }
        });
        NamingThread {
            work: thread.ok().map(|_| (to, from)),
            here: Namer::new(Kernel::new()),
            is_busy: false,
            given: 0,
        }
    }

    /// The stacks that were named since; with `wait` also those that are under way. None are under way afterwards, unless
    /// [`NamingThread::is_busy`].
    ///
    /// # Errors
    /// The thread has panicked: the number of stacks that are lost with it.
    pub fn take(&mut self, wait: bool) -> Result<Option<Stacks>, u64> {
        let Some((_, from)) = self.work.as_ref().filter(|_| self.is_busy) else {
            return Ok(None);
        };
        let named = match wait {
            true => from.recv().map_err(|_| TryRecvError::Disconnected),
            false => from.try_recv(),
        };
        match named {
            Ok(named) => {
                self.is_busy = false;
                Ok(Some(named))
            }
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => {
                self.is_busy = false;
                self.work = None;
                Err(self.given)
            }
        }
    }

    pub fn is_busy(&self) -> bool {
        self.is_busy
    }

    /// Hands stacks over; returns them named where the thread cannot have them.
    pub fn give(&mut self, unnamed: Unnamed) -> Option<Stacks> {
        let Some((to, _)) = &self.work else {
            return Some(self.here.name(unnamed));
        };
        let given = unnamed.len();
        match to.send(unnamed) {
            Ok(()) => {
                (self.is_busy, self.given) = (true, given);
                None
            }
            Err(unsent) => {
                self.work = None;
                Some(self.here.name(unsent.0))
            }
        }
    }
}
