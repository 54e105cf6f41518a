//! `tier` and `mount` of an origin that is a bucket: a real server of S3, and servers that break.

use std::fs;
use std::os::unix::fs::FileExt;
use std::process::Command;

use serde_json::Value;

use crate::http::{Act, MODIFIED, answer};
use crate::http_origin::{AGAIN, ONCE, ends_in_an_error};
use crate::mounted::{Mounted, bytes_of, has_fuse, is_mounted, names, number_of, origin, write};
use crate::s3_server::{Bucket, PAGE, alone};
use crate::support::*;

pub fn trials() -> Vec<Trial> {
    vec![
        plain("s3::files_of_a_bucket", files),
        plain("s3::a_mount_of_a_bucket", mount),
        plain("s3::what_cannot_be_is_refused", refused),
        plain("s3::a_store_that_breaks_ends_in_an_error", broken),
    ]
}

const ORIGIN: &str = "s3://bucket/some data";

fn json(command: &mut Command, why: &str) -> Value {
    let ended = Ended::of(command).expect(0, why);
    serde_json::from_slice(&ended.out).expect("JSON")
}

/// Returns the number of block requests to the origin.
fn origin_calls(document: &Value) -> u64 {
    number_of(document, "origin", "calls_total")
}

fn files() {
    let scratch = Scratch::new();
    let files = origin(&scratch, 3, 300_000);
    write(&files.join("f/a b+%25 é"), &bytes_of(7, 1_000));
    // More than a page of a list has.
    let Some(bucket) = Bucket::start("an origin that is a bucket", &files, PAGE + 3) else {
        return;
    };
    let get = |arguments: &[&str]| {
        let line = [&["get"], arguments].concat();
        Ended::of(&mut bucket.cachewise(&line))
    };
    let part = get(&["--offset", "100000", "--length", "1000", ORIGIN, "f/1"]).expect(0, "a part");
    assert!(part.out == bytes_of(1, 300_000)[100_000..101_000]);
    let odd = get(&[ORIGIN, "f/a b+%25 é"]).expect(0, "an odd name");
    assert!(odd.out == bytes_of(7, 1_000));
    get(&[ORIGIN, "f/none"])
        .expect(2, "there is none")
        .says("f/none: not found at the origin", "which");
    get(&[ORIGIN, "f"])
        .expect(2, "a directory")
        .says("not a file", "why");
    get(&["s3://elsewhere", "f"])
        .expect(2, "there is no such bucket")
        .says("no such bucket", "why");

    let disk = scratch.directory().join("disk");
    let disk = disk.to_str().expect("ours");
    let on_files = |command: &str, origin: &str| {
        let line = [
            command,
            "--disk",
            disk,
            "--disk-size",
            "1G",
            "-o",
            "json",
            origin,
        ];
        json(&mut bucket.cachewise(&line), command)
    };
    let warmed = on_files("warm", ORIGIN);
    assert_eq!(
        warmed["files"].as_array().map(Vec::len),
        Some(4),
        "{warmed}"
    );
    assert_eq!(origin_calls(&warmed), 10, "{warmed}");
    let again = on_files("warm", ORIGIN);
    assert_eq!(origin_calls(&again), 0, "from the disk: {again}");
    let verified = on_files("verify", ORIGIN);
    for file in verified["files"].as_array().expect("files") {
        assert_eq!(file["different_blocks"], 0, "{file}");
    }
    let many = ["warm", "-o", "json", "s3://bucket/many/"];
    let many = json(&mut bucket.cachewise(&many), "more than a page");
    assert_eq!(
        many["files"].as_array().map(Vec::len),
        Some(PAGE + 3),
        "all pages"
    );

    // An object that was written over is another one: nothing old is met.
    let new = scratch.directory().join("new");
    write(&new, &bytes_of(9, 300_000));
    bucket.put("some data/f/1", &new);
    let changed = on_files("warm", ORIGIN);
    assert_eq!(origin_calls(&changed), 3, "three blocks: {changed}");
    let read = get(&["--disk", disk, "--disk-size", "1G", ORIGIN, "f/1"]).expect(0, "the new one");
    assert!(read.out == bytes_of(9, 300_000));

    // Signatures are looked at.
    let line = ["get", ORIGIN, "f/0"];
    let mut nobody = bucket.cachewise(&line);
    nobody
        .env_remove("AWS_ACCESS_KEY_ID")
        .env_remove("AWS_SECRET_ACCESS_KEY");
    Ended::of(&mut nobody)
        .expect(2, "nobody may")
        .says("refuses access", "why");
    let mut wrong = bucket.cachewise(&line);
    let ended = Ended::of(wrong.env("AWS_SECRET_ACCESS_KEY", "geheim")).expect(2, "a wrong key");
    let said = ended.says("refuses access", "why").err();
    assert!(!said.contains("geheim"), "{said}");
}

fn mount() {
    const WHAT: &str = "a mount of a bucket";
    if !has_fuse(WHAT) {
        return;
    }
    let scratch = Scratch::new();
    let files = origin(&scratch, 2, 3_000_000);
    let Some(bucket) = Bucket::start(WHAT, &files, 0) else {
        return;
    };
    let directory = scratch.directory().join("mnt");
    fs::create_dir(&directory).expect("made");
    let mounted = Mounted::by(bucket.cachewise(&["mount", ORIGIN]), &directory);
    assert_eq!(names(&mounted.directory), ["f", "marked"]);
    assert_eq!(names(&mounted.path("f")), ["0", "1"]);
    assert_eq!(names(&mounted.path("marked")), [""; 0], "an empty one");
    assert!(fs::read(mounted.path("f/0")).expect("read") == bytes_of(0, 3_000_000));
    let looked = mounted.of_operation("lookup", "origin_calls");
    for number in 0..2 {
        let size = fs::metadata(mounted.path(&format!("f/{number}"))).map(|found| found.len());
        assert_eq!(size.expect("listed"), 3_000_000);
    }
    assert_eq!(
        mounted.of_operation("lookup", "origin_calls"),
        looked,
        "the list of the directory had all attributes"
    );
    let missing = fs::read(mounted.path("f/none")).expect_err("there is none");
    assert_eq!(missing.kind(), std::io::ErrorKind::NotFound);
    let looked = mounted.of_operation("lookup", "origin_calls");
    fs::read(mounted.path("f/0")).expect("it is read");
    let looked_now = mounted.of_operation("lookup", "origin_calls");
    assert_eq!(looked_now, looked, "asked once in the time");
    assert_eq!(mounted.of_operation("open", "origin_calls"), 0, "never");

    let open = fs::File::open(mounted.path("f/1")).expect("it is there");
    let mut bytes = [0; 1_000];
    open.read_exact_at(&mut bytes, 0).expect("it is read");
    let new = scratch.directory().join("new");
    write(&new, &bytes_of(9, 3_000_000));
    bucket.put("some data/f/1", &new);
    let stale = open
        .read_exact_at(&mut bytes, 2_900_000)
        .expect_err("another state");
    let stale_is = rustix::io::Errno::STALE.raw_os_error();
    assert_eq!(stale.raw_os_error(), Some(stale_is), "{stale}");
    drop(open);
    until("the new state is read", || {
        let read = fs::read(mounted.path("f/1")).ok()?;
        (read == bytes_of(9, 3_000_000)).then_some(())
    });
    let directory = mounted.directory.clone();
    mounted.end().expect(0, "a signal is the usual end");
    assert!(!is_mounted(&directory), "it is unmounted");

    let none = scratch.directory().join("none");
    fs::create_dir(&none).expect("made");
    let mut unknown = bucket.cachewise(&["mount", ORIGIN]);
    unknown.env("AWS_SECRET_ACCESS_KEY", "wrong");
    let mounted = Mounted::by(unknown, &none);
    let refused = fs::read_dir(&none).expect_err("it may not");
    assert_eq!(refused.kind(), std::io::ErrorKind::PermissionDenied);
    mounted
        .end()
        .expect(0, "a signal is the usual end")
        .says("warning: the bucket cannot be listed", "at the start")
        .says("SignatureDoesNotMatch", "why");
    let mut elsewhere = bucket.cachewise(&["mount", "s3://elsewhere"]);
    Ended::of(elsewhere.arg(&none))
        .expect(2, "there is no such bucket")
        .says("no such bucket", "why");
    assert!(!is_mounted(&none));
}

fn refused() {
    let line = ["get", "s3://bucket", "x"];
    let set = |pairs: &[(&str, &str)], why: &str| {
        let mut command = alone(&line);
        let ended = Ended::of(command.envs(pairs.iter().copied())).expect(2, why);
        let said = ended.says(why, "why").err();
        assert!(!said.contains("geheim"), "{said}");
    };
    set(
        &[("AWS_ENDPOINT_URL", "http://127.0.0.1:1")],
        "AWS_ALLOW_HTTP",
    );
    set(
        &[("AWS_ENDPOINT_URL", "https://key:geheim@127.0.0.1:1")],
        "has a user in it",
    );
    set(&[("AWS_ENDPOINT_URL", "some where")], "not a URL");
    let secret = ("AWS_SECRET_ACCESS_KEY", "geheim");
    set(&[secret], "variables AWS_*");
}

fn broken() {
    let page = |inner: &str| {
        let xml = format!("<ListBucketResult>{inner}</ListBucketResult>");
        Act::Answer(answer("200 OK", &[], xml.as_bytes()))
    };
    let item = format!(
        "<Contents><Key>x</Key><Size>9</Size><LastModified>2020-01-01T00:00:00Z</LastModified></Contents>{}",
        "<NextContinuationToken>again</NextContinuationToken>"
    );
    let denied = b"<Error><Code>AccessDenied</Code><Message>No</Message></Error>";
    let mut endless = b"HTTP/1.1 200 OK\r\n\r\n<ListBucketResult>".to_vec();
    endless.resize(1 << 20, b' ');
    // The server's answers to GET: in a listing of the whole bucket, then in a read.
    let lists = [
        (
            "hangs",
            Act::Hang(Vec::new()),
            "no answer within 1000 ms",
            3,
        ),
        (
            "is broken",
            Act::Answer(answer("500 No", &[], b"")),
            "500",
            3,
        ),
        (
            "refuses",
            Act::Answer(answer("403 No", &[], denied)),
            "refuses access",
            1,
        ),
        ("has no list", page("<nonsense"), "list", 3),
        // The second page is the first one again.
        ("goes round", page(&item), "does not go on", 2),
        ("does not end", Act::Endless(endless), "more than", 3),
    ];
    let state = [("ETag", "\"2\""), ("Last-Modified", MODIFIED)];
    let part = [
        state[0],
        state[1],
        ("Content-Range", "bytes 0-131071/300000"),
    ];
    let reads = [
        (
            "hangs",
            Act::Hang(Vec::new()),
            "no answer within 1000 ms",
            AGAIN,
        ),
        (
            "is broken",
            Act::Answer(answer("503 No", &[], b"")),
            "503",
            AGAIN,
        ),
        (
            "refuses",
            Act::Answer(answer("403 No", &[], denied)),
            "refuses access",
            ONCE,
        ),
        (
            "talks nonsense",
            Act::Answer(b"what\r\n\r\n".to_vec()),
            "read at the origin",
            AGAIN,
        ),
        (
            "has changed",
            Act::Answer(answer("412 No", &[], b"")),
            "changed at the origin",
            ONCE,
        ),
        (
            "sends another state",
            Act::Answer(answer("206 Part", &part, &[0; 131_072])),
            "changed",
            ONCE,
        ),
        (
            "ignores ranges",
            Act::Answer(answer("200 OK", &state, &[0; 300_000])),
            "read at the origin",
            ONCE,
        ),
        (
            "is elsewhere",
            Act::Answer(answer("301 Moved", &[], b"")),
            "read at the origin",
            ONCE,
        ),
    ];
    let run =
        |command: [&str; 3], more: &[&str], (what, act, why, most): &(&str, Act, &str, usize)| {
            ends_in_an_error(what, act, why, *most, |server| {
                let mut line = alone(&[] as &[&str]);
                line.args(command)
                    .args(more)
                    .env("AWS_ENDPOINT_URL", server.url(""))
                    .env("AWS_ALLOW_HTTP", "true");
                line
            });
        };
    for case in &lists {
        run(["warm", "--read-deadline", "1"], &["s3://bucket"], case);
    }
    for case in &reads {
        run(["get", "--read-deadline", "1"], &["s3://bucket", "x"], case);
    }
}
