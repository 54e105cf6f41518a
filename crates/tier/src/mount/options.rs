//! [`MountOptions`]: how an origin is mounted.

use std::time::Duration;

/// How an origin is mounted.
#[derive(Clone, Debug)]
pub struct MountOptions {
    /// What the list of mounts calls it: the origin.
    pub name: String,
    /// For how long what was learnt of names and attributes is good.
    pub revalidate: Duration,
    /// Whether other users may read, within the permission bits that the origin shows.
    pub allow_other: bool,
    /// How many threads take the kernel's questions.
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
