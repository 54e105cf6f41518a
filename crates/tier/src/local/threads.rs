//! [`DiskThreads`]: a runtime of the disk's own.

use std::io;

use foyer::Spawner;
use tokio::runtime::Runtime;

/// A runtime of the disk's own: the threads of the one that the cache is opened in read the origin. Where the disk
/// hangs, these are the only ones that wait for it.
///
/// Dropping it cancels each task at its next await point and does not block.
#[derive(Debug)]
pub(super) struct DiskThreads(Option<Runtime>);

impl DiskThreads {
    /// Starts `workers` threads, besides those for blocking calls to the disk.
    pub(super) fn start(workers: usize) -> io::Result<Self> {
        let runtime = crate::runtime("cache-disk", workers)?;
        Ok(Self(Some(runtime)))
    }

    /// Returns what starts work in it, and does not keep it alive.
    pub(super) fn spawner(&self) -> Spawner {
        match &self.0 {
            Some(runtime) => Spawner::from(runtime.handle().clone()),
            None => Spawner::current(),
        }
    }

    /// Waits for this in it. Not to be called from a task.
    pub(super) fn block_on<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        self.0.as_ref().map(|runtime| runtime.block_on(work))
    }
}

impl Drop for DiskThreads {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}
