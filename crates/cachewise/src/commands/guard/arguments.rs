//! Arguments of `cachewise guard`.

use std::path::PathBuf;

use cachewise_units::{Bytes, Period};
use clap::{Args, ValueEnum};

use crate::options::Output;

/// `cachewise guard`.
#[derive(Debug, Args)]
#[command(
    after_help = "While the machine has less memory than --keep, guard reclaims from the largest group until --target is reached: by memory.reclaim \
    (Linux 5.19), or by lowering memory.high and restoring it; with control groups of version 1 by memory.force_empty, \
    which is stopped at the target. guard never overwrites a limit that another program has set: if that is the only \
    means, it refuses.\n\n\
    If reclaim gains little, or only makes other tasks wait, guard waits too and says why. Clean page cache counts \
    as available memory; to keep memory that holds no cache either, use --of free.\n\n\
    guard keeps old values in --state and restores them at the end, also after Ctrl-C, a panic and kill -9; if its \
    watchdog is killed too, the next start of guard or `cachewise bench restore` restores them.\n\n\
    Exit status: 0 the duration is over; 2 it cannot be done, or the last group is gone; 128+N ended by signal N.\n\n\
    Examples:\n  \
    cachewise guard --dry-run -d 10 --keep 5% system.slice\n  \
    cachewise guard --keep 1G system.slice user.slice\n  \
    cachewise guard --keep 5% --on-stall 10 'batch.slice/*.service'\n  \
    cachewise guard --of free --keep 2G --leave 512M -o jsonl backup.slice"
)]
pub struct Guard {
    /// Control groups to reclaim from, by name or directory; or globs such as batch.slice/*.service, whose groups may come
    /// and go.
    #[arg(required_unless_present_any = ["unit", "container"], value_name = "CGROUP")]
    pub groups: Vec<PathBuf>,
    /// Reclaim from the control group of this systemd unit too; repeat for more units.
    #[arg(long, value_name = "NAME")]
    pub unit: Vec<String>,
    /// Reclaim from the control group of this container too, by its name or the beginning of its id; repeat for more.
    #[arg(long, value_name = "NAME|ID")]
    pub container: Vec<String>,
    /// Wait for groups that are not there yet, and go on when they are gone; a glob does so without it.
    #[arg(long)]
    pub follow: bool,
    /// Also reclaim one step whenever tasks wait for memory more than this percentage of the time, even above --keep.
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(1..=100))]
    pub on_stall: Option<u8>,
    /// Memory to keep: reclaim starts when less is left. A size, or per cent of all memory.
    #[arg(short, long, value_name = "SIZE|PERCENT", default_value = "3%")]
    pub keep: Amount,
    /// Memory at which reclaim stops [default: --keep plus a fifth, but at most halfway between --keep and
    /// total memory].
    #[arg(short, long, value_name = "SIZE|PERCENT")]
    pub target: Option<Amount>,
    /// Memory that counts for --keep: available (clean page cache counts), or free (holds nothing).
    #[arg(long, value_enum, default_value_t = KeptOf::Available)]
    pub of: KeptOf,
    /// Maximum to reclaim from a group at a time.
    #[arg(long, value_name = "SIZE", default_value = "64M")]
    pub step: Bytes,
    /// Memory to leave each group, as a size or in per cent of all memory.
    #[arg(long, value_name = "SIZE|PERCENT", default_value = "0")]
    pub leave: Amount,
    /// Back off if tasks wait for memory more than this share of the time, in per cent, and reclaim gains little.
    #[arg(long, value_name = "PERCENT", default_value_t = 20, value_parser = clap::value_parser!(u8).range(1..=100))]
    pub most_stall: u8,
    /// Means of reclaim [default: the best of each group].
    #[arg(long, value_enum)]
    pub by: Option<By>,
    /// Stop after this time, in seconds or with a unit [default: until interrupted].
    #[arg(short, long, value_name = "TIME")]
    pub duration: Option<Period>,
    /// Report decisions without writing anything.
    #[arg(short = 'N', long)]
    pub dry_run: bool,
    /// Directory of state files [default: /run/cachewise, or $XDG_RUNTIME_DIR/cachewise for ordinary users].
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
    #[command(flatten)]
    pub output: Output,
}

/// Kind of memory to keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum KeptOf {
    /// MemAvailable: memory that programs can get without swapping; clean page cache counts.
    Available,
    /// MemFree: memory that holds nothing; page cache does not count.
    Free,
}

/// Means of reclaim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum By {
    /// memory.reclaim (version 2, Linux 5.19): reclaims the requested amount.
    Reclaim,
    /// memory.high (version 2): lowered, and restored ten seconds after the target is reached.
    High,
    /// memory.force_empty (version 1): reclaims everything, stopped at the target.
    ForceEmpty,
    /// memory.soft_limit_in_bytes (version 1): takes effect only when the whole machine runs out of memory.
    SoftLimit,
}

/// A size, or a share of all memory.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Amount {
    /// Bytes.
    Size(Bytes),
    /// Per cent of all memory.
    Percent(f64),
}

impl Amount {
    /// The amount in bytes, for a machine with `total` memory.
    pub fn of(self, total: Bytes) -> Bytes {
        match self {
            Amount::Size(bytes) => bytes,
            Amount::Percent(percent) => Bytes((total.0 as f64 * percent / 100.0) as u64),
        }
    }
}

impl std::str::FromStr for Amount {
    type Err = String;

    fn from_str(text: &str) -> Result<Amount, String> {
        let Some(number) = text.strip_suffix('%') else {
            return text
                .parse()
                .map(Amount::Size)
                .map_err(|error: cachewise_units::ParseBytesError| error.to_string());
        };
        let percent = number.trim().parse::<f64>().ok();
        let percent = percent.filter(|percent| (0.0..=100.0).contains(percent));
        percent.map(Amount::Percent).ok_or_else(|| {
            format!("invalid share {text:?}: write 0% to 100%, or a size, for example 512M")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amount_parses_sizes_and_percentages() {
        let of = |text: &str| text.parse::<Amount>().map(|amount| amount.of(Bytes(1000)));
        assert_eq!(of("512"), Ok(Bytes(512)), "bytes");
        assert_eq!(of("1K"), Ok(Bytes(1024)), "with a unit");
        assert_eq!(of("2.5%"), Ok(Bytes(25)), "per cent");
        for wrong in ["", "%", "-1%", "101%", "nan%", "inf%", "-5", "lots"] {
            assert!(of(wrong).is_err(), "{wrong:?} is refused");
        }
    }
}
