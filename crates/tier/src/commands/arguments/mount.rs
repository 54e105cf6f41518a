//! `cachewise mount`, as typed.

use std::path::PathBuf;

use clap::Args;

use super::cache::SettingFlags;

/// `cachewise mount`.
#[derive(Debug, Args)]
#[command(
    after_help = "Reads go to memory, then to the local disk, then to the engine, then to the origin. A server that is slow is not \
    waited for. Nothing is ever written to the origin.\n\n\
    An open file stays what it was when it was opened, or reads fail with ESTALE; a file that changed at the origin is \
    seen when --revalidate is over, or when bytes were read that are gone. `cachewise tier stat DIR` shows what was \
    asked, and what came from where.\n\n\
    Runs until Ctrl-C, SIGTERM or `fusermount3 -u DIR`. After kill -9 the next start cleans up.\n\n\
    Exit status: 0 unmounted; 2 it cannot be done.\n\n\
    Examples:\n  \
    cachewise mount /srv/data /mnt\n  \
    cachewise mount /srv/data /mnt --disk /var/cache/blocks --disk-size 50G\n  \
    cachewise mount s3://bucket/data /mnt --disk /var/cache/blocks\n  \
    cachewise mount /srv/data /mnt --engine redis-cluster://10.0.0.1:6379,10.0.0.2:6379"
)]
pub struct Mount {
    /// Origin: a directory, http://HOST/PATH, https://HOST/PATH or s3://BUCKET/PREFIX.
    #[arg(value_name = "ORIGIN")]
    pub origin: String,
    /// Where to mount it: an empty directory.
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    #[command(flatten)]
    pub settings: SettingFlags<true>,
}
