//! CPU time per operation that `bench` adds to reading a cached file, compared with a bare C loop
//! of the same reads.
//!
//! Runs alternate, and medians of pairs are compared, because the load of the machine changes from
//! second to second.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use cachewise_bench::{Engine, Workload, make, run};
use cachewise_units::Bytes;

/// Larger than any CPU's cache.
const FILE: Bytes = Bytes(256 << 20);

/// Number of rounds.
const ROUNDS: usize = 21;

/// Bytes per run: a part of a second.
const READ: u64 = 2 << 30;

/// The loop with inline system calls: a program that calls libc cannot reach it, so the limits
/// ignore it.
const FLOOR: &str = "bare-pread";

/// Maximum ratio to the loop's CPU time, with and without latencies.
const LIMITS: (f64, f64) = (1.05, 1.02);

/// The arms: engine and chunk.
const ARMS: [(Engine, u64); 6] = [
    (Engine::Pread, 4 << 10),
    (Engine::Pread, 64 << 10),
    (Engine::Pread, 256 << 10),
    (Engine::MmapCopy, 4 << 10),
    (Engine::MmapCopy, 64 << 10),
    (Engine::MmapCopy, 256 << 10),
];

fn main() -> ExitCode {
    match compare() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => {
            eprintln!("slower than it may be, where marked");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("cannot compare: {error}");
            ExitCode::FAILURE
        }
    }
}

fn compare() -> Result<bool, Box<dyn Error>> {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let program = compiled(&directory)?;
    let path = directory.join(format!("io-{}", std::process::id()));
    let made = make(&path, FILE, 0, &mut |_| {}, &AtomicBool::new(false))?;
    println!(
        "{ROUNDS} rounds of {} over {FILE}, all cached; ns of CPU per operation, medians",
        Bytes(READ)
    );
    println!(
        "{:10} {:>10} {:>10} {:>18} {:>18} {:>18}",
        "engine", "chunk", "C loop", "--no-latency", "with latencies", "without libc"
    );
    let mut is_well = true;
    // Names of arms select them: `-- mmap`.
    let only = std::env::args().skip(1).find(|word| !word.starts_with('-'));
    for (engine, chunk) in ARMS {
        if only
            .as_ref()
            .is_some_and(|only| !engine.word().contains(only.as_str()))
        {
            continue;
        }
        let mut times = [const { Vec::new() }; 4];
        let has_floor = engine == Engine::Pread;
        for round in 0..ROUNDS {
            // The order varies: the first run finds another state of the CPU than the last.
            let count = if has_floor { 4 } else { 3 };
            for place in 0..count {
                let which = (place + round) % count;
                let time = match which {
                    0 => of_loop(&program, made.path(), engine.word(), chunk)?,
                    3 => of_loop(&program, made.path(), FLOOR, chunk)?,
                    _ => of_bench(made.path(), engine, chunk, which == 2)?,
                };
                times[which].push(time);
            }
        }
        // Per round, because its runs are neighbours.
        let ratio = |which: usize| {
            median(
                (0..ROUNDS)
                    .map(|round| times[which][round] / times[0][round])
                    .collect(),
            )
        };
        let (plain, timed) = (ratio(1), ratio(2));
        let floor = match has_floor {
            true => format!("{:>10.0} {:>6.3}", median(times[3].clone()), ratio(3)),
            false => String::new(),
        };
        let mark = |is_over: bool| if is_over { "!" } else { " " };
        println!(
            "{:10} {:>10} {:>10.0} {:>10.0} {plain:>6.3}{} {:>10.0} {timed:>6.3}{} {floor}",
            engine.word(),
            Bytes(chunk).to_string(),
            median(times[0].clone()),
            median(times[1].clone()),
            mark(plain > LIMITS.1),
            median(times[2].clone()),
            mark(timed > LIMITS.0),
        );
        is_well &= plain <= LIMITS.1 && timed <= LIMITS.0;
    }
    Ok(is_well)
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

/// Compiles the C loop.
fn compiled(directory: &Path) -> Result<PathBuf, Box<dyn Error>> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/loop.c");
    let program = directory.join("io-loop");
    let status = Command::new("cc")
        .arg("-O2")
        .arg("-o")
        .arg(&program)
        .arg(source)
        .status()?;
    match status.success() {
        true => Ok(program),
        false => Err("the C compiler does not take the loop".into()),
    }
}

fn of_loop(program: &Path, file: &Path, engine: &str, chunk: u64) -> Result<f64, Box<dyn Error>> {
    let output = Command::new(program)
        .arg(engine)
        .arg(file)
        .args([chunk, READ / chunk, 1].map(|number| number.to_string()))
        .output()?;
    Ok(String::from_utf8(output.stdout)?.trim().parse()?)
}

fn of_bench(file: &Path, engine: Engine, chunk: u64, latency: bool) -> Result<f64, Box<dyn Error>> {
    let workload = Workload {
        file: file.to_owned(),
        engine,
        chunk: Bytes(chunk),
        bytes: Some(Bytes(READ)),
        // Faults are not part of the comparison: this maps all pages in advance, as the loop does.
        warm_up: Duration::from_millis(if engine.is_mapped() { 250 } else { 1 }),
        interval: Duration::from_secs(60),
        no_latency: !latency,
        ..Workload::default()
    };
    let figures = run(&workload, &mut |_| {}, &AtomicBool::new(false))?.figures;
    Ok(figures.cpu_seconds * 1e9 / figures.operations as f64)
}
