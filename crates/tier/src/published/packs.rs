//! [`PackReader`]: ranges of packs in a store. Neighbours of a short one are read with it.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use cachewise_units::ByteRange;

use super::address::{PackId, Ref};
use super::recent::Recent;
use crate::{Error, Meta, Origin};

/// Length of the part of a pack that is read at once for a short block or chunk. Publishing stores directories, and the
/// files of a directory, one behind the other.
const WINDOW: u64 = 256 << 10;

/// Bytes of such parts that are kept.
const KEPT: usize = 8 << 20;

/// Packs whose metadata are kept.
const PACKS: usize = 4_096;

/// Reads packs.
#[derive(Debug)]
pub(super) struct PackReader {
    store: Arc<dyn Origin>,
    metas: Mutex<Recent<PackId, Meta>>,
    windows: Mutex<Recent<(PackId, u64), Bytes>>,
}

impl PackReader {
    pub(super) fn new(store: Arc<dyn Origin>) -> Self {
        Self {
            store,
            metas: Mutex::new(Recent::new(PACKS)),
            windows: Mutex::new(Recent::new(KEPT)),
        }
    }

    fn metas(&self) -> MutexGuard<'_, Recent<PackId, Meta>> {
        self.metas.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn windows(&self) -> MutexGuard<'_, Recent<(PackId, u64), Bytes>> {
        self.windows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the bytes at this place, which the caller compares with their hash.
    pub(super) async fn read(&self, to: &Ref) -> Result<Bytes, Error> {
        let (start, len) = (u64::from(to.start), u64::from(to.len));
        let first = start / WINDOW;
        let is_in_one = len > 0 && len < WINDOW / 2 && (start + len - 1) / WINDOW == first;
        if !is_in_one {
            let bytes = self.read_range(to.pack, ByteRange { start, len }).await?;
            return match bytes.len() == to.len as usize {
                true => Ok(bytes),
                false => Err(cut(to.pack)),
            };
        }
        let known = self.windows().get(&(to.pack, first));
        let window = match known {
            Some(window) => window,
            None => {
                let range = ByteRange {
                    start: first * WINDOW,
                    len: WINDOW,
                };
                let window = self.read_range(to.pack, range).await?;
                let len = window.len();
                self.windows().put((to.pack, first), window.clone(), len);
                window
            }
        };
        let from = usize::try_from(start - first * WINDOW).unwrap_or(usize::MAX);
        let behind = from.saturating_add(to.len as usize);
        if behind > window.len() {
            return Err(cut(to.pack));
        }
        // A copy: a slice would keep all of the window as long as the block is kept.
        Ok(Bytes::copy_from_slice(
            window.get(from..behind).unwrap_or_default(),
        ))
    }

    /// Reads a range up to the end of the pack.
    async fn read_range(&self, pack: PackId, range: ByteRange) -> Result<Bytes, Error> {
        match self.read_once(pack, range).await {
            // It was restored meanwhile: the same bytes in another file.
            Err(Error::Changed { .. }) => {
                self.metas().remove(&pack);
                self.read_once(pack, range).await
            }
            read => read,
        }
    }

    async fn read_once(&self, pack: PackId, range: ByteRange) -> Result<Bytes, Error> {
        let path = pack.path();
        let path = Path::new(&path);
        let known = self.metas().get(&pack);
        let meta = match known {
            Some(meta) => meta,
            None => {
                let meta = self
                    .store
                    .stat(path)
                    .await
                    .map_err(|error| missing(path, error))?;
                self.metas().put(pack, meta.clone(), 1);
                meta
            }
        };
        let whole = ByteRange {
            start: 0,
            len: meta.size,
        };
        let within = whole.intersection(range).ok_or_else(|| cut(pack))?;
        let read = self.store.read(path, &meta, within).await;
        read.map_err(|error| missing(path, error))
    }
}

fn cut(pack: PackId) -> Error {
    Error::Published {
        path: pack.path().into(),
        why: "the pack is cut off in the store: restore it from a copy, or publish again",
    }
}

fn missing(path: &Path, error: Error) -> Error {
    match error {
        Error::NotFound { .. } => Error::Published {
            path: path.to_owned(),
            why: "the store does not have this pack any more: `tier gc` has removed its version; mount a version that is there",
        },
        error => error,
    }
}
