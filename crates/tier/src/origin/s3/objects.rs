//! [`S3Objects`]: the objects below a prefix of a bucket, read, written and removed by their names.

use std::fmt;
use std::io;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use object_store::aws::AmazonS3;
use object_store::list::{PaginatedListOptions, PaginatedListStore};
use object_store::path::Path as Key;
use object_store::{
    GetOptions, GetRange, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload,
    UpdateVersion,
};
use reqwest::StatusCode;

use super::service::Refused;
use super::{met, set_up, under};
use crate::Error;
use crate::origin::network::NetworkOptions;

/// Time limit of one request with its retries. A pack of 16 MiB takes this long at 30 KB/s.
const LONGEST: Duration = Duration::from_secs(600);

/// Three times the limit of the first attempt of a request.
const DEADLINE: Duration = Duration::from_secs(90);

/// The condition under which an object is written.
#[derive(Clone, Debug)]
pub(crate) enum When {
    Always,
    /// No object has this name.
    Missing,
    /// The object of this name has this ETag.
    Same(String),
}

/// An object in a list, by its name below the listed folder.
#[derive(Clone, Debug)]
pub(crate) struct Listed {
    pub name: String,
    pub bytes: u64,
    /// When it was written, by the clock of the store.
    pub modified: SystemTime,
}

/// The objects below a prefix.
#[derive(Clone)]
pub(crate) struct S3Objects {
    store: AmazonS3,
    /// Empty, or with a slash at its end.
    prefix: String,
    identity: String,
}

impl fmt::Debug for S3Objects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("S3Objects");
        debug.field("identity", &self.identity).finish()
    }
}

impl S3Objects {
    /// Takes `s3://BUCKET/PREFIX`, with the environment that [`super::S3`] takes. Sends no request yet.
    ///
    /// # Errors
    /// [`Error::Setting`].
    pub(crate) fn open(url: &str) -> Result<Self, Error> {
        let options = NetworkOptions {
            read_deadline: DEADLINE,
            ..NetworkOptions::default()
        };
        let found = set_up::open(url, &options).map_err(|error| match error {
            Error::Setting { why, .. } => Error::Setting {
                setting: "store",
                why,
            },
            error => error,
        })?;
        Ok(Self {
            store: found.store,
            prefix: found.prefix,
            identity: found.identity,
        })
    }

    /// Returns its name, which is that of all machines with the same endpoint.
    pub(crate) fn identity(&self) -> &str {
        &self.identity
    }

    fn key(&self, name: &str) -> io::Result<Key> {
        Key::parse(format!("{}{name}", self.prefix)).map_err(io::Error::other)
    }

    /// Returns an object with its ETag, or a part of it; `None` where it is missing. A part is shorter where the object ends.
    pub(crate) async fn get(
        &self,
        name: &str,
        part: Option<std::ops::Range<u64>>,
    ) -> io::Result<Option<(Bytes, Option<String>)>> {
        let options = GetOptions {
            range: part.map(GetRange::Bounded),
            ..GetOptions::default()
        };
        let key = self.key(name)?;
        let found = within(async {
            let found = self.store.get_opts(&key, options).await?;
            let etag = found.meta.e_tag.clone();
            Ok((found.bytes().await?, etag))
        });
        match found.await? {
            Ok(found) => Ok(Some(found)),
            Err(error) => match status(&error) {
                Some(StatusCode::NOT_FOUND) => Ok(None),
                Some(StatusCode::RANGE_NOT_SATISFIABLE) => Ok(Some((Bytes::new(), None))),
                _ => Err(met(&error)),
            },
        }
    }

    /// Writes an object. Returns `false`, and writes nothing, where the condition does not hold.
    ///
    /// A request whose answer was lost is sent again: `false` may also mean that the first one wrote these bytes.
    pub(crate) async fn put(&self, name: &str, bytes: Bytes, when: When) -> io::Result<bool> {
        let is_conditional = !matches!(when, When::Always);
        let mode = match when {
            When::Always => PutMode::Overwrite,
            When::Missing => PutMode::Create,
            When::Same(etag) => PutMode::Update(UpdateVersion {
                e_tag: Some(etag),
                version: None,
            }),
        };
        let key = self.key(name)?;
        let options = PutOptions::from(mode);
        let put = self.store.put_opts(&key, PutPayload::from(bytes), options);
        match within(put).await? {
            Ok(_) => Ok(true),
            Err(error) => match status(&error) {
                // 409: another conditional write goes on. 404: of a condition on an object that was removed.
                Some(
                    StatusCode::PRECONDITION_FAILED | StatusCode::CONFLICT | StatusCode::NOT_FOUND,
                ) if is_conditional => Ok(false),
                _ => Err(met(&error)),
            },
        }
    }

    /// Lists the objects below a folder, with those of its folders if the list is deep; else these are entries
    /// without bytes.
    pub(crate) async fn list(&self, folder: &str, is_deep: bool) -> io::Result<Vec<Listed>> {
        let below = match folder {
            "" => self.prefix.clone(),
            folder => format!("{}{folder}/", self.prefix),
        };
        let mut found = Vec::new();
        let mut next: Option<String> = None;
        loop {
            let options = PaginatedListOptions {
                delimiter: (!is_deep).then(|| "/".into()),
                page_token: next.clone(),
                ..PaginatedListOptions::default()
            };
            let prefix = (!below.is_empty()).then_some(below.as_str());
            let page = within(self.store.list_paginated(prefix, options)).await?;
            let page = page.map_err(|error| met(&error))?;
            let name = |key: &Key| key.as_ref().strip_prefix(&below).map(str::to_owned);
            for key in &page.result.common_prefixes {
                found.extend(name(key).map(|name| Listed {
                    name: name.trim_end_matches('/').to_owned(),
                    bytes: 0,
                    modified: SystemTime::UNIX_EPOCH,
                }));
            }
            for object in &page.result.objects {
                found.extend(name(&object.location).map(|name| Listed {
                    name,
                    bytes: object.size,
                    modified: object.last_modified.into(),
                }));
            }
            match page.page_token {
                None => return Ok(found),
                token if token == next => {
                    return Err(io::Error::other("the server's list does not go on"));
                }
                token => next = token,
            }
        }
    }

    /// Removes an object, if it is there.
    pub(crate) async fn remove(&self, name: &str) -> io::Result<()> {
        let key = self.key(name)?;
        match within(self.store.delete(&key)).await? {
            Ok(()) => Ok(()),
            Err(error) if status(&error) == Some(StatusCode::NOT_FOUND) => Ok(()),
            Err(error) => Err(met(&error)),
        }
    }
}

fn status(error: &object_store::Error) -> Option<StatusCode> {
    under::<Refused>(error).map(|refused| refused.status)
}

async fn within<T>(call: impl Future<Output = T>) -> io::Result<T> {
    tokio::time::timeout(LONGEST, call).await.map_err(|_| {
        let text = format!("no answer within {} s", LONGEST.as_secs());
        io::Error::new(io::ErrorKind::TimedOut, text)
    })
}
