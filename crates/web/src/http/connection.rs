//! Accepting connections, with bounds: on their number, on the time for a request's head, on its size.
//!
//! When all slots are taken, the server closes the connection that has been idle longest. If all
//! connections have a request under way, it refuses the new one with status 503.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::http::{Request, header};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tower_service::Service;

use super::write_timeout::WriteTimeout;
use crate::events::CONTENT_TYPE;
use crate::options::Limits;

/// At shutdown, requests under way may take this long.
const AT_THE_END: Duration = Duration::from_secs(2);
/// Without descriptors or memory nothing can be accepted: no rush to try again.
const AGAIN: Duration = Duration::from_millis(50);
const MOST_HEADERS: usize = 64;
const FULL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 10\r\n\
    Content-Type: text/plain\r\nContent-Length: 21\r\n\r\ntoo many connections\n";

/// Accepts connections.
pub(super) trait Accept {
    type Stream: Stream;
    async fn next(&self) -> io::Result<Self::Stream>;
}

/// A connection.
pub(super) trait Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static {
    /// Writes what there is room for.
    fn try_to_write(&self, bytes: &[u8]) -> io::Result<usize>;
}

impl Accept for TcpListener {
    type Stream = TcpStream;

    async fn next(&self) -> io::Result<TcpStream> {
        let (stream, _) = self.accept().await?;
        // Small answers are not to wait for acknowledgements; if it cannot be set they do.
        let _ = stream.set_nodelay(true);
        Ok(stream)
    }
}

impl Accept for UnixListener {
    type Stream = UnixStream;

    async fn next(&self) -> io::Result<UnixStream> {
        Ok(self.accept().await?.0)
    }
}

impl Stream for TcpStream {
    fn try_to_write(&self, bytes: &[u8]) -> io::Result<usize> {
        self.try_write(bytes)
    }
}

impl Stream for UnixStream {
    fn try_to_write(&self, bytes: &[u8]) -> io::Result<usize> {
        self.try_write(bytes)
    }
}

struct ConnectionSlot {
    task: tokio::task::AbortHandle,
    busy: Arc<AtomicBool>,
}

/// Accepts until `end` says so.
pub(super) async fn accept(
    listener: impl Accept,
    router: Router,
    limits: Limits,
    mut end: watch::Receiver<bool>,
) -> io::Result<()> {
    let mut tasks: JoinSet<u64> = JoinSet::new();
    let mut slots: BTreeMap<u64, ConnectionSlot> = BTreeMap::new();
    for number in 0u64.. {
        let accepted = loop {
            tokio::select! {
                biased;
                () = ended(&mut end) => break None,
                Some(ended) = tasks.join_next() => {
                    if let Ok(number) = ended {
                        slots.remove(&number);
                    }
                }
                accepted = listener.next() => break Some(accepted),
            }
        };
        let stream = match accepted {
            None => break,
            Some(Ok(stream)) => stream,
            Some(Err(_)) => {
                // The client has gone, or there are no descriptors left: neither ends the server.
                tokio::time::sleep(AGAIN).await;
                continue;
            }
        };
        if slots.len() >= limits.connections {
            // A task that panicked did not return its number.
            slots.retain(|_, slot| !slot.task.is_finished());
        }
        if slots.len() >= limits.connections && !make_room(&mut slots) {
            refuse(&stream);
            continue;
        }
        let busy = Arc::new(AtomicBool::new(false));
        let serving = serve(stream, router.clone(), limits, busy.clone(), end.clone());
        let task = tasks.spawn(async move {
            serving.await;
            number
        });
        slots.insert(number, ConnectionSlot { task, busy });
    }
    drop(listener);
    let rest = async { while tasks.join_next().await.is_some() {} };
    // Clients that have not read their answer by then lose it.
    let _ = timeout(AT_THE_END, rest).await;
    Ok(())
}

/// Returns when the server is to end.
pub(super) async fn ended(end: &mut watch::Receiver<bool>) {
    // A dropped sender ends the server too.
    let _ = end.wait_for(|end| *end).await;
}

/// Ends the connection that has waited longest without a request.
fn make_room(slots: &mut BTreeMap<u64, ConnectionSlot>) -> bool {
    let idle = slots
        .iter()
        .find(|(_, slot)| !slot.busy.load(Ordering::Relaxed))
        .map(|(number, _)| *number);
    match idle.and_then(|number| slots.remove(&number)) {
        Some(slot) => {
            slot.task.abort();
            true
        }
        None => false,
    }
}

fn refuse(stream: &impl Stream) {
    // The answer fits into an empty send buffer. A client that does not read it sees the connection
    // close.
    let _ = stream.try_to_write(FULL);
}

async fn serve(
    stream: impl Stream,
    router: Router,
    limits: Limits,
    busy: Arc<AtomicBool>,
    mut end: watch::Receiver<bool>,
) {
    let service = service_fn(move |request: Request<Incoming>| {
        busy.store(true, Ordering::Relaxed);
        let answer = router.clone().call(request);
        let busy = busy.clone();
        async move {
            let answer = answer.await;
            let streams = answer.as_ref().is_ok_and(|answer| {
                let kind = answer.headers().get(header::CONTENT_TYPE);
                kind.is_some_and(|kind| kind.as_bytes() == CONTENT_TYPE.as_bytes())
            });
            busy.store(streams, Ordering::Relaxed);
            answer.map_err(|never: Infallible| never)
        }
    });
    let io = TokioIo::new(WriteTimeout::new(stream, limits.write));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head)
        .max_buf_size(limits.head_bytes)
        .max_headers(MOST_HEADERS)
        .serve_connection(io, service);
    tokio::pin!(connection);
    tokio::select! {
        // Garbage has been answered with 400; whatever else went wrong, the client knows.
        _ = connection.as_mut() => {}
        () = ended(&mut end) => {
            connection.as_mut().graceful_shutdown();
            let _ = connection.await;
        }
    }
}
