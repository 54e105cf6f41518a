//! Differential fuzzer: random I/O programs, what the probe counts of them, and what the kernel says by other means.
//!
//! The probe watches this process and those that it starts. There are three kinds of programs:
//! - `alone`: one thread of this process. Around each operation cachestat(2) tells which pages of its files are in the
//!   cache; with the operation's result that says what must be counted, to the page.
//! - `together`: several threads and processes that begin at once, on shared and on own files. Exact are the bytes and
//!   pages that the calls requested and returned, per process and file, the change of residency, and the accounts in
//!   /proc and of the device; not which task inserted a page.
//! - `within`: the same in a memory group so small that their pages are reclaimed.
//!
//! `CACHEWISE_FUZZ_SECONDS` bounds the time (60), `CACHEWISE_FUZZ_SEED` names the programs,
//! `CACHEWISE_FUZZ_PROGRAM=FILE` runs the program in a file instead, `CACHEWISE_FUZZ_NUMBER` one program of the seed. A program that fails is shortened as long as it
//! fails the same way, and printed. Without root nothing is run, and one line says so.
//!
//! # Layout
//! - `program` and `call`: programs as text; `generate`: random ones; `once`: some that failed; `shrink`: short ones.
//! - `task` and `ring`: how an operation is done; `worker`: a process of several tasks.
//! - `watch`: what is seen of a file; `account`: what the kernel has of a task and of a device.
//! - `moment`, `expect`, `queued` and `open`: what must be counted of one thread; `request` and `sums`: of several; `bounds` and `invariants`:
//!   how it is compared.
//! - `stand`: the probe and the file systems; `run`, `alone` and `together` run a program on it; `verdict`: of a program;
//!   `statistics`: of a whole run.
//! - `kit`, shared with the other tests: file systems, cachestat(2), memory that ends.

mod account;
mod alone;
mod bounds;
mod bus;
mod call;
mod expect;
mod generate;
mod invariants;
mod moment;
mod once;
mod open;
mod program;
mod queued;
mod request;
mod ring;
mod run;
mod shrink;
mod stand;
mod statistics;
mod sums;
mod task;
mod together;
mod verdict;
mod watch;
mod worker;

#[path = "../kit/mod.rs"]
mod kit;

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use kit::{group, image, libaio, needs, oracle, partial, problem, random, reader};
use libtest_mimic::{Arguments, Completion, Failed, Trial};
use problem::{Context, Problem, Result};
use program::{Kind, Program};
use random::Random;
use stand::Stand;
use statistics::Sums;

/// Failures to shorten and show before the run ends.
const FAILURES: usize = 12;

/// How often a candidate of several tasks is run while it does not fail.
const RACES: usize = 4;

/// How often a shortened program is run again, to say how often it fails.
const AGAIN: u32 = 10;

fn main() -> ExitCode {
    if let Some(code) = worker::be_a_worker() {
        return code;
    }
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
        let program = generate::program(place, true, &mut random_of(1, number));
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
fn signature(differences: &[bounds::Difference]) -> BTreeSet<&'static str> {
    differences.iter().map(|one| one.what).collect()
}

/// The stand, with the file systems that this machine has.
fn stand() -> Result<(Stand, Vec<image::FileSystem>)> {
    let mut stand = Stand::set_up()?;
    let mut places = Vec::new();
    for place in generate::PLACES {
        match stand.mount(place)? {
            None => places.push(place),
            Some(reason) => println!("\nskipped: fuzz on {place}: {reason}"),
        }
    }
    Ok((stand, places))
}

/// Runs the programs that failed once; gives what fails again.
fn run_once(stand: &mut Stand) -> Result<Vec<String>> {
    let mut failures = Vec::new();
    for text in once::ONCE {
        let program = Program::parse(text)?;
        if matches!(program.kind, Kind::Within(_)) && !stand.has_group() {
            continue;
        }
        let verdict = run::run(stand, &program)?;
        let lines: String = verdict
            .differences
            .iter()
            .map(|one| format!("    {one}\n"))
            .collect();
        if !lines.is_empty() {
            failures.push(format!(
                "a program that failed once fails again:\n{program}{lines}"
            ));
        }
    }
    Ok(failures)
}

fn fuzz() -> std::result::Result<(), Failed> {
    let (mut stand, places) = stand()?;
    if let Some(path) = std::env::var_os("CACHEWISE_FUZZ_PROGRAM") {
        let path = std::path::Path::new(&path);
        let text =
            std::fs::read_to_string(path).context(format_args!("read {}", path.display()))?;
        return replay(&mut stand, &Program::parse(&text)?);
    }
    let seed = setting("CACHEWISE_FUZZ_SEED", SEED)?;
    let pick = |number: u64, limits: bool| {
        let place = places[(number % places.len() as u64) as usize];
        generate::program(place, limits, &mut random_of(seed, number))
    };
    if std::env::var_os("CACHEWISE_FUZZ_NUMBER").is_some() {
        let program = pick(setting("CACHEWISE_FUZZ_NUMBER", 0)?, stand.has_group());
        println!("\n{program}");
        return replay(&mut stand, &program);
    }
    let seconds = setting("CACHEWISE_FUZZ_SECONDS", 60)?;
    println!("\nfuzz: seed {seed}, {seconds} s");
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut sums = Sums::default();
    let mut failures = run_once(&mut stand)?;
    let mut known = BTreeSet::new();
    for number in 0.. {
        if Instant::now() >= end || failures.len() >= FAILURES {
            break;
        }
        let program = pick(number, stand.has_group());
        let verdict = run::run(&mut stand, &program)
            .map_err(|problem| format!("program {number}: {problem}\n{program}"))?;
        sums.add(&program, &verdict);
        for row in &verdict.contradictions {
            println!("fuzz: program {number}: a row contradicts itself: {row}");
        }
        if !verdict.differences.is_empty() {
            let wrong = signature(&verdict.differences);
            if known.insert((program.place.clone(), program.kind.number(), wrong.clone())) {
                failures.push(report(&mut stand, program, number, &wrong, &verdict));
            }
        }
    }
    sums.print(seed, failures.len());
    failures.extend(sums.too_many_marked());
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
    verdict: &verdict::Verdict,
) -> String {
    let lines = |differences: &[bounds::Difference]| -> String {
        differences
            .iter()
            .map(|one| format!("    {one}\n"))
            .collect()
    };
    // Where tasks race, one run proves little.
    let runs = match program.kind {
        Kind::Alone => 1,
        _ => RACES,
    };
    let mut last = None;
    let short = shrink::shrink(program.clone(), |candidate| {
        for _ in 0..runs {
            let Ok(verdict) = run::run(stand, candidate) else {
                return false;
            };
            if !signature(&verdict.differences).is_disjoint(wrong) {
                last = Some(verdict);
                return true;
            }
        }
        false
    });
    let short = if last.is_some() { short } else { program };
    let verdict::Verdict {
        differences,
        counted,
        ..
    } = last.as_ref().unwrap_or(verdict);
    let mut failed = 0;
    for _ in 0..AGAIN {
        let verdict = run::run(stand, &short);
        failed += u32::from(verdict.is_ok_and(|one| !one.differences.is_empty()));
    }
    let rows: String = counted.iter().map(|row| format!("    # {row}\n")).collect();
    format!(
        "program {number}, failed {failed} of {AGAIN} times when run again:\n{short}{}{rows}",
        lines(differences)
    )
}

/// Runs a program: once, or for the time that is set, until it fails.
fn replay(stand: &mut Stand, program: &Program) -> std::result::Result<(), Failed> {
    let end = Instant::now() + Duration::from_secs(setting("CACHEWISE_FUZZ_SECONDS", 0)?);
    let mut runs = 0;
    loop {
        let verdict = run::run(stand, program)?;
        runs += 1;
        for row in &verdict.contradictions {
            println!("fuzz: run {runs}: a row contradicts itself: {row}");
        }
        if !verdict.differences.is_empty() || Instant::now() >= end {
            println!("\nfuzz: run {runs}");
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
