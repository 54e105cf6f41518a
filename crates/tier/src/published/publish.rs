//! [`publish`]: makes a version of a directory, or of another origin.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::address::{Hash, Ref};
use super::claims::{Held, take_serial};
use super::error::PublishError;
use super::index::LocalIndex;
use super::keys::SecretKey;
use super::local::Local;
use super::pack::{PackWriter, SPARSE, decode_list, encode_list};
use super::record::{Record, VersionName};
use super::remote::Remote;
use super::source::Source;
use super::state::index_path;
use super::store::Store;
use super::tree::all_refs;
use super::walk::{Walk, Walked};
use crate::Origin;
use crate::within::is_within;

/// The step of a file system's clock, generously: a file that changed within it is read the next time too.
const STEP: Duration = Duration::from_millis(2_500);

/// An origin to publish, and its store.
#[derive(Debug)]
pub struct PublishOptions<'a> {
    /// The directory to publish, or the address of another origin.
    pub origin: &'a Path,
    /// The origin, where it is no directory of this machine.
    pub remote: Option<&'a Arc<dyn Origin>>,
    /// Its name.
    pub name: &'a VersionName,
    /// The key that signs it.
    pub key: &'a SecretKey,
    /// Size of a block: a power of two from 16 KiB to 1 MiB.
    pub block: u64,
    /// Time for which the signature is valid.
    pub valid: Duration,
    /// Directory for what this machine knows of its last version.
    pub state: &'a Path,
    /// Whether to read all files, unchanged ones too.
    pub is_full: bool,
}

/// A version that was published.
#[derive(Clone, Debug)]
pub struct Publication {
    /// Its record.
    pub record: Record,
    /// Another key than that of the version before, and steps that failed when the version was visible already.
    pub warnings: Vec<String>,
    /// The objects of the walk.
    pub walked: Walked,
    /// Bytes written to packs.
    pub written_bytes: u64,
    /// Packs written.
    pub written_packs: u64,
}

/// Publishes an origin as a version. The version is visible at once, when all of it is in the store; a process that is
/// killed leaves none. The store is made if it is missing, and not before the origin was listed.
///
/// # Errors
/// [`PublishError::Exists`] for a version that there is; [`PublishError::Changing`] for an origin that changes;
/// [`PublishError::InUse`] while `gc` works; those of [`Store::create`]; [`PublishError::Io`]; [`PublishError::Full`];
/// [`PublishError::NotLatest`], where the version is visible.
pub fn publish(store: &Path, options: &PublishOptions<'_>) -> Result<Publication, PublishError> {
    if options.name.is_latest() {
        return Err(PublishError::Latest {
            name: options.name.name.clone(),
        });
    }
    let now = since_1970();
    let whole = check_places(options.origin, store)?;
    let published = match options.remote {
        Some(remote) => {
            let whole = PathBuf::from(remote.identity());
            Remote::open(remote, options.block, SystemTime::now()).and_then(|source| {
                publish_source(source, &whole, &Store::create(store)?, now, options)
            })
        }
        None => {
            let settled = now.saturating_sub(STEP);
            let settled = (settled.as_secs().cast_signed(), settled.subsec_nanos());
            Local::open(&whole, options.block, settled).and_then(|source| {
                publish_source(source, &whole, &Store::create(store)?, now, options)
            })
        }
    };
    published.map_err(PublishError::unseen)
}

/// Publishes an opened origin.
fn publish_source<S: Source>(
    source: S,
    whole: &Path,
    store: &Store,
    now: Duration,
    options: &PublishOptions<'_>,
) -> Result<Publication, PublishError> {
    let _lock = store.lock_shared()?;
    refuse_existing(store, options.name)?;
    let index = index_path(options.state, store, &options.name.name, whole)?;
    let (base, held) = base(store, options, &index)?;
    let packs = PackWriter::new(store, &base)?;
    let tree = Walk::new(source, packs, &base, options.block).whole()?;
    let (top, walked, mut packs) = (tree.top, tree.walked, tree.packs);
    packs.flush()?;
    let (written_bytes, written_packs) = (packs.written_bytes, packs.written_packs);
    let (used, new) = packs.finish()?;
    let list = encode_list(&used);
    let list_hash = Hash::of(&list);
    store.put(&format!("lists/{list_hash}"), &list)?;
    let record = Record {
        name: options.name.clone(),
        serial: 0,
        block: options.block,
        root: top,
        packs: list_hash,
        files: walked.files,
        bytes: walked.bytes,
        has_attributes: walked.with_attributes > 0,
        published: now.as_secs(),
        expires: now.saturating_add(options.valid).as_secs(),
    };
    let other_key = other_key(store, options)?;
    let record = commit(store, record, options.key)?;
    // The version is visible by now, and its record protects the packs.
    let released = held.map_or(Ok(()), Held::release);
    let used: HashSet<_> = used.into_iter().collect();
    let bytes = tree.next.finish(&top.hash, &new, &used);
    let saved =
        save(&index, &bytes).map_err(|error| format!("the next version reads all files: {error}"));
    let released =
        released.map_err(|error| format!("gc keeps the version before for a while: {error}"));
    let warnings = [other_key, saved.err(), released.err()];
    Ok(Publication {
        record,
        warnings: warnings.into_iter().flatten().collect(),
        walked,
        written_bytes,
        written_packs,
    })
}

/// Checks that there is a directory to publish and that the store is outside of it, before a store is made. Returns the
/// real path of the directory; an address as it is.
fn check_places(origin: &Path, store: &Path) -> Result<PathBuf, PublishError> {
    let failed = |error| PublishError::io("open", origin, error);
    let inside = || PublishError::Inside {
        store: store.to_owned(),
    };
    let bucket = super::store::bucket(store)?;
    if let Some((scheme, rest)) = origin.to_str().and_then(|text| text.split_once("://")) {
        // The components of a path have no empty name at their end.
        let address = format!("{}://{rest}", scheme.to_ascii_lowercase());
        return match bucket.is_some_and(|bucket| Path::new(&bucket).starts_with(address)) {
            true => Err(inside()),
            false => Ok(origin.to_owned()),
        };
    }
    let whole = origin.canonicalize().map_err(failed)?;
    if bucket.is_some() {
        return Ok(whole);
    }
    match is_within(store, &whole).map_err(|error| PublishError::io("open", store, error))? {
        true => Err(inside()),
        false => Ok(whole),
    }
}

pub(super) fn since_1970() -> Duration {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
}

fn refuse_existing(store: &Store, name: &VersionName) -> Result<(), PublishError> {
    match store.get(&name.path())? {
        None => Ok(()),
        Some(bytes) => Err(PublishError::Exists {
            version: name.to_string(),
            serial: Record::unverified(&bytes, name).map_or(0, |record| record.serial),
        }),
    }
}

/// Returns the records of a name, by serial. A record that cannot be read counts for none.
pub(super) fn records(store: &Store, name: &str) -> Result<Vec<Record>, PublishError> {
    let mut records = Vec::new();
    for file in store.list(&VersionName::folder(name))? {
        let wanted = VersionName {
            name: name.to_owned(),
            version: file.name,
        };
        let bytes = store.get(&wanted.path())?.unwrap_or_default();
        records.extend(Record::unverified(&bytes, &wanted).ok());
    }
    records.sort_by_key(|record| record.serial);
    Ok(records)
}

/// Returns what is known of the version before: by this machine, else by the store, which knows blocks and no files. Its
/// packs are held until the next version is visible.
fn base<'a>(
    store: &'a Store,
    options: &PublishOptions<'_>,
    index: &Path,
) -> Result<(LocalIndex, Option<Held<'a>>), PublishError> {
    let none = (LocalIndex::default(), None);
    if options.is_full {
        return Ok(none);
    }
    let mut records = records(store, &options.name.name)?;
    records.retain(|record| record.block == options.block);
    let mut own = None;
    let avoided = match store.get(SPARSE)? {
        Some(list) => decode_list(&list, &store.path(SPARSE))?,
        None => Vec::new(),
    };
    let mut known = LocalIndex::load(index, |root| {
        own = records.iter().find(|record| record.root.hash == *root);
        own.is_some()
    });
    let Some(base) = own.filter(|_| !known.is_empty()).or(records.last()) else {
        return Ok(none);
    };
    let Some(held) = Held::take(store, base)? else {
        return Ok(none);
    };
    if !known.is_empty() {
        known.avoid(avoided);
        return Ok((known, Some(held)));
    }
    let mut refs: Vec<Ref> = Vec::new();
    match all_refs(store, &base.root, &mut refs) {
        Ok(()) => {
            let mut known = LocalIndex::of_blocks(refs);
            known.avoid(avoided);
            Ok((known, Some(held)))
        }
        // Blocks that the store has are written once more.
        Err(_) => Ok(none),
    }
}

/// Makes the version visible, with the next serial.
fn commit(store: &Store, mut record: Record, key: &SecretKey) -> Result<Record, PublishError> {
    let lock = store.lock_name(&record.name.name)?;
    refuse_existing(store, &record.name)?;
    let newest = latest(store, &record.name.name)?;
    let others = records(store, &record.name.name)?;
    let serials = newest.iter().chain(&others).map(|record| record.serial);
    let highest = serials.max().unwrap_or(0);
    record.serial = match lock {
        Some(_) => highest.saturating_add(1),
        None => take_serial(store, &record.name, highest)?,
    };
    let bytes = record.sign(key);
    if !store.create_file(&record.name.path(), &bytes)? {
        refuse_existing(store, &record.name)?;
    }
    let pointer = pointer(&record.name.name);
    let replaced = store.replace(&pointer.path(), &bytes, &mut |there| {
        let Some(there) = there else { return Ok(true) };
        Ok(Record::unverified(there, &pointer)?.serial < record.serial)
    });
    match replaced {
        Ok(_) => Ok(record),
        Err(error) => Err(PublishError::NotLatest {
            version: record.name.to_string(),
            source: Box::new(error),
        }),
    }
}

/// Says that the newest version is signed by another key, so that its readers refuse the next one.
fn other_key(store: &Store, options: &PublishOptions<'_>) -> Result<Option<String>, PublishError> {
    let pointer = pointer(&options.name.name);
    let Some(bytes) = store.get(&pointer.path())? else {
        return Ok(None);
    };
    let (before, now) = (Record::signer(&bytes, &pointer)?, options.key.public());
    Ok((before != now).then(|| {
        let VersionName { name, .. } = options.name;
        format!(
            "{name} was signed by the key {before} before, and {version} is signed by {now}: readers of {name}@latest that trust \
             the first key refuse it, until they are started with the new one (--trust {now})",
            version = options.name
        )
    }))
}

fn pointer(name: &str) -> VersionName {
    VersionName {
        name: name.to_owned(),
        version: super::record::LATEST.to_owned(),
    }
}

/// Returns the newest version of a name.
pub(super) fn latest(store: &Store, name: &str) -> Result<Option<Record>, PublishError> {
    let pointer = pointer(name);
    let bytes = store.get(&pointer.path())?;
    bytes
        .map(|bytes| Record::unverified(&bytes, &pointer))
        .transpose()
}

fn save(path: &PathBuf, bytes: &[u8]) -> Result<(), PublishError> {
    let failed = |error| PublishError::io("write", path, error);
    let folder = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder).map_err(failed)?;
    let mut file = tempfile::NamedTempFile::new_in(folder).map_err(failed)?;
    std::io::Write::write_all(&mut file, bytes).map_err(failed)?;
    let kept = file.persist(path);
    kept.map(drop).map_err(|error| failed(error.error))
}
