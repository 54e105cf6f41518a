//! Arguments of `cachewise warm`.

use std::path::PathBuf;

use cachewise_units::Bytes;
use clap::Args;

use crate::acting::Target;
use crate::options::{SeparatedPathList, parse_rate};

/// `cachewise warm`.
#[derive(Debug, Args)]
#[command(
    after_help = "Only pages that are not resident are read; holes are skipped. The table shows pages that did not stay: \
    memory, or the limit of the control group, is too small for them.\n\n\
    Exit status: 0 done; 2 something could not be read or did not stay, or residency is unknown: it is visible only to \
    users who own or may write the file; 128+N ended by signal N, after the result so far.\n\n\
    Examples:\n  \
    cachewise warm /var/lib/db/users.ibd\n  \
    cachewise warm --rate 200M --include '*.idx' /srv/search\n  \
    find /srv -name '*.idx' -print0 | cachewise warm -0 --files-from -"
)]
pub struct Warm {
    /// Files and directories to prefetch.
    #[arg(value_name = "PATH", required_unless_present = "files_from")]
    pub paths: Vec<PathBuf>,
    #[command(flatten)]
    pub list: SeparatedPathList,
    /// Maximum bytes to read per second, for example 200M [default: no limit].
    #[arg(long, value_name = "BYTES", value_parser = parse_rate, allow_hyphen_values = true)]
    pub rate: Option<Bytes>,
    #[command(flatten)]
    pub target: Target,
}
