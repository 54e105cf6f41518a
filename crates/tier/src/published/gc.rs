//! [`collect`]: removes old versions from a store, and packs that no version refers to.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use super::address::{Hash, PackId};
use super::claims::{HELD, held_list, serials};
use super::error::PublishError;
use super::pack::{SPARSE, decode_list, encode_list, packs_in};
use super::publish::latest;
use super::record::{Record, VersionName};
use super::store::Store;
use super::tree::all_refs;

/// The result of a collection, or of a trial.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    /// Versions that were removed: `NAME@VERSION`, by name, oldest first.
    pub removed_versions: Vec<String>,
    /// Versions that are left.
    pub kept_versions: u64,
    /// Packs that were removed.
    pub removed_packs: u64,
    /// Their bytes.
    pub removed_bytes: u64,
    /// Packs that are left.
    pub kept_packs: u64,
    /// Their bytes.
    pub kept_bytes: u64,
    /// Packs of which less than a half is used, which the next versions do not use.
    pub sparse_packs: u64,
}

/// The choices of a collection.
#[derive(Clone, Copy, Debug)]
pub struct CollectOptions {
    /// Versions to keep of each name.
    pub keep: usize,
    /// Packs that are younger than this stay.
    pub age: Duration,
    /// Whether to look for packs that are used in part.
    pub is_repacked: bool,
    /// Whether nothing is removed.
    pub is_trial: bool,
}

/// Removes all versions of each name but the newest ones, and the packs that no version refers to. Packs and parts of
/// packs that are younger than `age` stay: another machine may be publishing them.
///
/// # Errors
/// [`PublishError::InUse`] while a publisher of this machine works; [`PublishError::Record`] for a record that cannot be
/// read, as its packs are not known; [`PublishError::Io`].
pub fn collect(store: &Store, options: &CollectOptions) -> Result<Collected, PublishError> {
    let CollectOptions {
        keep,
        age,
        is_repacked,
        is_trial,
    } = *options;
    let _lock = store.lock_alone()?;
    let mut collected = Collected::default();
    let mut old = Vec::new();
    for name in store.list("names")? {
        old.extend(old_versions(store, &name.name, keep)?);
    }
    let removed: Vec<String> = old.iter().map(VersionName::path).collect();
    collected.removed_versions = old.iter().map(ToString::to_string).collect();
    let old: HashSet<VersionName> = old.into_iter().collect();
    let remove = |names: &[String]| match is_trial {
        true => Ok(()),
        false => store.remove(names),
    };
    remove(&removed)?;
    // In this order: see `claims`.
    let mut left = Left::default();
    let mut stale = left.held(store, age)?;
    for name in store.list("names")? {
        let records = all_records(store, &name.name)?;
        let highest = records.iter().map(|record| record.serial).max();
        for record in records {
            if !old.contains(&record.name) {
                collected.kept_versions += 1;
                left.version(store, &record)?;
                if is_repacked {
                    left.used(store, &record)?;
                }
            }
        }
        let folder = serials(&name.name);
        for taken in store.list(&folder)? {
            let serial: Option<u64> = taken.name.parse().ok();
            if taken.age >= age && serial < highest {
                stale.push(format!("{folder}/{}", taken.name));
            }
        }
    }
    let mut sparse = Vec::new();
    for (pack, file) in packs_in(store)? {
        let used = left.used.get(&pack).copied();
        if is_repacked && used.is_some_and(|used| used.saturating_mul(2) < file.bytes) {
            sparse.push(pack);
        }
        if left.packs.contains(&pack) || file.age < age {
            collected.kept_packs += 1;
            collected.kept_bytes = collected.kept_bytes.saturating_add(file.bytes);
            continue;
        }
        stale.push(pack.path());
        collected.removed_packs += 1;
        collected.removed_bytes = collected.removed_bytes.saturating_add(file.bytes);
    }
    for (folder, is_kept) in [("lists", true), ("tmp", false)] {
        for file in store.list(folder)? {
            let path = format!("{folder}/{}", file.name);
            if file.age >= age && !(is_kept && left.lists.contains(&path)) {
                stale.push(path);
            }
        }
    }
    remove(&stale)?;
    collected.sparse_packs = sparse.len() as u64;
    if is_repacked && !is_trial {
        store.put(SPARSE, &encode_list(&sparse))?;
    }
    Ok(collected)
}

/// Returns the records of a name. One that cannot be read ends it, as its packs would be lost.
fn all_records(store: &Store, name: &str) -> Result<Vec<Record>, PublishError> {
    let mut records = Vec::new();
    for file in store.list(&VersionName::folder(name))? {
        let wanted = VersionName {
            name: name.to_owned(),
            version: file.name,
        };
        // Another `gc` may have removed it.
        if let Some(bytes) = store.get(&wanted.path())? {
            records.push(Record::unverified(&bytes, &wanted)?);
        }
    }
    records.sort_by_key(|record| record.serial);
    Ok(records)
}

/// Returns the versions of a name that are not among the newest ones, oldest first.
fn old_versions(store: &Store, name: &str, keep: usize) -> Result<Vec<VersionName>, PublishError> {
    let mut records = all_records(store, name)?;
    let newest = latest(store, name)?.map(|newest| newest.serial);
    records.truncate(records.len().saturating_sub(keep.max(1)));
    // A publisher that was killed has not made its version the newest yet.
    let old = records.into_iter();
    let old = old.filter(|record| newest != Some(record.serial));
    Ok(old.map(|record| record.name).collect())
}

/// The packs and lists that stay.
#[derive(Debug, Default)]
struct Left {
    packs: HashSet<PackId>,
    lists: HashSet<String>,
    /// Blocks and chunks that were counted.
    counted: HashSet<Hash>,
    /// Bytes of packs that versions refer to.
    used: HashMap<PackId, u64>,
}

impl Left {
    fn version(&mut self, store: &Store, record: &Record) -> Result<(), PublishError> {
        if self.list(store, &record.packs)? {
            return Ok(());
        }
        Err(PublishError::Record {
            version: record.name.to_string(),
            why: "its list of packs is missing or damaged",
        })
    }

    /// Counts the blocks and chunks of a version.
    fn used(&mut self, store: &Store, record: &Record) -> Result<(), PublishError> {
        let mut refs = Vec::new();
        all_refs(store, &record.root, &mut refs)?;
        for to in refs {
            if self.counted.insert(to.hash) {
                *self.used.entry(to.pack).or_default() += u64::from(to.len);
            }
        }
        Ok(())
    }

    /// Notes the packs of a list, and returns whether it is there.
    fn list(&mut self, store: &Store, hash: &Hash) -> Result<bool, PublishError> {
        let list = format!("lists/{hash}");
        let bytes = store.get(&list)?.unwrap_or_default();
        if Hash::of(&bytes) != *hash {
            return Ok(false);
        }
        self.packs.extend(decode_list(&bytes, &store.path(&list))?);
        self.lists.insert(list);
        Ok(true)
    }

    /// Notes the packs that publishers hold, and returns what none of them holds any more.
    fn held(&mut self, store: &Store, age: Duration) -> Result<Vec<String>, PublishError> {
        let mut stale = Vec::new();
        for file in store.list(HELD)? {
            let path = format!("{HELD}/{}", file.name);
            if file.age >= age {
                stale.push(path);
                continue;
            }
            let hash = store.get(&path)?.as_deref().and_then(held_list);
            if let Some(hash) = hash {
                // Where it is gone, its publisher finds that its version is gone.
                self.list(store, &hash)?;
            }
        }
        Ok(stale)
    }
}
