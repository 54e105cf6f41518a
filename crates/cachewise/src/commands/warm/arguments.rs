//! Arguments of `cachewise warm`.

use std::path::PathBuf;

use cachewise_units::Bytes;
use clap::Args;

use crate::acting::Target;
use crate::options::parse_rate;

/// `cachewise warm`.
#[derive(Debug, Args)]
#[command(
    after_help = "What is resident already is left out, and so are holes. Pages that did not stay are said: memory, or \
    the control group's limit, is too small for them.\n\n\
    Exit status: 0 done; 2 something could not be read, did not stay, or is not shown to you: of others' files you \
    are not told what is resident; 128+N ended by signal N, what was done is shown.\n\n\
    Examples:\n  \
    cachewise warm /var/lib/db/users.ibd\n  \
    cachewise warm --rate 200M --include '*.idx' /srv/search"
)]
pub struct Warm {
    /// Files and directories.
    #[arg(value_name = "PATH", required = true)]
    pub paths: Vec<PathBuf>,
    /// Read no faster than this: bytes a second (200M).
    #[arg(long, value_name = "BYTES", value_parser = parse_rate, allow_hyphen_values = true)]
    pub rate: Option<Bytes>,
    #[command(flatten)]
    pub target: Target,
}
