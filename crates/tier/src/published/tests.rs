//! A version from its origin to a reader, in one process.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cachewise_units::ByteRange;

use super::*;
use crate::{BlockCache, Directory, DirectoryOptions, Settings, Tier};

struct Place {
    scratch: tempfile::TempDir,
    store: Store,
    key: SecretKey,
}

impl Place {
    fn new() -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let file = scratch.path().join("key");
        SecretKey::create(&file).unwrap();
        fs::create_dir(scratch.path().join("origin")).unwrap();
        Self {
            store: Store::create(&scratch.path().join("store")).unwrap(),
            key: SecretKey::read(&file).unwrap(),
            scratch,
        }
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        fs::write(self.scratch.path().join("origin").join(name), bytes).unwrap();
    }

    fn publish(&self, name: &str) -> Publication {
        self.publish_by(name, &self.key)
    }

    fn publish_by(&self, name: &str, key: &SecretKey) -> Publication {
        let options = PublishOptions {
            origin: &self.scratch.path().join("origin"),
            remote: None,
            name: &VersionName::parse(name).unwrap(),
            key,
            block: 128 << 10,
            valid: Duration::from_secs(3_600),
            state: &self.scratch.path().join("state"),
            is_full: false,
        };
        publish(self.store.root(), &options).unwrap()
    }

    async fn open(&self, record: &Record, settings: Settings) -> BlockCache {
        let options = DirectoryOptions {
            identity: Some("store".to_owned()),
            machine: None,
        };
        let store = Directory::open_with(self.store.root(), &options).unwrap();
        let published = Arc::new(Published::new(Arc::new(store), record.clone()));
        let cache = BlockCache::open(settings, Arc::clone(&published) as Arc<_>).await;
        let cache = cache.unwrap();
        published.read_through(&cache);
        cache
    }
}

const WHOLE: ByteRange = ByteRange {
    start: 0,
    len: 1 << 20,
};

fn corrupt(cache: &BlockCache) -> u64 {
    let table = cache.table();
    let rows = table.tiers.iter().filter(|row| row.tier != Tier::Origin);
    rows.map(|row| row.corrupt).sum()
}

#[tokio::test]
async fn forged_blocks_of_a_disk_are_counted_and_not_given() {
    let place = Place::new();
    place.write("file", b"the right bytes");
    let done = place.publish("data@v1");
    let settings = Settings {
        disk: Some(place.scratch.path().join("disk")),
        disk_size: cachewise_units::Bytes(64 << 20),
        ..Settings::default()
    };
    let cache = place.open(&done.record, settings).await;
    cache.plant(
        &Hash::of(b"the right bytes"),
        Bytes::from_static(b"the wrong bytes"),
    );
    let path = Published::root_of(&done.record).join("file");
    let file = cache.look(&path).await.unwrap();
    let bytes = cache.get(&file, WHOLE).await.unwrap();
    assert_eq!(bytes.as_ref(), b"the right bytes");
    assert!(corrupt(&cache) > 0, "it is counted");
    let before = corrupt(&cache);
    let again = cache.get(&file, WHOLE).await.unwrap();
    assert_eq!(again.as_ref(), b"the right bytes");
    assert_eq!(corrupt(&cache), before, "it was replaced");
}

#[tokio::test]
async fn equal_blocks_of_versions_and_files_are_one_block() {
    let place = Place::new();
    place.write("file", b"the same bytes");
    let one = place.publish("data@v1");
    place.write("other", b"the same bytes");
    let two = place.publish("data@v2");
    let cache = place.open(&one.record, Settings::default()).await;
    let file = Published::root_of(&one.record).join("file");
    let file = cache.look(&file).await.unwrap();
    cache.get(&file, WHOLE).await.unwrap();
    let reads = |cache: &BlockCache| {
        let table = cache.table();
        let mut rows = table.tiers.iter();
        rows.find(|row| row.tier == Tier::Memory)
            .map(|row| row.hits)
    };
    // Another version, another path, the same hash: the bytes are those in memory.
    let newer = place.open(&two.record, Settings::default()).await;
    for name in ["file", "other"] {
        let path = Published::root_of(&two.record).join(name);
        let file = newer.look(&path).await.unwrap();
        newer.get(&file, WHOLE).await.unwrap();
    }
    assert_eq!(reads(&newer), Some(1), "the second name, after the first");
    assert!(
        newer.look(Path::new("7/file")).await.is_err(),
        "no such version"
    );
}

#[test]
fn serials_that_were_seen_are_the_least_that_is_accepted() {
    use super::state::accept;
    let place = Place::new();
    place.write("file", b"bytes");
    let state = place.scratch.path().join("reader");
    let key = place.key.public();
    let record = |serial| Record {
        serial,
        expires: 1_000,
        ..place.publish(&format!("data@v{serial}")).record
    };
    let (one, two, three) = (record(1), record(2), record(3));
    let strict = Acceptance::default();
    let late = accept(&state, &key, &one, strict, 1_000 + 86_400 * 3).unwrap_err();
    assert!(late.to_string().contains("expired 3 days ago"), "{late}");
    accept(&state, &key, &two, strict, 999).expect("it is valid still");
    accept(&state, &key, &two, strict, 5_000).expect("its name was seen before it expired");
    accept(&state, &key, &three, strict, 5_000).expect("a newer one");
    let old = accept(&state, &key, &two, strict, 999).unwrap_err();
    assert!(old.to_string().contains("--allow-rollback"), "{old}");
    let lenient = Acceptance {
        allow_rollback: true,
    };
    accept(&state, &key, &two, lenient, 999).expect("it was asked for");
    accept(&state, &key, &two, strict, 999).expect_err("and changed nothing");
    let (other, _) = SecretKey::create(&place.scratch.path().join("other")).unwrap();
    accept(&state, &other, &two, strict, 999).expect("of another publisher nothing was seen");
}

#[test]
fn gc_keeps_the_packs_of_a_version_that_a_publisher_builds_on() {
    let place = Place::new();
    place.write("file", &vec![1; 200_000]);
    let first = place.publish("data@v1").record;
    place.write("file", &vec![2; 200_000]);
    place.publish("data@v2");
    let packs = || place.store.packs().unwrap().len();
    let gc = || collected(&place.store, Duration::ZERO, false);
    let before = packs();
    let held = super::claims::Held::take(&place.store, &first).unwrap();
    let held = held.expect("the version is there");
    // A mark counts while it is younger than the age.
    let done = collected(&place.store, Duration::from_secs(3_600), false);
    assert_eq!(done.removed_versions, ["data@v1"]);
    assert_eq!(packs(), before);
    assert!(
        super::claims::Held::take(&place.store, &first)
            .unwrap()
            .is_none(),
        "the version is gone"
    );
    held.release().unwrap();
    assert!(gc().removed_packs > 0);
    assert!(packs() < before);
    assert_eq!(gc().removed_packs, 0);
}

#[test]
fn another_key_than_that_of_the_newest_version_is_reported_with_both() {
    let place = Place::new();
    place.write("file", b"bytes");
    let file = place.scratch.path().join("other");
    let (other, _) = SecretKey::create(&file).unwrap();
    let other_key = SecretKey::read(&file).unwrap();
    let first = place.key.public();
    assert!(
        place.publish("data@v1").warnings.is_empty(),
        "the first version"
    );
    assert!(place.publish("data@v2").warnings.is_empty(), "the same key");
    let by_other = |name: &str| place.publish_by(name, &other_key).warnings;
    let warnings = by_other("data@v3");
    let [warning] = warnings.as_slice() else {
        panic!("one warning: {warnings:?}")
    };
    for part in [
        &format!("signed by the key {first} before"),
        &format!("data@v3 is signed by {other}"),
        &format!("--trust {other}"),
        "data@latest",
    ] {
        assert!(warning.contains(part), "{part}: {warning}");
    }
    let pointer = VersionName::parse("data@latest").unwrap();
    let bytes = place.store.get(&pointer.path()).unwrap().unwrap();
    Record::verify(&bytes, &pointer, &first).expect_err("readers refuse it, as the warning says");
    assert!(by_other("data@v4").is_empty(), "its readers know the key");
    assert!(by_other("another@v1").is_empty(), "a name of its own");
}

#[test]
fn gc_lists_removed_versions_oldest_first() {
    let place = Place::new();
    place.write("file", b"bytes");
    for version in ["v9", "v10", "v11"] {
        place.publish(&format!("data@{version}"));
    }
    place.publish("a@v2");
    place.publish("a@v10");
    let done = collected(&place.store, Duration::ZERO, false);
    assert_eq!(done.removed_versions, ["a@v2", "data@v9", "data@v10"]);
}

fn collected(store: &Store, age: Duration, is_repacked: bool) -> Collected {
    let options = CollectOptions {
        keep: 1,
        age,
        is_repacked,
        is_trial: false,
    };
    collect(store, &options).unwrap()
}

#[tokio::test]
async fn packs_that_are_mostly_unused_are_left_by_the_next_version() {
    let place = Place::new();
    let bytes = |number: u8| {
        (0..200_000_u32)
            .map(|at| (at % 251) as u8 ^ number)
            .collect()
    };
    for number in 0..10 {
        let bytes: Vec<u8> = bytes(number);
        place.write(&number.to_string(), &bytes);
    }
    place.publish("data@v1");
    // One of ten files stays.
    for number in 1..10 {
        let bytes: Vec<u8> = bytes(100 + number);
        place.write(&number.to_string(), &bytes);
    }
    let stored = || -> u64 {
        place
            .store
            .packs()
            .unwrap()
            .iter()
            .map(|pack| pack.bytes)
            .sum()
    };
    place.publish("data@v2");
    let done = collected(&place.store, Duration::ZERO, true);
    assert!(done.sparse_packs >= 1, "{done:?}");
    assert!(stored() > 3_700_000, "a pack stays as a whole");
    let third = place.publish("data@v3");
    assert!(third.written_bytes >= 200_000, "{third:?}");
    assert!(
        third.written_bytes < 300_000,
        "the others are not written again"
    );
    let done = collected(&place.store, Duration::ZERO, true);
    assert!(done.removed_packs >= 1, "{done:?}");
    assert!(stored() < 2_300_000, "{} bytes", stored());
    let cache = place.open(&third.record, Settings::default()).await;
    for number in 0..10_u8 {
        let wanted: Vec<u8> = bytes(if number == 0 { 0 } else { 100 + number });
        let path = Published::root_of(&third.record).join(number.to_string());
        let file = cache.stat(&path).await.unwrap();
        assert!(cache.get(&file, WHOLE).await.unwrap() == wanted, "{number}");
    }
    assert_eq!(place.publish("data@v4").written_bytes, 0, "all is known");
}
