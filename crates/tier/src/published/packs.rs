//! [`PackReader`]: ranges of packs in a store. Neighbours of a short one are read with it.

use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::{Bytes, BytesMut};
use cachewise_units::ByteRange;

use super::address::{PackId, Ref};
use super::recent::Recent;
use crate::{Error, Meta, Origin};

/// Length of the part of a pack that is read at once for a short block or chunk. Publishing stores directories, and the
/// files of a directory, one behind the other.
const WINDOW: u64 = 256 << 10;

/// Bytes of such parts that are kept.
const KEPT: usize = 16 << 20;

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
        let range = ByteRange {
            start: to.start.into(),
            len: to.len.into(),
        };
        if let Some(bytes) = self.known(to.pack, range) {
            return Ok(bytes);
        }
        let is_short = range.len > 0 && range.len < WINDOW / 2;
        if is_short {
            self.read_windows(to.pack, range).await?;
            if let Some(bytes) = self.known(to.pack, range) {
                return Ok(bytes);
            }
        }
        let bytes = self.read_range(to.pack, range).await?;
        match bytes.len() == to.len as usize {
            true => Ok(bytes),
            false => Err(cut(to.pack)),
        }
    }

    /// Returns a copy of a range whose windows are kept: a slice would keep all of a window as long as the block is kept.
    fn known(&self, pack: PackId, range: ByteRange) -> Option<Bytes> {
        let mut bytes = BytesMut::with_capacity(usize::try_from(range.len).ok()?);
        let mut windows = self.windows();
        for number in windows_of(range) {
            let window = windows.get(&(pack, number))?;
            let whole = ByteRange {
                start: number * WINDOW,
                len: window.len() as u64,
            };
            let part = range.intersection(whole)?;
            let from = usize::try_from(part.start - whole.start).ok()?;
            let to = from.checked_add(usize::try_from(part.len).ok()?)?;
            bytes.extend_from_slice(window.get(from..to)?);
        }
        (bytes.len() as u64 == range.len && !bytes.is_empty()).then(|| bytes.freeze())
    }

    /// Returns the windows of a range that are not kept; next to a kept one the other one of its pair too, as programs that
    /// come back to a pack mostly go on.
    fn missing(&self, pack: PackId, range: ByteRange) -> Range<u64> {
        let mut windows = self.windows();
        let mut is_kept = |number: u64| windows.get(&(pack, number)).is_some();
        let mut missing = windows_of(range);
        while !missing.is_empty() && is_kept(missing.start) {
            missing.start += 1;
        }
        while !missing.is_empty() && is_kept(missing.end - 1) {
            missing.end -= 1;
        }
        let before = missing.start.checked_sub(1);
        if before.is_some_and(&mut is_kept) || is_kept(missing.end) {
            if missing.start % 2 == 1 && !is_kept(missing.start - 1) {
                missing.start -= 1;
            }
            if missing.end % 2 == 1 && !is_kept(missing.end) {
                missing.end += 1;
            }
        }
        missing
    }

    /// Reads the windows of a range that are not kept, by one request.
    async fn read_windows(&self, pack: PackId, range: ByteRange) -> Result<(), Error> {
        let missing = self.missing(pack, range);
        // Another reader has just read them.
        if missing.is_empty() {
            return Ok(());
        }
        let read = ByteRange {
            start: missing.start * WINDOW,
            len: (missing.end - missing.start) * WINDOW,
        };
        let bytes = self.read_range(pack, read).await?;
        let mut windows = self.windows();
        let size = usize::try_from(WINDOW).unwrap_or(usize::MAX);
        for (number, window) in missing.zip(bytes.chunks(size)) {
            // A copy, so that each is dropped alone.
            windows.put((pack, number), Bytes::copy_from_slice(window), window.len());
        }
        Ok(())
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

/// Returns the numbers of the windows that have a part of a range.
fn windows_of(range: ByteRange) -> Range<u64> {
    range.start / WINDOW..range.end().div_ceil(WINDOW)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::published::address::Hash;
    use crate::{Directory, DirectoryOptions, Entry};
    use futures_util::future::BoxFuture;

    /// A directory, and the ranges that were read of it.
    #[derive(Debug)]
    struct Recorded(Directory, Mutex<Vec<(u64, u64)>>);

    impl Origin for Recorded {
        fn identity(&self) -> &str {
            self.0.identity()
        }

        fn stat<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, Result<Meta, Error>> {
            self.0.stat(path)
        }

        fn read<'a>(
            &'a self,
            path: &'a Path,
            meta: &'a Meta,
            range: ByteRange,
        ) -> BoxFuture<'a, Result<Bytes, Error>> {
            let mut read = self.1.lock().expect("no reader fails");
            read.push((range.start >> 10, range.len >> 10));
            self.0.read(path, meta, range)
        }

        fn list<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, Result<Vec<Entry>, Error>> {
            self.0.list(path)
        }
    }

    #[tokio::test]
    async fn neighbours_of_a_short_block_are_read_with_it() {
        let scratch = tempfile::tempdir().expect("made");
        let pack = PackId([1; 16]);
        let file = scratch.path().join(pack.path());
        std::fs::create_dir_all(file.parent().expect("it has one")).expect("made");
        let bytes: Vec<u8> = (0..3 << 20_u32).map(|at| (at / 251) as u8).collect();
        std::fs::write(&file, &bytes).expect("written");
        let options = DirectoryOptions {
            identity: Some("store".to_owned()),
            machine: None,
        };
        let directory = Directory::open_with(scratch.path(), &options).expect("it is there");
        let store = Arc::new(Recorded(directory, Mutex::default()));
        let packs = PackReader::new(Arc::clone(&store) as Arc<dyn Origin>);
        // Places and lengths of blocks in KiB, and the ranges that are read for them.
        for (start, len, wanted) in [
            (1_000, 10, vec![(768, 256)]),
            (800, 10, vec![]),
            (1_020, 8, vec![(1_024, 512)]),
            (1_300, 128, vec![]),
            (250, 10, vec![(0, 512)]),
            (2_100, 10, vec![(2_048, 256)]),
            (2_200, 128, vec![(2_200, 128)]),
            (2_310, 10, vec![(2_304, 256)]),
            (2_200, 128, vec![]),
            (3_071, 1, vec![(2_816, 256)]),
        ] {
            let to = Ref {
                hash: Hash([0; 32]),
                pack,
                start: start << 10,
                len: len << 10,
            };
            let read = packs.read(&to).await.expect("the pack is whole");
            let (from, to) = ((start << 10) as usize, ((start + len) << 10) as usize);
            assert!(read == bytes[from..to], "{start}");
            let requests = std::mem::take(&mut *store.1.lock().expect("no reader fails"));
            assert_eq!(requests, wanted, "{start}");
        }
        let beyond = Ref {
            hash: Hash([0; 32]),
            pack,
            start: (3 << 20) - 10,
            len: 20,
        };
        let cut = packs.read(&beyond).await.expect_err("the pack is shorter");
        assert!(cut.to_string().contains("cut off"), "{cut}");
    }
}
