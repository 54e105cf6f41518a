//! Names below a mount of a bucket: how many requests they cost, counted between the mount and a real server.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use crate::dev_cluster::{has_redis, servers as start_servers};
use crate::mounted::{Mounted, bytes_of, has_fuse, names, origin, write};
use crate::recorder::Recorder;
use crate::redis::{RawRedis, Reply};
use crate::s3_server::{Bucket, PAGE};
use crate::support::*;

pub fn trials() -> Vec<Trial> {
    vec![
        plain(
            "s3_names::a_cold_deep_path_costs_two_requests_in_turn",
            deep_path,
        ),
        plain("s3_names::a_list_with_attributes_is_one_request", one_list),
        plain(
            "s3_names::more_names_than_one_answer_has_are_all_found",
            many_names,
        ),
        plain(
            "s3_names::a_name_appears_when_it_is_not_taken_for_missing",
            missing_names,
        ),
        plain(
            "s3_names::names_of_another_machine_cost_no_request",
            shared_names,
        ),
    ]
}

const ORIGIN: &str = "s3://bucket/some data";
const DEEP: &str = "a/b/c/d/e/file";

/// A mount whose requests are recorded.
fn mounted(
    bucket: &Bucket,
    scratch: &Scratch,
    origin: &str,
    arguments: &[&str],
) -> (Mounted, Recorder) {
    let recorder = Recorder::before(bucket.port());
    let directory = scratch.directory().join(format!("mnt {}", recorder.port));
    fs::create_dir(&directory).expect("made");
    let mut line = vec!["mount"];
    line.extend(arguments);
    line.push(origin);
    let mut command = bucket.cachewise(&line);
    command.env(
        "AWS_ENDPOINT_URL",
        format!("http://127.0.0.1:{}", recorder.port),
    );
    (Mounted::by(command, &directory), recorder)
}

fn files_with_a_deep_one(scratch: &Scratch) -> std::path::PathBuf {
    let files = origin(scratch, 2, 1000);
    let deep = files.join(DEEP);
    fs::create_dir_all(deep.parent().expect("it has one")).expect("made");
    write(&deep, &bytes_of(7, 1000));
    files
}

fn count(requests: &[String], method: &str, of: &str) -> usize {
    let of_it = |line: &&String| line.starts_with(method) && line.contains(of);
    requests.iter().filter(of_it).count()
}

/// Waits for the answers to the check at the start, and to the request for the tree.
fn until_root_is_listed(recorder: &Recorder) {
    until("the root was listed", || {
        let lists = count(&recorder.requests(), "GET", "list-type=2");
        (lists == 2 && recorder.answers() == recorder.requests().len()).then_some(())
    });
}

fn deep_path() {
    const WHAT: &str = "requests for a deep path of a bucket";
    if !has_fuse(WHAT) {
        return;
    }
    let scratch = Scratch::new();
    let files = files_with_a_deep_one(&scratch);
    // The second prefix has the first 1,000 keys of many; the deep path is not among those of its root.
    let Some(bucket) = Bucket::start(WHAT, &files, PAGE + 3) else {
        return;
    };
    bucket.put(&format!("zz/{DEEP}"), &files.join(DEEP));
    let below = format!("zz/{DEEP}");
    for (origin, path, at_once) in [(ORIGIN, DEEP, 1), ("s3://bucket", below.as_str(), 2)] {
        let (mounted, recorder) = mounted(&bucket, &scratch, origin, &[]);
        until_root_is_listed(&recorder);
        recorder.clear(at_once);
        let read = fs::read(mounted.path(path));
        let requests = recorder.requests();
        assert!(
            read.is_ok_and(|bytes| bytes == bytes_of(7, 1000)),
            "{origin}: {requests:#?}"
        );
        assert!(recorder.depth() <= 2, "{origin}: {requests:#?}");
        assert!(requests.len() <= 4, "{origin}: {requests:#?}");
        assert_eq!(
            count(&requests, "GET", "file "),
            1,
            "the bytes: {requests:#?}"
        );
    }
    // Without a list of the root that was made before.
    let (mounted, recorder) = mounted(&bucket, &scratch, ORIGIN, &["--revalidate", "1ms"]);
    until_root_is_listed(&recorder);
    recorder.clear(1);
    assert_eq!(
        fs::read(mounted.path("f/0")).expect("read"),
        bytes_of(0, 1000)
    );
    let requests = recorder.requests();
    assert!(count(&requests, "HEAD", "f/0") <= 1, "{requests:#?}");
}

fn one_list() {
    const WHAT: &str = "requests for a list of a bucket";
    const FILES: usize = 500;
    if !has_fuse(WHAT) {
        return;
    }
    let scratch = Scratch::new();
    let files = origin(&scratch, 1, 1000);
    let Some(bucket) = Bucket::with_pages(WHAT, &files, FILES, 1000) else {
        return;
    };
    let (mounted, recorder) = mounted(&bucket, &scratch, "s3://bucket", &[]);
    recorder.clear(1);
    let listed = std::process::Command::new("ls")
        .arg("-l")
        .arg(mounted.path("many"))
        .output()
        .expect("ls is installed");
    let lines = String::from_utf8_lossy(&listed.stdout).lines().count();
    assert_eq!(lines, FILES + 1, "all, and the sum: {listed:?}");
    let requests = recorder.requests();
    // None if the mount had listed the tree already.
    assert!(count(&requests, "GET", "list-type=2") <= 1, "{requests:#?}");
    assert_eq!(count(&requests, "HEAD", ""), 0, "{requests:#?}");
    assert_eq!(requests.len(), count(&requests, "GET", "list-type=2"));
    recorder.clear(1);
    assert_eq!(names(&mounted.path("some data/f")), ["0"]);
    assert_eq!(recorder.requests(), [""; 0], "below the same root");
}

fn many_names() {
    const WHAT: &str = "a bucket of many names";
    if !has_fuse(WHAT) {
        return;
    }
    let scratch = Scratch::new();
    let files = files_with_a_deep_one(&scratch);
    let Some(bucket) = Bucket::start(WHAT, &files, PAGE + 3) else {
        return;
    };
    let (mounted, _recorder) = mounted(&bucket, &scratch, "s3://bucket", &[]);
    // Beyond the first page, found by its name alone, before any list.
    assert_eq!(fs::read(mounted.path("many/99")).expect("read"), b"x");
    assert_eq!(names(&mounted.path("many")).len(), PAGE + 3);
    let data = mounted.path("some data");
    assert_eq!(names(&data), ["a", "f", "marked"]);
    assert_eq!(names(&data.join("marked")), [""; 0], "a directory");
    for name in ["many/9", "many/100", "many/102"] {
        assert_eq!(fs::read(mounted.path(name)).expect("read"), b"x", "{name}");
    }
    let missing = fs::metadata(mounted.path("many/103")).expect_err("there is none");
    assert_eq!(missing.kind(), std::io::ErrorKind::NotFound);
    let found = |directory: &Path| {
        let found = std::process::Command::new("find").arg(directory).output();
        let found = found.expect("find is installed");
        assert!(found.status.success(), "{found:?}");
        String::from_utf8_lossy(&found.stdout).lines().count()
    };
    // Directories: the root, many, and of the files the root, a to e, f, marked.
    assert_eq!(found(&mounted.directory), PAGE + 3 + 3 + 2 + 5 + 3);
}

fn missing_names() {
    const WHAT: &str = "missing names of a bucket";
    if !has_fuse(WHAT) {
        return;
    }
    let scratch = Scratch::new();
    let files = origin(&scratch, 1, 1000);
    let Some(bucket) = Bucket::start(WHAT, &files, 0) else {
        return;
    };
    let put = |key: &str| bucket.put(&format!("some data/{key}"), &files.join("f/0"));
    let (kept, recorder) = mounted(&bucket, &scratch, ORIGIN, &["--revalidate-missing", "1h"]);
    let (anew, _) = mounted(&bucket, &scratch, ORIGIN, &["--revalidate-missing", "0"]);
    for mounted in [&kept, &anew] {
        fs::metadata(mounted.path("f/new")).expect_err("there is none");
    }
    recorder.clear(1);
    put("f/new");
    fs::metadata(anew.path("f/new")).expect("asked again");
    assert!(fs::metadata(kept.path("f/new")).is_err(), "for an hour");
    assert_eq!(recorder.requests(), [""; 0], "without a request");
}

/// All names below a directory, with what `ls -l` shows of them.
fn walked(directory: &Path) -> Vec<(std::path::PathBuf, bool, u64, i64, u32)> {
    let mut found = Vec::new();
    let mut left = vec![directory.to_owned()];
    while let Some(next) = left.pop() {
        for entry in fs::read_dir(&next).expect("listed").flatten() {
            let meta = fs::symlink_metadata(entry.path()).expect("looked at");
            if meta.is_dir() {
                left.push(entry.path());
            }
            let path = entry.path();
            let below = path.strip_prefix(directory).expect("below").to_owned();
            // A bucket has no times of directories.
            let time = if meta.is_dir() { 0 } else { meta.mtime() };
            found.push((below, meta.is_dir(), meta.len(), time, meta.mode()));
        }
    }
    found.sort();
    found
}

fn shared_names() {
    const WHAT: &str = "names shared by machines";
    if !has_fuse(WHAT) || !has_redis(WHAT) {
        return;
    }
    let scratch = Scratch::new();
    let files = files_with_a_deep_one(&scratch);
    let Some(bucket) = Bucket::start(WHAT, &files, 5) else {
        return;
    };
    let key = scratch.directory().join("key");
    write(
        &key,
        b"00112233445566778899aabbccddeeff0123456789abcdef0123456789abcdef",
    );
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).expect("ours");
    let key = key.to_str().expect("text");
    let (_servers, document) = start_servers(&["--nodes", "1", "--standalone"]);
    let engine = document["engine"].as_str().expect("an address");
    let with = ["--engine", engine, "--share-names", "1h"];
    let refused = Ended::of(
        bucket
            .cachewise(&["mount"])
            .args(with)
            .args([ORIGIN, "/mnt"]),
    );
    let refused = refused.expect(2, "names are sealed alone");
    let said = String::from_utf8_lossy(&refused.err);
    assert!(said.contains("--engine-key-file"), "{said}");
    // A busy machine answers late.
    let patient = ["--connect", "5s", "--deadline", "5s", "--hedge", "never"];
    // The recorders are two addresses of one store.
    let same = ["--engine-key-file", key, "--identity", "bucket"];
    let with = [&with[..], &same, &patient].concat();
    let (a, recorder) = mounted(&bucket, &scratch, ORIGIN, &with);
    let names = walked(&a.directory);
    assert!(names.len() >= 9, "{names:?}");
    assert!(!recorder.requests().is_empty());
    let mut redis = RawRedis::connect(
        engine
            .strip_prefix("redis://")
            .expect("one")
            .parse()
            .expect("an address"),
    );
    until("the lists are shared", || {
        (redis.keys().len() >= 6).then_some(())
    });
    for key in redis.keys() {
        let Reply::Value(Some(value)) = redis.ask(&[b"GET", &key]) else {
            continue;
        };
        for name in [&b"file"[..], b"some data", b"etag"] {
            assert!(!value.windows(name.len()).any(|part| part == name));
        }
    }

    let (b, of_b) = mounted(&bucket, &scratch, ORIGIN, &with);
    // The check at the start.
    let before = of_b.requests().len();
    assert_eq!(walked(&b.directory), names);
    let requests = of_b.requests();
    assert_eq!(requests.len(), before, "no request: {requests:#?}");
    assert_eq!(count(&requests, "HEAD", ""), 0, "{requests:#?}");
    let lists = count(&requests, "GET", "list-type=2");
    assert_eq!(lists, 1, "the check at the start alone: {requests:#?}");
    let totals = b.report()["cache"]["totals"].clone();
    assert!(totals["shared_names_total"].as_u64() >= Some(6), "{totals}");
    // The bytes: the origin says whether this process may read them.
    assert_eq!(fs::read(b.path(DEEP)).expect("read"), bytes_of(7, 1000));
    assert!(of_b.requests().len() > before);

    until("the mount listens", || {
        (b.report()["drop_subscriptions_total"].as_u64() > Some(0)).then_some(())
    });
    let new = scratch.directory().join("new");
    write(&new, &bytes_of(8, 2000));
    bucket.put(&format!("some data/{DEEP}"), &new);
    assert_eq!(fs::metadata(b.path(DEEP)).expect("known").len(), 1000);
    let mut drop = cachewise(["drop"]);
    Ended::of(drop.arg(a.path("a"))).expect(0, "it is dropped");
    until("the other mount has the new state", || {
        (fs::read(b.path(DEEP)).ok()? == bytes_of(8, 2000)).then_some(())
    });
    // One that begins later takes no record from before.
    let (c, _) = mounted(&bucket, &scratch, ORIGIN, &with);
    assert_eq!(fs::metadata(c.path(DEEP)).expect("looked up").len(), 2000);
    assert_eq!(fs::read(c.path(DEEP)).expect("read"), bytes_of(8, 2000));
}
