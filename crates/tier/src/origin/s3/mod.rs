//! [`S3`]: an origin that is a bucket of S3, or of a store that speaks its protocol.

mod objects;
mod service;
mod set_up;
mod tree;

use std::collections::HashMap;
use std::error::Error as StdError;
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

use bytes::{Bytes, BytesMut};
use cachewise_units::ByteRange;
use futures_util::StreamExt;
use object_store::aws::AmazonS3;
use object_store::list::{PaginatedListOptions, PaginatedListStore};
use object_store::path::Path as Key;
use object_store::{GetOptions, GetRange, ObjectMeta, ObjectStore};
use reqwest::StatusCode;

pub(crate) use self::objects::{S3Objects, When};
use self::service::Refused;
use super::network::{NetworkOptions, ObjectState, OnNetwork, directory, is_refusal};
use super::{Entry, Kind, Meta, Subtree, checked};
use crate::Error;

/// The operation of a look at an object, in errors.
const STAT: &str = "stat";

/// How many entries a directory may have.
const MOST_ENTRIES: usize = 1_000_000;

/// How long a time of the last change, which has whole seconds, may be that of another write too.
const STEP: Duration = Duration::from_secs(2);

/// An origin that is a bucket of S3 or of a compatible store, or the keys below a prefix. Slashes
/// in keys separate directories.
///
/// Endpoint and credentials come from the environment variables of the AWS tools:
/// `AWS_ENDPOINT_URL`, `AWS_REGION`, `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`,
/// `AWS_SESSION_TOKEN`, and those of containers and web identities. Without credentials, requests
/// are not signed. `AWS_ALLOW_HTTP=true` allows unencrypted connections.
///
/// # Cost
/// `stat` of an object and a read are one request each, `stat` of a directory two; a list takes one
/// for each 1,000 entries. [`Origin::tree`](super::Origin::tree) is one request for 1,000 keys, however deep.
pub struct S3 {
    store: AmazonS3,
    /// The prefix of all keys; empty, or with a slash at its end.
    prefix: String,
    identity: String,
    deadline: Duration,
}

impl fmt::Debug for S3 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("S3");
        debug.field("identity", &self.identity).finish()
    }
}

impl S3 {
    /// Takes `s3://BUCKET/PREFIX`. Sends no request yet.
    ///
    /// # Errors
    /// [`Error::Setting`] for what is no bucket, and for an environment that cannot be used.
    pub fn open(url: &str, options: &NetworkOptions) -> Result<Self, Error> {
        let found = set_up::open(url, options)?;
        Ok(Self {
            store: found.store,
            prefix: found.prefix,
            identity: found.identity,
            deadline: options.read_deadline,
        })
    }
}

impl S3 {
    /// The key of a path.
    fn key(&self, path: &Path) -> Result<Key, Error> {
        let wrong = |why| Error::Path {
            path: path.to_owned(),
            why,
        };
        let name = checked(path)?.to_str();
        let name = name.ok_or_else(|| wrong("keys of S3 are text in UTF-8, and this is none"))?;
        Key::parse(format!("{}{name}", self.prefix)).map_err(|_| {
            wrong("a control character or an empty name: no key that can be asked for")
        })
    }

    /// Returns the key prefix of a directory.
    fn below(&self, path: &Path) -> Result<String, Error> {
        match path.as_os_str().is_empty() {
            true => Ok(self.prefix.clone()),
            false => Ok(format!("{}/", self.key(path)?)),
        }
    }

    /// A page of the keys with a prefix: whole keys, or up to the next slash.
    async fn page(
        &self,
        path: &Path,
        operation: &'static str,
        prefix: &str,
        options: PaginatedListOptions,
    ) -> Result<object_store::list::PaginatedListResult, Error> {
        let prefix = (!prefix.is_empty()).then_some(prefix);
        let page = self.store.list_paginated(prefix, options).await;
        page.map_err(|error| match failed(path, operation, &error) {
            // Of a list, this is about the bucket.
            Error::NotFound { .. } => Error::of_origin(
                path,
                operation,
                io::Error::other("there is no such bucket at this store"),
            ),
            error => error,
        })
    }
}

impl S3 {
    /// Looks at an object, and not at a directory of its name.
    async fn object(&self, path: &Path) -> Result<Meta, Error> {
        let options = GetOptions {
            head: true,
            ..GetOptions::default()
        };
        let found = self.store.get_opts(&self.key(path)?, options).await;
        match found.map_err(|error| failed(path, STAT, &error)) {
            Ok(found) => meta(path, &found.meta),
            Err(error) => Err(error),
        }
    }

    /// Returns a directory, if there is any key below it.
    async fn directory(&self, path: &Path) -> Result<Meta, Error> {
        let one = PaginatedListOptions {
            max_keys: Some(1),
            ..PaginatedListOptions::default()
        };
        let below = self.below(path)?;
        let page = self.page(path, STAT, &below, one).await?.result;
        match page.objects.is_empty() && page.common_prefixes.is_empty() {
            true => Err(Error::NotFound {
                path: path.to_owned(),
            }),
            false => Ok(directory(path)),
        }
    }
}

impl OnNetwork for S3 {
    fn identity(&self) -> &str {
        &self.identity
    }

    fn deadline(&self) -> Duration {
        self.deadline
    }

    async fn check(&self, root: &Path) -> Result<Option<String>, Error> {
        let one = PaginatedListOptions {
            max_keys: Some(1),
            ..PaginatedListOptions::default()
        };
        match self.page(root, "list", &self.prefix, one).await {
            Ok(_) => Ok(None),
            Err(Error::Denied { source, .. }) => Ok(Some(format!(
                "the bucket cannot be listed ({source}): files are found by their names if they may be read, \
                 directories are not; keys are taken from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment"
            ))),
            Err(error) => Err(error),
        }
    }

    async fn stat(&self, path: &Path) -> Result<Meta, Error> {
        if path.as_os_str().is_empty() {
            return Ok(directory(path));
        }
        match self.object(path).await {
            Err(Error::NotFound { .. }) => self.directory(path).await,
            found => found,
        }
    }

    fn has_trees(&self) -> bool {
        true
    }

    async fn tree(&self, path: &Path) -> Result<Option<Subtree>, Error> {
        self.subtree(path).await.map(Some)
    }

    async fn find(&self, path: &Path) -> Result<(Meta, Option<Subtree>), Error> {
        self.object_or_subtree(path).await
    }

    async fn list(&self, path: &Path) -> Result<Vec<Entry>, Error> {
        const LIST: &str = "list";
        let below = self.below(path)?;
        let wrong = |why: &'static str| Error::of_origin(path, LIST, io::Error::other(why));
        let mut found_here: HashMap<OsString, (Kind, Option<Meta>)> = HashMap::new();
        let mut is_there = false;
        let mut next: Option<String> = None;
        loop {
            let options = PaginatedListOptions {
                delimiter: Some("/".into()),
                page_token: next.clone(),
                ..PaginatedListOptions::default()
            };
            let page = self.page(path, LIST, &below, options).await?;
            is_there |= !page.result.objects.is_empty();
            for found in &page.result.common_prefixes {
                if let Some(name) = name(found, &below) {
                    let meta = directory(&path.join(&name));
                    let it = (Kind::Directory, Some(meta));
                    found_here.entry(name).or_insert(it);
                }
            }
            for found in &page.result.objects {
                // A key that ends with a slash stands for the directory itself, not for a file in
                // it.
                if let Some(name) = name(&found.location, &below) {
                    // Where both are there, the path is the object's.
                    let meta = meta(path, found).ok();
                    found_here.insert(name, (Kind::File, meta));
                }
            }
            if found_here.len() > MOST_ENTRIES {
                return Err(wrong("more than a million entries in one directory"));
            }
            match page.page_token {
                None => break,
                token if token == next => return Err(wrong("the server's list does not go on")),
                token => next = token,
            }
        }
        if found_here.is_empty() && !is_there && !path.as_os_str().is_empty() {
            return Err(Error::NotFound {
                path: path.to_owned(),
            });
        }
        let entries = found_here.into_iter().map(|(name, (kind, meta))| Entry {
            meta: meta.map(Box::new),
            ..Entry::new(name, kind)
        });
        Ok(entries.collect())
    }

    async fn read(&self, path: &Path, meta: &Meta, range: ByteRange) -> Result<Bytes, Error> {
        const READ: &str = "read";
        let changed = |what| Error::Changed {
            path: path.to_owned(),
            what,
        };
        if range.is_empty() {
            return Ok(Bytes::new());
        }
        let Some(state) = ObjectState::of_version(&meta.version) else {
            return Err(changed("it is not of this origin"));
        };
        let options = GetOptions {
            if_match: state.etag().map(str::to_owned),
            range: Some(GetRange::Bounded(range.start..range.end())),
            ..GetOptions::default()
        };
        let found = self.store.get_opts(&self.key(path)?, options).await;
        let found = found.map_err(|error| failed(path, READ, &error))?;
        if found.meta.size != meta.size {
            return Err(changed("its size is another"));
        }
        if state_of(&found.meta).as_ref() != Some(&state) {
            return Err(changed("it was written or replaced"));
        }
        let wanted = usize::try_from(range.len).unwrap_or(usize::MAX);
        let mut bytes = BytesMut::new();
        let mut parts = found.into_stream();
        while let Some(part) = parts.next().await {
            let part = part.map_err(|error| failed(path, READ, &error))?;
            if part.len() > wanted.saturating_sub(bytes.len()) {
                let why = "the server sends more than was asked for";
                return Err(Error::of_origin(path, READ, io::Error::other(why)));
            }
            bytes.extend_from_slice(&part);
        }
        match bytes.len() == wanted {
            true => Ok(bytes.freeze()),
            false => Err(changed("the read was short")),
        }
    }
}

/// The name in a directory of what a key stands for, if it stands for something right in it.
fn name(key: &Key, below: &str) -> Option<OsString> {
    let name = key.as_ref().strip_prefix(below)?;
    let is_plain = !name.is_empty() && !name.contains('/');
    is_plain.then(|| OsString::from(name))
}

fn state_of(found: &ObjectMeta) -> Option<ObjectState> {
    // A store that tells no time has this one.
    let modified = SystemTime::from(found.last_modified);
    let modified = (modified > SystemTime::UNIX_EPOCH).then_some(modified);
    ObjectState::new(found.e_tag.as_deref().unwrap_or_default(), modified)
}

fn meta(path: &Path, found: &ObjectMeta) -> Result<Meta, Error> {
    let Some(state) = state_of(found) else {
        let why = "the store tells no ETag, nor when it was written: nobody could say whether bytes are old";
        return Err(Error::of_origin(path, "stat", io::Error::other(why)));
    };
    // An ETag of S3 is made of the bytes, or of that write alone.
    let keep_from = match state.etag() {
        Some(_) => None,
        None => state.modified().and_then(|at| at.checked_add(STEP)),
    };
    Ok(Meta {
        modified: state.modified(),
        keep_from,
        ..Meta::plain(Kind::File, found.size, state.version())
    })
}

/// Finds an error among the sources of another.
fn under<'a, E: StdError + 'static>(error: &'a (dyn StdError + 'static)) -> Option<&'a E> {
    let mut cause = Some(error);
    while let Some(found) = cause {
        if let Some(wanted) = found.downcast_ref() {
            return Some(wanted);
        }
        cause = found.source();
    }
    None
}

/// Maps an error of the store to one of the kernel's kinds.
fn met(error: &object_store::Error) -> io::Error {
    let Some(refused) = under::<Refused>(error) else {
        // The transport's error says more than the client's.
        let (kind, said) = match under::<io::Error>(error) {
            Some(met) => (met.kind(), met.to_string()),
            None => (io::ErrorKind::Other, error.to_string()),
        };
        return io::Error::new(kind, said);
    };
    let kind = match refused.status {
        StatusCode::NOT_FOUND => io::ErrorKind::NotFound,
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => io::ErrorKind::PermissionDenied,
        _ if is_refusal(refused.status) => io::ErrorKind::InvalidInput,
        _ => io::ErrorKind::Other,
    };
    let next = match refused.status.is_redirection() {
        true => "; is AWS_REGION the bucket's?",
        false => "",
    };
    io::Error::new(kind, format!("{refused}{next}"))
}

/// Maps an error of the store to an error of the origin.
fn failed(path: &Path, operation: &'static str, error: &object_store::Error) -> Error {
    let changed = |what| Error::Changed {
        path: path.to_owned(),
        what,
    };
    match under::<Refused>(error).map(|refused| refused.status) {
        Some(StatusCode::PRECONDITION_FAILED) => changed("it was written or replaced"),
        Some(StatusCode::RANGE_NOT_SATISFIABLE) => changed("it shrank"),
        _ => Error::of_origin(path, operation, met(error)),
    }
}
