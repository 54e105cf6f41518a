//! An origin over HTTP, with servers that are right, and with such that are not.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use crate::support::http::{Act, HttpServer, MODIFIED, Object, answer};
use crate::support::{BLOCK, bytes_of};
use cachewise_tier::remote::Secret;
use cachewise_tier::{
    BlockCache, Entry, Error, ErrorKind, Http, Kind, NetworkOptions, Origin, Settings, Tier,
};
use cachewise_units::{ByteRange, Bytes};

/// The deadline of origin calls in tests that reach it.
const SHORT: Duration = Duration::from_secs(1);

/// Far beyond that.
const LONG: Duration = Duration::from_secs(30);

fn origin(server: &HttpServer, read_deadline: Duration) -> Http {
    let options = NetworkOptions {
        read_deadline,
        ..NetworkOptions::default()
    };
    Http::open(&server.url("/data"), &options).expect("a URL")
}

const PART: ByteRange = ByteRange {
    start: 100_000,
    len: 50_000,
};

/// One object under every name, which a test may change.
fn shelf(object: Object) -> (Arc<Mutex<Object>>, HttpServer) {
    let object = Arc::new(Mutex::new(object));
    let shared = Arc::clone(&object);
    let server = HttpServer::start(move |asked| shared.lock().expect("unpoisoned").answer(asked));
    (object, server)
}

fn change(object: &Mutex<Object>, with: impl FnOnce(&mut Object)) {
    with(&mut object.lock().expect("unpoisoned"));
}

/// Looks at `f`, and reads a part of it.
async fn part(origin: &Http) -> Result<bytes::Bytes, Error> {
    let path = Path::new("f");
    let meta = origin.stat(path).await?;
    origin.read(path, &meta, PART).await
}

#[tokio::test]
async fn bytes_are_read_in_one_state_by_each_way_to_tell_it() {
    let bytes = bytes_of(1, 300_000);
    for (etag, modified) in [
        (Some("\"1\""), Some(MODIFIED)),
        (Some("\"1\""), None),
        (Some("W/\"1\""), Some(MODIFIED)),
        (None, Some(MODIFIED)),
    ] {
        for (knows_range, knows_conditions) in [(true, true), (false, true), (false, false)] {
            let told = Object {
                etag: etag.map(str::to_owned),
                modified: modified.map(str::to_owned),
                knows_range,
                knows_conditions,
                ..Object::new(bytes.clone())
            };
            let said = format!("{etag:?} {modified:?} {knows_range} {knows_conditions}");
            let (object, server) = shelf(told);
            let origin = origin(&server, LONG);
            let path = Path::new("a b%/é");
            let meta = origin.stat(path).await.expect("it is there");
            assert_eq!((meta.kind, meta.size), (Kind::File, 300_000), "{said}");
            let read = origin
                .read(path, &meta, PART)
                .await
                .expect("it is as it was");
            assert!(read == bytes[100_000..150_000], "{said}");
            assert_eq!(server.asked()[0].target, "/data/a%20b%25/%C3%A9");

            change(&object, |object| {
                object.bytes = bytes_of(2, 300_000);
                object.etag = etag.map(|etag| etag.replace('1', "2"));
                object.modified = modified.map(|modified| modified.replace("37", "38"));
            });
            let error = origin
                .read(path, &meta, PART)
                .await
                .expect_err("another state");
            assert_eq!(error.kind(), ErrorKind::Changed, "{said}: {error}");
            let now = origin.stat(path).await.expect("it is there");
            assert_ne!(now.version, meta.version, "{said}");

            change(&object, |object| object.bytes.truncate(90_000));
            let error = origin.read(path, &now, PART).await.expect_err("it shrank");
            assert_eq!(error.kind(), ErrorKind::Changed, "{said}: {error}");
        }
    }
}

#[tokio::test]
async fn a_server_that_ignores_range_gives_right_bytes_up_to_a_bound() {
    let size = 20 << 20;
    let bytes = bytes_of(1, 1 << 20).repeat(20);
    let (_, server) = shelf(Object {
        knows_range: false,
        ..Object::new(bytes.clone())
    });
    let origin = origin(&server, LONG);
    let path = Path::new("f");
    let meta = origin.stat(path).await.expect("it is there");
    let near = ByteRange {
        start: (16 << 20) - 5,
        len: 10,
    };
    let read = origin.read(path, &meta, near).await.expect("near enough");
    assert!(read == bytes[(16 << 20) - 5..(16 << 20) + 5], "the bytes");
    let far = ByteRange {
        start: size - 10,
        len: 10,
    };
    let asked = server.asked().len();
    let error = origin.read(path, &meta, far).await.expect_err("too far");
    let said = error.to_string();
    assert!(said.contains("ignores Range"), "{said}");
    assert_eq!(server.asked().len(), asked + 1, "asked once");
}

#[tokio::test]
async fn object_without_strong_etag_and_time_is_refused() {
    for etag in [None, Some("W/\"1\"".to_owned())] {
        let (_, server) = shelf(Object {
            etag,
            modified: None,
            ..Object::new(bytes_of(1, 1_000))
        });
        let error = origin(&server, LONG).stat(Path::new("f")).await;
        let said = error.expect_err("no state").to_string();
        assert!(said.contains("sends no strong ETag"), "{said}");
    }
}

#[tokio::test]
async fn a_server_that_hangs_is_given_up_in_time() {
    let head = answer(
        "206 Partial Content",
        &[
            ("ETag", "\"1\""),
            ("Last-Modified", MODIFIED),
            ("Content-Range", "bytes 100000-149999/300000"),
            ("Content-Length", "50000"),
        ],
        b"a few bytes",
    );
    let object = Object::new(bytes_of(1, 300_000));
    for (hangs_at, said) in [("HEAD", Vec::new()), ("GET", Vec::new()), ("GET", head)] {
        let object = object.clone();
        let server = HttpServer::start(move |asked| match asked.method == hangs_at {
            true => Act::Hang(said.clone()),
            false => object.answer(asked),
        });
        let begun = Instant::now();
        let error = part(&origin(&server, SHORT)).await.expect_err("it hangs");
        assert_eq!(error.kind(), ErrorKind::Deadline, "{error}");
        assert!(begun.elapsed() < LONG, "{:?}", begun.elapsed());
    }
}

#[tokio::test]
async fn what_passes_is_asked_again_and_what_does_not_is_not() {
    let object = Object::new(bytes_of(1, 300_000));
    // How the first requests end, how many of them do, and whether it is an error in the end.
    let cases: [(&str, Act, usize, bool); 8] = [
        ("hangs once", Act::Hang(Vec::new()), 1, false),
        ("says nothing", Act::Answer(Vec::new()), 2, false),
        ("busy", Act::Answer(answer("503 Busy", &[], b"")), 2, false),
        (
            "many",
            Act::Answer(answer("429 Too Many", &[], b"")),
            2,
            false,
        ),
        (
            "broken",
            Act::Answer(answer("500 Broken", &[], b"x")),
            3,
            true,
        ),
        (
            "garbage",
            Act::Answer(b"\x16\x03 what\r\n\r\n".to_vec()),
            3,
            true,
        ),
        (
            "teapot",
            Act::Answer(answer("418 Teapot", &[], b"")),
            1,
            true,
        ),
        (
            "cut",
            Act::Answer(answer(
                "206 Partial Content",
                &[
                    ("ETag", "\"1\""),
                    ("Content-Range", "bytes 100000-149999/300000"),
                    ("Content-Length", "50000"),
                ],
                b"a few bytes",
            )),
            3,
            true,
        ),
    ];
    for (what, act, times, is_error) in cases {
        let (object, gets) = (object.clone(), Arc::new(AtomicUsize::new(0)));
        let counted = Arc::clone(&gets);
        let server = HttpServer::start(move |asked| {
            if asked.method == "GET" && counted.fetch_add(1, Ordering::SeqCst) < times {
                return act.clone();
            }
            object.answer(asked)
        });
        // A third of it is for the first attempt.
        let read = part(&origin(&server, 6 * SHORT)).await;
        assert_eq!(read.is_err(), is_error, "{what}: {read:?}");
        let expected = if is_error { times } else { times + 1 };
        assert_eq!(gets.load(Ordering::SeqCst), expected, "{what}");
        if let Err(error) = read {
            assert_eq!(error.kind(), ErrorKind::Failed, "{what}: {error}");
        }
    }
}

#[tokio::test]
async fn wrong_answers_are_errors_and_held_in_bounds() {
    let endless = |head: &str| {
        let mut bytes = head.as_bytes().to_vec();
        bytes.resize(1 << 20, b'x');
        Act::Endless(bytes)
    };
    let state = format!("ETag: \"1\"\r\nLast-Modified: {MODIFIED}\r\n");
    let partial = format!("HTTP/1.1 206 Partial Content\r\n{state}");
    let range = "Content-Range: bytes 100000-149999/300000\r\n\r\n";
    let headers = [("ETag", "\"1\""), ("Last-Modified", MODIFIED)];
    let with = |range: &'static str| [headers[0], headers[1], ("Content-Range", range)];
    let body = [b'x'; 50_000];
    for (what, act, kind) in [
        (
            "more than was asked for",
            endless(&format!("{partial}{range}")),
            ErrorKind::Failed,
        ),
        (
            "an endless error",
            endless("HTTP/1.1 418 No\r\n\r\n"),
            ErrorKind::Failed,
        ),
        (
            "no range told",
            Act::Answer(answer("206 Part", &headers, &body)),
            ErrorKind::Failed,
        ),
        (
            "another range",
            Act::Answer(answer("206 Part", &with("bytes 0-49999/300000"), &body)),
            ErrorKind::Failed,
        ),
        (
            "another size",
            Act::Answer(answer(
                "206 Part",
                &with("bytes 100000-149999/300001"),
                &body,
            )),
            ErrorKind::Changed,
        ),
        (
            "no state told",
            Act::Answer(answer(
                "206 Part",
                &with("bytes 100000-149999/300000")[2..],
                &body,
            )),
            ErrorKind::Failed,
        ),
        (
            "fewer bytes than told",
            Act::Answer(answer(
                "206 Part",
                &with("bytes 100000-149999/300000"),
                &body[1..],
            )),
            ErrorKind::Changed,
        ),
        (
            "an empty page",
            Act::Answer(answer("204 None", &[], b"")),
            ErrorKind::Failed,
        ),
        (
            "gone",
            Act::Answer(answer("404 None", &[], b"no such")),
            ErrorKind::NotFound,
        ),
        (
            "refused",
            Act::Answer(answer("403 No", &[], b"")),
            ErrorKind::Denied,
        ),
        (
            "unknown user",
            Act::Answer(answer("401 Who", &[], b"")),
            ErrorKind::Denied,
        ),
    ] {
        let object = Object::new(bytes_of(1, 300_000));
        let server = HttpServer::start(move |asked| match asked.method.as_str() {
            "GET" => act.clone(),
            _ => object.answer(asked),
        });
        let error = part(&origin(&server, LONG)).await.expect_err(what);
        assert_eq!(error.kind(), kind, "{what}: {error}");
    }
    let nobody = HttpServer::start(|_| Act::Answer(Vec::new()));
    let gone = origin(&nobody, LONG);
    drop(nobody);
    let error = part(&gone).await.expect_err("nobody listens");
    let said = error.to_string();
    assert!(said.contains("refused"), "{said}");
}

#[tokio::test]
async fn a_server_without_head_says_it_of_a_byte() {
    for (knows_range, status) in [(true, "405 No"), (false, "501 No")] {
        let object = Object {
            knows_range,
            ..Object::new(bytes_of(1, 300_000))
        };
        let bytes = object.bytes.clone();
        let server = HttpServer::start(move |asked| match asked.method.as_str() {
            "HEAD" => Act::Answer(answer(status, &[], b"")),
            _ => object.answer(asked),
        });
        let read = part(&origin(&server, LONG)).await.expect("it is there");
        assert!(read == bytes[100_000..150_000]);
    }
}

#[tokio::test]
async fn redirects_are_followed_so_far_and_secrets_are_not_sent_along() {
    let object = Object::new(bytes_of(1, 300_000));
    let bytes = object.bytes.clone();
    let elsewhere = HttpServer::start(move |asked| object.answer(asked));
    let (there, nowhere) = (elsewhere.url("/other"), "ftp://127.0.0.1/f".to_owned());
    let server = HttpServer::start(move |asked| {
        let to = match asked.target.as_str() {
            "/data/f" => there.as_str(),
            "/data/round" => "/data/round",
            "/data/ftp" => &nowhere,
            "/data/dir" => "http://internal.example/data/dir/",
            _ => return Act::Answer(answer("302 Found", &[], b"")),
        };
        Act::Answer(answer("302 Found", &[("Location", to)], b""))
    });
    let options = NetworkOptions {
        authorization: Some(Secret::new("Bearer geheim".to_owned())),
        read_deadline: LONG,
        ..NetworkOptions::default()
    };
    let origin = Http::open(&server.url("/data/"), &options).expect("a URL");
    assert!(!format!("{origin:?}").contains("geheim"));
    assert!(part(&origin).await.expect("followed") == bytes[100_000..150_000]);
    for asked in server.asked() {
        assert_eq!(asked.header("authorization"), Some("Bearer geheim"));
    }
    for asked in elsewhere.asked() {
        assert_eq!(asked.header("authorization"), None, "nobody else is told");
    }
    let meta = origin.stat(Path::new("dir")).await.expect("it is there");
    assert_eq!(meta.kind, Kind::Directory, "a slash says so");
    for (path, why) in [
        ("round", "on and on"),
        ("ftp", "not followed"),
        ("x", "nowhere"),
    ] {
        let error = origin.stat(Path::new(path)).await.expect_err(path);
        let said = error.to_string();
        assert!(said.contains(why), "{said}");
        assert!(!said.contains("geheim"), "{said}");
    }
}

#[tokio::test]
async fn webdav_lists_and_what_does_not_speak_it_says_so() {
    let list =
        b"<D:multistatus xmlns:D=\"DAV:\"><D:response><D:href>/data/</D:href><D:propstat><D:prop>\
        <D:resourcetype><D:collection/></D:resourcetype></D:prop></D:propstat></D:response>\
        <D:response><D:href>/data/f%20g</D:href></D:response></D:multistatus>";
    let cases: [(&str, &[u8]); 5] = [
        ("207 Multi-Status", list),
        ("405 Method Not Allowed", b""),
        ("501 Unsupported method ('PROPFIND')", b""),
        ("207 Multi-Status", b"<D:multistatus><D:response>"),
        ("500 Broken", b""),
    ];
    let root = Path::new("");
    for (place, (status, body)) in cases.into_iter().enumerate() {
        let said = answer(status, &[], body);
        let server = HttpServer::start(move |_| Act::Answer(said.clone()));
        let origin = origin(&server, LONG);
        let (listed, checked) = (origin.list(root).await, origin.check().await);
        match place {
            0 => {
                let entry = Entry::new("f g", Kind::File);
                assert_eq!(listed.expect("it lists"), [entry]);
                assert_eq!(checked.expect("it is there"), None);
            }
            1 | 2 => {
                let error = listed.expect_err("no lists");
                assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
                assert!(
                    error.to_string().contains("name files by their paths"),
                    "{error}"
                );
                let lacks = checked.expect("it is there").expect("something");
                assert!(lacks.contains("does not list"), "{lacks}");
            }
            _ => {
                let error = listed.expect_err("it is broken");
                assert_eq!(error.kind(), ErrorKind::Failed, "{error}");
                checked.expect_err("it is broken");
            }
        }
    }
    let server = HttpServer::start(|_| {
        let mut bytes = b"HTTP/1.1 207 Multi-Status\r\n\r\n<a>".to_vec();
        bytes.resize(1 << 20, b' ');
        Act::Endless(bytes)
    });
    let error = origin(&server, LONG).list(root).await.expect_err("endless");
    assert!(error.to_string().contains("more than"), "{error}");
}

fn date(at: SystemTime) -> String {
    httpdate::fmt_http_date(at)
}

#[tokio::test]
async fn what_was_written_this_moment_is_read_and_kept_nowhere() {
    // Both clocks are an hour behind: what counts is the time between the two.
    let then = SystemTime::now() - Duration::from_secs(3_600);
    for (age, is_kept) in [(0, false), (10, true)] {
        let object = Object {
            modified: Some(date(then - Duration::from_secs(age))),
            ..Object::new(bytes_of(1, BLOCK))
        };
        let server = HttpServer::start(move |asked| match object.answer(asked) {
            Act::Answer(bytes) => {
                let text = format!("HTTP/1.1 200 OK\r\nDate: {}\r\n", date(then));
                let status = b"HTTP/1.1 200 OK\r\n";
                match bytes.strip_prefix(status) {
                    Some(rest) => Act::Answer([text.as_bytes(), rest].concat()),
                    None => Act::Answer(bytes),
                }
            }
            other => other,
        });
        let settings = Settings {
            block: Bytes(BLOCK),
            ..Settings::default()
        };
        let origin = Arc::new(origin(&server, LONG));
        let cache = BlockCache::open(settings, origin).await.expect("opened");
        let file = cache.stat(Path::new("f")).await.expect("it is there");
        assert_eq!(file.is_settled(), is_kept);
        let all = ByteRange {
            start: 0,
            len: BLOCK,
        };
        for _ in 0..2 {
            let read = cache.get(&file, all).await.expect("read");
            assert!(read == bytes_of(1, BLOCK));
        }
        let table = cache.table();
        let row = table.tiers.iter().find(|row| row.tier == Tier::Origin);
        let calls = row.expect("it has one").calls;
        assert_eq!(calls, if is_kept { 1 } else { 2 });
    }
}
