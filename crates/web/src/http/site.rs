//! [`Site`]: the state that every answer can use.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use tokio::sync::{Semaphore, watch};

use super::session::Session;
use crate::gather::Asking;
use crate::options::Options;
use crate::source::Machine;
use crate::survey::Survey;

/// The state that every answer can use.
#[derive(Clone)]
pub(crate) struct Site {
    pub(crate) asking: Asking,
    pub(crate) survey: Survey,
    pub(crate) machine: Arc<Machine>,
    pub(crate) options: Arc<Options>,
    /// The cookie of browsers that gave the token.
    pub(super) session: Arc<Session>,
    /// Streams of events that are open.
    pub(crate) streams: Arc<AtomicUsize>,
    /// Room for answers, in KiB, until they are taken.
    pub(super) room: Arc<Semaphore>,
    /// Says when the server ends.
    pub(crate) ending: watch::Receiver<bool>,
}
