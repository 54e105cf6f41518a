//! `cachewise mount`, as typed.

use std::path::PathBuf;

use clap::Args;

use super::cache::SettingFlags;

/// `cachewise mount`.
#[derive(Debug, Args)]
#[command(
    after_help = "A read looks for its blocks in memory, on the local disk, on the cache servers (the engine), and then at the origin. It \
    does not wait for a slow server. Nothing is ever written to the origin.\n\n\
    An open file keeps the contents that it had when it was opened; if neither the cache nor the origin has them any \
    more, reads fail with ESTALE. A changed file becomes visible after --revalidate, or after such a failed read. `cachewise tier stat DIR` shows \
    requests, hits and latencies.\n\n\
    mount runs until Ctrl-C, SIGTERM or `fusermount3 -u DIR`. After kill -9 the next start removes the dead mount. As \
    mount.cachewise it is what `mount -t cachewise` and /etc/fstab start; systemd is notified (Type=notify).\n\n\
    Exit status: 0 unmounted; 2 something could not be done.\n\n\
    Examples:\n  \
    cachewise mount /srv/data /mnt\n  \
    cachewise mount /srv/data /mnt --disk /var/cache/blocks --disk-size 50G\n  \
    cachewise mount s3://bucket/data /mnt --disk /var/cache/blocks\n  \
    cachewise mount /srv/data /mnt --engine redis-cluster://10.0.0.1:6379,10.0.0.2:6379\n  \
    cachewise mount model@latest /mnt --store s3://bucket/store --trust publisher.pub"
)]
pub struct Mount {
    /// Origin: a directory, http://HOST/PATH, https://HOST/PATH or s3://BUCKET/PREFIX; with --store a published version,
    /// NAME@VERSION or NAME@latest.
    #[arg(value_name = "ORIGIN")]
    pub origin: String,
    /// Mount point: an empty directory.
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// Return once it is mounted, and go on in the background until it is unmounted.
    #[arg(long)]
    pub background: bool,
    /// The process of a mount in the background.
    #[arg(long, hide = true)]
    pub detached: bool,
    #[command(flatten)]
    pub settings: SettingFlags<true>,
}
