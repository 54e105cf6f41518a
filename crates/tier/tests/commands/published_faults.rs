//! Published versions: stores, keys and disks that cannot be used.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::mounted::has_fuse;
use crate::published::Place;
use crate::support::*;

pub fn trials() -> Vec<Trial> {
    vec![
        plain(
            "published_faults::address_that_is_no_store_is_refused_and_makes_no_directory",
            no_store,
        ),
        needs_root(
            "published_faults::key_on_a_full_disk_leaves_no_file",
            full_key,
        ),
        needs_root(
            "published_faults::full_disk_hides_the_version_only_where_it_does",
            full_disk,
        ),
        needs_root(
            "published_faults::version_that_cannot_become_the_latest_is_named_and_there",
            not_latest,
        ),
        plain(
            "published_faults::variable_names_the_state_of_publish",
            state_variable,
        ),
    ]
}

fn no_store() {
    let place = Place::new();
    fs::write(place.at("origin/file"), "bytes").expect("written");
    let within = place.at("within");
    fs::create_dir(&within).expect("made");
    for (address, why) in [
        (
            "http://127.0.0.1:1/s",
            "no store is a http; name a directory",
        ),
        (
            "https://a:secret@127.0.0.1:1/s",
            "`cachewise mount --store` alone",
        ),
        (
            "gs://bucket/store",
            "no store is a gs; name a directory or s3://BUCKET",
        ),
        (
            "GS://bucket/store",
            "no store is a gs; name a directory or s3://BUCKET",
        ),
    ] {
        let mut publish = cachewise(["publish", "--to", address, "--key"]);
        publish.arg(place.at("key")).arg(place.at("origin"));
        publish.arg("--state").arg(place.at("publisher")).arg("a@1");
        let diff = cachewise(["diff", "--store", address, "a@1", "a@2"]);
        let gc = cachewise(["gc", "--keep", "1", address]);
        for mut command in [publish, diff, gc] {
            let ended = Ended::of(command.current_dir(&within)).expect(2, "it is refused");
            assert!(!ended.err().contains("secret"), "{}", ended.err());
            ended.says(why, "cause and fix");
        }
    }
    // The same as s3://, which has no server here.
    let mut command = cachewise(["gc", "--keep", "1", "S3://bucket/store"]);
    command
        .env("AWS_ENDPOINT", "http://127.0.0.1:1")
        .env("AWS_ALLOW_HTTP", "true");
    Ended::of(command.current_dir(&within))
        .expect(2, "no server")
        .says("read s3://bucket/store/", "the bucket");
    let made = fs::read_dir(&within).expect("it is there").count();
    assert_eq!(made, 0, "no directory has the name of an address");
}

/// A file system in memory, without room but for some pages; unmounted when dropped.
struct FullDisk(PathBuf);

impl FullDisk {
    fn new(directory: PathBuf) -> Self {
        fs::create_dir(&directory).expect("made");
        let mut mount = Command::new("mount");
        let mount = mount.args(["-t", "tmpfs", "-o", "size=64k", "full"]);
        let status = mount.arg(&directory).status();
        assert!(status.is_ok_and(|status| status.success()), "root mounts");
        let disk = Self(directory);
        disk.leave(0);
        disk
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Fills it up to this number of pages.
    fn leave(&self, pages: u64) {
        let mut filler = fs::File::create(self.at("filler")).expect("made");
        while filler.write_all(&[1]).is_ok() {}
        let size = filler.metadata().expect("written").len();
        assert!(size > 0, "there is a limit");
        let size = size.saturating_sub(pages * page_size());
        filler.set_len(size).expect("shortened");
    }
}

impl Drop for FullDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

const HIDDEN: &str = "nothing of this version is visible";

fn names_in(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).expect("it is there").flatten();
    let mut names: Vec<_> = entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

fn full_key() {
    let scratch = Scratch::new();
    let disk = FullDisk::new(scratch.directory().join("full"));
    let key = || Ended::of(cachewise(["key"]).arg(disk.at("key")));
    // One page is enough for the public key, and not for both.
    for pages in [0, 1] {
        disk.leave(pages);
        let said = key().expect(2, "there is no room for both").err();
        assert!(said.contains("free some room"), "the fix: {said}");
        assert!(!said.contains(HIDDEN), "a key is no version: {said}");
        assert_eq!(names_in(&disk.0), ["filler"], "{pages} pages");
    }
    disk.leave(2);
    key().expect(0, "the same name");
    assert_eq!(names_in(&disk.0), ["filler", "key", "key.pub"]);
}

fn full_disk() {
    let place = Place::new();
    fs::write(place.at("origin/file"), "bytes").expect("written");
    let disk = FullDisk::new(place.at("full"));
    let publish = |store: &Path, state: &Path| {
        let mut command = cachewise(["publish", "-o", "json"]);
        command.arg(place.at("origin")).arg("data@v1");
        command.arg("--key").arg(place.at("key"));
        Ended::of(command.arg("--to").arg(store).arg("--state").arg(state))
    };
    let state = place.at("publisher");
    publish(&disk.at("store"), &state)
        .expect(2, "the store is full")
        .says(HIDDEN, "what readers see");
    let said = publish(&place.at("store"), &disk.at("state"))
        .expect(0, "the store has room")
        .err();
    assert!(said.contains("the next version reads all files"), "{said}");
    assert!(
        said.contains("free some room") && !said.contains(HIDDEN),
        "{said}"
    );
    if has_fuse("a mount whose state is on a full disk") {
        let directory = place.at("mnt");
        fs::create_dir(&directory).expect("made");
        let mut mount = cachewise(["mount", "data@v1", "--store"]);
        mount
            .arg(place.at("store"))
            .arg("--trust")
            .arg(place.at("key.pub"));
        mount.arg("--state").arg(disk.at("reader")).arg(directory);
        let said = Ended::of(&mut mount).expect(2, "no serial is kept").err();
        assert!(
            said.contains("free some room") && !said.contains(HIDDEN),
            "{said}"
        );
    }
}

/// Removes the mark of a file that makes it immutable when dropped.
struct Immutable(PathBuf);

impl Immutable {
    /// Marks a file; none where the file system has no such mark.
    fn new(path: PathBuf) -> Option<Self> {
        let status = Command::new("chattr").arg("+i").arg(&path).status();
        status.is_ok_and(|s| s.success()).then_some(Self(path))
    }
}

impl Drop for Immutable {
    fn drop(&mut self) {
        let _ = Command::new("chattr").arg("-i").arg(&self.0).status();
    }
}

fn not_latest() {
    let place = Place::new();
    fs::write(place.at("origin/file"), "one").expect("written");
    place.publish("data@v1");
    let latest = place.at("store/names/data/latest");
    let Some(held) = Immutable::new(latest.clone()) else {
        println!("skipped: a version that cannot become the latest: no immutable files here");
        return;
    };
    let before = fs::read(&latest).expect("it is there");
    fs::write(place.at("origin/file"), "other").expect("written");
    let ended = Ended::of(&mut place.publishing("data@v2")).expect(2, "latest stays as it is");
    ended
        .says(
            "data@v2 is published, and could not be made the latest",
            "both",
        )
        .says("Operation not permitted", "the cause");
    assert_eq!(fs::read(&latest).expect("it is there"), before);
    let mut diff = cachewise(["diff", "data@v1", "data@v2", "--store"]);
    let diff = Ended::of(diff.arg(place.at("store")));
    diff.expect(1, "the versions differ");

    drop(held);
    place.publish("data@v3");
    let now = fs::read(&latest).expect("it is there");
    let newest = fs::read(place.at("store/names/data/versions/v3"));
    assert_eq!(
        now,
        newest.expect("it is there"),
        "the next one is the latest"
    );
}

fn state_variable() {
    let place = Place::new();
    fs::write(place.at("origin/file"), "bytes").expect("written");
    let publish = |version: &str, flags: &[&str]| {
        let mut command = cachewise(["publish"]);
        command.arg(place.at("origin")).arg(version).args(flags);
        command.arg("--key").arg(place.at("key"));
        command.arg("--to").arg(place.at("store"));
        command.env("CACHEWISE_TIER_STATE", place.at("by variable"));
        let command = command.current_dir(place.scratch.directory());
        Ended::of(command).expect(0, "it is published");
    };
    publish("a@1", &["--state", "by flag"]);
    assert!(place.at("by flag/index").exists() && !place.at("by variable").exists());
    publish("a@2", &[]);
    assert!(place.at("by variable/index").exists(), "the variable");
}
