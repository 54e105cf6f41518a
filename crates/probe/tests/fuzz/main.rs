//! Differential fuzzer: random I/O programs, what the probe counts of them, and what the kernel says by other means.
//!
//! Each program is run by this process, which the probe watches. Around each operation cachestat(2) tells which pages
//! of its files are in the cache; with the operation's result that says what must be counted.
//!
//! `CACHEWISE_FUZZ_SECONDS` bounds the time (60), `CACHEWISE_FUZZ_SEED` names the programs,
//! `CACHEWISE_FUZZ_PROGRAM=FILE` runs the program in a file instead. A program that fails is shortened as long as it
//! fails the same way, and printed. Without root nothing is run, and one line says so.
//!
//! # Layout
//! - `program`: programs as text; `generate`: random ones; `shrink`: short ones.
//! - `task`: how an operation is done; `watch`: what is seen of a file.
//! - `expect`: what must be counted; `stand`: runs a program and compares.
//! - `kit`, shared with the other tests: file systems, cachestat(2), memory that ends.

mod expect;
mod generate;
mod open;
mod program;
mod shrink;
mod stand;
mod task;
mod watch;

#[path = "../kit/mod.rs"]
mod kit;

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use kit::{image, libaio, needs, oracle, partial, problem, random, reader};
use libtest_mimic::{Arguments, Completion, Failed, Trial};
use problem::{Context, Problem, Result};
use program::Program;
use random::Random;
use stand::Stand;

/// Failures to shorten and show before the run ends.
const FAILURES: usize = 12;

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // The probe counts by process.
    arguments.test_threads = Some(1);
    let trials = vec![
        Trial::test(
            "programs_survive_printing_and_parsing",
            || Ok(round_trip()?),
        ),
        Trial::ignorable_test("counters_match_the_kernel_for_random_programs", || {
            if let Some(reason) = needs::missing() {
                return Ok(Completion::ignored_with(reason));
            }
            fuzz().map(|()| Completion::Completed)
        }),
    ];
    if !arguments.list {
        if let Some(reason) = needs::missing() {
            println!("skipped: fuzz: {reason}");
        } else if let Err(problem) = image::enter_own_mount_namespace() {
            eprintln!("fuzz: {problem}");
            return ExitCode::FAILURE;
        }
    }
    // A page of this program that has to be read from the disk in the middle of an operation would be taken for a
    // fault on its file. It is only a safeguard, so it may be refused.
    let _ = rustix::mm::mlockall(rustix::mm::MlockAllFlags::CURRENT);
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// The seed and the number name a program completely.
fn round_trip() -> Result<()> {
    for number in 0..500 {
        let place = generate::PLACES[number as usize % generate::PLACES.len()];
        let program = generate::program(place, &mut random_of(1, number));
        let parsed = Program::parse(&program.to_string())?;
        if parsed != program {
            return Err(Problem::new(format!("{program}is parsed as\n{parsed}")));
        }
    }
    Ok(())
}

fn random_of(seed: u64, number: u64) -> Random {
    Random::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ number)
}

fn setting(name: &str, default: u64) -> Result<u64> {
    match std::env::var(name) {
        Ok(text) => text.parse().context(format_args!("{name}={text}")),
        Err(_) => Ok(default),
    }
}

/// The seed of `make test`. `make fuzz` takes a new one each time.
const SEED: u64 = 20;

/// How a program fails: by these figures.
fn signature(differences: &[expect::Difference]) -> BTreeSet<&'static str> {
    differences.iter().map(|one| one.what).collect()
}

fn fuzz() -> std::result::Result<(), Failed> {
    let mut stand = Stand::set_up()?;
    let mut places = Vec::new();
    for place in generate::PLACES {
        match stand.mount(place)? {
            None => places.push(place),
            Some(reason) => println!("\nskipped: fuzz on {place}: {reason}"),
        }
    }
    if let Some(path) = std::env::var_os("CACHEWISE_FUZZ_PROGRAM") {
        return replay(&mut stand, std::path::Path::new(&path));
    }
    let seed = setting("CACHEWISE_FUZZ_SEED", SEED)?;
    let seconds = setting("CACHEWISE_FUZZ_SECONDS", 60)?;
    println!("\nfuzz: seed {seed}, {seconds} s");
    let end = Instant::now() + Duration::from_secs(seconds);
    let (mut programs, mut operations, mut repeats) = (0, 0, 0);
    let mut met = [0; open::OPEN.len()];
    let mut failures: Vec<String> = Vec::new();
    let mut known = BTreeSet::new();
    while Instant::now() < end && failures.len() < FAILURES {
        let mut random = random_of(seed, programs);
        let place = places[(programs % places.len() as u64) as usize];
        let program = generate::program(place, &mut random);
        let verdict = stand
            .run(&program)
            .map_err(|problem| format!("program {programs}: {problem}\n{program}"))?;
        programs += 1;
        operations += program.operations.len();
        repeats += verdict.repeats;
        for (sum, times) in met.iter_mut().zip(verdict.met) {
            *sum += times;
        }
        if !verdict.differences.is_empty() {
            let wrong = signature(&verdict.differences);
            if known.insert((place.name(), wrong.clone())) {
                failures.push(report(&mut stand, program, programs - 1, &wrong, &verdict));
            }
        }
    }
    for (gap, times) in open::OPEN.iter().zip(met).filter(|(_, times)| *times > 0) {
        println!(
            "fuzz: not compared {times} times: {}: {}",
            gap.name, gap.reason
        );
    }
    println!(
        "fuzz: seed {seed}, {programs} programs, {operations} operations, {repeats} repeated, {} failures",
        failures.len()
    );
    if failures.is_empty() {
        Ok(())
    } else {
        Err(failures.join("\n").into())
    }
}

/// Shortens a program that failed, and says how it fails.
fn report(
    stand: &mut Stand,
    program: Program,
    number: u64,
    wrong: &BTreeSet<&'static str>,
    verdict: &stand::Verdict,
) -> String {
    let lines = |differences: &[expect::Difference]| -> String {
        differences
            .iter()
            .map(|one| format!("    {one}\n"))
            .collect()
    };
    let mut last = None;
    let short = shrink::shrink(program.clone(), |candidate| {
        let Ok(verdict) = stand.run(candidate) else {
            return false;
        };
        let same = !signature(&verdict.differences).is_disjoint(wrong);
        if same {
            last = Some(verdict.differences);
        }
        same
    });
    let (short, differences) = match last {
        Some(differences) => (short, lines(&differences)),
        None => (
            program,
            format!("{}    (once)\n", lines(&verdict.differences)),
        ),
    };
    format!("program {number}:\n{short}{differences}")
}

/// Runs the program in a file: once, or for the time that is set, until it fails.
fn replay(stand: &mut Stand, path: &std::path::Path) -> std::result::Result<(), Failed> {
    let text = std::fs::read_to_string(path).context(format_args!("read {}", path.display()))?;
    let program = Program::parse(&text)?;
    let end = Instant::now() + Duration::from_secs(setting("CACHEWISE_FUZZ_SECONDS", 0)?);
    let mut runs = 0;
    loop {
        let verdict = stand.run(&program)?;
        runs += 1;
        if !verdict.differences.is_empty() || Instant::now() >= end {
            println!("\nfuzz: {}: run {runs}", path.display());
            verdict.counted.iter().for_each(|line| println!("{line}"));
            let lines = verdict.differences.iter().map(ToString::to_string);
            let lines: Vec<String> = lines.collect();
            return if lines.is_empty() {
                Ok(())
            } else {
                Err(lines.join("\n").into())
            };
        }
    }
}
