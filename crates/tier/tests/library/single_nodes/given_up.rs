//! A server that takes questions and does not answer: what was given up is ended, and not waited for in secret.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use cachewise_tier::BlockCache;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::support::{BLOCK, Files, WHOLE, bytes_of, hasty, until};

/// The requests that the server received.
#[derive(Debug, Default)]
struct Seen {
    asked: AtomicUsize,
    /// Of the connections with a question, how many the other side has closed.
    closed: AtomicUsize,
}

/// Answers `PING`, and nothing else.
async fn silent(mut stream: TcpStream, seen: Arc<Seen>) {
    let mut buffer = [0; 4_096];
    let mut is_asked = false;
    while let Ok(read @ 1..) = stream.read(&mut buffer).await {
        let said = String::from_utf8_lossy(&buffer[..read]).into_owned();
        if said.contains("PING") && stream.write_all(b"+PONG\r\n").await.is_err() {
            break;
        }
        if said.contains("GET") && !is_asked {
            is_asked = true;
            seen.asked.fetch_add(1, Ordering::Relaxed);
        }
    }
    seen.closed
        .fetch_add(usize::from(is_asked), Ordering::Relaxed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_whose_answer_was_given_up_is_closed() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback");
    let address = listener.local_addr().expect("it is bound");
    let seen = Arc::new(Seen::default());
    let server = tokio::spawn({
        let seen = Arc::clone(&seen);
        async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(silent(stream, Arc::clone(&seen)));
            }
        }
    });
    let files = Files::new(6, BLOCK);
    let cache = BlockCache::open(hasty(&format!("redis://{address}")), files.origin())
        .await
        .expect("it opens");
    for (number, file) in files.settled(&cache).await.iter().enumerate() {
        let bytes = cache.get(file, WHOLE).await.expect("the origin has it");
        assert_eq!(bytes, bytes_of(number, files.size));
    }
    let asked = || seen.asked.load(Ordering::Relaxed);
    assert!(asked() >= 3, "until its breaker opened: {seen:?}");
    until("each is closed", || {
        seen.closed.load(Ordering::Relaxed) == asked()
    })
    .await;
    let node = &cache.table().nodes[0];
    assert!(node.deadline_misses >= 3 && node.opened >= 1, "{node:?}");
    server.abort();
}
