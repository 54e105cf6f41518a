//! [`collect`]: removes old versions from a store, and packs that no version refers to.

use std::collections::HashSet;
use std::time::Duration;

use super::address::{Hash, PackId};
use super::error::PublishError;
use super::pack::decode_list;
use super::publish::{latest, records};
use super::record::{Record, VersionName};
use super::store::Store;

/// The result of a collection, or of a trial.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    /// Versions that were removed: `NAME@VERSION`.
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
}

/// Removes all versions of each name but the newest ones, and the packs that no version refers to. Packs and parts of
/// packs that are younger than `age` stay: another machine may be publishing them.
///
/// # Errors
/// [`PublishError::InUse`] while a publisher of this machine works; [`PublishError::Record`] for a record that cannot be
/// read, as its packs are not known; [`PublishError::Io`].
pub fn collect(
    store: &Store,
    keep: usize,
    age: Duration,
    is_trial: bool,
) -> Result<Collected, PublishError> {
    let _lock = store.lock_alone()?;
    let mut collected = Collected::default();
    let mut lists = HashSet::new();
    let mut live: HashSet<PackId> = HashSet::new();
    let mut removed = Vec::new();
    for name in store.list("names")? {
        // A record that cannot be read ends it: its packs would be lost.
        for file in store.list(&VersionName::folder(&name.name))? {
            let wanted = VersionName {
                name: name.name.clone(),
                version: file.name,
            };
            let bytes = store.get(&wanted.path())?.unwrap_or_default();
            Record::unverified(&bytes, &wanted)?;
        }
        let mut kept = records(store, &name.name)?;
        let newest = latest(store, &name.name)?;
        let newer = kept.split_off(kept.len().saturating_sub(keep.max(1)));
        for record in std::mem::replace(&mut kept, newer) {
            // A publisher that was killed has not made its version the newest yet.
            if newest
                .as_ref()
                .is_some_and(|newest| newest.serial == record.serial)
            {
                kept.push(record);
            } else {
                collected.removed_versions.push(record.name.to_string());
                removed.push(record.name.path());
            }
        }
        for record in kept {
            collected.kept_versions += 1;
            let list = list_path(&record.packs);
            let bytes = store.get(&list)?.unwrap_or_default();
            if Hash::of(&bytes) != record.packs {
                return Err(PublishError::Record {
                    version: record.name.to_string(),
                    why: "its list of packs is missing or damaged",
                });
            }
            live.extend(decode_list(&bytes, &store.path(&list))?);
            lists.insert(list);
        }
    }
    let remove = |name: &str| match is_trial {
        true => Ok(()),
        false => store.remove(name),
    };
    for name in &removed {
        remove(name)?;
    }
    for folder in store.list("packs")? {
        for file in store.list(&format!("packs/{}", folder.name))? {
            let is_live = PackId::parse(&file.name).is_some_and(|pack| live.contains(&pack));
            if is_live || file.age < age {
                collected.kept_packs += 1;
                collected.kept_bytes = collected.kept_bytes.saturating_add(file.bytes);
                continue;
            }
            remove(&format!("packs/{}/{}", folder.name, file.name))?;
            collected.removed_packs += 1;
            collected.removed_bytes = collected.removed_bytes.saturating_add(file.bytes);
        }
    }
    for (folder, is_kept) in [("lists", true), ("tmp", false)] {
        for file in store.list(folder)? {
            let path = format!("{folder}/{}", file.name);
            if file.age >= age && !(is_kept && lists.contains(&path)) {
                remove(&path)?;
            }
        }
    }
    Ok(collected)
}

fn list_path(hash: &Hash) -> String {
    format!("lists/{hash}")
}
