//! [`Listed`]: the directories of published trees that programs list.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use fuser::{Errno, FileHandle};

use super::Operation;
use super::filesystem::errno;
use super::fixed_lists::{directory, own, trees};
use super::shared::MountShared;
use crate::Error;
use crate::published::address::Ref;

/// The parts of directories that programs list: by handle, or, where the kernel opens directories without a request, those of
/// the latest one.
#[derive(Debug, Default)]
pub(super) struct Listed {
    open: Mutex<HashMap<u64, Arc<[Ref]>>>,
    latest: Mutex<Option<(Ref, Arc<[Ref]>)>>,
    is_unasked: AtomicBool,
}

impl Listed {
    /// Whether the kernel opens directories without a request.
    pub(super) fn is_unasked(&self) -> bool {
        self.is_unasked.load(Ordering::Relaxed)
    }

    /// Lets the kernel open directories without a request, or not: it may where lists never change.
    pub(super) fn set_unasked(&self, unasked: bool) {
        self.is_unasked.store(unasked, Ordering::Relaxed);
    }

    /// Opens a directory of a tree.
    ///
    /// # Errors
    /// `ESTALE` for another object, and errors of the store.
    pub(super) async fn open(
        &self,
        shared: &MountShared,
        number: u64,
    ) -> Result<FileHandle, Errno> {
        let parts = self.counted(shared, number).await?;
        let handle = shared.next_handle.fetch_add(1, Ordering::Relaxed);
        locked(&self.open).insert(handle, parts);
        Ok(FileHandle(handle))
    }

    /// Closes a directory; one without a handle stays as it is.
    pub(super) fn close(&self, handle: FileHandle) {
        locked(&self.open).remove(&handle.0);
    }

    /// Returns the parts of a directory that is read from this offset on; `None` for one of the mount itself.
    ///
    /// # Errors
    /// Those of [`Self::open`].
    pub(super) async fn parts(
        &self,
        shared: &MountShared,
        number: u64,
        handle: FileHandle,
        offset: u64,
    ) -> Result<Option<Arc<[Ref]>>, Errno> {
        if !self.is_unasked() {
            return Ok(locked(&self.open).get(&handle.0).cloned());
        }
        if own(shared, number).is_some() {
            return Ok(None);
        }
        let parts = match offset {
            // It counts as an opening.
            0 => self.counted(shared, number).await,
            _ => self.found(shared, number).await,
        };
        parts.map(Some)
    }

    /// Finds the parts of a directory, which counts as an opening.
    async fn counted(&self, shared: &MountShared, number: u64) -> Result<Arc<[Ref]>, Errno> {
        let begun = Instant::now();
        let found = self.found(shared, number).await;
        let operations = &shared.operations;
        operations.answered(Operation::Opendir, begun, found.is_err());
        found
    }

    async fn found(&self, shared: &MountShared, number: u64) -> Result<Arc<[Ref]>, Errno> {
        let find = async {
            let Some(top) = directory(shared, number).await? else {
                return Ok::<_, Error>(None);
            };
            if let Some((_, parts)) = locked(&self.latest).as_ref().filter(|known| known.0 == top) {
                return Ok(Some(Arc::clone(parts)));
            }
            let parts: Arc<[Ref]> = trees(shared).leaves(&top).await?.into();
            *locked(&self.latest) = Some((top, Arc::clone(&parts)));
            Ok(Some(parts))
        };
        match find.await {
            Ok(Some(parts)) => Ok(parts),
            Ok(None) => Err(Errno::ESTALE),
            Err(error) => Err(errno(&error)),
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Each change is whole before anything can panic.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
