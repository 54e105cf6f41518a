//! [`OriginBreaker`]: requests to a part of the origin that answers nothing but errors fail at once.
//!
//! Each object, each directory and the origin itself is a *scope*. A scope opens when for some time all requests in it
//! have failed, several of them, and of several objects or directories below it: an object alone is a scope of its
//! own. While a scope is open, requests in it are refused without being sent; when its time is over, one request tests
//! whether the origin answers again. An answer closes the scopes of its object, of all directories above it and of the
//! origin.
//!
//! "Not found", "access denied" and "changed" are answers: see [`Error::is_outage`].

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use tokio::time::Instant;

use crate::counters::{Count, Totals};
use crate::{Error, Settings};

/// Failures in a row without which no scope opens.
const LEAST: u32 = 4;
/// Maximum scopes with failures that are known at a time.
const MOST_SCOPES: usize = 4_096;

/// Whether requests to the origin are sent, for each part of it.
#[derive(Clone, Debug)]
pub(crate) struct OriginBreaker(Arc<BreakerInner>);

#[derive(Debug)]
struct BreakerInner {
    /// Time of failures after which a scope opens; 0 is never.
    after: Duration,
    first_open: Duration,
    longest_open: Duration,
    scopes: Mutex<Scopes>,
    /// Number of scopes with failures: where there are none, the table is left alone.
    failing: AtomicUsize,
    has_opened: Notify,
    opened: Count,
    refused: Count,
    probes: Count,
}

#[derive(Debug)]
struct Scopes {
    known: HashMap<PathBuf, Scope>,
    /// Time of the last answer of the origin, to any request.
    answered: Instant,
}

/// A part of the origin that has answered nothing since a request to it failed.
#[derive(Debug)]
struct Scope {
    /// Time since which no request was answered.
    since: Instant,
    failures: u32,
    /// The name, below this scope, of the first object or directory that failed; `None` for an object.
    below: Option<OsString>,
    /// Whether others below this scope failed too; always for an object.
    is_several: bool,
    state: ScopeState,
    last: Error,
}

#[derive(Clone, Copy, Debug)]
enum ScopeState {
    Closed,
    Open { until: Instant, length: Duration },
    Probing { length: Duration },
}

impl OriginBreaker {
    pub(crate) fn new(settings: &Settings) -> Self {
        Self(Arc::new(BreakerInner {
            after: settings.origin_breaker,
            first_open: settings.breaker_open,
            longest_open: settings.breaker_open_max,
            scopes: Mutex::new(Scopes {
                known: HashMap::new(),
                answered: Instant::now(),
            }),
            failing: AtomicUsize::new(0),
            has_opened: Notify::new(),
            opened: Count::default(),
            refused: Count::default(),
            probes: Count::default(),
        }))
    }

    /// Permits a request for an object, or refuses it at once. The caller reports the outcome to [`OriginPass`].
    ///
    /// # Errors
    /// [`Error::Unanswered`].
    pub(crate) fn admit(&self, path: &Path) -> Result<OriginPass, Error> {
        let mut pass = OriginPass {
            breaker: self.clone(),
            path: path.to_owned(),
            begun: Instant::now(),
            probes: Vec::new(),
            is_failed: false,
        };
        if self.0.failing.load(Ordering::Relaxed) == 0 {
            return Ok(pass);
        }
        let mut scopes = self.0.scopes();
        self.0.check(&scopes, path, pass.begun)?;
        for name in path.ancestors() {
            if let Some(scope) = scopes.known.get_mut(name)
                && let ScopeState::Open { length, .. } = scope.state
            {
                scope.state = ScopeState::Probing { length };
                pass.probes.push(name.to_owned());
            }
        }
        if !pass.probes.is_empty() {
            self.0.probes.one();
        }
        Ok(pass)
    }

    /// Refuses a request that waits for its turn, if the breaker has opened meanwhile.
    pub(crate) fn check_waiting(&self, pass: &OriginPass) -> Result<(), Error> {
        let is_probe = !pass.probes.is_empty();
        if is_probe || self.0.failing.load(Ordering::Relaxed) == 0 {
            return Ok(());
        }
        self.0.check(&self.0.scopes(), &pass.path, Instant::now())
    }

    /// Completes when a scope opens.
    pub(crate) fn opens(&self) -> Notified<'_> {
        self.0.has_opened.notified()
    }

    pub(crate) fn add_to(&self, totals: &mut Totals) {
        totals.origin_breaker_opened = self.0.opened.get();
        totals.origin_refused = self.0.refused.get();
        totals.origin_probes = self.0.probes.get();
    }
}

impl BreakerInner {
    fn scopes(&self) -> MutexGuard<'_, Scopes> {
        // Each change is whole before anything can panic.
        self.scopes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Refuses a request in a scope that is open, and whose time is not over.
    fn check(&self, scopes: &Scopes, path: &Path, now: Instant) -> Result<(), Error> {
        for name in path.ancestors() {
            let Some(scope) = scopes.known.get(name) else {
                continue;
            };
            let again = match scope.state {
                ScopeState::Open { until, .. } if now < until => until - now,
                ScopeState::Probing { .. } => Duration::ZERO,
                ScopeState::Open { .. } | ScopeState::Closed => continue,
            };
            self.refused.one();
            return Err(Error::Unanswered {
                path: path.to_owned(),
                scope: name.to_owned(),
                failures: scope.failures,
                since: now.duration_since(scope.since),
                again,
                last: Box::new(scope.last.clone()),
            });
        }
        Ok(())
    }

    /// Notes that the origin has answered a request for an object.
    fn answered(&self, path: &Path) {
        if self.after.is_zero() {
            return;
        }
        let is_healthy = self.failing.load(Ordering::Relaxed) == 0;
        let mut scopes = self.scopes();
        scopes.answered = Instant::now();
        if is_healthy {
            return;
        }
        for name in path.ancestors() {
            scopes.known.remove(name);
        }
        self.failing.store(scopes.known.len(), Ordering::Relaxed);
    }

    /// Notes that the origin has not answered a request, which began at `begun`.
    fn failed(&self, path: &Path, begun: Instant, probes: &[PathBuf], error: &Error) {
        if self.after.is_zero() {
            return;
        }
        let now = Instant::now();
        let mut scopes = self.scopes();
        if scopes.known.len() >= MOST_SCOPES {
            let is_open = |scope: &Scope| !matches!(scope.state, ScopeState::Closed);
            scopes.known.retain(|_, scope| is_open(scope));
        }
        let since = begun.max(scopes.answered);
        let mut below: Option<&OsStr> = None;
        let mut has_opened = false;
        for name in path.ancestors() {
            let scope = scopes.known.entry(name.to_owned());
            let scope = scope.or_insert_with(|| Scope {
                since,
                failures: 0,
                below: below.map(OsStr::to_owned),
                is_several: below.is_none(),
                state: ScopeState::Closed,
                last: error.clone(),
            });
            scope.failures = scope.failures.saturating_add(1);
            scope.is_several |= scope.below.as_deref() != below;
            scope.last = error.clone();
            let length = match scope.state {
                ScopeState::Closed => {
                    let is_long = now.duration_since(scope.since) >= self.after;
                    let opens = is_long && scope.failures >= LEAST && scope.is_several;
                    opens.then_some(self.first_open)
                }
                ScopeState::Probing { length } if probes.iter().any(|probe| probe == name) => {
                    Some(length.saturating_mul(2).min(self.longest_open))
                }
                ScopeState::Probing { .. } | ScopeState::Open { .. } => None,
            };
            if let Some(length) = length {
                let until = now + length;
                scope.state = ScopeState::Open { until, length };
                self.opened.one();
                has_opened = true;
            }
            below = name.file_name();
        }
        self.failing.store(scopes.known.len(), Ordering::Relaxed);
        drop(scopes);
        if has_opened {
            self.has_opened.notify_waiters();
        }
    }

    /// Notes that a request that was to test some scopes was not sent.
    fn was_not_sent(&self, probes: &[PathBuf]) {
        let now = Instant::now();
        let mut scopes = self.scopes();
        for name in probes {
            if let Some(scope) = scopes.known.get_mut(name)
                && let ScopeState::Probing { length } = scope.state
            {
                let until = now + length;
                scope.state = ScopeState::Open { until, length };
            }
        }
    }
}

/// The permission for one request. Reports that it was not sent, if it is dropped without a report.
#[derive(Debug)]
pub(crate) struct OriginPass {
    breaker: OriginBreaker,
    path: PathBuf,
    begun: Instant,
    /// The scopes that this request tests.
    probes: Vec<PathBuf>,
    is_failed: bool,
}

impl OriginPass {
    /// Notes that the request has taken so long that it counts as failed, whatever comes of it.
    pub(crate) fn is_stuck(&mut self, error: &Error) {
        let breaker = &self.breaker.0;
        breaker.failed(&self.path, self.begun, &self.probes, error);
        self.probes.clear();
        self.is_failed = true;
    }

    /// Notes the outcome of the request.
    pub(crate) fn ended(mut self, error: Option<&Error>) {
        match error.filter(|error| error.is_outage()) {
            None => self.breaker.0.answered(&self.path),
            Some(_) if self.is_failed => {}
            Some(error) => {
                let breaker = &self.breaker.0;
                breaker.failed(&self.path, self.begun, &self.probes, error);
            }
        }
        self.probes.clear();
    }
}

impl Drop for OriginPass {
    fn drop(&mut self) {
        if !self.probes.is_empty() {
            self.breaker.0.was_not_sent(&self.probes);
        }
    }
}

#[cfg(test)]
mod tests;
