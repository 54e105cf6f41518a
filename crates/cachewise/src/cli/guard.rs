//! `cachewise guard`, as typed.

use std::path::PathBuf;

use cachewise_units::{Bytes, Interval};
use clap::{Args, ValueEnum};

use super::output::Output;

/// `cachewise guard`.
#[derive(Debug, Args)]
#[command(
    after_help = "Below the mark, memory is reclaimed from the group that has most, until there is the target: by \
    memory.reclaim (Linux 5.19), else by lowering memory.high, which is put back; with control groups of version 1 by \
    memory.force_empty, which is stopped when there is enough. A limit that somebody else has set is never overwritten: \
    where it is the only means, guard refuses.\n\n\
    Where reclaim does not help, or only makes others wait, guard waits too, and says why. Clean page cache counts as \
    available already: to keep memory that is not even cache, say --of free.\n\n\
    What it changes is put back at the end, after Ctrl-C and a panic too, and after kill -9 by the next start of guard or \
    by `cachewise bench restore`: it is kept in --state.\n\n\
    Exit status: 0 the time is over; 2 it cannot be done, or the last group is gone; 128+N ended by signal N.\n\n\
    Examples:\n  \
    cachewise guard --dry-run -d 10 --keep 5% system.slice\n  \
    cachewise guard --keep 1G system.slice user.slice\n  \
    cachewise guard --of free --keep 2G --leave 512M -o jsonl backup.slice"
)]
pub struct Guard {
    /// Control groups from which memory may be taken, by name or directory.
    #[arg(required = true, value_name = "CGROUP")]
    pub groups: Vec<PathBuf>,
    /// The mark: keep so much, as a size or in per cent of all memory.
    #[arg(short, long, value_name = "SIZE|PERCENT", default_value = "3%")]
    pub keep: Amount,
    /// Reclaim until there is so much [default: a fifth more than the mark, or half of what is above it
    /// if that is less].
    #[arg(short, long, value_name = "SIZE|PERCENT")]
    pub target: Option<Amount>,
    /// Of what: memory that can be had without swapping, or memory that is not even cache.
    #[arg(long, value_enum, default_value_t = KeptOf::Available)]
    pub of: KeptOf,
    /// Take at most so much of a group at a time.
    #[arg(long, value_name = "SIZE", default_value = "64M")]
    pub step: Bytes,
    /// Leave every group so much.
    #[arg(long, value_name = "SIZE|PERCENT", default_value = "0")]
    pub leave: Amount,
    /// Wait where others wait for memory for more of the time than this, in per cent, and little comes of it.
    #[arg(long, value_name = "PERCENT", default_value_t = 20, value_parser = clap::value_parser!(u8).range(1..=100))]
    pub most_stall: u8,
    /// By what: the best that each group has, unless it is said.
    #[arg(long, value_enum)]
    pub by: Option<By>,
    /// End after so long.
    #[arg(short, long, value_name = "TIME")]
    pub duration: Option<Interval>,
    /// Say what would be done, and write nothing.
    #[arg(short = 'N', long)]
    pub dry_run: bool,
    /// Directory of state files [default: /run/cachewise, or $XDG_RUNTIME_DIR/cachewise for ordinary users].
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
    #[command(flatten)]
    pub output: Output,
}

/// What is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum KeptOf {
    /// MemAvailable.
    Available,
    /// MemFree.
    Free,
}

/// By what memory is reclaimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum By {
    /// memory.reclaim, of version 2 since Linux 5.19: as much as is asked for.
    Reclaim,
    /// memory.high, of version 2: lowered, and put back ten seconds after there is enough.
    High,
    /// memory.force_empty, of version 1: everything, stopped when there is enough.
    ForceEmpty,
    /// memory.soft_limit_in_bytes, of version 1: only heeded when the whole machine runs out of memory.
    SoftLimit,
}

/// A size, or a share of all memory.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Amount {
    /// So much.
    Size(Bytes),
    /// So many per cent of all memory.
    Percent(f64),
}

impl Amount {
    /// How much that is, of so much memory.
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
            format!("{text:?} is no share: write 0% to 100%, or a size such as 512M")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_amount_is_a_size_or_a_share_of_memory() {
        let of = |text: &str| text.parse::<Amount>().map(|amount| amount.of(Bytes(1000)));
        assert_eq!(of("512"), Ok(Bytes(512)), "bytes");
        assert_eq!(of("1K"), Ok(Bytes(1024)), "with a unit");
        assert_eq!(of("2.5%"), Ok(Bytes(25)), "per cent");
        for wrong in ["", "%", "-1%", "101%", "nan%", "inf%", "-5", "lots"] {
            assert!(of(wrong).is_err(), "{wrong:?} is refused");
        }
    }
}
