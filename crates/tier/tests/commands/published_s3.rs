//! Published versions in a bucket: a real server of S3 as the store.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use rustix::process::Signal;
use serde_json::Value;

use crate::mounted::{Mounted, bytes_of, has_fuse, write};
use crate::recorder::Recorder;
use crate::s3_server::Bucket;
use crate::support::*;

pub fn trials() -> Vec<Trial> {
    vec![
        plain(
            "published_s3::a_mount_has_the_tree_that_was_published",
            same_tree,
        ),
        plain(
            "published_s3::the_newest_version_replaces_the_old_one",
            newest_version,
        ),
        plain(
            "published_s3::forged_and_cut_objects_give_errors_and_no_bytes",
            damaged_objects,
        ),
        plain(
            "published_s3::of_publishers_at_once_none_is_lost",
            publishers_at_once,
        ),
        plain(
            "published_s3::a_killed_publisher_leaves_the_older_version_whole",
            killed_publisher,
        ),
        plain(
            "published_s3::gc_keeps_what_the_newest_versions_need",
            collected,
        ),
    ]
}

const STORE: &str = "s3://bucket/a store";

/// An origin, a bucket for the store, and keys.
struct Place {
    bucket: Bucket,
    scratch: Scratch,
}

impl Place {
    fn new(what: &str) -> Option<Place> {
        if !has_fuse(what) {
            return None;
        }
        let scratch = Scratch::new();
        let empty = scratch.directory().join("empty");
        fs::create_dir(&empty).expect("made");
        let place = Place {
            bucket: Bucket::start(what, &empty, 0)?,
            scratch,
        };
        fs::create_dir_all(place.at("origin/deep")).expect("made");
        Ended::of(cachewise(["key"]).arg(place.at("key"))).expect(0, "a pair of keys");
        Some(place)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.scratch.directory().join(name)
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        write(&self.at("origin").join(name), bytes);
    }

    fn publishing(&self, version: &str) -> Command {
        let mut command = self.bucket.cachewise(&["publish", "-o", "json"]);
        command.arg(self.at("origin")).arg(version);
        command.args(["--to", STORE, "--key"]).arg(self.at("key"));
        command.arg("--state").arg(self.at("publisher"));
        command
    }

    fn publish(&self, version: &str) -> Value {
        row(&mut self.publishing(version))
    }

    fn mounting(&self, version: &str) -> Command {
        let line = ["mount", version, "--poll", "100ms", "--store", STORE];
        let mut command = self.bucket.cachewise(&line);
        command.arg("--trust").arg(self.at("key.pub"));
        command.arg("--state").arg(self.at("reader"));
        command
    }

    fn mount(&self, version: &str) -> Mounted {
        let directory = self.at("mnt");
        fs::create_dir_all(&directory).expect("made");
        Mounted::by(self.mounting(version), &directory)
    }

    /// Mounts a version that is refused.
    fn refused(&self, version: &str) -> Ended {
        let directory = self.at("refused");
        fs::create_dir_all(&directory).expect("made");
        Ended::of(self.mounting(version).arg(directory)).expect(2, "it is refused")
    }

    fn gc(&self, arguments: &[&str]) -> Value {
        let line = ["gc", "-o", "json", STORE];
        row(self.bucket.cachewise(&line).args(arguments))
    }

    /// The keys of the store below a folder.
    fn keys(&self, folder: &str) -> Vec<String> {
        let program = "for page in s3.get_paginator('list_objects_v2').paginate(Bucket='bucket', Prefix=args[0]):\n    \
                       for found in page.get('Contents', []): print(found['Key'])";
        let keys = self.bucket.python(program, &[&format!("a store/{folder}")]);
        keys.lines().map(str::to_owned).collect()
    }

    fn is_same_tree(&self, mounted: &Mounted) {
        let compared = Command::new("diff")
            .args(["-r", "--no-dereference"])
            .args([self.at("origin"), mounted.directory.clone()])
            .output()
            .expect("diff is installed");
        assert!(compared.status.success(), "{compared:?}");
    }
}

fn row(command: &mut Command) -> Value {
    let ended = Ended::of(command).expect(0, "it is done");
    let document: Value = serde_json::from_slice(&ended.out).expect("it is JSON");
    document["rows"][0].clone()
}

fn same_tree() {
    let Some(place) = Place::new("a published tree in a bucket") else {
        return;
    };
    // More blocks than one pack has, and more names than one chunk.
    for number in 0..20 {
        place.write(&format!("deep/{number}"), &bytes_of(number, 1 << 20));
    }
    fs::create_dir(place.at("origin/many")).expect("made");
    for number in 0..600 {
        place.write(&format!("many/{number}"), number.to_string().as_bytes());
    }
    place.write("empty", b"");
    std::os::unix::fs::symlink("deep/1", place.at("origin/link")).expect("made");
    let first = place.publish("data@v1");
    assert!(first["written_packs"].as_u64() >= Some(3), "{first}");
    assert!(place.keys("tmp").is_empty() && place.keys("held").is_empty());
    let mounted = place.mount("data@v1");
    place.is_same_tree(&mounted);
    mounted.end().expect(0, "unmounted");

    let again = Ended::of(&mut place.publishing("data@v1")).expect(2, "it is there");
    again.says("published already (serial 1)", "versions never change");
    place.write("added", b"new");
    fs::remove_file(place.at("origin/empty")).expect("removed");
    // Nothing is known of the files: the blocks are.
    fs::remove_dir_all(place.at("publisher")).expect("removed");
    let second = place.publish("data@v2");
    let written = second["written_bytes"].as_u64().expect("a number");
    assert!(written < 100_000, "{second}");
    let line = ["diff", "--store", STORE, "data@v1", "data@latest"];
    let mut diff = place.bucket.cachewise(&line);
    diff.args(["-o", "csv", "--columns", "change,path", "--trust"]);
    let ended = Ended::of(diff.arg(place.at("key.pub"))).expect(1, "they differ");
    for line in ["added,added", "removed,empty"] {
        assert!(ended.out().contains(line), "{line}: {}", ended.out());
    }

    let mut elsewhere = place.bucket.cachewise(&["diff", "data@v1", "data@v2"]);
    Ended::of(elsewhere.args(["--store", "s3://bucket/none"]))
        .expect(2, "there is no store")
        .says("not a store of published versions", "why");
    place.bucket.put("other/file", &place.at("origin/added"));
    let mut command = place.bucket.cachewise(&["publish"]);
    command.arg(place.at("origin")).arg("data@v1");
    command.args(["--to", "s3://bucket/other", "--key"]);
    Ended::of(command.arg(place.at("key")))
        .expect(2, "it has other objects")
        .says("not a store of published versions", "why");
}

fn newest_version() {
    let Some(place) = Place::new("a newer version in a bucket") else {
        return;
    };
    place.write("deep/file", b"one");
    place.publish("data@v1");
    let mounted = place.mount("data@latest");
    let open = fs::File::open(mounted.path("deep/file")).expect("there");
    place.write("deep/file", b"two");
    place.write("added", b"two");
    place.publish("data@v2");
    until("the newer version is mounted", || {
        fs::metadata(mounted.path("added")).ok()
    });
    assert_eq!(fs::read(mounted.path("deep/file")).expect("there"), b"two");
    let old = std::io::read_to_string(open).expect("it is open");
    assert_eq!(old, "one", "an open file stays what it was");
    // The record goes back: the mount stays, and another one is refused.
    let copy = "s3.copy_object(Bucket='bucket', Key='a store/names/data/latest', \
                CopySource={'Bucket': 'bucket', 'Key': 'a store/names/data/versions/v1'})";
    place.bucket.python(copy, &[]);
    place
        .refused("data@latest")
        .says("--allow-rollback", "an older one");
    assert_eq!(fs::read(mounted.path("added")).expect("there"), b"two");
}

fn damaged_objects() {
    let Some(place) = Place::new("damaged objects of a bucket") else {
        return;
    };
    place.write("file", &bytes_of(1, 300_000));
    place.publish("data@v1");
    let packs = place.keys("packs/");
    assert_eq!(packs.len(), 2, "one of blocks and one of chunks");
    let refused = |reason: &str| {
        let directory = place.at("mnt");
        fs::create_dir_all(&directory).expect("made");
        let mut command = place.mounting("data@v1");
        let ended = Ended::of(command.arg("--background").arg(&directory));
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
    let change = "
whole = s3.get_object(Bucket='bucket', Key=args[0])['Body'].read()
s3.put_object(Bucket='bucket', Key='saved', Body=whole)
other = {'forged': whole[:-1] + bytes([whole[-1] ^ 1]), 'cut': whole[:len(whole) // 2]}[args[1]]
s3.put_object(Bucket='bucket', Key=args[0], Body=other)
";
    let restore = "s3.copy_object(Bucket='bucket', Key=args[0], CopySource={'Bucket': 'bucket', 'Key': 'saved'})";
    for pack in &packs {
        for (how, reason) in [("forged", "the hash differs"), ("cut", "cut off")] {
            place.bucket.python(change, &[pack, how]);
            refused(reason);
            place.bucket.python(restore, &[pack]);
        }
    }
    let record = "a store/names/data/versions/v1";
    place.bucket.python(change, &[record, "forged"]);
    place.refused("data@v1").says("data@v1", "which");
    place.bucket.python(change, &[record, "cut"]);
    place.refused("data@v1").says("damaged", "it is cut");
    let latest = place.mount("data@latest");
    place.is_same_tree(&latest);
    for pack in &packs {
        place
            .bucket
            .python("s3.delete_object(Bucket='bucket', Key=args[0])", &[pack]);
    }
    drop(latest);
    let ended = Ended::of(place.mounting("data@latest").arg(place.at("mnt")));
    ended
        .expect(2, "nothing is left")
        .says("does not have this pack", "why");
}

fn publishers_at_once() {
    let Some(place) = Place::new("publishers at once to a bucket") else {
        return;
    };
    for number in 0..50 {
        place.write(&format!("deep/{number}"), &bytes_of(number, 3_000));
    }
    let same: Vec<Started> = (0..3)
        .map(|_| Started::of(&mut place.publishing("data@v1")))
        .collect();
    let codes: Vec<i32> = same
        .into_iter()
        .map(|started| {
            let ended = started.wait();
            match ended.code() {
                2 => ended
                    .says("published already", "one of them has won")
                    .code(),
                code => code,
            }
        })
        .collect();
    let won = codes.iter().filter(|code| **code == 0).count();
    assert_eq!(won, 1, "{codes:?}");
    let others: Vec<Started> = (2..6)
        .map(|number| Started::of(&mut place.publishing(&format!("data@v{number}"))))
        .collect();
    let mut serials: Vec<u64> = others
        .into_iter()
        .map(|started| {
            let ended = started.wait().expect(0, "each has a name of its own");
            let document: Value = serde_json::from_slice(&ended.out).expect("it is JSON");
            document["rows"][0]["serial"].as_u64().expect("a number")
        })
        .collect();
    serials.sort_unstable();
    let highest = serials[3];
    serials.dedup();
    assert_eq!(
        serials.len(),
        4,
        "each has a number of its own: {serials:?}"
    );
    let read = "print(s3.get_object(Bucket='bucket', Key='a store/names/data/latest')['Body'].read().decode())";
    let latest = place.bucket.python(read, &[]);
    let wanted = format!("serial {highest}\n");
    assert!(
        latest.contains(&wanted),
        "the last one is the newest: {latest}"
    );
    for number in 1..6 {
        let mut command = place.mounting(&format!("data@v{number}"));
        command.arg("--allow-rollback");
        fs::create_dir_all(place.at("mnt")).expect("made");
        place.is_same_tree(&Mounted::by(command, &place.at("mnt")));
    }
    assert!(
        place.keys("held/").is_empty(),
        "none holds a version any more"
    );
}

fn killed_publisher() {
    let Some(place) = Place::new("a killed publisher to a bucket") else {
        return;
    };
    place.write("deep/file", b"one");
    place.publish("data@v1");
    for number in 0..40 {
        place.write(&format!("deep/{number}"), &bytes_of(number, 1 << 20));
    }
    let recorder = Recorder::before(place.bucket.port());
    let mut command = place.publishing("data@v2");
    let address = format!("http://127.0.0.1:{}", recorder.port);
    let started = Started::of(command.env("AWS_ENDPOINT_URL", address));
    until("the first pack is sent", || {
        let requests = recorder.requests();
        let is_pack = |line: &String| line.starts_with("PUT ") && line.contains("/packs/");
        requests.iter().any(is_pack).then_some(())
    });
    started.signal(Signal::KILL);
    started.wait();
    if !place.keys("names/data/versions/v2").is_empty() {
        println!("skipped: a killed publisher: it was done before it was killed");
        return;
    }
    place
        .refused("data@v2")
        .says("it has v1", "it is not visible");
    let mounted = place.mount("data@latest");
    assert_eq!(fs::read(mounted.path("deep/file")).expect("there"), b"one");
    assert!(fs::metadata(mounted.path("deep/1")).is_err());
    mounted.end().expect(0, "unmounted");
    place.publish("data@v2");
    place.is_same_tree(&place.mount("data@latest"));
}

fn collected() {
    let Some(place) = Place::new("gc of a bucket") else {
        return;
    };
    for version in 1..4 {
        place.write("deep/file", &bytes_of(version, 200_000));
        place.publish(&format!("data@v{version}"));
    }
    let before = place.keys("packs/").len();
    let trial = place.gc(&["--keep", "1", "--age", "1ms", "--dry-run"]);
    assert_eq!(trial["removed_versions"], 2);
    let names = serde_json::json!(["data@v1", "data@v2"]);
    assert_eq!(trial["removed_names"], names);
    assert_eq!(place.keys("packs/").len(), before, "a trial");
    assert_eq!(
        place.gc(&["--keep", "2"])["removed_packs"],
        0,
        "they are young"
    );
    until("packs are old enough", || {
        let done = place.gc(&["--keep", "1", "--age", "1ms"]);
        (done["kept_versions"] == 1 && done["removed_packs"].as_u64() > Some(0)).then_some(())
    });
    assert_eq!(place.keys("names/data/versions/").len(), 1);
    assert!(place.keys("packs/").len() < before);
    place.refused("data@v1").says("it has v3", "it is gone");
    place.is_same_tree(&place.mount("data@v3"));
    assert_eq!(
        place.gc(&["--keep", "1", "--age", "1ms"])["removed_packs"],
        0
    );
    place.write("deep/file", &bytes_of(4, 200_000));
    place.publish("data@v4");
    place.is_same_tree(&place.mount("data@latest"));
}
