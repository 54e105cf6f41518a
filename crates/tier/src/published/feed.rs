//! [`Feed`]: the records of a published name in a store, verified, from a directory or by network.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cachewise_units::ByteRange;

use super::error::PublishError;
use super::keys::PublicKey;
use super::publish::since_1970;
use super::record::{Record, VersionName};
use super::state::{Acceptance, accept};
use crate::{Error, Origin};

/// Length of a record at most.
const LONGEST: u64 = 16 << 10;

/// How often a record is read that is replaced meanwhile.
const READS: u32 = 5;

/// Where a version comes from, and who is trusted.
#[derive(Debug)]
pub struct Feed {
    /// The store: any origin.
    pub store: Arc<dyn Origin>,
    /// The version, or the newest one.
    pub name: VersionName,
    /// The publisher's key.
    pub key: PublicKey,
    /// Directory for the serials that this machine has seen.
    pub state: PathBuf,
    /// Whether older versions are accepted.
    pub how: Acceptance,
    /// Time limit for reading a record.
    pub deadline: Duration,
}

impl Feed {
    /// Reads the record, verifies it, and compares it with what this machine has seen.
    ///
    /// # Errors
    /// [`PublishError::NoVersion`], [`PublishError::Record`], [`PublishError::OtherKey`], [`PublishError::Signature`],
    /// [`PublishError::RolledBack`], [`PublishError::Expired`]; [`PublishError::Read`] for a store that cannot be read.
    pub async fn record(&self) -> Result<Record, PublishError> {
        let path = self.name.path();
        let path = Path::new(&path);
        let read = tokio::time::timeout(self.deadline, self.read(path)).await;
        let bytes = read.map_err(|_| Error::Deadline {
            path: path.to_owned(),
            after: self.deadline,
            waiting_for: "the record",
        })??;
        let record = Record::verify(&bytes, &self.name, &self.key)?;
        let now = since_1970().as_secs();
        accept(&self.state, &self.key, &record, self.how, now)?;
        Ok(record)
    }

    async fn read(&self, path: &Path) -> Result<Vec<u8>, PublishError> {
        let mut tries = 0;
        loop {
            match self.read_once(path).await {
                // Another version was published meanwhile.
                Err(Error::Changed { .. }) if tries < READS => tries += 1,
                Err(Error::NotFound { .. }) => {
                    return Err(PublishError::NoVersion {
                        version: self.name.to_string(),
                        there: self.versions().await,
                    });
                }
                read => return Ok(read?),
            }
        }
    }

    async fn read_once(&self, path: &Path) -> Result<Vec<u8>, Error> {
        let meta = self.store.stat(path).await?;
        if meta.size > LONGEST {
            let long = io::Error::new(io::ErrorKind::InvalidData, "too long for a record");
            return Err(Error::of_origin(path, "read", long));
        }
        let whole = ByteRange {
            start: 0,
            len: meta.size,
        };
        if whole.len == 0 {
            return Ok(Vec::new());
        }
        Ok(self.store.read(path, &meta, whole).await?.to_vec())
    }

    /// The versions of this name, as far as the store lists them.
    async fn versions(&self) -> Vec<String> {
        let folder = VersionName::folder(&self.name.name);
        let listed = self
            .store
            .list(Path::new(&folder))
            .await
            .unwrap_or_default();
        let names = listed.iter().map(|entry| entry.name.to_string_lossy());
        let mut names: Vec<String> = names.map(String::from).collect();
        names.sort_unstable();
        names.truncate(20);
        names
    }
}
