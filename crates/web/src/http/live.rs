//! Events: what each tick brought, for live views.
//!
//! An event is made once for all clients. A client that lags behind by more than a few is let go, as is one
//! that does not read: it comes back by itself, and gets the past from the history.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream::unfold;

use super::answer::problem;
use super::connection::ended;
use super::site::Site;
use crate::events::CONTENT_TYPE;

/// Gives a place back.
struct StreamPermit(Arc<AtomicUsize>);

impl Drop for StreamPermit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The stream.
pub(super) async fn events(State(site): State<Site>) -> Response {
    let held = StreamPermit(site.streams.clone());
    if site.streams.fetch_add(1, Ordering::Relaxed) >= site.options.limits.streams {
        return problem(
            StatusCode::SERVICE_UNAVAILABLE,
            "too many clients have live views open".into(),
        );
    }
    let start = (site.asking.events(), site.ending.clone(), held);
    let hello = Bytes::from_static(b"retry: 2000\n\n");
    let events = unfold((Some(hello), start), |(hello, mut state)| async move {
        if let Some(hello) = hello {
            return Some((Ok::<_, Infallible>(hello), (None, state)));
        }
        let (events, ending, _) = &mut state;
        let event = tokio::select! {
            () = ended(ending) => return None,
            event = events.recv() => event,
        };
        // Lagging behind ends it too.
        let event = Bytes::from_owner(Event(event.ok()?));
        Some((Ok(event), (None, state)))
    });
    let kind = [(header::CONTENT_TYPE, CONTENT_TYPE)];
    (kind, Body::from_stream(events)).into_response()
}

/// One text for all clients.
struct Event(Arc<str>);

impl AsRef<[u8]> for Event {
    fn as_ref(&self) -> &[u8] {
        self.0.as_bytes()
    }
}
