//! `cachewise bench`, as typed.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use cachewise_bench::{Access, Advice, Bloat, Engine, Fill, Workload};
use cachewise_model::{Field, Row};
use cachewise_units::{Bytes, Interval};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand, ValueEnum};

use super::matrix::{Matrix, Restore};
use super::output::{Columns, Output};

/// `cachewise bench`.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    override_usage = "cachewise bench [OPTIONS] -r MIB | --bytes BYTES | --seconds TIME | -w MIB\n       \
    cachewise bench demo dd|direct [OPTIONS]\n       \
    cachewise bench matrix FILE [OPTIONS]\n       \
    cachewise bench restore",
    after_help = "It leads with counters: AMP, bytes read from devices for each useful byte, repeats within a few per cent where \
    the speed of the same runs varies by half. The options -f -r -w -m -p -b -c -i -l are those of cache-bench, and \
    --format cache-bench prints its lines.\n\n\
    Hits are exact with the engines nowait and io-uring (from Linux 6.5 on); with pread and mmap they are found out from \
    what slow operations waited for, and marked ~. Files that --size makes are removed at the end, control groups too, also by Ctrl-C.\n\n\
    Exit status: 0 done; 2 something could not be done; 128+N ended by signal N, after the sums of what was measured.\n\n\
    Examples:\n  \
    cachewise bench -f data --size 1G -r 4096 --memory-max 512M --fill cold --engine nowait,mmap-copy -c 4,64\n  \
    cachewise bench -f data -d 30 --warm-up 5 --access zipf:0.99 --bloat 300M --bloat-touch 20\n  \
    cachewise bench demo dd"
)]
pub struct Bench {
    /// Another thing than a measurement.
    #[command(subcommand)]
    pub command: Option<BenchCommand>,
    #[command(flatten)]
    pub measure: Measure,
}

/// What `bench` can do beside measuring.
#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// The two demonstrations of what a page cache does, on any file or disk, explained by the findings of `run`.
    #[command(subcommand)]
    Demo(Demo),
    /// Compare settings: every one with every workload, again and again in random order, and what statistics say.
    Matrix(Box<Matrix>),
    /// Put back the settings that a killed run of `matrix` or `guard` left, and remove its control groups.
    Restore(Restore),
}

/// Demonstrations.
#[derive(Debug, Subcommand)]
pub enum Demo {
    /// Read a file twice, as dd does: cold, and warm.
    Dd(DemoDd),
    /// Read the beginning of a file or disk once a second: around the page cache, or through it.
    Direct(DemoDirect),
}

/// `cachewise bench demo dd`.
#[derive(Debug, Args)]
pub struct DemoDd {
    /// The file; without it, one is made here and removed again.
    #[arg(short, long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// How large the file is that is made.
    #[arg(short, long, value_name = "BYTES", default_value = "512M", value_parser = size)]
    pub size: Bytes,
}

/// `cachewise bench demo direct`.
#[derive(Debug, Args)]
#[command(
    after_help = "The programs io-direct and io-cached of the case study. A block device that nobody else holds open, mounted \
    or not, loses its cached pages at the end of each round: then both are as slow."
)]
pub struct DemoDirect {
    /// The disk, or file; without it, a file is made here and removed again.
    #[arg(short, long, value_name = "DISK")]
    pub disk: Option<PathBuf>,
    /// How much is read each round.
    #[arg(short, long, value_name = "BYTES", default_value = "32M", value_parser = size)]
    pub size: Bytes,
    /// Through the page cache.
    #[arg(long)]
    pub cached: bool,
    /// How many rounds; without it, until interrupted.
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub rounds: Option<u64>,
    /// From round to round.
    #[arg(short, long, value_name = "SECONDS", default_value = "1")]
    pub interval: Interval,
    /// Only read: no probe, and no report.
    #[arg(long)]
    pub unexplained: bool,
}

/// What is measured, and how it is shown.
#[derive(Debug, Args)]
pub struct Measure {
    /// The file, or block device.
    #[arg(short, long, value_name = "FILE", default_value = "testfile.bench")]
    pub file: PathBuf,
    /// How many mebibytes to read.
    #[arg(short, long, value_name = "MIB", value_parser = mebibytes, allow_negative_numbers = true, conflicts_with = "bytes")]
    pub read: Option<Bytes>,
    /// Write a new file of so many mebibytes, and measure nothing.
    #[arg(short, long, value_name = "MIB", value_parser = mebibytes, allow_negative_numbers = true,
        conflicts_with_all = ["read", "bytes", "seconds", "size"])]
    pub write: Option<Bytes>,
    /// Map the file: 1 for --engine mmap-copy.
    #[arg(short, long, value_name = "0|1", value_parser = switch(), conflicts_with = "engine")]
    pub mmap: Option<bool>,
    /// Read the file from its beginning to its end first: 1 for --fill preread.
    #[arg(short, long, value_name = "0|1", value_parser = switch(), conflicts_with = "fill")]
    pub preread: Option<bool>,
    /// Take as much memory as is read, in a process of its own.
    #[arg(short, long = "keep-reads", value_name = "0|1", value_parser = switch(), conflicts_with = "bloat")]
    pub bloating: Option<bool>,
    /// How much at a time, in KiB or with a unit; several between commas are measured one after the other.
    #[arg(short, long, value_name = "LIST", default_value = "64", value_parser = kibibytes, value_delimiter = ',', allow_negative_numbers = true)]
    pub chunk: Vec<Bytes>,
    /// From row to row.
    #[arg(
        short,
        long,
        value_name = "SECONDS",
        default_value = "2",
        allow_negative_numbers = true
    )]
    pub interval: Interval,
    /// Append the lines of cache-bench to this file, each with the time.
    #[arg(short, long, value_name = "LOG")]
    pub log: Option<PathBuf>,

    /// How the file is read or written; several between commas.
    #[arg(long, value_name = "LIST", value_parser = engines(), value_delimiter = ',', default_value = "pread")]
    pub engine: Vec<Engine>,
    /// Which places are asked for: uniform, zipf:THETA, normal:PCT, hot:PCT_OF_ACCESSES:PCT_OF_FILE, sequential, mix:PCT_SEQUENTIAL.
    #[arg(long, value_name = "LAW", default_value = "uniform")]
    pub access: Access,
    /// Begin at any byte, and not at multiples of the chunk.
    #[arg(long)]
    pub unaligned: bool,
    /// Decides the places; without it, one is drawn and shown. Repeats add 1 to it; engines and chunks share it.
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Measure everything so often.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeat: u32,
    /// End after so many bytes.
    #[arg(long, value_name = "BYTES", value_parser = size)]
    pub bytes: Option<Bytes>,
    /// End after so long.
    #[arg(short = 'd', long, value_name = "TIME", allow_negative_numbers = true)]
    pub seconds: Option<Interval>,
    /// Work for so long before anything is counted.
    #[arg(long, value_name = "TIME", allow_negative_numbers = true)]
    pub warm_up: Option<Interval>,
    /// How many threads.
    #[arg(short, long, value_name = "N", default_value_t = 1)]
    pub threads: usize,
    /// With --engine io-uring: requests of a thread under way at a time.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub depth: u32,
    /// Make the file, of this size, where it is not there, and remove it at the end.
    #[arg(long, value_name = "BYTES", value_parser = size)]
    pub size: Option<Bytes>,
    /// Leave the file there that --size made.
    #[arg(long, requires = "size")]
    pub keep: bool,
    /// What of the file is in the page cache when it begins, and how that came there: by large or by small folios.
    #[arg(long, value_name = "HOW", value_parser = fills(), default_value = "as-found")]
    pub fill: Fill,
    /// How much of what is written to a new file can be compressed away, in per cent.
    #[arg(long, value_name = "PCT", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=100))]
    pub compress_pct: u8,
    /// What the kernel is told of the places.
    #[arg(long, value_name = "WHAT", value_parser = advices(), default_value = "normal")]
    pub advice: Advice,
    /// Let --engine write, or --fill write, change a file that was there before. Its contents are lost.
    #[arg(long)]
    pub overwrite: bool,
    /// Run in a control group with this limit of memory, which is made for it and removed.
    #[arg(long, value_name = "BYTES", value_parser = size)]
    pub memory_max: Option<Bytes>,
    /// And this limit of swap.
    #[arg(long, value_name = "BYTES", requires = "memory_max")]
    pub swap_max: Option<Bytes>,
    /// A process beside it takes so much memory. 0 and 1 are those of -b.
    #[arg(long, value_name = "BYTES")]
    pub bloat: Option<Bytes>,
    /// So much of it a second, and not all before it begins.
    #[arg(long, value_name = "BYTES", requires = "bloat", value_parser = size)]
    pub bloat_rate: Option<Bytes>,
    /// Which part of it is touched again each second, in per cent.
    #[arg(long, value_name = "PCT", requires = "bloat", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=100))]
    pub bloat_touch: u8,
    /// Its place in the order in which the kernel kills for want of memory.
    #[arg(long, value_name = "N", requires = "bloat", default_value_t = 1000, allow_negative_numbers = true,
        value_parser = clap::value_parser!(i16).range(-1000..=1000))]
    pub bloat_oom_score_adj: i16,
    /// Take no times of operations.
    #[arg(long)]
    pub no_latency: bool,
    /// Print what cache-bench prints; it begins at any byte, then, as that does.
    #[arg(long, value_name = "FORMAT", value_enum, conflicts_with_all = ["output", "json", "columns"])]
    pub format: Option<Lines>,
    /// Columns, separated by commas: ids (amplification_factor) or headings (AMP), in any case; `cachewise columns`
    /// lists them.
    #[arg(long, value_name = "LIST", value_parser = columns)]
    pub columns: Option<Columns>,
    #[command(flatten)]
    pub output: Output,
}

/// Lines of other programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Lines {
    /// Those of cache-bench.
    CacheBench,
}

/// 0 or 1, as cache-bench takes them.
fn switch() -> impl TypedValueParser<Value = bool> {
    PossibleValuesParser::new(["0", "1"]).map(|word| word == "1")
}

/// The words of a list, one of which is typed.
macro_rules! words {
    ($name:ident, $list:ident) => {
        fn $name() -> impl TypedValueParser<Value = $list> {
            PossibleValuesParser::new($list::ALL.iter().map(|one| one.word()))
                .try_map(|word| word.parse::<$list>())
        }
    };
}

words!(engines, Engine);
words!(fills, Fill);
words!(advices, Advice);

const MIB: f64 = 1_048_576.0;

/// Mebibytes with a fraction, as cache-bench takes them.
fn mebibytes(text: &str) -> Result<Bytes, String> {
    let refused = |why: &str| {
        Err(format!(
            "{text:?} is {why}; write a number of mebibytes above 0, as in 300 or 0.5"
        ))
    };
    let Ok(number) = text.parse::<f64>() else {
        return refused("not a number");
    };
    let bytes = number * MIB;
    match bytes {
        _ if number.is_nan() => refused("not a number"),
        _ if bytes < 1.0 => refused("not above 0"),
        // What is measured is kept in 63 bits.
        _ if bytes >= i64::MAX as f64 => refused("more than any disk has"),
        bytes => Ok(Bytes(bytes as u64)),
    }
}

/// A chunk: KiB, as cache-bench takes them, or with a unit.
fn kibibytes(text: &str) -> Result<Bytes, String> {
    let text = text.trim();
    let with_unit = match text
        .bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b'.')
    {
        true => format!("{text}K"),
        false => text.to_owned(),
    };
    size(&with_unit)
}

/// A size that is not 0.
fn size(text: &str) -> Result<Bytes, String> {
    match text.parse::<Bytes>() {
        Ok(bytes) if bytes.is_zero() => Err("it is 0, and nothing is measured by that".to_owned()),
        Ok(bytes) if i64::try_from(bytes.0).is_err() => {
            Err("it is more than any disk has".to_owned())
        }
        Ok(bytes) => Ok(bytes),
        Err(error) => Err(error.to_string()),
    }
}

fn columns(list: &str) -> Result<Columns, String> {
    cachewise_model::columns(list, &Row::of_measurement()).map(Columns)
}

impl Measure {
    /// Whether lines of cache-bench are printed.
    pub fn is_cache_bench(&self) -> bool {
        self.format == Some(Lines::CacheBench)
    }

    /// `-b 1`: whether it takes as much memory as it reads.
    pub fn keeps_what_it_reads(&self) -> bool {
        self.bloating == Some(true) || self.bloat == Some(Bytes(1))
    }

    /// Each thing that is to be measured, in order: repeats of everything, engines, chunks.
    pub fn workloads(&self) -> Vec<Workload> {
        let seed = self.seed.unwrap_or_else(drawn);
        let engines = match self.mmap {
            Some(true) => vec![Engine::MmapCopy],
            _ => self.engine.clone(),
        };
        let mut workloads = Vec::new();
        for repeat in 0..u64::from(self.repeat) {
            for engine in &engines {
                for chunk in &self.chunk {
                    workloads.push(self.workload(*engine, *chunk, seed.wrapping_add(repeat)));
                }
            }
        }
        workloads
    }

    fn workload(&self, engine: Engine, chunk: Bytes, seed: u64) -> Workload {
        let bytes = self.read.or(self.bytes);
        let taken = self.bloat.filter(|size| size.0 > 1);
        let bloat = taken.map(|size| Bloat {
            rate: self.bloat_rate,
            touch_pct: self.bloat_touch,
            oom_score_adj: self.bloat_oom_score_adj,
            ..Bloat::of(size)
        });
        // What cache-bench reads it keeps, and lets the kernel kill it first.
        let keeping = || Bloat {
            as_read: true,
            ..Bloat::of(bytes.unwrap_or_default())
        };
        Workload {
            file: self.file.clone(),
            size: self.size,
            engine,
            chunk,
            access: self.access,
            aligned: !self.unaligned && !self.is_cache_bench(),
            seed,
            bytes,
            time: self.seconds.map(Interval::get),
            warm_up: self.warm_up.map_or(Duration::ZERO, Interval::get),
            threads: self.threads,
            depth: if engine == Engine::IoUring {
                self.depth
            } else {
                1
            },
            fill: match self.preread {
                Some(true) => Fill::Preread,
                _ => self.fill,
            },
            compress_pct: self.compress_pct,
            advice: self.advice,
            overwrite: self.overwrite,
            memory_max: self.memory_max,
            swap_max: self.swap_max,
            memory_high: None,
            swappiness: None,
            bloat: match self.keeps_what_it_reads() {
                true => Some(keeping()),
                false => bloat,
            },
            interval: self.interval.get(),
            latency: !self.no_latency,
        }
    }

    /// The columns of intervals that were asked for.
    pub fn fields(&self) -> Option<&[&'static Field]> {
        self.columns.as_ref().map(|columns| &columns.0[..])
    }
}

/// A seed that is not the one of a moment ago.
fn drawn() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    // Few digits, for it is to be typed again.
    now.map_or(1, |now| {
        u64::from(now.subsec_nanos()) ^ (now.as_secs() & 0xffff) << 14
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mebibytes_are_those_of_cache_bench() {
        assert_eq!(mebibytes("300"), Ok(Bytes(300 << 20)), "whole ones");
        assert_eq!(mebibytes("0.5"), Ok(Bytes(512 << 10)), "and parts");
        for (text, why) in [
            ("0", "not above 0"),
            ("-5", "not above 0"),
            ("nan", "not a number"),
            ("inf", "more than any disk"),
            ("1e300", "more than any disk"),
            ("", "not a number"),
            ("4G", "not a number"),
        ] {
            let error = mebibytes(text).unwrap_err();
            assert!(error.contains(why), "{text:?}: {error}");
        }
    }

    #[test]
    fn chunks_are_kibibytes_or_have_a_unit() {
        assert_eq!(
            kibibytes("64"),
            Ok(Bytes(64 << 10)),
            "as cache-bench has them"
        );
        assert_eq!(kibibytes("1M"), Ok(Bytes(1 << 20)), "as all other sizes");
        for wrong in ["0", "-4", "", "x", "1e9"] {
            assert!(kibibytes(wrong).is_err(), "{wrong:?} is refused");
        }
    }
}
