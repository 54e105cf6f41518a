//! Arguments of `cachewise cat`.

use std::path::PathBuf;

use cachewise_residency::order::Keep;
use clap::{Args, ValueEnum};

/// `cachewise cat`.
#[derive(Debug, Args)]
#[command(
    after_help = "Like cat(1), writes files in the order given. With --keep the pages that it inserts do not evict pages of \
    other programs: each is evicted after it has been written, and pages that were resident before stay. That holds also \
    when Ctrl-C or SIGTERM ends it. If residency is not visible to this user, cat evicts nothing and says so.\n\n\
    Exit status: 0 done; 2 something could not be done, or is not known; 128+N ended by signal N.\n\n\
    Examples:\n  \
    cachewise cat --keep /var/backups/db.dump | zstd > /mnt/db.dump.zst"
)]
pub struct Cat {
    /// Files to write, in this order.
    #[arg(value_name = "FILE", required = true)]
    pub paths: Vec<PathBuf>,
    /// Treatment of pages that cat inserts [default without --keep: share; --keep alone: as-found].
    #[arg(long, value_name = "POLICY", value_enum, num_args = 0..=1, require_equals = true,
        default_missing_value = "as-found", default_value = "share", hide_default_value = true)]
    pub keep: PagePolicy,
}

/// Treatment of the pages that `cat` inserts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PagePolicy {
    /// Leave them in the cache, as after any read.
    Share,
    /// Evict only what would displace resident pages; for one reader that reads the same files in cycles.
    Keep,
    /// Evict all of them, to leave the cache as it was.
    AsFound,
}

impl From<PagePolicy> for Keep {
    fn from(policy: PagePolicy) -> Keep {
        match policy {
            PagePolicy::Share => Keep::Share,
            PagePolicy::Keep => Keep::Keep,
            PagePolicy::AsFound => Keep::AsFound,
        }
    }
}
