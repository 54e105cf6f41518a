//! Names that mounts share through the engine: what one machine has asked the origin, others need not ask within a bound.
//!
//! A record is the list of a directory with attributes, or one object, with the time of the request to the origin by the
//! clock of the machine that made it. It is sealed with the key of the tenant: a forged one could change owners and links.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::names::{KnownObject, Listed};
use super::shared::MountShared;
use crate::{Entry, Kind, Meta, Version};

/// Maximum difference of the clocks of two machines.
const CLOCKS: Duration = Duration::from_secs(5);

const LIST: &str = "cachewise names 1 list";
const OBJECT: &str = "cachewise names 1 object";
const DROPS: &str = "cachewise names 1 drops";

/// Maximum drops that a machine learns when it starts; beyond it the oldest become one of the whole origin.
const MOST_DROPS: usize = 256;

/// A record: milliseconds since 1970 of the request, and what it showed.
#[derive(Debug, Serialize, Deserialize)]
struct NameRecord<T>(u64, T);

/// Attributes: kind, size, version, and the times of the last write and of [`Meta::keep_from`] in nanoseconds since 1970.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Attributes(char, u64, String, Option<u64>, Option<u64>);

/// The entries of a directory, and whether there are no others.
type ListRecord = (bool, bool, Vec<(String, Attributes)>);

/// Paths that were dropped, and when.
type DropsRecord = Vec<(String, u64)>;

impl MountShared {
    /// The age up to which records of other machines are used, if names are shared.
    fn share_within(&self) -> Option<Duration> {
        let within = self.share_names.min(self.revalidate);
        (!within.is_zero() && self.has_origin() && self.cache.shares_names()).then_some(within)
    }

    /// Returns the list of a directory that another machine has made after `known`, and keeps it.
    pub(super) async fn shared_list(
        &self,
        path: &Path,
        known: Option<Instant>,
    ) -> Option<Arc<Listed>> {
        let ((is_whole, is_small, entries), at) = self.record::<ListRecord>(LIST, path).await?;
        if known.is_some_and(|known| at <= known) {
            return None;
        }
        let entries = entries.into_iter().map(|(name, attributes)| {
            let meta = meta(&attributes)?;
            Some(Entry {
                meta: Some(Box::new(meta.clone())),
                ..Entry::new(name, meta.kind)
            })
        });
        let listed = Listed {
            entries: Listed::sorted(entries.collect::<Option<Vec<_>>>()?),
            at,
            is_whole,
            is_small,
            is_refused: false,
            of: None,
        };
        Some(self.names.keep_list(path, listed))
    }

    /// Returns what another machine has found at a path.
    pub(super) async fn shared_object(&self, path: &Path) -> Option<KnownObject> {
        let (attributes, at) = self.record::<Attributes>(OBJECT, path).await?;
        let meta = Some(Arc::new(meta(&attributes)?));
        Some(KnownObject { meta, at })
    }

    /// Shares the list of a directory, if it shows all attributes.
    pub(super) fn share_list(&self, path: &Path, listed: &Listed) {
        if self.share_within().is_none() {
            return;
        }
        let entries = listed.entries.iter().map(|entry| {
            let attributes = attributes(entry.meta.as_deref()?)?;
            Some((entry.name.to_str()?.to_owned(), attributes))
        });
        if let Some(entries) = entries.collect::<Option<Vec<_>>>() {
            let list: ListRecord = (listed.is_whole, listed.is_small, entries);
            self.share(LIST, path, list, listed.at);
        }
    }

    /// Shares what the origin said of an object.
    pub(super) fn share_object(&self, path: &Path, meta: &Meta, at: Instant) {
        if self.share_within().is_some()
            && let Some(attributes) = attributes(meta)
        {
            self.share(OBJECT, path, attributes, at);
        }
    }

    /// Removes the records of a path and of the lists below it that this mount knows, and tells machines that start later.
    pub(super) async fn drop_records(&self, path: &Path, below: impl Iterator<Item = PathBuf>) {
        let Some(within) = self.share_within() else {
            return;
        };
        let parent = path.parent().map(|parent| (LIST, parent.to_owned()));
        let own = [LIST, OBJECT].map(|kind| (kind, path.to_owned()));
        let below = below.flat_map(|path| [LIST, OBJECT].map(|kind| (kind, path.clone())));
        for (kind, path) in parent.into_iter().chain(own).chain(below) {
            self.cache.unshare(kind, &path).await;
        }
        let now = milliseconds(SystemTime::now());
        let oldest = now.saturating_sub(of(within + CLOCKS));
        let drops = self.record::<DropsRecord>(DROPS, Path::new("")).await;
        let mut drops = drops.map_or_else(Vec::new, |(drops, _)| drops);
        let Some(path) = path.to_str() else { return };
        drops.retain(|(other, at)| *at >= oldest && other != path);
        if drops.len() >= MOST_DROPS {
            drops.clear();
            drops.push((String::new(), now));
        }
        drops.push((path.to_owned(), now));
        self.share(DROPS, Path::new(""), drops, Instant::now());
    }

    /// Learns what was dropped before this mount began.
    async fn learn_drops(&self) {
        let Some((drops, _)) = self.record::<DropsRecord>(DROPS, Path::new("")).await else {
            return;
        };
        for (path, at) in drops {
            if let Some(at) = instant(at) {
                self.names.was_dropped(Path::new(&path), at + CLOCKS);
            }
        }
    }

    /// Returns a record that is not too old, and the time of its request.
    async fn record<T: for<'de> Deserialize<'de>>(
        &self,
        kind: &'static str,
        path: &Path,
    ) -> Option<(T, Instant)> {
        let within = self.share_within()?;
        if kind != DROPS {
            let learn = || Box::pin(self.learn_drops());
            self.knows_drops.get_or_init(learn).await;
        }
        let bytes = self.cache.shared(kind, path).await?;
        let NameRecord(at, value) = serde_json::from_slice::<NameRecord<T>>(&bytes).ok()?;
        let at = instant(at)?;
        // By another machine's clock, it may have been before the drop.
        let is_dropped = kind != DROPS && self.names.is_dropped(path, at.checked_sub(CLOCKS)?);
        (!is_dropped && at.elapsed() <= within).then_some((value, at))
    }

    fn share<T: Serialize>(&self, kind: &'static str, path: &Path, value: T, at: Instant) {
        let at = milliseconds(SystemTime::now()).saturating_sub(of(at.elapsed()));
        if let Ok(bytes) = serde_json::to_vec(&NameRecord(at, value)) {
            self.cache.share(kind, path, Bytes::from(bytes));
        }
    }
}

fn attributes(meta: &Meta) -> Option<Attributes> {
    let kind = match meta.kind {
        Kind::File => 'f',
        Kind::Directory => 'd',
        Kind::Link | Kind::Other => return None,
    };
    let times = [meta.modified, meta.keep_from].map(|time| time.map(nanoseconds));
    let [modified, keep_from] = times;
    let version = meta.version.as_str().to_owned();
    let attributes = Attributes(kind, meta.size, version, modified, keep_from);
    // Those of a directory of this machine have more, of which some mean nothing elsewhere.
    (self::meta(&attributes).as_ref() == Some(meta)).then_some(attributes)
}

fn meta(attributes: &Attributes) -> Option<Meta> {
    let Attributes(kind, size, version, modified, keep_from) = attributes;
    let kind = match kind {
        'f' => Kind::File,
        'd' => Kind::Directory,
        _ => return None,
    };
    let time = |time: &Option<u64>| time.map(|time| UNIX_EPOCH + Duration::from_nanos(time));
    Some(Meta {
        modified: time(modified),
        keep_from: time(keep_from),
        ..Meta::plain(kind, *size, Version::new(version))
    })
}

fn nanoseconds(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

fn milliseconds(time: SystemTime) -> u64 {
    of(time.duration_since(UNIX_EPOCH).unwrap_or_default())
}

fn of(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Returns the time of a record by the clock of this process; `None` if it is too far in the future, or before it all.
fn instant(at: u64) -> Option<Instant> {
    let (now, at) = (SystemTime::now(), UNIX_EPOCH + Duration::from_millis(at));
    match now.duration_since(at) {
        Ok(age) => Instant::now().checked_sub(age),
        Err(ahead) => (ahead.duration() <= CLOCKS).then(Instant::now),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_come_back_as_they_were_or_are_not_shared() {
        let now = UNIX_EPOCH + Duration::from_nanos(1_795_000_000_123_456_789);
        let plain = Meta {
            modified: Some(now),
            keep_from: Some(now),
            ..Meta::plain(Kind::File, 7, Version::new("\"etag\""))
        };
        let shared = attributes(&plain).expect("of a network origin");
        assert_eq!(meta(&shared), Some(plain.clone()));
        for other in [
            Meta {
                owner: Some((0, 0)),
                ..plain.clone()
            },
            Meta {
                device: 3,
                ..plain.clone()
            },
            Meta {
                mode: 0o777,
                ..plain
            },
        ] {
            assert_eq!(attributes(&other), None, "{other:?}");
        }
    }

    #[test]
    fn records_of_the_future_are_refused() {
        let now = milliseconds(SystemTime::now());
        assert!(instant(now + of(CLOCKS) + 60_000).is_none());
        assert!(instant(now + 1_000).is_some());
        let old = instant(now - 1_000).expect("a second ago");
        assert!(old.elapsed() >= Duration::from_millis(900));
    }
}
