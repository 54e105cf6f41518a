//! `cachewise tier key`, `publish`, `diff` and `gc`, as typed.

use std::path::PathBuf;

use cachewise_cli::arguments::{OUTPUT_WITHOUT_METRICS, Output};
use cachewise_cli::columns::SheetColumnsParser;
use cachewise_units::{Bytes, Period};
use cachewise_view::SheetColumns;
use clap::Args;

use crate::commands::columns;

/// `cachewise tier key`.
#[derive(Debug, Args)]
#[command(
    after_help = "key writes FILE, the secret key with which `tier publish` signs, and FILE.pub, the public key that mounts trust. It \
    prints the public key.\n\n\
    Exit status: 0 done; 2 a file exists or cannot be written.\n\n\
    Example:\n  \
    cachewise tier key /etc/cachewise/publisher"
)]
pub struct Key {
    /// File for the secret key, which only its owner may read.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
}

/// `cachewise tier publish`.
#[derive(Debug, Args)]
#[command(
    mut_arg("output", |output| output.help(OUTPUT_WITHOUT_METRICS)),
    after_help = "publish writes the files of ORIGIN that the store does not have, and then one signed record, which makes the version \
    visible at once. A version never changes. Files whose size, inode and times are those of the last version from this \
    machine are not read; nor are objects of a bucket or a server of HTTP whose size and ETag are. A file that changes while it \
    is read is read again, up to 3 times.\n\n\
    Exit status: 0 published; 2 something could not be done; no version is visible, unless the message \
    says that it is published.\n\n\
    Examples:\n  \
    cachewise tier publish /srv/model model@2026.11 --to /srv/store --key /etc/cachewise/publisher\n  \
    cachewise tier publish /srv/model model@2026.11 --to s3://bucket/store --key /etc/cachewise/publisher\n  \
    cachewise tier publish s3://bucket/model model@2026.11 --to /srv/store --key /etc/cachewise/publisher\n  \
    cachewise mount model@latest /mnt --store /srv/store --trust publisher.pub"
)]
pub struct Publish {
    /// Origin to publish: a directory, s3://BUCKET/PREFIX, or http://HOST/PATH or https://HOST/PATH of a server that lists by
    /// WebDAV. Endpoint and credentials of a bucket are in AWS_* variables.
    #[arg(value_name = "ORIGIN")]
    pub origin: PathBuf,
    /// Name of the tree and of the version.
    #[arg(value_name = "NAME@VERSION")]
    pub version: String,
    /// Store: a directory, made if it is missing, or s3://BUCKET/PREFIX, with endpoint and credentials in AWS_* variables.
    #[arg(long, value_name = "STORE")]
    pub to: PathBuf,
    /// File with the secret key; see `cachewise tier key`.
    #[arg(long, value_name = "FILE")]
    pub key: PathBuf,
    /// Size of a block: a power of two from 16K to 1M.
    #[arg(long, value_name = "BYTES", default_value = "128K")]
    pub block: Bytes,
    /// Time for which machines that have not seen NAME before accept the signature.
    #[arg(long, value_name = "TIME", default_value = "8760h")]
    pub valid: Period,
    /// Read all files, unchanged ones too, and write all blocks.
    #[arg(long)]
    pub full: bool,
    /// Directory for what this machine knows of its last version [default: /var/lib/cachewise of root,
    /// ~/.local/state/cachewise of other users] [env: CACHEWISE_TIER_STATE].
    #[arg(long, value_name = "DIRECTORY")]
    pub state: Option<PathBuf>,
    /// Columns of the table and of CSV, comma-separated ids or headings; see `cachewise tier columns`.
    #[arg(short, long, value_name = "LIST", value_parser = SheetColumnsParser(&[&columns::PUBLISHED]), hide_possible_values = true)]
    pub columns: Option<SheetColumns>,
    #[command(flatten)]
    pub output: Output,
}

/// `cachewise tier diff`.
#[derive(Debug, Args)]
#[command(
    mut_arg("output", |output| output.help(OUTPUT_WITHOUT_METRICS)),
    after_help = "diff lists names that were added or removed, or whose content or attributes differ. It reads only directories that \
    differ, and no file.\n\n\
    Exit status: 0 no difference; 1 there are differences; 2 something could not be done.\n\n\
    Example:\n  \
    cachewise tier diff --store /srv/store model@2026.10 model@2026.11"
)]
pub struct Diff {
    /// First version.
    #[arg(value_name = "NAME@VERSION")]
    pub one: String,
    /// Second version.
    #[arg(value_name = "NAME@VERSION2")]
    pub other: String,
    /// Store: a directory or s3://BUCKET/PREFIX.
    #[arg(long, value_name = "STORE")]
    pub store: PathBuf,
    /// Public key to trust: a file, or its 64 hexadecimal digits [default: signatures are not verified].
    #[arg(long, value_name = "KEY")]
    pub trust: Option<PathBuf>,
    /// Columns of the table and of CSV, comma-separated ids or headings; see `cachewise tier columns`.
    #[arg(short, long, value_name = "LIST", value_parser = SheetColumnsParser(&[&columns::DIFFERENCES]), hide_possible_values = true)]
    pub columns: Option<SheetColumns>,
    #[command(flatten)]
    pub output: Output,
}

/// `cachewise tier gc`.
#[derive(Debug, Args)]
#[command(
    mut_arg("output", |output| output.help(OUTPUT_WITHOUT_METRICS)),
    after_help = "gc removes all but the newest versions of each name, and the packs that no version left refers to. A mount of a removed \
    version fails at its next read from the store. gc and publish to a directory exclude each other on one machine; --age, \
    which must be longer than a publication takes, protects what others are publishing.\n\n\
    Exit status: 0 done; 2 something could not be done.\n\n\
    Example:\n  \
    cachewise tier gc /srv/store --keep 5 --dry-run"
)]
pub struct Gc {
    /// Store: a directory or s3://BUCKET/PREFIX.
    #[arg(value_name = "STORE")]
    pub store: PathBuf,
    /// Versions to keep of each name.
    #[arg(long, value_name = "NUMBER")]
    pub keep: usize,
    /// Keep packs that were written less than this time ago.
    #[arg(long, value_name = "TIME", default_value = "24h")]
    pub age: Period,
    /// Make the next version of each name leave packs of which less than a half is used; reads the trees of all versions.
    #[arg(long)]
    pub repack: bool,
    /// Report what would be removed, and remove nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Columns of the table and of CSV, comma-separated ids or headings; see `cachewise tier columns`.
    #[arg(short, long, value_name = "LIST", value_parser = SheetColumnsParser(&[&columns::COLLECTED]), hide_possible_values = true)]
    pub columns: Option<SheetColumns>,
    #[command(flatten)]
    pub output: Output,
}
