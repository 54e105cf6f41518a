//! Published versions: what is mounted is what was published, or nothing.

use std::fs;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::mounted::{Mounted, bytes_of, has_fuse, write};
use crate::support::*;

pub fn trials() -> Vec<Trial> {
    vec![
        plain(
            "published::a_mount_has_the_tree_that_was_published",
            same_tree,
        ),
        plain(
            "published::lists_come_with_attributes",
            lists_with_attributes,
        ),
        plain(
            "published::a_damaged_store_gives_errors_and_no_bytes",
            damaged_store,
        ),
        plain(
            "published::a_damaged_list_is_an_error_and_never_a_shorter_list",
            damaged_list,
        ),
        plain(
            "published::records_that_are_not_trusted_are_refused",
            untrusted_records,
        ),
        plain(
            "published::the_newest_version_replaces_the_old_one_at_once",
            newest_version,
        ),
        plain(
            "published::unchanged_files_are_not_read_again",
            unchanged_files,
        ),
        plain(
            "published::wrong_store_and_keys_are_named_by_their_options",
            wrong_options,
        ),
        plain("published::diff_and_gc_know_what_changed", diff_and_gc),
    ]
}

/// An origin, a store and keys.
pub struct Place {
    pub scratch: Scratch,
}

impl Place {
    pub fn new() -> Place {
        let place = Place {
            scratch: Scratch::new(),
        };
        fs::create_dir_all(place.at("origin/deep/er")).expect("made");
        let made = Ended::of(cachewise(["key"]).arg(place.at("key")));
        made.expect(0, "a pair of keys");
        place
    }

    pub fn at(&self, name: &str) -> PathBuf {
        self.scratch.directory().join(name)
    }

    pub fn publishing(&self, version: &str) -> Command {
        let mut command = cachewise(["publish", "-o", "json"]);
        command.arg(self.at("origin")).arg(version);
        command.arg("--to").arg(self.at("store"));
        command.arg("--key").arg(self.at("key"));
        command.arg("--state").arg(self.at("publisher"));
        command
    }

    pub fn publish(&self, version: &str) -> Value {
        let ended = Ended::of(&mut self.publishing(version)).expect(0, "it is published");
        let document: Value = serde_json::from_slice(&ended.out).expect("it is JSON");
        document["rows"][0].clone()
    }

    pub fn mounting(&self, version: &str) -> Command {
        let mut command = cachewise(["mount", version, "--poll", "100ms"]);
        command.arg("--store").arg(self.at("store"));
        command.arg("--trust").arg(self.at("key.pub"));
        command.arg("--state").arg(self.at("reader"));
        command
    }

    pub fn mount(&self, version: &str) -> Mounted {
        let directory = self.at("mnt");
        fs::create_dir_all(&directory).expect("made");
        Mounted::by(self.mounting(version), &directory)
    }

    /// Mounts a version that is refused.
    pub fn refused(&self, version: &str) -> Ended {
        let directory = self.at("refused");
        fs::create_dir_all(&directory).expect("made");
        Ended::of(self.mounting(version).arg(directory)).expect(2, "it is refused")
    }

    /// Waits until files of this moment are old enough to be known by their times.
    pub fn settle(&self) {
        let probe = self.at("probe");
        write(&probe, b"");
        let written = fs::metadata(&probe).expect("just written").ctime();
        until("the files are some seconds old", || {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            let now = now.expect("after 1970").as_secs();
            (now.cast_signed() > written + 4).then_some(())
        });
    }
}

fn wrong_options() {
    let place = Place::new();
    fs::create_dir_all(place.at("mnt")).expect("made");
    let mount = |store: &Path, trust: &Path| {
        let mut command = cachewise(["mount", "m@v5"]);
        command.arg(place.at("mnt"));
        command.arg("--store").arg(store).arg("--trust").arg(trust);
        Ended::of(command.arg("--state").arg(place.at("reader"))).expect(2, "it is refused")
    };
    // A directory that is missing, and one of other files.
    for name in ["nostore", "origin"] {
        let why = format!("{name}: not a store of published versions");
        mount(&place.at(name), &place.at("key.pub"))
            .says("--store: ", "the option")
            .says(&why, "the cause");
    }
    let digits = "--trust deadbeef: neither a file nor a key of 64 hexadecimal digits";
    mount(&place.at("origin"), Path::new("deadbeef")).says(digits, "option and cause");
    mount(&place.at("origin"), &place.at("key"))
        .says("--trust: ", "the option")
        .says("not a public key", "the cause");
    let mut command = cachewise(["publish"]);
    command
        .arg(place.at("origin"))
        .arg("m@v1")
        .arg("--to")
        .arg(place.at("store"));
    Ended::of(command.arg("--key").arg(place.at("none")))
        .expect(2, "no such key")
        .says("--key: ", "the option")
        .says("cachewise tier key FILE", "the fix");
}

fn find(directory: &Path) -> Vec<Vec<u8>> {
    // Path, kind, target, links, blocks, user, group, time, and the size of what is no directory.
    let found = Command::new("find")
        .arg(directory)
        .args(["-printf", "%P|%y|%l|%n|%b|%U|%G|%T@|"])
        .args([
            "(", "-type", "d", "-o", "-printf", "%s", ")", "-printf", "\\0",
        ])
        .output()
        .expect("find is installed");
    assert!(found.status.success(), "{found:?}");
    let mut lines: Vec<Vec<u8>> = found
        .stdout
        .split(|byte| *byte == 0)
        .map(<[u8]>::to_vec)
        .collect();
    lines.sort();
    lines
}

fn same_tree() {
    if !has_fuse("a published tree") {
        return;
    }
    let place = Place::new();
    let at = |name: &str| place.at("origin").join(name);
    for number in 0..3 {
        write(
            &at(&format!("deep/er/{number}")),
            &bytes_of(number, 100_000),
        );
    }
    // Enough blocks for a list of lists, and enough names for several chunks.
    write(&at("long"), &bytes_of(7, 4_000_000));
    write(&at("empty"), b"");
    fs::create_dir(at("none")).expect("made");
    fs::create_dir(at("many")).expect("made");
    for number in 0..1_500 {
        write(
            &at(&format!("many/{number}")),
            number.to_string().as_bytes(),
        );
    }
    write(
        &at("many").join(std::ffi::OsStr::from_bytes(b"\xff\xfe\n\x01")),
        b"no text",
    );
    symlink("long", at("link")).expect("made");
    symlink("nowhere", at("dangling")).expect("made");
    symlink(".", at("round")).expect("made");
    fs::hard_link(at("deep/er/0"), at("another name")).expect("made");
    let sparse = fs::File::create(at("sparse")).expect("made");
    sparse.set_len(8 << 20).expect("sized");
    let mut command = place.publishing("data@v1");
    Ended::of(command.args(["--block", "16K"])).expect(0, "it is published");

    let before = find(&place.at("origin"));
    let mounted = place.mount("data@v1");
    let seen = find(&mounted.directory);
    assert_eq!(
        seen, before,
        "all that stat(2) says but the permission to write"
    );
    // From here on there is no origin that could be asked.
    fs::rename(place.at("origin"), place.at("moved")).expect("renamed");
    let compared = Command::new("diff")
        .args(["-r", "--no-dereference"])
        .args([place.at("moved"), mounted.directory.clone()])
        .output()
        .expect("diff is installed");
    assert!(compared.status.success(), "{compared:?}");
    let inode = |name: &str| {
        fs::symlink_metadata(mounted.path(name))
            .expect("there")
            .ino()
    };
    assert_eq!(
        inode("another name"),
        inode("deep/er/0"),
        "two names of one file"
    );
    for operation in ["lookup", "getattr", "opendir"] {
        assert_eq!(
            mounted.of_operation(operation, "origin_calls"),
            0,
            "{operation}"
        );
    }
    let link = inode("link");
    let dots = fs::metadata(mounted.path("deep/er/.."))
        .expect("there")
        .ino();
    assert_eq!(dots, inode("deep"));
    mounted.end().expect(0, "unmounted");
    let again = place.mount("data@v1");
    let now = fs::symlink_metadata(again.path("link"))
        .expect("there")
        .ino();
    assert_eq!(now, link, "numbers stay");
}

/// The packs of the store.
pub fn packs(place: &Place) -> Vec<PathBuf> {
    let folders = fs::read_dir(place.at("store/packs"))
        .expect("there")
        .flatten();
    let files = folders.flat_map(|folder| fs::read_dir(folder.path()).expect("there").flatten());
    files.map(|file| file.path()).collect()
}

fn damaged_store() {
    if !has_fuse("a damaged store") {
        return;
    }
    let place = Place::new();
    write(&place.at("origin/file"), &bytes_of(1, 300_000));
    place.publish("data@v1");
    let whole: Vec<(PathBuf, Vec<u8>)> = packs(&place)
        .into_iter()
        .map(|path| (path.clone(), fs::read(path).expect("there")))
        .collect();
    assert_eq!(whole.len(), 2, "one of blocks and one of chunks");
    // The error of a read, or of the mount where the topmost chunk is damaged.
    let refused = |reason: &str| {
        let directory = place.at("mnt");
        fs::create_dir_all(&directory).expect("made");
        let mut command = place.mounting("data@v1");
        command.arg("--background").arg(&directory);
        let ended = Ended::of(&mut command);
        if ended.code() == 2 {
            ended.says(reason, "it is not mounted");
            return;
        }
        let read = fs::read(directory.join("file"));
        let unmounted = Command::new("umount").arg(&directory).status();
        assert!(unmounted.is_ok_and(|status| status.success()));
        let error = read.expect_err("no byte of it is given");
        assert_eq!(error.raw_os_error(), Some(5), "{reason}: {error}");
    };
    let read = || -> std::io::Result<Vec<u8>> {
        let mounted = place.mount("data@v1");
        fs::read(mounted.path("file"))
    };
    assert_eq!(read().expect("it is whole"), bytes_of(1, 300_000));
    for (path, bytes) in &whole {
        let mut forged = bytes.clone();
        let middle = forged.len() / 2;
        forged[middle] ^= 1;
        let cut = bytes[..bytes.len() / 2].to_vec();
        for (damaged, reason) in [(forged, "the hash differs"), (cut, "cut off")] {
            write(path, &damaged);
            refused(reason);
        }
        fs::remove_file(path).expect("removed");
        refused("does not have this pack");
        write(path, bytes);
    }
    assert_eq!(read().expect("restored"), bytes_of(1, 300_000));
}

fn damaged_list() {
    if !has_fuse("a damaged list") {
        return;
    }
    let place = Place::new();
    for number in 0..600 {
        let name = format!("origin/deep/er/a file with a long name, number {number}");
        write(&place.at(&name), b"x");
    }
    place.publish("data@v1");
    let with_bytes = |path: PathBuf| (path.clone(), fs::read(path).expect("there"));
    let (path, mut bytes) = packs(&place)
        .into_iter()
        .map(with_bytes)
        .find(|(_, bytes)| bytes.starts_with(b"cwm1"))
        .expect("one has the chunks");
    // Most of it are the parts of the long directory.
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    write(&path, &bytes);
    let mounted = place.mount("data@v1");
    for time in ["first", "second"] {
        let listed = fs::read_dir(mounted.path("deep/er"));
        let listed: Result<Vec<_>, _> = listed.and_then(Iterator::collect);
        let error = listed.expect_err("a part of it cannot be read");
        assert_eq!(error.raw_os_error(), Some(5), "{time}: {error}");
    }
    mounted.end().expect(0, "it is unmounted");
}

fn untrusted_records() {
    if !has_fuse("records that are not trusted") {
        return;
    }
    let place = Place::new();
    write(&place.at("origin/file"), b"one");
    place.publish("data@v1");
    let old = fs::read(place.at("store/names/data/latest")).expect("there");
    place.publish("data@v2");
    let latest = place.at("store/names/data/latest");
    let new = fs::read(&latest).expect("there");
    place.mount("data@latest").end().expect(0, "seen");

    write(&latest, &old);
    let why = "the older one is whole, signed, and not the newest";
    place.refused("data@latest").says("--allow-rollback", why);
    place
        .refused("data@v1")
        .says("this machine has seen 2", why);
    let mut allowed = place.mounting("data@v1");
    allowed.arg("--allow-rollback");
    fs::create_dir_all(place.at("mnt")).expect("made");
    Mounted::by(allowed, &place.at("mnt"))
        .end()
        .expect(0, "it was asked for");
    place
        .refused("data@v1")
        .says("--allow-rollback", "it was asked for once");

    write(&latest, &new[..new.len() / 2]);
    place.refused("data@latest").says("damaged", "it is cut");
    let text = String::from_utf8(new.clone()).expect("it is text");
    write(&latest, text.replace("serial 2", "serial 9").as_bytes());
    place
        .refused("data@latest")
        .says("signature", "another serial");
    write(&latest, &new);
    place
        .refused("data@v7")
        .says("it has v1, v2", "there are others");
    place
        .refused("other@latest")
        .says("no version of that name", "there is none");
    place
        .refused("data")
        .says("NAME@VERSION", "no version is named");

    Ended::of(cachewise(["key"]).arg(place.at("thief"))).expect(0, "another pair");
    fs::rename(place.at("thief.pub"), place.at("key.pub")).expect("renamed");
    let ended = place.refused("data@latest");
    ended.says("signed by the key", "another key is trusted");

    let mut command = place.publishing("short@v1");
    Ended::of(command.args(["--valid", "1ms"])).expect(0, "published");
    fs::copy(place.at("key"), place.at("copy")).expect("copied");
    let public = String::from_utf8(fs::read(place.at("store/names/short/latest")).expect("there"));
    let public = public.expect("it is text");
    let key = public
        .lines()
        .find_map(|line| line.strip_prefix("key "))
        .expect("a key");
    write(&place.at("key.pub"), key.as_bytes());
    place
        .refused("short@v1")
        .says("expired", "no newer version was seen");
}

fn newest_version() {
    if !has_fuse("a newer version") {
        return;
    }
    let place = Place::new();
    let at = |name: &str| place.at("origin").join(name);
    write(&at("deep/changed"), b"one");
    write(&at("deep/er/same"), b"same");
    write(&at("removed"), b"one");
    place.publish("data@v1");
    let mounted = place.mount("data@latest");
    let mut open = fs::File::open(mounted.path("deep/changed")).expect("there");
    let inode = |name: &str| fs::metadata(mounted.path(name)).expect("there").ino();
    let same = inode("deep/er/same");
    let beginning = fs::read_dir(mounted.path("deep")).expect("listed");
    assert!(fs::metadata(mounted.path("added")).is_err());

    write(&at("deep/changed"), b"other");
    fs::remove_file(at("removed")).expect("removed");
    write(&at("added"), b"other");
    place.publish("data@v2");
    until("the newer version is mounted", || {
        fs::metadata(mounted.path("added")).ok()
    });
    assert_eq!(
        fs::read(mounted.path("deep/changed")).expect("there"),
        b"other"
    );
    assert!(fs::metadata(mounted.path("removed")).is_err());
    assert_eq!(inode("deep/er/same"), same, "it is the same file");
    let mut bytes = Vec::new();
    open.read_to_end(&mut bytes).expect("it is open");
    assert_eq!(bytes, b"one", "an open file stays what it was");
    assert_eq!(beginning.count(), 2, "so does an open directory");

    // The store goes back: the mount stays at the newest that it has seen.
    let old = fs::read(place.at("store/names/data/versions/v1")).expect("there");
    write(&place.at("store/names/data/latest"), &old);
    let calls = mounted.calls_of_tier("memory");
    until("the mount is read meanwhile", || {
        assert_eq!(
            fs::read(mounted.path("deep/changed")).expect("there"),
            b"other"
        );
        fs::File::open(mounted.path("deep/er/same")).expect("there");
        (mounted.calls_of_tier("memory") >= calls).then_some(())
    });
    let ended = mounted.end().expect(0, "unmounted");
    ended.says("data@v2 (serial 2)", "it tells which version is mounted");
}

fn unchanged_files() {
    let place = Place::new();
    let at = |name: &str| place.at("origin").join(name);
    for number in 0..200 {
        write(&at(&format!("deep/{number}")), &bytes_of(number, 2_000));
    }
    place.settle();
    let first = place.publish("data@v1");
    assert_eq!(first["read_files"], 200);
    write(&at("deep/3"), b"another");
    fs::rename(at("deep/4"), at("renamed")).expect("renamed");
    let second = place.publish("data@v2");
    assert_eq!(second["files"], 200);
    // A renamed file has another ctime, which may be that of a write.
    assert_eq!(second["read_files"], 2);
    let written = second["written_bytes"].as_u64().expect("a number");
    assert!(
        written < 60_000,
        "new blocks and the chunks above them: {written}"
    );
    let mut command = place.publishing("data@v3");
    command.arg("--state").arg(place.at("another machine"));
    let other = Ended::of(&mut command);
    assert_eq!(other.code(), 2, "--state is given twice");

    fs::remove_dir_all(place.at("publisher")).expect("removed");
    let third = place.publish("data@v3");
    assert_eq!(third["read_files"], 200, "nothing is known of the files");
    let written = third["written_bytes"].as_u64().expect("a number");
    assert_eq!(written, 0, "and all of the blocks");
}

fn diff_and_gc() {
    if !has_fuse("versions that are left") {
        return;
    }
    let place = Place::new();
    let at = |name: &str| place.at("origin").join(name);
    write(&at("deep/changed"), &bytes_of(1, 50_000));
    write(&at("removed"), b"one");
    write(&at("same"), b"same");
    place.publish("data@v1");
    write(&at("deep/changed"), &bytes_of(2, 50_000));
    fs::remove_file(at("removed")).expect("removed");
    write(&at("deep/er/added"), b"three");
    place.publish("data@v2");
    let diff = |one: &str, other: &str| {
        let mut command = cachewise(["diff", one, other, "-o", "csv", "--columns", "change,path"]);
        command.arg("--store").arg(place.at("store"));
        command.arg("--trust").arg(place.at("key.pub"));
        Ended::of(&mut command)
    };
    diff("data@v1", "data@v1").expect(0, "they are the same");
    let ended = diff("data@v1", "data@latest").expect(1, "they differ");
    let out = ended.out();
    for line in [
        "content,deep/changed",
        "removed,removed",
        "added,deep/er/added",
    ] {
        assert!(out.contains(line), "{line}: {out}");
    }
    assert!(!out.contains("same"), "{out}");
    let mut sizes = cachewise(["diff", "data@v1", "data@v2", "-o", "json", "--store"]);
    let sizes = Ended::of(sizes.arg(place.at("store"))).expect(1, "they differ");
    let sizes: Value = serde_json::from_slice(&sizes.out).expect("JSON");
    let rows = sizes["rows"].as_array().expect("rows");
    let added = rows.iter().find(|row| row["change"] == "added");
    let added = added.expect("a file was added");
    assert_eq!(
        added["before_bytes"],
        Value::Null,
        "no size, not 0: {added}"
    );
    assert_eq!(
        added["reason_codes"]["before_bytes"], "not_applicable",
        "{added}"
    );

    let gc = |arguments: &[&str]| {
        let mut command = cachewise(["gc", "-o", "json"]);
        command.arg(place.at("store")).args(arguments);
        let ended = Ended::of(&mut command).expect(0, "collected");
        let document: Value = serde_json::from_slice(&ended.out).expect("it is JSON");
        document["rows"][0].clone()
    };
    let before = packs(&place).len();
    let trial = gc(&["--keep", "1", "--age", "1ms", "--dry-run"]);
    assert_eq!(trial["removed_versions"], 1);
    assert_eq!(trial["removed_names"], serde_json::json!(["data@v1"]));
    assert_eq!(packs(&place).len(), before, "a trial");
    assert_eq!(gc(&["--keep", "1"])["removed_packs"], 0, "they are young");
    assert!(!place.at("store/names/data/versions/v1").exists());
    let done = gc(&["--keep", "1", "--age", "1ms"]);
    assert_eq!(done["kept_versions"], 1);
    assert_eq!(
        done["removed_packs"], trial["removed_packs"],
        "as it was said"
    );
    diff("data@v1", "data@v2")
        .expect(2, "it is gone")
        .says("it has v2", "the other is there");
    let mounted = place.mount("data@v2");
    assert_eq!(fs::read(mounted.path("same")).expect("there"), b"same");
    assert_eq!(
        fs::read(mounted.path("deep/changed")).expect("there"),
        bytes_of(2, 50_000)
    );
}

/// The kernel looks no name up that a list has shown, however often the list is read. A list that it has read whole costs no
/// request at all.
fn lists_with_attributes() {
    if !has_fuse("lists with attributes") {
        return;
    }
    let place = Place::new();
    for number in 0..600 {
        let name = format!("origin/deep/er/a file with a long name, number {number}");
        write(&place.at(&name), b"x");
    }
    place.publish("data@v1");
    let mounted = place.mount("data@v1");
    let expected = find(&place.at("origin"));
    assert_eq!(
        expected.len(),
        600 + 3 + 1,
        "files, directories, and what follows the last"
    );
    let opened = || mounted.of_operation("opendir", "calls");
    assert_eq!(find(&mounted.directory), expected, "first time");
    let first = opened();
    assert!(first > 0, "lists were read");
    assert_eq!(find(&mounted.directory), expected, "second time");
    assert_eq!(opened(), first, "the kernel has the lists");
    let lookups = mounted.of_operation("lookup", "calls");
    assert!(lookups < 60, "{lookups} of 602 names were looked up");
    // Each number is of the object that its name has.
    for line in fs::read_dir(mounted.path("deep/er")).expect("listed") {
        let line = line.expect("listed");
        let number = fs::metadata(line.path()).expect("there").ino();
        assert_eq!(std::os::unix::fs::DirEntryExt::ino(&line), number);
    }
    mounted.end().expect(0, "it is unmounted");
    // Lists of several directories, read at the same time.
    for version in ["data@v1", "data@latest"] {
        let mounted = place.mount(version);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| assert_eq!(find(&mounted.directory), expected, "{version}"));
            }
        });
        mounted.end().expect(0, "it is unmounted");
    }
}
