//! Arguments of `cachewise bench`.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use cachewise_bench::{Access, Advice, Bloat, Engine, Fill, Workload};
use cachewise_model::Field;
use cachewise_units::{Bytes, Period};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand, ValueEnum};

use super::matrix_arguments::{Matrix, Restore};
use crate::options::{Columns, Output, measurement_columns};

/// `cachewise bench`.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    override_usage = "cachewise bench [OPTIONS] -r MIB | --bytes BYTES | --seconds TIME | -w MIB\n       \
    cachewise bench demo dd|direct [OPTIONS]\n       \
    cachewise bench matrix FILE [OPTIONS]\n       \
    cachewise bench restore",
    after_help = "The tables lead with counters: AMP, bytes read from devices per useful byte, repeats within a few per cent, while \
    the speed of the same runs varies by half. The options -f -r -w -m -p -b -c -i -l are those of cache-bench, and \
    --format cache-bench prints its lines.\n\n\
    Hits are exact with the engines nowait and io-uring (Linux 6.5 or later). With pread and mmap they are estimated from \
    the causes of slow operations, and marked ~. bench removes the files that --size makes and its control groups at the \
    end, also after Ctrl-C.\n\n\
    Exit status: 0 done; 2 something could not be done; 128+N ended by signal N, after the sums so far.\n\n\
    Examples:\n  \
    cachewise bench -f data --size 1G -r 4096 --memory-max 512M --fill cold --engine nowait,mmap-copy -c 4,64\n  \
    cachewise bench -f data -d 30 --warm-up 5 --access zipf:0.99 --bloat 300M --bloat-touch 20\n  \
    cachewise bench demo dd"
)]
pub struct Bench {
    /// An operation other than a measurement.
    #[command(subcommand)]
    pub command: Option<BenchCommand>,
    #[command(flatten)]
    pub measure: Measure,
}

/// Subcommands of `bench`.
#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// Demonstrate the page cache on any file or disk, explained by the findings of `run`.
    #[command(subcommand)]
    Demo(Demo),
    /// Compare settings: run every arm with every workload in random order, and test the differences.
    Matrix(Box<Matrix>),
    /// Restore the settings that a killed `matrix`, `try` or `guard` left, and remove its control groups.
    Restore(Restore),
}

/// Demonstrations.
#[derive(Debug, Subcommand)]
pub enum Demo {
    /// Read a file twice with dd: cold, then warm.
    Dd(DemoDd),
    /// Read the beginning of a file or disk once a second, by direct I/O or through the page cache.
    Direct(DemoDirect),
}

/// `cachewise bench demo dd`.
#[derive(Debug, Args)]
pub struct DemoDd {
    /// File to read [default: a temporary file in the current directory].
    #[arg(short, long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Size of the temporary file, in bytes or with a unit.
    #[arg(short, long, value_name = "BYTES", default_value = "512M", value_parser = size)]
    pub size: Bytes,
}

/// `cachewise bench demo direct`.
#[derive(Debug, Args)]
#[command(
    after_help = "These are the programs io-direct and io-cached of the case study. A block device loses its cached pages when its \
    last user closes it, mounted or not: with no other user, both are equally slow."
)]
pub struct DemoDirect {
    /// Disk or file to read [default: a temporary file in the current directory].
    #[arg(short, long, value_name = "DISK")]
    pub disk: Option<PathBuf>,
    /// Bytes to read each round.
    #[arg(short, long, value_name = "BYTES", default_value = "32M", value_parser = size)]
    pub size: Bytes,
    /// Read through the page cache instead of by direct I/O.
    #[arg(long)]
    pub cached: bool,
    /// Number of rounds [default: until interrupted].
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub rounds: Option<u64>,
    /// Time between rounds, in seconds or with a unit.
    #[arg(short, long, value_name = "SECONDS", default_value = "1")]
    pub interval: Period,
    /// Only read, without probe and report.
    #[arg(long)]
    pub unexplained: bool,
}

/// Options of a measurement and of its output.
#[derive(Debug, Args)]
pub struct Measure {
    /// File or block device to measure.
    #[arg(short, long, value_name = "FILE", default_value = "testfile.bench")]
    pub file: PathBuf,
    /// Mebibytes to read.
    #[arg(short, long, value_name = "MIB", value_parser = mebibytes, allow_negative_numbers = true, conflicts_with = "bytes")]
    pub read: Option<Bytes>,
    /// Write a new file of this many mebibytes, and measure nothing.
    #[arg(short, long, value_name = "MIB", value_parser = mebibytes, allow_negative_numbers = true,
        conflicts_with_all = ["read", "bytes", "seconds", "size"])]
    pub write: Option<Bytes>,
    /// Map the file: 1 is --engine mmap-copy.
    #[arg(short, long, value_name = "0|1", value_parser = switch(), conflicts_with = "engine")]
    pub mmap: Option<bool>,
    /// Read the whole file first: 1 is --fill preread.
    #[arg(short, long, value_name = "0|1", value_parser = switch(), conflicts_with = "fill")]
    pub preread: Option<bool>,
    /// Allocate in a separate process as much memory as was read so far: 1 is on.
    #[arg(short, long = "keep-reads", value_name = "0|1", value_parser = switch(), conflicts_with = "bloat")]
    pub bloating: Option<bool>,
    /// Chunk sizes, comma-separated, in KiB or with a unit; each is measured in turn.
    #[arg(short, long, value_name = "LIST", default_value = "64", value_parser = kibibytes, value_delimiter = ',', allow_negative_numbers = true)]
    pub chunk: Vec<Bytes>,
    /// Time between rows, in seconds or with a unit.
    #[arg(
        short,
        long,
        value_name = "SECONDS",
        default_value = "2",
        allow_negative_numbers = true
    )]
    pub interval: Period,
    /// Append the lines of cache-bench, with timestamps, to this file.
    #[arg(short, long, value_name = "LOG")]
    pub log: Option<PathBuf>,

    /// Engines that read or write the file, comma-separated; each is measured in turn.
    #[arg(long, value_name = "LIST", value_parser = engines(), value_delimiter = ',', default_value = "pread")]
    pub engine: Vec<Engine>,
    /// Distribution of offsets: uniform, zipf:THETA, normal:PCT, hot:PCT_OF_ACCESSES:PCT_OF_FILE, sequential, mix:PCT_SEQUENTIAL.
    #[arg(long, value_name = "DISTRIBUTION", default_value = "uniform")]
    pub access: Access,
    /// Start operations at any byte instead of multiples of the chunk.
    #[arg(long)]
    pub unaligned: bool,
    /// Seed of the offsets, shared by engines and chunks; each repeat adds 1 [default: random, shown].
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Number of times to measure everything.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeat: u32,
    /// Stop after this many bytes.
    #[arg(long, value_name = "BYTES", value_parser = size)]
    pub bytes: Option<Bytes>,
    /// Stop after this time, in seconds or with a unit.
    #[arg(short = 'd', long, value_name = "TIME", allow_negative_numbers = true)]
    pub seconds: Option<Period>,
    /// Run this long before counting starts, in seconds or with a unit [default: 0].
    #[arg(long, value_name = "TIME", allow_negative_numbers = true)]
    pub warm_up: Option<Period>,
    /// Number of threads.
    #[arg(short, long, value_name = "N", default_value_t = 1)]
    pub threads: usize,
    /// Requests in flight per thread, with --engine io-uring.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub depth: u32,
    /// Make the file with this size if it is missing, and remove it at the end.
    #[arg(long, value_name = "BYTES", value_parser = size)]
    pub size: Option<Bytes>,
    /// Keep the file that --size made.
    #[arg(long, requires = "size")]
    pub keep: bool,
    /// State of the page cache at the start, and the way to reach it, which sets the size of folios.
    #[arg(long, value_name = "HOW", value_parser = fills(), default_value = "as-found")]
    pub fill: Fill,
    /// Compressible share of the data of a new file, in per cent.
    #[arg(long, value_name = "PCT", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=100))]
    pub compress_pct: u8,
    /// Access advice for the kernel.
    #[arg(long, value_name = "WHAT", value_parser = advices(), default_value = "normal")]
    pub advice: Advice,
    /// Allow --engine write and --fill write to overwrite an existing file; its contents are lost.
    #[arg(long)]
    pub overwrite: bool,
    /// Run in a temporary control group with this memory limit, in bytes or with a unit.
    #[arg(long, value_name = "BYTES", value_parser = size)]
    pub memory_max: Option<Bytes>,
    /// Swap limit of that control group, in bytes or with a unit.
    #[arg(long, value_name = "BYTES", requires = "memory_max")]
    pub swap_max: Option<Bytes>,
    /// Memory that a separate process takes, in bytes or with a unit; 0 and 1 have the same meaning as for -b.
    #[arg(long, value_name = "BYTES")]
    pub bloat: Option<Bytes>,
    /// Memory it takes per second [default: all before the measurement].
    #[arg(long, value_name = "BYTES", requires = "bloat", value_parser = size)]
    pub bloat_rate: Option<Bytes>,
    /// Share of that memory to touch again each second, in per cent.
    #[arg(long, value_name = "PCT", requires = "bloat", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=100))]
    pub bloat_touch: u8,
    /// oom_score_adj of the process of --bloat.
    #[arg(long, value_name = "N", requires = "bloat", default_value_t = 1000, allow_negative_numbers = true,
        value_parser = clap::value_parser!(i16).range(-1000..=1000))]
    pub bloat_oom_score_adj: i16,
    /// Disable latency recording.
    #[arg(long)]
    pub no_latency: bool,
    /// Print the lines of cache-bench; implies --unaligned.
    #[arg(long, value_name = "FORMAT", value_enum, conflicts_with_all = ["output", "json", "columns"])]
    pub format: Option<LineFormat>,
    /// Columns, comma-separated ids (amplification_factor) or headings (AMP), in any case; see `cachewise columns`.
    #[arg(long, value_name = "LIST", value_parser = measurement_columns(), hide_possible_values = true)]
    pub columns: Option<Columns>,
    #[command(flatten)]
    pub output: Output,
}

/// Output formats of other programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LineFormat {
    /// Lines of cache-bench.
    CacheBench,
}

/// Parser of the switches of cache-bench: 0 or 1.
fn switch() -> impl TypedValueParser<Value = bool> {
    PossibleValuesParser::new(["0", "1"]).map(|word| word == "1")
}

/// Defines a parser that accepts the words of `$list::ALL`.
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

/// Parses mebibytes with a fraction, as cache-bench does.
fn mebibytes(text: &str) -> Result<Bytes, String> {
    let refused = |why: &str| {
        Err(format!(
            "{text:?} is {why}: write mebibytes above 0, for example 300 or 0.5"
        ))
    };
    let Ok(number) = text.parse::<f64>() else {
        return refused("not a number");
    };
    let bytes = number * MIB;
    match bytes {
        _ if number.is_nan() => refused("not a number"),
        _ if bytes < 1.0 => refused("not above 0"),
        // Counters have 63 bits.
        _ if bytes >= i64::MAX as f64 => refused("more than any disk has"),
        bytes => Ok(Bytes(bytes as u64)),
    }
}

/// Parses a chunk size: KiB, as in cache-bench, or with a unit.
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

/// Parses a size above 0.
fn size(text: &str) -> Result<Bytes, String> {
    match text.parse::<Bytes>() {
        Ok(bytes) if bytes.is_zero() => Err("invalid size 0: write at least 1 byte".to_owned()),
        Ok(bytes) if i64::try_from(bytes.0).is_err() => Err("larger than any disk".to_owned()),
        Ok(bytes) => Ok(bytes),
        Err(error) => Err(error.to_string()),
    }
}

impl Measure {
    /// Whether the output is in the format of cache-bench.
    pub fn is_cache_bench(&self) -> bool {
        self.format == Some(LineFormat::CacheBench)
    }

    /// Whether `-b 1` makes a process take as much memory as is read.
    pub fn keeps_what_it_reads(&self) -> bool {
        self.bloating == Some(true) || self.bloat == Some(Bytes(1))
    }

    /// Workloads to measure, in order: for each repeat, each engine, each chunk.
    pub fn workloads(&self) -> Vec<Workload> {
        let seed = self.seed.unwrap_or_else(random_seed);
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
            touch: self.bloat_touch,
            oom_score_adj: self.bloat_oom_score_adj,
            ..Bloat::of_size(size)
        });
        // cache-bench keeps the data it reads, and lets the kernel kill it first.
        let keeping = || Bloat {
            as_read: true,
            ..Bloat::of_size(bytes.unwrap_or_default())
        };
        Workload {
            file: self.file.clone(),
            size: self.size,
            engine,
            chunk,
            access: self.access,
            unaligned: self.unaligned || self.is_cache_bench(),
            seed,
            bytes,
            seconds: self.seconds.map(Period::get),
            warm_up: self.warm_up.map_or(Duration::ZERO, Period::get),
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
            bloat: match self.keeps_what_it_reads() {
                true => Some(keeping()),
                false => bloat,
            },
            interval: self.interval.get(),
            no_latency: self.no_latency,
            ..Workload::default()
        }
    }

    /// Columns of intervals from `--columns`.
    pub fn fields(&self) -> Option<&[&'static Field]> {
        self.columns.as_ref().map(|columns| &columns.0[..])
    }
}

/// A seed from the clock, different on each call.
fn random_seed() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    // Few digits, because users type it again.
    now.map_or(1, |now| {
        u64::from(now.subsec_nanos()) ^ (now.as_secs() & 0xffff) << 14
    })
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn keys_of_a_workload_are_the_options_of_bench() {
        // Limits that only the arms of a matrix set.
        const WITHOUT_OPTION: [&str; 2] = ["memory_high", "swappiness"];
        let command = Measure::augment_args(clap::Command::new("bench"));
        let has = |flag: &str| {
            command
                .get_arguments()
                .any(|arg| arg.get_long() == Some(flag))
        };
        let keys = |value: Value| -> Vec<String> {
            let table = value.as_object().expect("a table").clone();
            table.into_iter().map(|(key, _)| key).collect()
        };
        let workload = serde_json::to_value(Workload::default()).expect("it is written");
        for key in keys(workload) {
            let is_option = has(&key.replace('_', "-"));
            assert_eq!(is_option, !WITHOUT_OPTION.contains(&&*key), "{key}");
        }
        let bloat = serde_json::to_value(Bloat::of_size(Bytes(1))).expect("it is written");
        for key in keys(bloat) {
            let flag = match key.as_str() {
                "size" => "bloat".to_owned(),
                "as_read" => "keep-reads".to_owned(),
                key => format!("bloat-{}", key.replace('_', "-")),
            };
            assert!(has(&flag), "bloat.{key} is --{flag}");
        }
    }

    #[test]
    fn options_and_files_have_the_same_defaults() {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            measure: Measure,
        }
        let line = <Line as clap::Parser>::parse_from(["bench", "--seed", "1"]);
        let of_options = line.measure.workloads();
        let file = line.measure.file.clone();
        let of_files = Workload {
            file,
            ..Workload::default()
        };
        assert_eq!(of_options, [of_files]);
    }

    #[test]
    fn mebibytes_accepts_fractions_and_refuses_zero() {
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
    fn chunk_without_unit_is_in_kibibytes() {
        assert_eq!(kibibytes("64"), Ok(Bytes(64 << 10)), "as in cache-bench");
        assert_eq!(
            kibibytes("1M"),
            Ok(Bytes(1 << 20)),
            "as for all other sizes"
        );
        for wrong in ["0", "-4", "", "x", "1e9"] {
            assert!(kibibytes(wrong).is_err(), "{wrong:?} is refused");
        }
    }
}
