//! [`Bucket`]: a store that is a prefix of a bucket of S3.
//!
//! It has no locks. Writes on a condition keep two publishers apart, and what a publisher holds keeps `gc` away.

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use bytes::Bytes;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

use super::error::PublishError;
use super::place::{Lock, Replaces, StoreLock, StorePlace, StoredFile};
use super::recent::Recent;
use crate::origin::{S3Objects, When};

/// Packs that are sent at the same time, and that memory holds meanwhile.
const IN_FLIGHT: usize = 4;

/// Objects that are removed at the same time.
const REMOVED: usize = 16;

/// How often a file is replaced that others replace meanwhile.
const TRIES: u32 = 100;

/// Length of the part of a pack that is read at once, as its neighbours are read next.
const WINDOW: u64 = 1 << 20;

/// Bytes of such parts that are kept.
const KEPT: usize = 32 << 20;

type Sent = JoinHandle<(String, io::Result<bool>)>;

/// A prefix of a bucket.
#[derive(Debug)]
pub(super) struct Bucket {
    url: PathBuf,
    objects: S3Objects,
    runtime: Runtime,
    sent: Mutex<VecDeque<Sent>>,
    names: Mutex<Vec<String>>,
    windows: Mutex<Recent<(usize, u64), Bytes>>,
}

impl Bucket {
    pub(super) fn open(url: &str) -> Result<Arc<Self>, PublishError> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build();
        let url = url.trim_end_matches('/');
        Ok(Arc::new(Self {
            objects: S3Objects::open(url)?,
            runtime: runtime.map_err(|error| PublishError::io("open", url.as_ref(), error))?,
            url: url.into(),
            sent: Mutex::default(),
            names: Mutex::default(),
            windows: Mutex::new(Recent::new(KEPT)),
        }))
    }

    pub(super) fn identity(&self) -> &str {
        self.objects.identity()
    }

    fn failed(&self, operation: &'static str, name: &str, error: io::Error) -> PublishError {
        PublishError::io(operation, &self.path(name), error)
    }

    fn put_when(&self, name: &str, bytes: &[u8], when: When) -> Result<bool, PublishError> {
        let bytes = Bytes::copy_from_slice(bytes);
        let put = self.objects.put(name, bytes, when);
        let put = self.runtime.block_on(put);
        put.map_err(|error| self.failed("write", name, error))
    }

    fn found(&self, name: &str) -> Result<Option<(Bytes, Option<String>)>, PublishError> {
        let found = self.runtime.block_on(self.objects.get(name, None));
        found.map_err(|error| self.failed("read", name, error))
    }

    /// Makes the mark of a store where the prefix is empty, and returns whether it has objects that are of no store. The
    /// mark also shows whether the server keeps conditions: one that does not would lose versions.
    ///
    /// # Errors
    /// [`PublishError::Unconditional`].
    pub(super) fn make(&self, mark: &str, form: &[u8]) -> Result<bool, PublishError> {
        if self.get(mark)?.is_none() {
            let found = self.runtime.block_on(self.objects.list("", false));
            let found = found.map_err(|error| self.failed("list", "", error))?;
            if found.iter().any(|object| object.name != mark) {
                return Ok(true);
            }
            self.put_when(mark, form, When::Missing)?;
        }
        let other = When::Same("\"00000000000000000000000000000000\"".to_owned());
        let is_written =
            self.put_when(mark, form, When::Missing)? || self.put_when(mark, form, other)?;
        match is_written {
            true => Err(PublishError::Unconditional {
                path: self.url.clone(),
            }),
            false => Ok(false),
        }
    }

    fn sent(&self) -> std::sync::MutexGuard<'_, VecDeque<Sent>> {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until at most this number of objects is on its way.
    fn wait(&self, most: usize) -> Result<(), PublishError> {
        loop {
            let next = {
                let mut sent = self.sent();
                match sent.len() > most {
                    true => sent.pop_front(),
                    false => None,
                }
            };
            let Some(next) = next else { return Ok(()) };
            let (name, put) = self
                .runtime
                .block_on(next)
                .map_err(|error| self.failed("write", "", io::Error::other(error)))?;
            put.map_err(|error| self.failed("write", &name, error))?;
        }
    }

    /// A number for a name.
    fn number(&self, name: &str) -> usize {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        names
            .iter()
            .position(|known| known == name)
            .unwrap_or_else(|| {
                names.push(name.to_owned());
                names.len() - 1
            })
    }

    fn listed(&self, folder: &str, is_deep: bool) -> Result<Vec<StoredFile>, PublishError> {
        let listed = self.runtime.block_on(self.objects.list(folder, is_deep));
        let listed = listed.map_err(|error| self.failed("list", folder, error))?;
        let now = SystemTime::now();
        let mut found: Vec<StoredFile> = listed
            .into_iter()
            .map(|object| StoredFile {
                name: object.name,
                bytes: object.bytes,
                age: now.duration_since(object.modified).unwrap_or_default(),
            })
            .collect();
        found.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(found)
    }
}

impl StorePlace for Bucket {
    fn path(&self, name: &str) -> PathBuf {
        match name {
            "" => self.url.clone(),
            name => self.url.join(name),
        }
    }

    fn get(&self, name: &str) -> Result<Option<Bytes>, PublishError> {
        Ok(self.found(name)?.map(|(bytes, _)| bytes))
    }

    fn part(&self, name: &str, start: u64, len: usize) -> Result<Option<Bytes>, PublishError> {
        let read = |range: std::ops::Range<u64>| {
            let found = self.runtime.block_on(self.objects.get(name, Some(range)));
            let found = found.map_err(|error| self.failed("read", name, error))?;
            Ok::<_, PublishError>(found.map(|(bytes, _)| bytes))
        };
        let end = start.saturating_add(len as u64);
        let first = start / WINDOW;
        if len == 0 || (end - 1) / WINDOW != first {
            return read(start..end);
        }
        let key = (self.number(name), first);
        let windows = || self.windows.lock().unwrap_or_else(PoisonError::into_inner);
        let known = windows().get(&key);
        let window = match known {
            Some(window) => window,
            None => {
                let Some(window) = read(first * WINDOW..(first + 1) * WINDOW)? else {
                    return Ok(None);
                };
                windows().put(key, window.clone(), window.len());
                window
            }
        };
        let from = usize::try_from(start - first * WINDOW).unwrap_or(usize::MAX);
        let to = from.saturating_add(len).min(window.len());
        Ok(Some(window.slice(from.min(to)..to)))
    }

    fn put(&self, name: &str, bytes: &[u8]) -> Result<(), PublishError> {
        self.put_when(name, bytes, When::Always).map(drop)
    }

    fn put_later(&self, name: &str, bytes: Vec<u8>) -> Result<(), PublishError> {
        self.wait(IN_FLIGHT - 1)?;
        let (objects, name) = (self.objects.clone(), name.to_owned());
        let put = self.runtime.spawn(async move {
            let put = objects.put(&name, bytes.into(), When::Always).await;
            (name, put)
        });
        self.sent().push_back(put);
        Ok(())
    }

    fn settle(&self) -> Result<(), PublishError> {
        self.wait(0)
    }

    fn create(&self, name: &str, bytes: &[u8]) -> Result<bool, PublishError> {
        if self.put_when(name, bytes, When::Missing)? {
            return Ok(true);
        }
        // The answer to a first request may have been lost.
        Ok(self.get(name)?.is_some_and(|there| there == bytes))
    }

    fn replace(
        &self,
        name: &str,
        bytes: &[u8],
        replaces: Replaces<'_>,
    ) -> Result<(), PublishError> {
        for _ in 0..TRIES {
            let found = self.found(name)?;
            if !replaces(found.as_ref().map(|(bytes, _)| bytes.as_ref()))? {
                return Ok(());
            }
            let when = match found {
                None => When::Missing,
                Some((_, Some(etag))) => When::Same(etag),
                Some((_, None)) => {
                    let error = io::Error::other("the server tells no ETag of it");
                    return Err(self.failed("replace", name, error));
                }
            };
            if self.put_when(name, bytes, when)? {
                return Ok(());
            }
        }
        let error = io::Error::other("others replace it all the time");
        Err(self.failed("replace", name, error))
    }

    fn list(&self, folder: &str) -> Result<Vec<StoredFile>, PublishError> {
        self.listed(folder, false)
    }

    fn list_below(&self, folder: &str) -> Result<Vec<StoredFile>, PublishError> {
        self.listed(folder, true)
    }

    fn remove(&self, names: &[String]) -> Result<(), PublishError> {
        for some in names.chunks(REMOVED) {
            let removed =
                futures_util::future::join_all(some.iter().map(|name| self.objects.remove(name)));
            for (name, removed) in some.iter().zip(self.runtime.block_on(removed)) {
                removed.map_err(|error| self.failed("remove", name, error))?;
            }
        }
        Ok(())
    }

    fn lock(&self, _how: Lock<'_>) -> Result<Option<StoreLock>, PublishError> {
        Ok(None)
    }
}
