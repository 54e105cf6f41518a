//! [`SeenInodes`]: which inodes were met already.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use roaring::RoaringTreemap;

use super::batch::Batch;
use super::device::DeviceId;

/// The inodes that a walk has met, of all threads.
///
/// How many names a file has would cost another system call, a tenth of the time of the walk; so the numbers
/// of all files are kept, in bitmaps: they lie close together.
#[derive(Debug, Default)]
pub(super) struct SeenInodes {
    inodes: Mutex<HashMap<DeviceId, RoaringTreemap>>,
}

impl SeenInodes {
    fn lock(&self) -> MutexGuard<'_, HashMap<DeviceId, RoaringTreemap>> {
        self.inodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes an inode; says whether it is new.
    pub fn is_new(&self, device: DeviceId, inode: u64) -> bool {
        self.lock().entry(device).or_default().insert(inode)
    }

    /// Notes the inodes of a batch as its directory has them, and marks those that are not new.
    pub fn mark(&self, batch: &mut Batch) {
        let device = batch.device.id;
        let mut inodes = self.lock();
        let inodes = inodes.entry(device).or_default();
        for waiting in &mut batch.waiting {
            waiting.is_doubtful = !inodes.insert(waiting.inode);
        }
    }
}
