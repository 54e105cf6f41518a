//! [`MountOptions`]: how an origin is mounted.

use std::time::Duration;

/// How an origin is mounted.
#[derive(Clone, Debug)]
pub struct MountOptions {
    /// The source in the list of mounts: the origin.
    pub name: String,
    /// Time for which cached names and attributes are valid.
    pub revalidate: Duration,
    /// Whether other users may read, within the permission bits that the origin shows.
    pub allow_other: bool,
    /// Number of FUSE worker threads.
    pub threads: usize,
}

impl Default for MountOptions {
    fn default() -> Self {
        Self {
            name: "origin".to_owned(),
            revalidate: Duration::from_secs(3600),
            allow_other: false,
            threads: 4,
        }
    }
}
