//! What the probe costs the programs that it watches: ratios of pairs, on against off.
//!
//! `cargo bench -p cachewise-probe --bench overhead [-- NAME...]`; a name is part of a workload's name.
//! As root: BPF is needed, and without it there is nothing to measure.
//!
//! # What is compared
//! - `empty`: programs that do nothing on the same tracepoints. The floor: no probe can cost less.
//! - `stat`: everybody's doings in one sum, as `cachewise stat`.
//! - `run`: a row for each process and file of one tree, as `cachewise run`, with this process (for
//!   `compile`: its children) as the tree.
//! - `rows`: such rows for the whole machine. For reference; no command does it for long.
//!
//! # Why it is fair
//! - A block is a fixed number of operations, about 100 ms of them, the same ones in the same order each
//!   time (fixed seeds). A round has a block of each variant with a block without any before, between and
//!   after: off, A, off, B, off, C, off, D, off. A variant is compared with the mean of the two blocks next
//!   to it, so what drifts (clock, neighbours, temperature) falls out, and the ratio of each round is one
//!   of a pair that was measured within a second. The variants change places from round to round. The
//!   table has the median and the quartiles of these ratios; no block is left out.
//! - Attaching is not timed (the bench `startup` does that): the probe is attached, left alone for a moment
//!   so that the kernel has patched its code, and then warmed up, except where the first touch is what
//!   is measured: files read cold or once. Files are evicted before the probe comes, as for a user.
//!   After it goes there is a moment again, for what the kernel frees later.
//! - CPU time is that of the thread that does the work (of all children for `compile`), which a neighbour
//!   on this machine hardly touches; wall time is beside it. The thread that collects names of files
//!   for `run` and `rows` is not in the CPU time; it is in the wall time only where CPUs are short.
//! - `files` is nothing but system calls: no compiler runs between them, so it is the worst case of
//!   a build, and each file costs `run` the making of its row. `compile` is a real one.
//! - In the first round the probe is asked what it has counted: one that is not there costs nothing.
//!
//! `CACHEWISE_BENCH_PAIRS` sets the number of rounds (15); `CACHEWISE_TABLE=PATH` writes the table there too.
//! Without `--bench`, as under `cargo test --benches`, it is one short round that only shows that it works.

use std::error::Error;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{Read, Write as _};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::ptr;
use std::time::{Duration, Instant};

use cachewise_model::Counter;
use cachewise_probe::bare::Bare;
use cachewise_probe::{Detail, ErrorKind, Options, Probe, Scope};
use cachewise_sys::{cachestat, children_usage, fadvise_dont_need, fadvise_random, sync_data};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::time::{ClockId, clock_gettime};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// How long a block works, about.
const BLOCK: Duration = Duration::from_millis(100);
/// Between a change of what is attached and the next block.
const PAUSE: Duration = Duration::from_millis(20);

const PAGE: usize = 4096;
const LARGE: usize = 1 << 20;
const FILE_SIZE: usize = 256 << 20;

const SOURCE_FILES: usize = 2000;
const OUTPUT_FILES: usize = 200;
const UNITS: usize = 20;

/// What is attached while a block works.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Variant {
    Off,
    Empty,
    Stat,
    Run,
    Rows,
}

const VARIANTS: [Variant; 4] = [Variant::Empty, Variant::Stat, Variant::Run, Variant::Rows];

impl Variant {
    fn name(self) -> &'static str {
        match self {
            Variant::Off => "off",
            Variant::Empty => "empty",
            Variant::Stat => "stat",
            Variant::Run => "run",
            Variant::Rows => "rows",
        }
    }

    fn attach(self, clock: Clock) -> Outcome<Attached> {
        let probe = |scope, detail| Probe::attach(&Options::new(scope, detail)).map(Box::new);
        Ok(match self {
            Variant::Off => Attached::Nothing,
            Variant::Empty => Attached::Empty {
                _held: Bare::attach()?,
            },
            Variant::Stat => Attached::Probe(probe(Scope::System, Detail::Totals)?),
            Variant::Run => {
                let scope = match clock {
                    Clock::Thread => Scope::Process(std::process::id()),
                    Clock::Children => Scope::Children,
                };
                Attached::Probe(probe(scope, Detail::Rows)?)
            }
            Variant::Rows => Attached::Probe(probe(Scope::System, Detail::Rows)?),
        })
    }
}

enum Attached {
    Nothing,
    Empty { _held: Bare },
    Probe(Box<Probe>),
}

/// Whose CPU time a block takes.
#[derive(Clone, Copy)]
enum Clock {
    Thread,
    Children,
}

impl Clock {
    fn now(self) -> Duration {
        match self {
            Clock::Thread => {
                let time = clock_gettime(ClockId::ThreadCPUTime);
                Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
            }
            Clock::Children => {
                let usage = children_usage();
                usage.user + usage.system
            }
        }
    }
}

/// A goal for a variant: the largest ratio of CPU times that the project allows itself.
type Goal = (Variant, f64);

/// One kind of work.
trait Work {
    fn name(&self) -> &'static str;
    /// What one operation is.
    fn operation(&self) -> &'static str;
    fn goals(&self) -> &'static [Goal];

    fn clock(&self) -> Clock {
        Clock::Thread
    }

    /// Makes what is needed, once.
    fn prepare(&mut self) -> Outcome<()>;

    /// Brings the state about that each block starts from; nothing is attached.
    fn reset(&mut self) -> Outcome<()> {
        Ok(())
    }

    /// Does so many operations, or all that there are; returns how many.
    fn run(&mut self, operations: Option<u64>) -> Outcome<u64>;

    /// Whether some of the work is done before a block, with the probe attached and not timed.
    fn warms_up(&self) -> bool {
        true
    }

    /// The most operations that a block can have; none: its length is fixed.
    fn operations(&self) -> Option<u64> {
        None
    }

    /// The least pages that the probe has to have seen in a block, read or faulted in.
    fn pages(&self, operations: u64) -> u64;
}

/// Numbers that look random and are the same each time (SplitMix64).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ z >> 31) % limit
    }
}

/// How the one large file is read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pattern {
    WarmRandom,
    WarmLarge,
    WarmSequential,
    ColdSequential,
    ColdRandom,
}

struct LargeFile {
    pattern: Pattern,
    path: PathBuf,
    file: Option<File>,
    /// The pages in an order without repetition: a page is cold once.
    order: Vec<u32>,
    buffer: Vec<u8>,
}

impl LargeFile {
    fn new(pattern: Pattern, directory: &Path) -> Self {
        let path = directory.join("large");
        LargeFile {
            pattern,
            path,
            file: None,
            order: Vec::new(),
            buffer: vec![0; LARGE],
        }
    }

    fn chunk(&self) -> usize {
        match self.pattern {
            Pattern::WarmLarge => LARGE,
            Pattern::ColdSequential => 64 << 10,
            _ => PAGE,
        }
    }

    fn is_cold(&self) -> bool {
        matches!(self.pattern, Pattern::ColdSequential | Pattern::ColdRandom)
    }

    fn file(&self) -> Outcome<&File> {
        self.file
            .as_ref()
            .ok_or_else(|| "the file was not prepared".into())
    }
}

impl Work for LargeFile {
    fn name(&self) -> &'static str {
        match self.pattern {
            Pattern::WarmRandom => "warm-random-4k",
            Pattern::WarmLarge => "warm-sequential-1m",
            Pattern::WarmSequential => "warm-read-4k",
            Pattern::ColdSequential => "cold-sequential-64k",
            Pattern::ColdRandom => "cold-random-4k",
        }
    }

    fn operation(&self) -> &'static str {
        match self.pattern {
            Pattern::WarmRandom => "pread of 4 KiB",
            Pattern::WarmLarge => "pread of 1 MiB",
            Pattern::WarmSequential => "read of 4 KiB",
            Pattern::ColdSequential => "page, read by 16",
            Pattern::ColdRandom => "pread of 4 KiB",
        }
    }

    fn goals(&self) -> &'static [Goal] {
        match self.pattern {
            Pattern::WarmRandom => &[
                (Variant::Empty, 1.08),
                (Variant::Stat, 1.12),
                (Variant::Run, 1.20),
            ],
            Pattern::WarmSequential => &[],
            _ => &[(Variant::Run, 1.03)],
        }
    }

    fn prepare(&mut self) -> Outcome<()> {
        if !self.path.exists() {
            let mut file = File::create(&self.path)?;
            let mut random = Random(1);
            for _ in 0..FILE_SIZE / LARGE {
                for word in self.buffer.chunks_exact_mut(8) {
                    word.copy_from_slice(&random.below(u64::MAX).to_ne_bytes());
                }
                file.write_all(&self.buffer)?;
            }
        }
        let file = File::open(&self.path)?;
        sync_data(file.as_fd())?;
        fadvise_dont_need(file.as_fd())?;
        if self.is_cold() {
            if self.pattern == Pattern::ColdRandom {
                fadvise_random(file.as_fd())?;
            }
            self.order = (0..(FILE_SIZE / PAGE) as u32).collect();
            let mut random = Random(2);
            for i in (1..self.order.len()).rev() {
                self.order.swap(i, random.below(i as u64 + 1) as usize);
            }
        }
        self.file = Some(file);
        Ok(())
    }

    fn reset(&mut self) -> Outcome<()> {
        let file = self.file()?;
        let resident = || Ok::<_, cachewise_sys::Error>(cachestat(file.as_fd(), None)?.cached.0);
        let all = (FILE_SIZE / PAGE) as u64;
        if !self.is_cold() {
            // Another program may have dropped caches: from then on it is resident anew.
            if resident()? < all {
                let mut buffer = vec![0; LARGE];
                for offset in (0..FILE_SIZE).step_by(LARGE) {
                    file.read_exact_at(&mut buffer, offset as u64)?;
                }
            }
            return Ok(());
        }
        // What read-ahead still brings in cannot be evicted before it has arrived.
        for _ in 0..100 {
            fadvise_dont_need(file.as_fd())?;
            if resident()? == 0 {
                return Ok(());
            }
            std::thread::sleep(PAUSE);
        }
        Err(format!("{} of the file's {all} pages do not go", resident()?).into())
    }

    fn run(&mut self, operations: Option<u64>) -> Outcome<u64> {
        let count = operations.unwrap_or(0);
        let chunk = self.chunk();
        let mut buffer = std::mem::take(&mut self.buffer);
        let mut file = self.file()?;
        match self.pattern {
            Pattern::WarmRandom => {
                let mut random = Random(3);
                for _ in 0..count {
                    let page = random.below((FILE_SIZE / PAGE) as u64);
                    file.read_exact_at(&mut buffer[..chunk], page * PAGE as u64)?;
                }
            }
            Pattern::WarmLarge => {
                for i in 0..count {
                    let offset = i % (FILE_SIZE / chunk) as u64 * chunk as u64;
                    file.read_exact_at(&mut buffer[..chunk], offset)?;
                }
            }
            Pattern::WarmSequential => {
                let reads = (FILE_SIZE / chunk) as u64;
                for i in 0..count {
                    if i % reads == 0 {
                        std::io::Seek::rewind(&mut file)?;
                    }
                    file.read_exact(&mut buffer[..chunk])?;
                }
            }
            Pattern::ColdSequential => {
                let pages = (chunk / PAGE) as u64;
                for i in 0..(count / pages) {
                    file.read_exact_at(&mut buffer[..chunk], i * chunk as u64)?;
                }
            }
            Pattern::ColdRandom => {
                for page in &self.order[..count as usize] {
                    file.read_exact_at(&mut buffer[..chunk], u64::from(*page) * PAGE as u64)?;
                }
            }
        }
        self.buffer = buffer;
        Ok(count)
    }

    fn warms_up(&self) -> bool {
        !self.is_cold()
    }

    fn operations(&self) -> Option<u64> {
        Some(match self.pattern {
            Pattern::ColdSequential | Pattern::ColdRandom => (FILE_SIZE / PAGE) as u64,
            _ => u64::MAX,
        })
    }

    fn pages(&self, operations: u64) -> u64 {
        match self.pattern {
            Pattern::WarmLarge => operations * (LARGE / PAGE) as u64,
            _ => operations,
        }
    }
}

/// What a build does to many small files, without the compiler: each is looked at, opened and read whole,
/// every eighth is mapped instead; small results are written, renamed and removed.
struct ManyFiles {
    directory: PathBuf,
    sources: Vec<PathBuf>,
    contents: Vec<u8>,
}

impl ManyFiles {
    fn new(directory: &Path) -> Self {
        ManyFiles {
            directory: directory.join("tree"),
            sources: Vec::new(),
            contents: vec![b'x'; 64 << 10],
        }
    }
}

impl Work for ManyFiles {
    fn name(&self) -> &'static str {
        "files"
    }

    fn operation(&self) -> &'static str {
        "small file"
    }

    fn goals(&self) -> &'static [Goal] {
        &[(Variant::Run, 1.02)]
    }

    fn prepare(&mut self) -> Outcome<()> {
        let mut random = Random(4);
        for i in 0..SOURCE_FILES {
            let directory = self.directory.join(format!("{:02}", i / 50));
            fs::create_dir_all(&directory)?;
            let path = directory.join(format!("{i:04}.rs"));
            // As many of 1-2 KiB as of 32-64 KiB.
            let least = 1024 << random.below(6);
            let size = least + random.below(least);
            fs::write(&path, &self.contents[..size as usize])?;
            self.sources.push(path);
        }
        fs::create_dir_all(self.directory.join("out"))?;
        // What is dirty would be written back in the middle of a block.
        rustix::fs::syncfs(File::open(&self.directory)?)?;
        self.run(None)?;
        Ok(())
    }

    fn run(&mut self, _: Option<u64>) -> Outcome<u64> {
        let mut buffer = Vec::with_capacity(64 << 10);
        let mut random = Random(5);
        let every = SOURCE_FILES / OUTPUT_FILES;
        for (i, path) in self.sources.iter().enumerate() {
            fs::metadata(path)?;
            let mut file = File::open(path)?;
            let size = file.metadata()?.len() as usize;
            if i % 8 == 0 {
                touch_mapped(&file, size)?;
            } else {
                buffer.clear();
                file.read_to_end(&mut buffer)?;
            }
            drop(file);
            if i % every == 0 {
                let temporary = self.directory.join("out/new");
                let size = 1024 + random.below(31 << 10) as usize;
                fs::write(&temporary, &self.contents[..size])?;
                fs::rename(&temporary, self.directory.join(format!("out/{i}.o")))?;
            }
        }
        for i in (0..self.sources.len()).step_by(every) {
            fs::remove_file(self.directory.join(format!("out/{i}.o")))?;
        }
        Ok(self.sources.len() as u64)
    }

    fn warms_up(&self) -> bool {
        false
    }

    fn pages(&self, operations: u64) -> u64 {
        operations
    }
}

fn touch_mapped(file: &File, size: usize) -> Outcome<()> {
    // SAFETY: a new mapping at an address of the kernel's choice, so nothing that exists is replaced. The
    // file belongs to this bench and keeps its size, so each byte read is backed by it; the pointer is not
    // used after the mapping is gone.
    unsafe {
        let start = mmap(
            ptr::null_mut(),
            size,
            ProtFlags::READ,
            MapFlags::PRIVATE,
            file,
            0,
        )?;
        for offset in (0..size).step_by(PAGE) {
            start.cast::<u8>().add(offset).read_volatile();
        }
        munmap(start, size)?;
    }
    Ok(())
}

/// A real compiler on small sources.
struct Compile {
    directory: PathBuf,
}

impl Work for Compile {
    fn name(&self) -> &'static str {
        "compile"
    }

    fn operation(&self) -> &'static str {
        "gcc -c"
    }

    fn goals(&self) -> &'static [Goal] {
        &[(Variant::Run, 1.02)]
    }

    fn clock(&self) -> Clock {
        Clock::Children
    }

    fn prepare(&mut self) -> Outcome<()> {
        fs::create_dir_all(&self.directory)?;
        for unit in 0..UNITS {
            let mut source =
                String::from("#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n");
            for i in 0..10 {
                writeln!(
                    source,
                    "int f{i}(int n, const char *s) {{ int x = {unit}; for (int k = 0; k < n; k++)\n\
                     x += s[k] * {i} + (int)strlen(s); printf(\"%d\", x); return x; }}"
                )?;
            }
            fs::write(self.directory.join(format!("{unit}.c")), source)?;
        }
        self.run(None)?;
        Ok(())
    }

    fn run(&mut self, _: Option<u64>) -> Outcome<u64> {
        for unit in 0..UNITS {
            let status = Command::new("gcc")
                .args(["-c", "-O1", "-o", "out.o", &format!("{unit}.c")])
                .current_dir(&self.directory)
                .stdin(Stdio::null())
                .status()?;
            if !status.success() {
                return Err(format!("gcc: {status}").into());
            }
        }
        Ok(UNITS as u64)
    }

    fn warms_up(&self) -> bool {
        false
    }

    fn pages(&self, operations: u64) -> u64 {
        operations
    }
}

/// What a block took, per operation, in nanoseconds.
#[derive(Clone, Copy)]
struct Sample {
    cpu: f64,
    wall: f64,
}

fn timed(work: &mut dyn Work, operations: Option<u64>) -> Outcome<(Sample, u64)> {
    let clock = work.clock();
    let (cpu, wall) = (clock.now(), Instant::now());
    let done = work.run(operations)?;
    let (wall, cpu) = (wall.elapsed(), clock.now() - cpu);
    let each = |time: Duration| time.as_nanos() as f64 / done as f64;
    Ok((
        Sample {
            cpu: each(cpu),
            wall: each(wall),
        },
        done,
    ))
}

/// One block. `check`: ask the probe afterwards whether it saw it.
fn block(
    work: &mut dyn Work,
    operations: Option<u64>,
    variant: Variant,
    check: bool,
) -> Outcome<Sample> {
    work.reset()?;
    let mut attached = variant.attach(work.clock())?;
    std::thread::sleep(PAUSE);
    if work.warms_up() {
        work.run(operations.map(|count| (count / 10).max(1)))?;
    }
    let (sample, done) = timed(work, operations)?;
    match &mut attached {
        Attached::Probe(probe) if check => {
            let seen = probe.snapshot()?.total;
            let pages = seen[Counter::ReadPages] + seen[Counter::FaultRequests];
            let expected = work.pages(done);
            if pages < expected {
                return Err(format!(
                    "{}: {pages} pages counted of {expected} read",
                    variant.name()
                )
                .into());
            }
        }
        Attached::Nothing | Attached::Empty { .. } | Attached::Probe(_) => {}
    }
    let was_on = !matches!(attached, Attached::Nothing);
    drop(attached);
    if was_on {
        std::thread::sleep(PAUSE);
    }
    Ok(sample)
}

/// So many operations that a block takes its time; at most as many as there are.
fn calibrate(work: &mut dyn Work, block: Duration) -> Outcome<Option<u64>> {
    let Some(most) = work.operations() else {
        return Ok(None);
    };
    let (mut count, step) = (64, 16);
    loop {
        work.reset()?;
        let (sample, _) = timed(work, Some(count))?;
        let took = sample.wall * count as f64;
        if took >= block.as_nanos() as f64 / 2.0 || count >= most {
            let wanted = (block.as_nanos() as f64 / sample.wall) as u64;
            // Whole reads of 64 KiB, where an operation is a page of them.
            return Ok(Some((wanted.min(most) / step * step).max(step)));
        }
        count = (count * 2).min(most);
    }
}

/// The ratios of one variant, a pair each round.
struct Ratios {
    variant: Variant,
    cpu: Vec<f64>,
    wall: Vec<f64>,
}

struct Measurement {
    off: Vec<Sample>,
    ratios: Vec<Ratios>,
    others: f64,
    stolen: f64,
    load: (String, String),
}

fn measure(work: &mut dyn Work, rounds: usize, length: Duration) -> Outcome<Measurement> {
    work.prepare()?;
    let operations = calibrate(work, length)?;
    let mut off = Vec::new();
    let mut ratios = VARIANTS.map(|variant| Ratios {
        variant,
        cpu: Vec::new(),
        wall: Vec::new(),
    });
    let load = load();
    let before = Machine::now()?;
    for round in 0..rounds {
        let mut previous = block(work, operations, Variant::Off, false)?;
        off.push(previous);
        for place in 0..VARIANTS.len() {
            let ratios = &mut ratios[(place + round) % VARIANTS.len()];
            let on = block(work, operations, ratios.variant, round == 0)?;
            let next = block(work, operations, Variant::Off, false)?;
            ratios.cpu.push(2.0 * on.cpu / (previous.cpu + next.cpu));
            ratios
                .wall
                .push(2.0 * on.wall / (previous.wall + next.wall));
            off.push(next);
            previous = next;
        }
    }
    let (others, stolen) = Machine::now()?.since(&before);
    Ok(Measurement {
        off,
        ratios: ratios.into(),
        others,
        stolen,
        load: (load, self::load()),
    })
}

fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or("?").to_owned()
}

/// What the CPUs have done so far.
struct Machine {
    at: Instant,
    busy: Duration,
    stolen: Duration,
    own: Duration,
}

impl Machine {
    fn now() -> Outcome<Self> {
        let text = fs::read_to_string("/proc/stat")?;
        let ticks: Vec<u64> = text
            .lines()
            .next()
            .unwrap_or_default()
            .split_ascii_whitespace()
            .skip(1)
            .map(str::parse)
            .collect::<Result<_, _>>()?;
        let &[user, nice, system, _idle, _iowait, irq, softirq, stolen, ..] = ticks.as_slice()
        else {
            return Err("/proc/stat has fewer columns than it should".into());
        };
        let time = |ticks: u64| {
            Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
        };
        let own = clock_gettime(ClockId::ProcessCPUTime);
        Ok(Machine {
            at: Instant::now(),
            busy: time(user + nice + system + irq + softirq),
            stolen: time(stolen),
            own: Duration::new(own.tv_sec.unsigned_abs(), own.tv_nsec as u32)
                + Clock::Children.now(),
        })
    }

    /// CPUs that others kept busy, and that the hypervisor gave away.
    fn since(&self, before: &Machine) -> (f64, f64) {
        let wall = (self.at - before.at).as_secs_f64();
        let busy = (self.busy - before.busy).as_secs_f64() - (self.own - before.own).as_secs_f64();
        (
            busy.max(0.0) / wall,
            (self.stolen - before.stolen).as_secs_f64() / wall,
        )
    }
}

/// The value below which a share of all lies.
fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let place = share * (sorted.len() - 1) as f64;
    let (low, high) = (
        sorted[place.floor() as usize],
        sorted[place.ceil() as usize],
    );
    low + (high - low) * place.fract()
}

fn median(values: &[f64]) -> f64 {
    quantile(values, 0.5)
}

fn time(nanoseconds: f64) -> String {
    match nanoseconds {
        n if n < 10e3 => format!("{n:.0} ns"),
        n if n < 10e6 => format!("{:.1} us", n / 1e3),
        n => format!("{:.1} ms", n / 1e6),
    }
}

const HEAD: &str = "\
| workload | variant | CPU on/off | quartiles | wall on/off | quartiles | CPU per operation | goal |
|---|---|---|---|---|---|---|---|
";

fn rows(work: &dyn Work, measured: &Measurement) -> String {
    let off = median(
        &measured
            .off
            .iter()
            .map(|sample| sample.cpu)
            .collect::<Vec<_>>(),
    );
    let wall = median(
        &measured
            .off
            .iter()
            .map(|sample| sample.wall)
            .collect::<Vec<_>>(),
    );
    let mut text = format!(
        "| {} | off | | | | | {} ({} wall), a {} | |\n",
        work.name(),
        time(off),
        time(wall),
        work.operation(),
    );
    for ratios in &measured.ratios {
        let summary = |ratios: &[f64]| {
            let (low, high) = (quantile(ratios, 0.25), quantile(ratios, 0.75));
            format!("**{:.3}** | {low:.3}-{high:.3}", median(ratios))
        };
        let goal = work
            .goals()
            .iter()
            .find(|(variant, _)| *variant == ratios.variant);
        let added = off * (median(&ratios.cpu) - 1.0);
        let goal = goal.map_or_else(String::new, |(variant, goal)| match variant {
            Variant::Empty => format!("{goal:.2} elsewhere"),
            // Where the goal lies between the quartiles, the noise is larger than the distance.
            _ => {
                let met = if median(&ratios.cpu) <= *goal {
                    "met"
                } else {
                    "missed"
                };
                let (low, high) = (quantile(&ratios.cpu, 0.25), quantile(&ratios.cpu, 0.75));
                let doubt = if low <= *goal && *goal < high {
                    ", within the noise"
                } else {
                    ""
                };
                format!("{goal:.2} {met}{doubt}")
            }
        });
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "| | {} | {} | {} | {}{} | {goal} |",
            ratios.variant.name(),
            summary(&ratios.cpu),
            summary(&ratios.wall),
            if added < 0.0 { "-" } else { "+" },
            time(added.abs()),
        );
    }
    text
}

/// A directory that goes with its owner, also when that panics.
fn directory() -> Outcome<tempfile::TempDir> {
    const IN_MEMORY: [u64; 2] = [0x0102_1994, 0x8584_58f6]; // tmpfs, ramfs
    let candidates = [env!("CARGO_TARGET_TMPDIR"), "/var/tmp"];
    for candidate in candidates {
        let Ok(found) = rustix::fs::statfs(candidate) else {
            continue;
        };
        if !IN_MEMORY.contains(&(found.f_type as u64)) {
            let directory = tempfile::Builder::new()
                .prefix("overhead-")
                .tempdir_in(candidate)?;
            return Ok(directory);
        }
    }
    Err(format!("there is no disk under any of {candidates:?}").into())
}

fn has(program: &str) -> bool {
    let found = Command::new(program)
        .arg("--version")
        .stdout(Stdio::null())
        .status();
    found.is_ok_and(|status| status.success())
}

fn bench() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let short = !arguments.iter().any(|argument| argument == "--bench");
    let filters: Vec<&String> = arguments
        .iter()
        .filter(|argument| !argument.starts_with('-'))
        .collect();
    let rounds = match std::env::var("CACHEWISE_BENCH_PAIRS") {
        Ok(number) => number
            .parse::<usize>()
            .map_err(|error| format!("CACHEWISE_BENCH_PAIRS: {error}"))?
            .max(1),
        Err(_) if short => 1,
        Err(_) => 15,
    };
    let length = if short { BLOCK / 10 } else { BLOCK };
    match Bare::attach() {
        Ok(bare) => drop(bare),
        Err(error) if error.kind() == ErrorKind::Denied => {
            println!("skipped: overhead: {error}; run it as root");
            return Ok(());
        }
        Err(error) => return Err(error.into()),
    }
    let directory = directory()?;
    let place = directory.path();
    let mut works: Vec<Box<dyn Work>> = Vec::new();
    for pattern in [
        Pattern::WarmRandom,
        Pattern::WarmLarge,
        Pattern::WarmSequential,
        Pattern::ColdSequential,
        Pattern::ColdRandom,
    ] {
        works.push(Box::new(LargeFile::new(pattern, place)));
    }
    works.push(Box::new(ManyFiles::new(place)));
    if has("gcc") {
        works.push(Box::new(Compile {
            directory: place.join("units"),
        }));
    } else {
        println!("skipped: compile: there is no gcc");
    }
    works.retain(|work| {
        filters.is_empty() || filters.iter().any(|name| work.name().contains(*name))
    });
    if works.is_empty() {
        return Err(format!("no workload is named like {filters:?}").into());
    }

    let mut table = format!("{rounds} rounds of pairs; median of the ratios on/off\n\n{HEAD}");
    let mut disturbance = String::new();
    print!("{table}");
    for work in &mut works {
        let measured = measure(work.as_mut(), rounds, length)
            .map_err(|error| format!("{}: {error}", work.name()))?;
        let rows = rows(work.as_ref(), &measured);
        print!("{rows}");
        std::io::stdout().flush()?;
        table.push_str(&rows);
        let (others, stolen) = (measured.others, measured.stolen);
        writeln!(
            disturbance,
            "- {}: {} (others kept {others:.2} CPUs busy, {stolen:.2} were stolen; load average {} before, {} after)",
            work.name(),
            if others + stolen > 0.25 {
                "disturbed"
            } else {
                "quiet"
            },
            measured.load.0,
            measured.load.1,
        )?;
    }
    println!("\n{disturbance}");
    if let Some(path) = std::env::var_os("CACHEWISE_TABLE") {
        fs::write(path, format!("{table}\n{disturbance}"))?;
    }
    Ok(())
}

fn main() -> ExitCode {
    match bench() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("overhead: {error}");
            ExitCode::FAILURE
        }
    }
}
