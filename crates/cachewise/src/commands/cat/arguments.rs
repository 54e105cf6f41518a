//! Arguments of `cachewise cat`.

use std::path::PathBuf;

use cachewise_residency::order::Keep;
use clap::{Args, ValueEnum};

/// `cachewise cat`.
#[derive(Debug, Args)]
#[command(
    after_help = "Like cat(1), in the order given. With --keep what it brings in does not throw out what others use: it is \
    dropped once it has been written, and what was resident before stays: also when Ctrl-C or SIGTERM ends it. Where nobody \
    tells this user what was resident, nothing can be dropped; that is said.\n\n\
    Exit status: 0 done; 2 something could not be done, or is not known; 128+N ended by signal N.\n\n\
    Examples:\n  \
    cachewise cat --keep /var/backups/db.dump | zstd > /mnt/db.dump.zst"
)]
pub struct Cat {
    /// Files.
    #[arg(value_name = "FILE", required = true)]
    pub paths: Vec<PathBuf>,
    /// What becomes of the pages that are brought in; as-found where nothing else is said.
    #[arg(long, value_name = "POLICY", value_enum, num_args = 0..=1, require_equals = true, default_missing_value = "as-found", default_value = "share")]
    pub keep: Policy,
}

/// Treatment of the pages that `cat` inserts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Policy {
    /// They stay, as after any read.
    Share,
    /// Those that would throw out resident ones are dropped: for the only reader, again and again.
    Keep,
    /// All are dropped: the cache is left as it was found.
    AsFound,
}

impl From<Policy> for Keep {
    fn from(policy: Policy) -> Keep {
        match policy {
            Policy::Share => Keep::Share,
            Policy::Keep => Keep::Keep,
            Policy::AsFound => Keep::AsFound,
        }
    }
}
