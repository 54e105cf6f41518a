//! What origins behind a network share: requests that end, and which state an answer is of.

mod client;
mod state;

use std::path::Path;
use std::time::Duration;

pub(super) use client::{Client, Reply, Request, Want};
pub(super) use state::State;

use super::{Kind, Meta, Version};
use crate::Error;
use crate::remote::Secret;

/// How an origin behind a network is reached.
#[derive(Clone, Debug)]
pub struct NetworkOptions {
    /// What it is called in keys; its address unless said.
    pub identity: Option<String>,
    /// Every call ends within this time. As long as [`crate::Settings::deadline`], as nobody waits
    /// longer.
    pub deadline: Duration,
    /// What is sent as `Authorization` to an origin over HTTP, and to no other server that it may
    /// redirect to.
    pub authorization: Option<Secret>,
}

impl Default for NetworkOptions {
    fn default() -> Self {
        Self {
            identity: None,
            deadline: crate::Settings::default().deadline,
            authorization: None,
        }
    }
}

/// What stat shows of a directory. Nothing is cached of it but names, so that its version only has
/// to tell it from other directories.
pub(super) fn directory(path: &Path) -> Meta {
    Meta {
        kind: Kind::Directory,
        size: 0,
        version: Version::new(&format!("directory {}", path.to_string_lossy())),
        device: 0,
        modified: None,
        mode: 0o555,
        keep_from: None,
    }
}

/// Gives up when the time is over. What is under way ends with it: its connection is closed.
pub(super) async fn within<T>(
    deadline: Duration,
    path: &Path,
    call: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    match tokio::time::timeout(deadline, call).await {
        Ok(answer) => answer,
        Err(_) => Err(Error::Deadline {
            path: path.to_owned(),
            after: deadline,
            waiting_for: "the origin",
        }),
    }
}
