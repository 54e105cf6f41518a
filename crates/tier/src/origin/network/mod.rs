//! Common parts of network origins: requests with deadlines, and the state of an object in an
//! answer.

mod client;
mod state;

use std::fmt;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use cachewise_units::ByteRange;
use futures_util::future::BoxFuture;
use reqwest::StatusCode;

pub(super) use client::{Client, HttpReply, Request, Want};
pub(super) use state::ObjectState;

use super::{Entry, Kind, Meta, Origin, Subtree, Version};
use crate::Error;
use crate::remote::Secret;

/// How an origin behind a network is reached.
#[derive(Clone, Debug)]
pub struct NetworkOptions {
    /// Its name in keys; the address by default.
    pub identity: Option<String>,
    /// Every call ends within this time. Set it to [`crate::Settings::read_deadline`], the maximum wait
    /// of readers.
    pub read_deadline: Duration,
    /// The `Authorization` header for an HTTP origin. Servers that it redirects to do not get it.
    pub authorization: Option<Secret>,
}

impl Default for NetworkOptions {
    fn default() -> Self {
        Self {
            identity: None,
            read_deadline: crate::Settings::default().read_deadline,
            authorization: None,
        }
    }
}

/// Returns the metadata of a directory. Only names are cached of a directory, so its version need
/// only differ from those of other directories.
pub(super) fn directory(path: &Path) -> Meta {
    let version = Version::new(&format!("directory {}", path.to_string_lossy()));
    Meta::plain(Kind::Directory, 0, version)
}

/// Whether a status refuses a request, rather than report that the server cannot answer it now.
pub(super) fn is_refusal(status: StatusCode) -> bool {
    let is_temporary = matches!(
        status,
        StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS
    );
    status.is_client_error() && !is_temporary
}

/// An origin behind a network: its calls go on for as long as they like, and [`Origin`]'s end in time.
pub(super) trait OnNetwork: Send + Sync + fmt::Debug {
    /// As [`Origin::identity`].
    fn identity(&self) -> &str;

    /// Within what time each call ends.
    fn deadline(&self) -> Duration;

    /// As [`Origin::check`], at the origin's root.
    fn check(&self, root: &Path) -> impl Future<Output = Result<Option<String>, Error>> + Send;

    /// As [`Origin::stat`].
    fn stat(&self, path: &Path) -> impl Future<Output = Result<Meta, Error>> + Send;

    /// As [`Origin::list`].
    fn list(&self, path: &Path) -> impl Future<Output = Result<Vec<Entry>, Error>> + Send;

    /// See [`Origin::has_trees`].
    fn has_trees(&self) -> bool {
        false
    }

    /// See [`Origin::tree`].
    fn tree(&self, _path: &Path) -> impl Future<Output = Result<Option<Subtree>, Error>> + Send {
        std::future::ready(Ok(None))
    }

    /// See [`Origin::find`].
    fn find(
        &self,
        path: &Path,
    ) -> impl Future<Output = Result<(Meta, Option<Subtree>), Error>> + Send {
        async move { Ok((self.stat(path).await?, None)) }
    }

    /// As [`Origin::read`].
    fn read(
        &self,
        path: &Path,
        meta: &Meta,
        range: ByteRange,
    ) -> impl Future<Output = Result<Bytes, Error>> + Send;
}

impl<T: OnNetwork> Origin for T {
    fn identity(&self) -> &str {
        OnNetwork::identity(self)
    }

    fn check(&self) -> BoxFuture<'_, Result<Option<String>, Error>> {
        let root = Path::new("");
        Box::pin(within(self, root, OnNetwork::check(self, root)))
    }

    fn stat<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, Result<Meta, Error>> {
        Box::pin(within(self, path, OnNetwork::stat(self, path)))
    }

    fn list<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, Result<Vec<Entry>, Error>> {
        Box::pin(within(self, path, OnNetwork::list(self, path)))
    }

    fn has_trees(&self) -> bool {
        OnNetwork::has_trees(self)
    }

    fn tree<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, Result<Option<Subtree>, Error>> {
        Box::pin(within(self, path, OnNetwork::tree(self, path)))
    }

    fn find<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, Result<(Meta, Option<Subtree>), Error>> {
        Box::pin(within(self, path, OnNetwork::find(self, path)))
    }

    fn read<'a>(
        &'a self,
        path: &'a Path,
        meta: &'a Meta,
        range: ByteRange,
    ) -> BoxFuture<'a, Result<Bytes, Error>> {
        Box::pin(within(self, path, OnNetwork::read(self, path, meta, range)))
    }
}

/// Ends a call at the deadline. The request under way is dropped and its connection closed.
async fn within<T>(
    origin: &impl OnNetwork,
    path: &Path,
    call: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    let deadline = origin.deadline();
    match tokio::time::timeout(deadline, call).await {
        Ok(answer) => answer,
        Err(_) => Err(Error::Deadline {
            path: path.to_owned(),
            after: deadline,
            waiting_for: "the origin",
        }),
    }
}
