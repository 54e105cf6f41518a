//! The command line of `cachewise-cpu`.

use std::ffi::OsString;
use std::path::PathBuf;

use cachewise_cli::about::About;
use cachewise_cli::columns::SheetColumnsParser;
use cachewise_cpu::program::sampling::{EVENTS, Event};
use cachewise_units::{Bytes, Period};
use cachewise_view::SheetColumns;
use clap::{Args, Parser, Subcommand};

use super::columns;
use cachewise_cli::arguments::{Output, parse_pid};

/// Show and measure CPU caches, and how a program uses them.
#[derive(Debug, Parser)]
#[command(name = "cachewise-cpu", version, max_term_width = 100)]
#[command(after_help = "`cachewise cpu` starts this program.\n\n\
    Exit status: 0 done; 1 with --check, if a check failed (lab) or false sharing was found (sharing); 2 something \
    could not be done or is not known, usage included; 128+N ended by signal N. `run` and `sharing` exit with 127 if their \
    command was not found, 126 if it is not executable.")]
pub struct Cli {
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show caches, cores, threads and NUMA nodes as a tree.
    Topology(CpuTopology),
    /// Measure size and latency of each cache level, and compare them with sysfs.
    Table(CpuTable),
    /// Run experiments that measure the cost of memory and code access patterns here.
    Lab(CpuLab),
    /// Run or follow a program and report its hit ratios and the source lines that miss most.
    Run(CpuRun),
    /// Find false sharing in a program: threads that write to different bytes of one cache line.
    Sharing(CpuSharing),
    #[command(flatten)]
    About(About),
}

/// `cachewise cpu topology`.
#[derive(Debug, Args)]
#[command(
    after_help = "topology shows what sysfs reports; in a virtual machine the hypervisor decides that. `cachewise cpu \
    table` measures it. Containers may hide the caches: then topology shows the rest with a note.\n\n\
    Exit status: 0 done; 2 something could not be done.\n\n\
    Examples:\n  \
    cachewise cpu topology\n  \
    cachewise cpu topology -o csv"
)]
pub struct CpuTopology {
    /// Directory to read as /sys, for example a copy from another machine.
    #[arg(long, value_name = "DIRECTORY", default_value = "/sys")]
    pub sys: PathBuf,
    /// Columns of a table of caches, shown instead of the tree, and of CSV, comma-separated ids or headings; see `cachewise cpu columns`.
    #[arg(short, long, value_name = "LIST", value_parser = SheetColumnsParser(&[&columns::TOPOLOGY]), hide_possible_values = true)]
    pub columns: Option<SheetColumns>,
    #[command(flatten)]
    pub output: Output,
}

/// `cachewise cpu table`.
#[derive(Debug, Args)]
#[command(
    after_help = "Latency is that of a load whose address depends on the previous load, in two orders: page by page (32 \
    pages at a time, which hides most of the address translation) and random. Levels are derived from that curve, not \
    assumed.\n\n\
    A figure without a mark agreed in every round; with * rounds differ by more than a tenth; with ! other programs used \
    this CPU or its caches so much that only the range is known.\n\n\
    Exit status: 0 done; 2 something could not be done.\n\n\
    Examples:\n  \
    cachewise cpu table\n  \
    cachewise cpu table --cpu 0 --plot latency.svg\n  \
    cachewise cpu table --json"
)]
pub struct CpuTable {
    /// CPU to measure, by number [default: the current one].
    #[arg(long, value_name = "NUMBER")]
    pub cpu: Option<u32>,
    /// Maximum memory to traverse [default: 8 times the last-level cache, from 256 MiB to 1 GiB].
    #[arg(long, value_name = "BYTES")]
    pub largest: Option<Bytes>,
    /// Use huge pages if the kernel has free ones.
    #[arg(long)]
    pub huge: bool,
    /// Time to measure, in seconds or with a unit; disturbed figures are measured again for the same time.
    #[arg(long, value_name = "TIME", default_value = "3")]
    pub time: Period,
    /// Plot the curves to this SVG file.
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
    /// Directory to read as /sys.
    #[arg(long, value_name = "DIRECTORY", default_value = "/sys")]
    pub sys: PathBuf,
    /// Same as -o csv.
    #[arg(long, conflicts_with_all = ["output", "json"])]
    pub csv: bool,
    /// Columns of the table and of CSV, comma-separated ids or headings; see `cachewise cpu columns`.
    #[arg(short, long, value_name = "LIST", value_parser = SheetColumnsParser(&[&columns::TABLE]), hide_possible_values = true)]
    pub columns: Option<SheetColumns>,
    #[command(flatten)]
    pub output: Output,
}

/// `cachewise cpu lab`.
#[derive(Debug, Args)]
#[command(
    after_help = "Each experiment has controls, which separate its cause from others, and checks, which fail if the compiler, \
    the scheduler or another program removed the effect. Cases run in turn, and a ratio compares cases of the same round: \
    the median, with the quartiles in brackets.\n\n\
    Exit status: 0 done; 1 with --check, if a check does not hold; 2 something could not be done.\n\n\
    Examples:\n  \
    cachewise cpu lab\n  \
    cachewise cpu lab rows sharing\n  \
    cachewise cpu lab --list"
)]
pub struct CpuLab {
    /// Experiments to run, by name [default: all].
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
    /// List the experiments, and exit.
    #[arg(long)]
    pub list: bool,
    /// Exit with status 1 if a check fails.
    #[arg(long)]
    pub check: bool,
    /// Columns of the tables and of CSV, comma-separated ids or headings; see `cachewise cpu columns`.
    #[arg(short, long, value_name = "LIST", value_parser = SheetColumnsParser(&[&columns::LAB]), hide_possible_values = true, conflicts_with = "list")]
    pub columns: Option<SheetColumns>,
    #[command(flatten)]
    pub output: Output,
}

const RUN_USAGE: &str = "cachewise cpu run [OPTIONS] [--] COMMAND [ARGUMENT]...
       cachewise cpu run [OPTIONS] --pid PID";

/// `cachewise cpu run`.
#[derive(Debug, Args)]
#[command(
    override_usage = RUN_USAGE,
    after_help = "run opens hardware counters and samples the source lines that miss. Without counters, as in most virtual \
    machines, valgrind's callgrind simulates the command with the caches of this machine: exact counts, 20 to 100 times \
    slower, one thread at a time, without prefetching. The simulation counts misses, not their time.\n\n\
    A line is that of the innermost function outside libraries, inlined functions included; it needs debug information \
    (cc -g; for Rust: [profile.release] debug = true).\n\n\
    The report goes to standard error.\n\n\
    Exit status: that of the command (127 not found, 126 not executable, 128+N killed by signal N); 2 something could not \
    be done.\n\n\
    Examples:\n  \
    cachewise cpu run -- ./program --option\n  \
    cachewise cpu run --simulate -o report.json -- ./program\n  \
    cachewise cpu run --sample page-faults -- ./program\n  \
    cachewise cpu run --sample cpu-clock -p 1234 -d 10"
)]
pub struct CpuRun {
    /// Program to run, and its arguments.
    #[arg(
        trailing_var_arg = true,
        value_name = "COMMAND",
        required_unless_present = "pid",
        conflicts_with = "pid"
    )]
    pub command: Vec<OsString>,
    /// Follow this running process instead; needs hardware counters, or --sample page-faults or cpu-clock.
    #[arg(short, long, value_name = "PID", value_parser = parse_pid)]
    pub pid: Option<u32>,
    /// Stop after this time, in seconds or with a unit, with -p [default: until the process ends].
    #[arg(short, long, value_name = "SECONDS", requires = "pid")]
    pub duration: Option<Period>,
    /// Simulate even if counters work: reports every miss, and the bytes that were fetched without use.
    #[arg(long, conflicts_with_all = ["pid", "sample", "period"])]
    pub simulate: bool,
    /// Event to sample: L1d, LLC, dTLB, L1i, branches; or, without hardware counters, page-faults or cpu-clock
    /// [default: data cache misses].
    #[arg(long, value_name = "EVENT", value_parser = parse_event)]
    pub sample: Option<&'static Event>,
    /// Events per sample, or nanoseconds for cpu-clock [default: depends on the event].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=PERIODS))]
    pub period: Option<u64>,
    /// Maximum source lines to show.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10)]
    pub top: usize,
    /// Directory to read as /sys.
    #[arg(long, value_name = "DIRECTORY", default_value = "/sys")]
    pub sys: PathBuf,
    /// Columns of the tables and of CSV, comma-separated ids or headings; see `cachewise cpu columns`.
    #[arg(short, long, value_name = "LIST", value_parser = SheetColumnsParser(&columns::RUN_TABLES), hide_possible_values = true)]
    pub columns: Option<SheetColumns>,
    #[command(flatten)]
    pub output: Output,
}

const SHARING_USAGE: &str = "cachewise cpu sharing [OPTIONS] [--] COMMAND [ARGUMENT]...
       cachewise cpu sharing [OPTIONS] --pid PID {--symbol NAME | --address ADDRESS}";

/// `cachewise cpu sharing`.
#[derive(Debug, Args)]
#[command(
    override_usage = SHARING_USAGE,
    after_help = "If the machine can sample memory accesses, sharing uses perf c2c. Otherwise it runs the program several times \
    in turn: on one CPU and on all, with its heap unchanged and with each object padded to its own 128 bytes. Time that \
    padding saves on all CPUs and not on one was lost to false sharing between heap objects. The program must end by \
    itself and do the same work each time; its input is empty, and only the first run's output is shown.\n\n\
    --symbol and --address watch a line with hardware breakpoints: which threads write to which of its bytes. They cover \
    variables that padding does not move: statics, and fields of one object. --address disables address randomization.\n\n\
    The verdict is found, not found, or unknown, with the evidence; it is never a guess.\n\n\
    Exit status: 0 done; 1 with --check, if false sharing is found; 2 something could not be done, or a run failed; 127 \
    not found, 126 not executable.\n\n\
    Examples:\n  \
    cachewise cpu sharing -- ./program --threads 2\n  \
    cachewise cpu sharing --symbol COUNTERS -- ./program\n  \
    cachewise cpu sharing -p 1234 --address 0x55d0c0002040"
)]
pub struct CpuSharing {
    /// Program to run, and its arguments.
    #[arg(
        trailing_var_arg = true,
        value_name = "COMMAND",
        required_unless_present = "pid",
        conflicts_with = "pid"
    )]
    pub command: Vec<OsString>,
    /// Watch a line of this running process instead.
    #[arg(short, long, value_name = "PID", value_parser = parse_pid, requires = "line")]
    pub pid: Option<u32>,
    /// Watch the cache lines of this variable, named as in the source or in the symbol table.
    #[arg(long, value_name = "NAME", group = "line")]
    pub symbol: Option<String>,
    /// Watch the cache line of this address, decimal or hexadecimal with 0x.
    #[arg(long, value_name = "ADDRESS", group = "line", value_parser = parse_address)]
    pub address: Option<u64>,
    /// Time to watch, in seconds or with a unit.
    #[arg(
        short,
        long,
        value_name = "TIME",
        default_value = "2",
        requires = "line"
    )]
    pub duration: Period,
    /// Number of runs of each variant.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(3..=1000))]
    pub rounds: u32,
    /// Exit with status 1 if false sharing is found.
    #[arg(long)]
    pub check: bool,
    /// Directory to read as /sys.
    #[arg(long, value_name = "DIRECTORY", default_value = "/sys")]
    pub sys: PathBuf,
    /// Columns of the tables and of CSV, comma-separated ids or headings; see `cachewise cpu columns`.
    #[arg(short, long, value_name = "LIST", value_parser = SheetColumnsParser(&columns::SHARING_TABLES), hide_possible_values = true)]
    pub columns: Option<SheetColumns>,
    #[command(flatten)]
    pub output: Output,
}

/// Maximum period: the kernel accepts 63 bits.
const PERIODS: u64 = i64::MAX as u64;

/// An event that can be sampled.
fn parse_event(name: &str) -> Result<&'static Event, String> {
    Event::named(name).ok_or_else(|| {
        let names: Vec<&str> = EVENTS.iter().map(|event| event.name).collect();
        format!("unknown event: use one of {}", names.join(", "))
    })
}

/// An address: hexadecimal with 0x, or decimal.
fn parse_address(text: &str) -> Result<u64, String> {
    let parsed = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => text.parse(),
    };
    // The upper half of the address space belongs to the kernel.
    let address = parsed
        .ok()
        .filter(|address| *address > 0 && address >> 63 == 0);
    address
        .ok_or_else(|| "invalid address of a program's memory: write it as 0x55d0c0002040".into())
}
