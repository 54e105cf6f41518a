//! An origin of which a part answers nothing but errors: its readers fail at once, and others read on.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cachewise_tier::{BlockCache, Error, ErrorKind, Http, NetworkOptions, Settings};

use crate::support::http::{Act, HttpServer, Object, answer};
use crate::support::{self, WHOLE, bytes_of, forgetful};

const SIZE: u64 = 10_000;

/// A server whose directory `dead` answers nothing but errors while the flag is set.
fn server(is_dead: &Arc<AtomicBool>) -> HttpServer {
    let (object, is_dead) = (Object::new(bytes_of(1, SIZE)), Arc::clone(is_dead));
    HttpServer::start(move |asked| {
        match asked.target.contains("/dead/") && is_dead.load(Ordering::Acquire) {
            true => Act::Answer(answer("503 Service Unavailable", &[], b"")),
            false => object.answer(asked),
        }
    })
}

fn requests(server: &HttpServer) -> usize {
    let asked = server.asked().into_iter();
    asked
        .filter(|asked| asked.target.contains("/dead/"))
        .count()
}

async fn open(server: &HttpServer) -> BlockCache {
    let origin = Http::open(&server.url("/"), &NetworkOptions::default()).expect("a URL");
    let settings = Settings {
        origin_breaker: Duration::from_millis(50),
        ..forgetful(None)
    };
    let cache = BlockCache::open(settings, Arc::new(origin)).await;
    cache.expect("it opens")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_directory_fails_at_once_and_is_read_again_when_it_answers() {
    let is_dead = Arc::new(AtomicBool::new(true));
    let server = server(&is_dead);
    let cache = open(&server).await;
    let dead = |number: usize| PathBuf::from(format!("dead/{number}"));
    let mut number = 0;
    let error = loop {
        number += 1;
        assert!(number < 1_000, "the breaker never opens");
        match cache.stat(&dead(number)).await {
            Ok(file) => panic!("{file:?}"),
            Err(error @ Error::Unanswered { .. }) => break error,
            Err(error) => assert!(error.is_outage(), "{error}"),
        }
    };
    assert_eq!(
        error.kind(),
        ErrorKind::Failed,
        "EIO: the server has said so"
    );
    let said = error.to_string();
    assert!(
        said.contains("requests to dead for ") && said.contains("the server answers 503"),
        "{said}"
    );
    let (sent, before) = (requests(&server), cache.table().totals);
    let readers: Vec<_> = (0..500)
        .map(|number| {
            let (cache, path) = (cache.clone(), dead(10_000 + number));
            tokio::spawn(async move { cache.stat(&path).await })
        })
        .collect();
    for number in 0..20 {
        let path = PathBuf::from(format!("alive/{number}"));
        let file = cache.stat(&path).await.expect("another directory");
        let bytes = cache.get(&file, WHOLE).await.expect("another directory");
        assert_eq!(bytes, bytes_of(1, SIZE));
    }
    for reader in readers {
        let error = reader.await.expect("no reader fails").expect_err("dead");
        assert!(error.is_outage() || matches!(error, Error::Unanswered { .. }));
    }
    let after = cache.table().totals;
    let probes = after.origin_probes - before.origin_probes;
    let refused = after.origin_refused - before.origin_refused;
    assert_eq!(probes + refused, 500, "{after:?}");
    // Each is sent three times at most: temporary failures are retried.
    let sent = u64::try_from(requests(&server) - sent).expect("few");
    assert!(sent <= 3 * probes, "{sent} requests by {probes} probes");
    assert!(after.origin_breaker_opened >= 1, "{after:?}");

    is_dead.store(false, Ordering::Release);
    let mut file = None;
    support::until("the directory answers again", || {
        let stat = tokio::task::block_in_place(|| {
            tokio::runtime::Handle::current().block_on(cache.stat(Path::new("dead/1")))
        });
        file = stat.ok();
        file.is_some()
    })
    .await;
    let bytes = cache.get(&file.expect("it answers"), WHOLE).await;
    assert_eq!(bytes.expect("it answers"), bytes_of(1, SIZE));
    for number in 0..20 {
        cache.stat(&dead(number)).await.expect("all of it is back");
    }
    assert!(cache.table().totals.origin_probes >= 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_that_are_missing_or_denied_open_no_breaker() {
    let server = HttpServer::start(|asked| {
        let status = match asked.target.ends_with('0') {
            true => "403 Forbidden",
            false if asked.target.ends_with('1') => "400 Bad Request",
            false => "404 Not Found",
        };
        Act::Answer(answer(status, &[], b""))
    });
    let cache = open(&server).await;
    for number in 0..300 {
        let error = cache.stat(Path::new(&format!("d/{number}"))).await;
        let error = error.expect_err("none is there");
        assert!(!matches!(error, Error::Unanswered { .. }), "{error}");
    }
    assert_eq!(cache.table().totals.origin_breaker_opened, 0);
}
