//! The command line of `cachewise-cpu`.

use std::ffi::OsString;
use std::path::PathBuf;

use cachewise_cli::about::About;
use cachewise_cpu::program::sampling::{EVENTS, Event};
use cachewise_units::{Bytes, Interval};
use clap::{Args, Parser, Subcommand};

use cachewise_cli::arguments::{Output, parse_pid};

/// See the CPU's own caches: what they are, what they cost, and how a program uses them.
#[derive(Debug, Parser)]
#[command(name = "cachewise-cpu", version, max_term_width = 100)]
#[command(after_help = "`cachewise cpu` starts this program.\n\n\
    Exit status: 0 done; 1 the answer is no; 2 something could not be done or is not known, usage included; 128+N ended \
    by signal N. `run` and `sharing` end with 127 where their command was not found, 126 not executable.")]
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
    /// Measure the hierarchy: size and latency of each level, beside what sysfs says.
    Table(CpuTable),
    /// Do experiments: what ways of going through memory and code cost here, and what to do about it.
    Lab(CpuLab),
    /// Run a program, or follow one, and show its hit rates and the lines that miss most.
    Run(CpuRun),
    /// Look for false sharing in a program: threads that write to different bytes of one cache line.
    Sharing(CpuSharing),
    #[command(flatten)]
    About(About),
}

/// `cachewise cpu topology`.
#[derive(Debug, Args)]
#[command(
    after_help = "What sysfs says, which in a virtual machine is what the hypervisor lets it say; `cachewise cpu table` \
    measures it. Containers may hide the caches: then the rest is shown, and that is said.\n\n\
    Exit status: 0 done; 2 something could not be done.\n\n\
    Examples:\n  \
    cachewise cpu topology\n  \
    cachewise cpu topology -o csv"
)]
pub struct CpuTopology {
    /// Read this directory as /sys: a copy from another machine, for one.
    #[arg(long, value_name = "DIRECTORY", default_value = "/sys")]
    pub sys: PathBuf,
    #[command(flatten)]
    pub output: Output,
}

/// `cachewise cpu table`.
#[derive(Debug, Args)]
#[command(
    after_help = "Latency is that of a load whose address the load before it has brought: page by page (32 pages at a time, \
    so that address translation hardly shows) and all over the place. Levels are found in that curve, not assumed.\n\n\
    A figure without a mark came out alike in every round; with * rounds differ by more than a tenth; with ! others used \
    this CPU or its caches so much that only the range is known.\n\n\
    Exit status: 0 done; 2 something could not be done.\n\n\
    Examples:\n  \
    cachewise cpu table\n  \
    cachewise cpu table --cpu 0 --plot latency.svg\n  \
    cachewise cpu table --json"
)]
pub struct CpuTable {
    /// Measure this CPU instead of the one that this program happens to run on.
    #[arg(long, value_name = "NUMBER")]
    pub cpu: Option<u32>,
    /// The most memory to go through; eight times the last cache unless said, from 256 MiB to 1 GiB.
    #[arg(long, value_name = "BYTES")]
    pub largest: Option<Bytes>,
    /// Use huge pages where the kernel has some.
    #[arg(long)]
    pub huge: bool,
    /// How long to measure; what was disturbed is measured again for so long.
    #[arg(long, value_name = "TIME", default_value = "3")]
    pub time: Interval,
    /// Draw the curves into this file, as SVG.
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
    /// Read this directory as /sys.
    #[arg(long, value_name = "DIRECTORY", default_value = "/sys")]
    pub sys: PathBuf,
    /// Short for -o csv.
    #[arg(long, conflicts_with_all = ["output", "json"])]
    pub csv: bool,
    #[command(flatten)]
    pub output: Output,
}

/// `cachewise cpu lab`.
#[derive(Debug, Args)]
#[command(
    after_help = "Each experiment has controls, which tell its cause from others, and checks, which say when the compiler, the \
    scheduler or a neighbour removed the effect. Cases take turns, and ratios are of the same round: the middle one, and \
    in brackets the quarters below and above it.\n\n\
    Exit status: 0 done; 1 with --check, if a check does not hold; 2 something could not be done.\n\n\
    Examples:\n  \
    cachewise cpu lab\n  \
    cachewise cpu lab rows sharing\n  \
    cachewise cpu lab --list"
)]
pub struct CpuLab {
    /// Experiments by name; all of them unless said.
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
    /// List the experiments, and do none.
    #[arg(long)]
    pub list: bool,
    /// End with 1 if a check does not hold.
    #[arg(long)]
    pub check: bool,
    #[command(flatten)]
    pub output: Output,
}

const RUN_USAGE: &str = "cachewise cpu run [OPTIONS] [--] COMMAND [ARGUMENT]...
       cachewise cpu run [OPTIONS] --pid PID";

/// `cachewise cpu run`.
#[derive(Debug, Args)]
#[command(
    override_usage = RUN_USAGE,
    after_help = "Hardware counters are tried by opening them, and samples tell the lines that miss. Where there are none, as in most \
    virtual machines, a command is simulated by valgrind's callgrind with this machine's caches: exact in what it counts, 20 to 100 times slower, one \
    thread at a time, without prefetching. It tells misses, and no time: how long a miss takes it does not know.\n\n\
    Lines are those of the innermost function that is not a library's, through what was inlined; they need debug \
    information (cc -g; for Rust: [profile.release] debug = true).\n\n\
    The report goes to standard error. Exit status: the command's own (127 not found, 126 not executable, 128+N killed \
    by signal N); 2 something could not be done.\n\n\
    Examples:\n  \
    cachewise cpu run -- ./program --option\n  \
    cachewise cpu run --simulate -o report.json -- ./program\n  \
    cachewise cpu run --sample page-faults -- ./program\n  \
    cachewise cpu run --sample cpu-clock -p 1234 -d 10"
)]
pub struct CpuRun {
    /// The program and its arguments.
    #[arg(
        trailing_var_arg = true,
        value_name = "COMMAND",
        required_unless_present = "pid",
        conflicts_with = "pid"
    )]
    pub command: Vec<OsString>,
    /// Follow this process instead: needs hardware counters, or --sample page-faults or cpu-clock.
    #[arg(short, long, value_name = "PID", value_parser = parse_pid)]
    pub pid: Option<u32>,
    /// With -p: report after so long instead of when the process ends.
    #[arg(short, long, value_name = "SECONDS", requires = "pid")]
    pub duration: Option<Interval>,
    /// Simulate also where there are counters: each miss is seen, and how many bytes were fetched for nothing.
    #[arg(long, conflicts_with_all = ["pid", "sample", "period"])]
    pub simulate: bool,
    /// Tell the lines of this event instead of those of missed data: L1d, LLC, dTLB, L1i, branches; or page-faults or
    /// cpu-clock, which need no hardware counters.
    #[arg(long, value_name = "EVENT", value_parser = parse_event)]
    pub sample: Option<&'static Event>,
    /// Take a sample every so many events (of cpu-clock: nanoseconds), instead of what suits the event.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=PERIODS))]
    pub period: Option<u64>,
    /// How many lines to name.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10)]
    pub top: usize,
    /// Read this directory as /sys.
    #[arg(long, value_name = "DIRECTORY", default_value = "/sys")]
    pub sys: PathBuf,
    #[command(flatten)]
    pub output: Output,
}

const SHARING_USAGE: &str = "cachewise cpu sharing [OPTIONS] [--] COMMAND [ARGUMENT]...
       cachewise cpu sharing [OPTIONS] --pid PID {--symbol NAME | --address ADDRESS}";

/// `cachewise cpu sharing`.
#[derive(Debug, Args)]
#[command(
    override_usage = SHARING_USAGE,
    after_help = "Where the machine can sample memory accesses, perf c2c does it. Elsewhere the program is run several times, by turns: on \
    one CPU and on all, with its heap as it is and with each object in lines of its own (128 bytes). What padding saves \
    on all CPUs and not on one was false sharing between heap objects. It has to end by itself and do the same each \
    time; its input is empty, and its output is that of the first run.\n\n\
    --symbol and --address have hardware breakpoints watch a line: which threads write to which bytes of it. That sees \
    variables that padding the heap does not move: statics, and fields of one object. With --address the program's \
    addresses are the same in each run.\n\n\
    The verdict is found, not found, or unknown, with the proof that says so; it is never a guess.\n\n\
    Exit status: 0 done; 1 with --check, if it is found; 2 something could not be done, or a run failed; 127 not found, \
    126 not executable.\n\n\
    Examples:\n  \
    cachewise cpu sharing -- ./program --threads 2\n  \
    cachewise cpu sharing --symbol COUNTERS -- ./program\n  \
    cachewise cpu sharing -p 1234 --address 0x55d0c0002040"
)]
pub struct CpuSharing {
    /// The program and its arguments.
    #[arg(
        trailing_var_arg = true,
        value_name = "COMMAND",
        required_unless_present = "pid",
        conflicts_with = "pid"
    )]
    pub command: Vec<OsString>,
    /// Watch a line of this process instead of running a program.
    #[arg(short, long, value_name = "PID", value_parser = parse_pid, requires = "line")]
    pub pid: Option<u32>,
    /// Watch the lines of this variable: a name as in the source, or as in the symbol table.
    #[arg(long, value_name = "NAME", group = "line")]
    pub symbol: Option<String>,
    /// Watch the line of this address of the program's memory.
    #[arg(long, value_name = "ADDRESS", group = "line", value_parser = parse_address)]
    pub address: Option<u64>,
    /// How long to watch.
    #[arg(
        short,
        long,
        value_name = "TIME",
        default_value = "2",
        requires = "line"
    )]
    pub duration: Interval,
    /// How often each way to run it is repeated.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(3..=1000))]
    pub rounds: u32,
    /// End with 1 if it is found.
    #[arg(long)]
    pub check: bool,
    /// Read this directory as /sys.
    #[arg(long, value_name = "DIRECTORY", default_value = "/sys")]
    pub sys: PathBuf,
    #[command(flatten)]
    pub output: Output,
}

/// The longest period: the kernel takes no more than 63 bits.
const PERIODS: u64 = i64::MAX as u64;

/// An event that can be sampled.
fn parse_event(name: &str) -> Result<&'static Event, String> {
    Event::named(name).ok_or_else(|| {
        let names: Vec<&str> = EVENTS.iter().map(|event| event.name).collect();
        format!("no such event; there are {}", names.join(", "))
    })
}

/// An address: hexadecimal with 0x, or decimal.
fn parse_address(text: &str) -> Result<u64, String> {
    let parsed = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => text.parse(),
    };
    // The upper half is the kernel's.
    let address = parsed
        .ok()
        .filter(|address| *address > 0 && address >> 63 == 0);
    address.ok_or_else(|| "not an address of a program's memory, such as 0x55d0c0002040".into())
}
