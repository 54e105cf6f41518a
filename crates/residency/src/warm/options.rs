//! How to bring a file in.

use std::num::NonZeroUsize;

use crate::{Limiter, Watch};

/// How [`warm()`](super::warm) works.
#[derive(Clone, Copy, Debug)]
pub struct WarmOptions<'a> {
    /// How many threads read one file, where more than 16 MiB of it is missing. One by default.
    pub threads: NonZeroUsize,
    /// How fast all that share it may read; as fast as can be by default.
    pub limiter: Option<&'a Limiter>,
    /// How the work is followed and stopped: bytes planned and read.
    pub watch: Watch<'a>,
}

impl Default for WarmOptions<'_> {
    fn default() -> Self {
        Self {
            threads: NonZeroUsize::MIN,
            limiter: None,
            watch: Watch::default(),
        }
    }
}
