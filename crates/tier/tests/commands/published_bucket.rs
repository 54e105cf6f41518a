//! Versions of a bucket: an object that stays the same costs no request, and what is mounted is what was listed.

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::mounted::{Mounted, bytes_of, has_fuse, write};
use crate::recorder::Recorder;
use crate::s3_server::Bucket;
use crate::support::*;

pub fn trials() -> Vec<Trial> {
    vec![
        plain(
            "published_bucket::an_object_that_stays_the_same_costs_no_request",
            unchanged_objects,
        ),
        plain(
            "published_bucket::more_keys_than_one_answer_has_are_all_published",
            many_keys,
        ),
        plain(
            "published_bucket::an_object_that_is_replaced_while_it_is_read_is_whole",
            replaced_object,
        ),
        plain(
            "published_bucket::a_bucket_that_vanishes_leaves_no_version",
            vanished_bucket,
        ),
        plain(
            "published_bucket::files_of_a_server_of_http_are_read_once",
            http_server,
        ),
        plain(
            "published_bucket::what_cannot_be_published_is_refused_with_its_name",
            refused,
        ),
    ]
}

const ORIGIN: &str = "s3://bucket/some data";

/// A bucket with the files of a directory, behind a recorder; a store in a directory, and keys.
struct Place {
    scratch: Scratch,
    bucket: Bucket,
    recorder: Recorder,
}

/// Requests to the bucket, by kind.
#[derive(Debug, PartialEq, Eq)]
struct Requests {
    lists: usize,
    gets: usize,
    others: usize,
}

impl Place {
    fn new(what: &str, many: usize, make: impl FnOnce(&Path)) -> Option<Place> {
        if !has_fuse(what) {
            return None;
        }
        let scratch = Scratch::new();
        let files = scratch.directory().join("files");
        fs::create_dir(&files).expect("made");
        make(&files);
        let bucket = Bucket::start(what, &files, many)?;
        let recorder = Recorder::before(bucket.port());
        let place = Place {
            scratch,
            bucket,
            recorder,
        };
        Ended::of(cachewise(["key"]).arg(place.at("key"))).expect(0, "a pair of keys");
        Some(place)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.scratch.directory().join(name)
    }

    fn publishing(&self, origin: &str, version: &str) -> Command {
        let mut command = self
            .bucket
            .cachewise(&["publish", "-o", "json", origin, version]);
        let endpoint = format!("http://127.0.0.1:{}", self.recorder.port);
        command.env("AWS_ENDPOINT_URL", endpoint);
        command.arg("--to").arg(self.at("store"));
        command.arg("--key").arg(self.at("key"));
        command.arg("--state").arg(self.at("publisher"));
        command
    }

    /// Publishes the bucket, and counts the requests.
    fn publish(&self, version: &str) -> (Value, Requests) {
        self.recorder.clear(0);
        let ended = Ended::of(&mut self.publishing(ORIGIN, version));
        (row(&ended.expect(0, "it is published")), self.requests())
    }

    fn requests(&self) -> Requests {
        let lines = self.recorder.requests();
        let count =
            |is_one: &dyn Fn(&str) -> bool| lines.iter().filter(|line| is_one(line)).count();
        let lists = count(&|line| line.starts_with("GET ") && line.contains("list-type=2"));
        let gets = count(&|line| line.starts_with("GET ")) - lists;
        Requests {
            lists,
            gets,
            others: lines.len() - lists - gets,
        }
    }

    fn mount(&self, version: &str) -> Mounted {
        let mut command = cachewise(["mount", version]);
        command.arg("--store").arg(self.at("store"));
        command.arg("--trust").arg(self.at("key.pub"));
        command.arg("--state").arg(self.at("reader"));
        let directory = self.at("mnt");
        fs::create_dir_all(&directory).expect("made");
        Mounted::by(command, &directory)
    }

    fn delete(&self, key: &str) {
        let program = "s3.delete_object(Bucket='bucket', Key=args[0])";
        self.bucket.python(program, &[key]);
    }

    fn versions(&self) -> usize {
        fs::read_dir(self.at("store/names/data/versions")).map_or(0, Iterator::count)
    }
}

fn row(ended: &Ended) -> Value {
    let document: Value = serde_json::from_slice(&ended.out).expect("it is JSON");
    document["rows"][0].clone()
}

/// The files below a directory, with their bytes.
fn files(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut left = vec![directory.to_owned()];
    while let Some(at) = left.pop() {
        for entry in fs::read_dir(at).expect("listed") {
            let path = entry.expect("listed").path();
            match path.is_dir() {
                true => left.push(path),
                false => {
                    let name = path.strip_prefix(directory).expect("below").to_owned();
                    found.insert(name, fs::read(path).expect("read"));
                }
            }
        }
    }
    found
}

fn unchanged_objects() {
    let Some(place) = Place::new("a published bucket", 0, |files| {
        fs::create_dir_all(files.join("a/b")).expect("made");
        for number in 0..20 {
            write(&files.join(format!("a/{number}")), &bytes_of(number, 2_000));
        }
        write(&files.join("a/b/long"), &bytes_of(50, 300_000));
        write(&files.join("a/empty"), b"");
    }) else {
        return;
    };
    let (first, requests) = place.publish("data@v1");
    assert_eq!(first["files"], 22, "{first}");
    // The origin, a, a/b, and a key that stands for a directory.
    assert_eq!(first["directories"], 4);
    let wanted = Requests {
        lists: 1,
        gets: 20 + 3,
        others: 0,
    };
    assert_eq!(requests, wanted, "one request for each block");
    let (again, requests) = place.publish("data@v2");
    let none = Requests { gets: 0, ..wanted };
    assert_eq!(requests, none, "a list, and nothing else");
    assert_eq!(
        (&again["read_files"], &again["written_bytes"]),
        (&0.into(), &0.into())
    );

    let mounted = place.mount("data@v2");
    assert_eq!(files(&mounted.directory), files(&place.at("files")));
    let found = fs::metadata(mounted.path("a/3")).expect("there");
    assert_eq!((found.mode() & 0o777, found.size()), (0o444, 2_000));
    assert_eq!(found.uid(), rustix::process::geteuid().as_raw());
    let newest = fs::metadata(mounted.path("a/b")).expect("there").mtime();
    assert_eq!(
        newest,
        fs::metadata(mounted.path("a/b/long"))
            .expect("there")
            .mtime()
    );
    assert!(mounted.path("marked").is_dir());
    mounted.end().expect(0, "unmounted");

    write(&place.at("files/a/3"), b"changed");
    place.bucket.put("some data/a/3", &place.at("files/a/3"));
    write(&place.at("files/a/new"), b"new");
    place
        .bucket
        .put("some data/a/new", &place.at("files/a/new"));
    fs::remove_file(place.at("files/a/4")).expect("removed");
    place.delete("some data/a/4");
    let (third, requests) = place.publish("data@v3");
    assert_eq!((requests.gets, requests.others), (2, 0), "{third}");
    let mounted = place.mount("data@v3");
    assert_eq!(files(&mounted.directory), files(&place.at("files")));
    let mut command = cachewise([
        "diff",
        "data@v2",
        "data@v3",
        "-o",
        "csv",
        "--columns",
        "change,path",
    ]);
    let ended = Ended::of(command.arg("--store").arg(place.at("store"))).expect(1, "they differ");
    for line in ["content,a/3", "removed,a/4", "added,a/new"] {
        assert!(ended.out().contains(line), "{line}: {}", ended.out());
    }
    assert!(!ended.out().contains("a/5"), "{}", ended.out());
}

/// More keys than a page has, beside a directory of its own.
fn many_keys() {
    let Some(place) = Place::new("a long list", 250, |files| {
        write(&files.join("file"), b"file")
    }) else {
        return;
    };
    place.recorder.clear(0);
    let origin = "s3://bucket/many";
    let first = Ended::of(&mut place.publishing(origin, "data@v1")).expect(0, "published");
    assert_eq!(row(&first)["files"], 250);
    let requests = place.requests();
    assert_eq!((requests.gets, requests.others), (250, 0));
    let mounted = place.mount("data@v1");
    let found = files(&mounted.directory);
    assert_eq!(found.len(), 250);
    assert!(found.values().all(|bytes| bytes == b"x"));
    place.recorder.clear(0);
    let again = Ended::of(&mut place.publishing(origin, "data@v2")).expect(0, "published");
    assert_eq!(row(&again)["read_files"], 0);
    let requests = place.requests();
    assert_eq!((requests.gets, requests.others), (0, 0));
    assert!(
        requests.lists <= 4,
        "{requests:?}: three pages, after the one of a tree"
    );
}

/// Publishes, and does something between the list and the reads.
fn published_around(place: &Place, version: &str, meanwhile: impl FnOnce()) -> Ended {
    place.recorder.clear(2);
    let mut command = place.publishing(ORIGIN, version);
    // Else it asks once more meanwhile.
    command.env("CACHEWISE_TIER_READ_DEADLINE", "10m");
    let publishing = Started::of(&mut command);
    until("the list is on its way", || {
        (place.recorder.answered() == 1).then_some(())
    });
    meanwhile();
    place.recorder.release();
    publishing.wait()
}

fn replaced_object() {
    let Some(place) = Place::new("an object that changes", 0, |files| {
        write(&files.join("long"), &bytes_of(1, 300_000));
        write(&files.join("short"), &bytes_of(2, 1_000));
        write(&files.join("gone"), &bytes_of(3, 1_000));
    }) else {
        return;
    };
    for (name, number, size) in [("long", 4, 280_000), ("short", 5, 1_000)] {
        write(&place.at("files").join(name), &bytes_of(number, size));
    }
    fs::remove_file(place.at("files/gone")).expect("removed");
    let ended = published_around(&place, "data@v1", || {
        for name in ["long", "short"] {
            let key = format!("some data/{name}");
            place.bucket.put(&key, &place.at("files").join(name));
        }
        place.delete("some data/gone");
    });
    let published = row(&ended.expect(0, "published"));
    assert_eq!(published["read_again"], 2, "{published}");
    assert_eq!(published["vanished"], 1, "{published}");
    let requests = place.requests();
    // The list, and a look at the bucket as a name has vanished; 5 reads that are refused, 4 that are not, 2 looks.
    assert_eq!((requests.lists, requests.gets, requests.others), (2, 9, 2));
    let mounted = place.mount("data@v1");
    assert_eq!(files(&mounted.directory), files(&place.at("files")));
    let (_, requests) = place.publish("data@v2");
    assert_eq!(
        (requests.gets, requests.others),
        (0, 0),
        "their new states are known"
    );
}

fn vanished_bucket() {
    let Some(place) = Place::new("a bucket that vanishes", 0, |files| {
        write(&files.join("one"), b"one");
        write(&files.join("two"), b"two");
    }) else {
        return;
    };
    let ended = published_around(&place, "data@v1", || {
        let program = "for found in s3.list_objects_v2(Bucket='bucket')['Contents']:\n    \
                       s3.delete_object(Bucket='bucket', Key=found['Key'])\n\
                       s3.delete_bucket(Bucket='bucket')";
        place.bucket.python(program, &[]);
    });
    let requests = place.requests();
    assert_eq!(
        (requests.lists, requests.gets),
        (2, 2),
        "listed, and read in vain"
    );
    let ended = ended.expect(2, "no version of nothing");
    ended.says("no such bucket", "the cause");
    assert_eq!(place.versions(), 0);
    let ended = Ended::of(&mut place.publishing(ORIGIN, "data@v1"));
    ended
        .expect(2, "nor later")
        .says("no such bucket", "the cause");
}

/// A server of HTTP lists names alone, so that each file costs a look.
fn http_server() {
    if !has_fuse("a published server of HTTP") {
        return;
    }
    let scratch = Scratch::new();
    let at = |name: &str| scratch.directory().join(name);
    fs::create_dir_all(at("root/data/deep/none")).expect("made");
    for number in 0..5 {
        write(
            &at(&format!("root/data/deep/{number}")),
            &bytes_of(number, 2_000),
        );
    }
    write(&at("root/data/long & odd %25"), &bytes_of(9, 300_000));
    let set_up = at("lighttpd.conf");
    let Some(server) =
        crate::http_origin::webdav("a published server of HTTP", &at("root"), &set_up)
    else {
        return;
    };
    Ended::of(cachewise(["key"]).arg(at("key"))).expect(0, "a pair of keys");
    let recorder = Recorder::before(server.port);
    let publish = |version: &str| {
        recorder.clear(0);
        let origin = format!("http://127.0.0.1:{}/data", recorder.port);
        let mut command = cachewise(["publish", "-o", "json", &origin, version]);
        command
            .arg("--to")
            .arg(at("store"))
            .arg("--key")
            .arg(at("key"));
        command.arg("--state").arg(at("publisher"));
        let published = row(&Ended::of(&mut command).expect(0, "it is published"));
        let requests = recorder.requests();
        let gets = requests
            .iter()
            .filter(|line| line.starts_with("GET "))
            .count();
        (published, gets)
    };
    // A server that tells times in seconds alone names a state only when the second is over.
    until("the files are old enough", || {
        let newest = fs::metadata(at("root/data/deep/4")).expect("there").mtime();
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        (now.expect("after 1970").as_secs().cast_signed() > newest + 4).then_some(())
    });
    let (first, gets) = publish("data@v1");
    assert_eq!((&first["files"], gets), (&6.into(), 5 + 3), "{first}");
    let (second, gets) = publish("data@v2");
    assert_eq!((&second["read_files"], gets), (&0.into(), 0), "{second}");
    let mut command = cachewise(["mount", "data@v2"]);
    command.arg("--store").arg(at("store"));
    command.arg("--trust").arg(at("key.pub"));
    command.arg("--state").arg(at("reader"));
    fs::create_dir(at("mnt")).expect("made");
    let mounted = Mounted::by(command, &at("mnt"));
    assert_eq!(files(&mounted.directory), files(&at("root/data")));
    assert!(mounted.path("deep/none").is_dir());
}

fn refused() {
    let Some(place) = Place::new("objects that are refused", 0, |files| {
        write(&files.join("file"), b"file");
    }) else {
        return;
    };
    let publish = |origin: &str| Ended::of(&mut place.publishing(origin, "data@v1"));
    let wrong = publish("s3://bucket/some date").expect(2, "no such prefix");
    wrong.says("no key begins with this prefix", "the cause");
    let mut unreachable = place.publishing(ORIGIN, "data@v1");
    // Nothing listens there any more.
    let closed = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let closed = closed.expect("a port is free");
    unreachable.env("AWS_ENDPOINT_URL", format!("http://{closed}"));
    let unreachable = Ended::of(&mut unreachable).expect(2, "no server");
    unreachable.says("Connection refused", "the cause");
    assert!(!place.at("store").exists(), "no store was made");
    let mut inside = place.bucket.cachewise(&["publish", ORIGIN, "data@v1"]);
    inside.args(["--to", "s3://bucket/some data/store", "--key"]);
    let inside = Ended::of(inside.arg(place.at("key"))).expect(2, "it would publish itself");
    inside.says("outside of the origin", "what to do");
    let unknown = publish("ftp://bucket/data").expect(2, "no origin");
    unknown.says("s3://BUCKET/PREFIX", "what there is");
    let name = "x".repeat(300);
    place
        .bucket
        .put(&format!("some data/deep/{name}"), &place.at("files/file"));
    let long = publish(ORIGIN).expect(2, "no name of a version");
    long.says(&name, "the key").says("255 bytes", "the limit");
    place.delete(&format!("some data/deep/{name}"));
    place
        .bucket
        .put("some data/deep/no//path", &place.at("files/file"));
    let odd = publish(ORIGIN).expect(2, "no path");
    odd.says("some data/deep/no//", "the key");
    place.delete("some data/deep/no//path");
    assert_eq!(place.versions(), 0);
    publish(ORIGIN).expect(0, "the control");
}
